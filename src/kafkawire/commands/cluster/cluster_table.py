"""The tables of `kafkawire cluster`: the members, and the partitions with their leader, in-sync replicas and lag."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.commands.cluster.replica_lag import ClusterView, PartitionView
from kafkawire.local_cluster.cluster_folder import ClusterRecord, MemberRecord
from kafkawire.local_cluster.member_state import MemberState

__all__ = ["MEMBER_COLUMNS", "PARTITION_COLUMNS", "Rows", "member_rows", "partition_rows"]

MEMBER_COLUMNS: Final = ("id", "address", "pid", "state", "leads", "in sync", "lag")
PARTITION_COLUMNS: Final = ("topic", "partition", "leader", "replicas", "ISR", "lag")

_STYLES: Final = {
    MemberState.RUNNING: "",
    MemberState.STARTING: "yellow",
    MemberState.STOPPING: "yellow",
    MemberState.PAUSED: "yellow",
    MemberState.STOPPED: "dim",
    MemberState.KILLED: "red",
    MemberState.ENDED: "bold red",
}


class Rows(NamedTuple):
    """The rows of a table.

    Attributes:
        cells: the text of each row.
        styles: the style of each row.
    """

    cells: list[tuple[str, ...]]
    styles: list[str]


def member_rows(record: ClusterRecord, view: ClusterView | None) -> Rows:
    """Return a row for each member.

    Args:
        record: the cluster.
        view: the state that its brokers report; None if none of them answers.
    """
    members = record.members
    return Rows([_member(each, view) for each in members], [_STYLES[each.state] for each in members])


def partition_rows(view: ClusterView, rows_max: int | None = None) -> Rows:
    """Return a row for each partition; if not all rows fit, partitions with problems come first.

    Args:
        view: the state that the brokers report.
        rows_max: the maximum number of rows; None for all.
    """
    partitions = list(view.partitions)
    if rows_max is not None and len(partitions) > rows_max:
        partitions = sorted(partitions, key=_health)[:rows_max]
    return Rows([_partition(each) for each in partitions], [_partition_style(each) for each in partitions])


def _member(member: MemberRecord, view: ClusterView | None) -> tuple[str, ...]:
    state = member.state.value
    if member.exit_status is not None:
        state += f" ({member.exit_status})"
    pid = "" if member.process is None else str(member.process.pid)
    known = member.name, member.address, pid
    if view is None or not member.name.isdigit():
        return (*known, state, "", "", "")
    broker_id = int(member.name)
    if view.controller == broker_id and member.state.has_process:
        state += ", controller"
    own = [each for each in view.partitions if broker_id in each.replicas]
    leads = sum(each.leader == broker_id for each in own)
    in_sync = sum(broker_id in each.in_sync for each in own)
    lags = [each.lags[broker_id] for each in own if broker_id in each.lags]
    return (*known, state, str(leads), f"{in_sync}/{len(own)}", f"{sum(lags):,}" if lags else "")


def _partition(partition: PartitionView) -> tuple[str, ...]:
    return (
        partition.topic,
        str(partition.number),
        "none" if partition.leader is None else str(partition.leader),
        ",".join(map(str, partition.replicas)),
        ",".join(map(str, partition.in_sync)),
        " ".join(f"{broker}:{lag:,}" for broker, lag in partition.lags.items()),
    )


def _partition_style(partition: PartitionView) -> str:
    if partition.leader is None:
        return "bold red"
    return "yellow" if len(partition.in_sync) < len(partition.replicas) else ""


def _health(partition: PartitionView) -> tuple[bool, int, int]:
    missing = len(partition.replicas) - len(partition.in_sync)
    return partition.leader is not None, -missing, -sum(partition.lags.values())
