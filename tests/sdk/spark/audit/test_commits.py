"""Only groups' commits are taken from the records of `__consumer_offsets`.

Method: read hand-built records in the coordinator's encoding, whole and damaged.
"""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("numpy", reason="numpy is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.commits import Commit, commits
from kafkawire.sdk.spark.sink.marks import Mark
from tests.sdk.spark.audit.commit_records import key, text, value


def test_commits() -> None:
    records = [
        (7, key("billing", "orders", 2), value(100, 1_700_000_000_000)),
        (8, key("old", "orders", 0, kind=0), struct.pack(">hq", 0, 5) + text("") + struct.pack(">q", 6)),
        (9, key("billing", "orders", 2), None),
    ]
    assert commits(records) == [
        Commit(7, "billing", "orders", 2, 100, 1_700_000_000_000),
        Commit(8, "old", "orders", 0, 5, 6),
        Commit(9, "billing", "orders", 2, None, None),
    ]


def test_marks_of_the_sink_are_no_positions() -> None:
    """Marks count micro-batches; any other metadata of an offset is a note that a program made."""
    mark = Mark("11b8f4a0-9c4e-4d6a-8f1d-0c1f7c2c9b11", 7, (3, 2**63)).offsets("orders")
    (metadata,) = (offset.metadata for offset in mark.values())
    notes = [metadata, metadata.partition(" ")[0], "11b8f4a0 3", "", "leader-7 3"]
    records = [(number, key("changes-0", "orders", 0), value(7, 1, note)) for number, note in enumerate(notes)]
    assert [commit.log_offset for commit in commits(records)] == [1, 2, 3, 4]


def test_other_records() -> None:
    group_metadata = struct.pack(">h", 2) + text("billing")
    records = [
        (0, group_metadata, None),
        (1, None, b"value"),
        (2, b"\0", b"value"),
        (3, key("g", "t", 0)[:-1], value(1, 2)),
        (4, key("g", "t", 0), value(1, 2)[:-1]),
        (5, struct.pack(">h", 99) + text("later"), value(1, 2)),
    ]
    assert commits(records) == []
