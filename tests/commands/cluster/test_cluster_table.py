"""The tables show each member's state and each partition's replicas, with the worst partitions first if not all fit.

Method: check each row that a record and a view produce.
"""

from __future__ import annotations

from kafkawire.commands.cluster.cluster_table import MEMBER_COLUMNS, PARTITION_COLUMNS, member_rows, partition_rows
from kafkawire.commands.cluster.replica_lag import ClusterView, PartitionView
from kafkawire.local_cluster.cluster_folder import ZOOKEEPER, ClusterRecord, MemberRecord
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.process_identity import ProcessIdentity

PROCESS = ProcessIdentity(17, "then")
RECORD = ClusterRecord(
    (
        MemberRecord("1", "b:1", MemberState.RUNNING, PROCESS),
        MemberRecord("2", "b:2", MemberState.PAUSED, PROCESS),
        MemberRecord("3", "b:3", MemberState.ENDED, None, -9),
    ),
    MemberRecord(ZOOKEEPER, "z:1", MemberState.RUNNING, PROCESS),
    "z:1",
)
WELL = PartitionView("a", 0, 1, (1, 2), (1, 2), {2: 5})
BEHIND = PartitionView("a", 1, 1, (2, 1, 3), (1,), {2: 1_000, 3: 7})
LOST = PartitionView("b", 0, None, (3,), (3,), {})
VIEW = ClusterView(2, (WELL, BEHIND, LOST))


def test_members() -> None:
    rows = member_rows(RECORD, VIEW)
    assert rows.cells == [
        ("zookeeper", "z:1", "17", "running", "", "", ""),
        ("1", "b:1", "17", "running", "2", "2/2", ""),
        ("2", "b:2", "17", "paused, controller", "0", "1/2", "1,005"),
        ("3", "b:3", "", "ended (-9)", "0", "1/2", "7"),
    ]
    assert len(rows.styles) == len(rows.cells)
    assert {len(row) for row in rows.cells} == {len(MEMBER_COLUMNS)}


def test_members_of_brokers_that_do_not_answer() -> None:
    assert [row[3:] for row in member_rows(RECORD._replace(zookeeper=None), None).cells] == [
        ("running", "", "", ""),
        ("paused", "", "", ""),
        ("ended (-9)", "", "", ""),
    ]


def test_a_controller_without_a_process_is_none() -> None:
    assert member_rows(RECORD, VIEW._replace(controller=3)).cells[3][3] == "ended (-9)"


def test_partitions() -> None:
    rows = partition_rows(VIEW)
    assert rows.cells == [
        ("a", "0", "1", "1,2", "1,2", "2:5"),
        ("a", "1", "1", "2,1,3", "1", "2:1,000 3:7"),
        ("b", "0", "none", "3", "3", ""),
    ]
    assert rows.styles == ["", "yellow", "bold red"]
    assert {len(row) for row in rows.cells} == {len(PARTITION_COLUMNS)}


def test_the_worst_partitions_are_shown() -> None:
    assert [row[:2] for row in partition_rows(VIEW, 2).cells] == [("b", "0"), ("a", "1")]
    assert partition_rows(VIEW, 3) == partition_rows(VIEW)
