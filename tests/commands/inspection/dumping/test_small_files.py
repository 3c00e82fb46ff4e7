"""Small files are shown entry by entry, and checked.

Method: dump files that the reference broker wrote, then damaged ones.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.inspection.dumping.limits import PROBLEMS_MAX, SMALL_FILE_BYTES_MAX
from kafkawire.sdk.storage.producer_snapshots import ProducerEntry, snapshot_content
from tests.commands.inspection.dumping.dump_bench import cut_while_read, dump, objects, of_kind, segment

TOPIC_ID = "MTExMTExMTExMTExMTExMQ"


def test_a_producer_snapshot(tmp_path: Path) -> None:
    known = [
        ProducerEntry(
            producer_id=5,
            epoch=2,
            last_sequence=1,
            last_offset=44,
            offset_delta=4,
            timestamp=1000,
            coordinator_epoch=3,
            current_txn_first_offset=40,
        ),
        ProducerEntry(
            producer_id=6,
            epoch=0,
            last_sequence=-1,
            last_offset=-1,
            timestamp=-1,
            coordinator_epoch=-1,
            current_txn_first_offset=-1,
        ),
    ]
    path = segment(tmp_path, snapshot_content(known), suffix=".snapshot")
    entries = of_kind("entry", objects(path))
    assert entries == [
        {
            "producerId": 5,
            "producerEpoch": 2,
            "coordinatorEpoch": 3,
            "currentTxnFirstOffset": 40,
            "lastTimestamp": 1000,
            "firstSequence": 2**31 - 3,
            "lastSequence": 1,
            "lastOffset": 44,
            "offsetDelta": 4,
            "timestamp": 1000,
        },
        {
            "producerId": 6,
            "producerEpoch": 0,
            "coordinatorEpoch": -1,
            "currentTxnFirstOffset": None,
            "lastTimestamp": -1,
        },
    ]
    assert dump(path)[2] == (
        "producerId: 6 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: none lastTimestamp: -1"
    )
    data = bytearray(path.read_bytes())
    data[2] ^= 1
    path.write_bytes(data)
    found = objects(path, code=1)
    (damage,) = of_kind("damage", found)
    assert damage["reason"].startswith("crc: the checksum is ")
    assert of_kind("entry", found) == entries


def entry(first: int, last: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, 9, first, last, last + 1)


def test_a_transaction_index(tmp_path: Path) -> None:
    path = segment(tmp_path, entry(1, 5), entry(3, 8), suffix=".txnindex")
    assert dump(path)[1:] == [
        "version: 0 producerId: 9 firstOffset: 1 lastOffset: 5 lastStableOffset: 6",
        "version: 0 producerId: 9 firstOffset: 3 lastOffset: 8 lastStableOffset: 9",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (entry(1, 5) + entry(2, 5), "a marker at offset 5 follows one at 5"),
        (entry(6, 5), "a transaction begins at offset 6 and ends at offset 5"),
        (entry(1, 5, 1), "version 1 of an aborted transaction is unknown; expected 0"),
        (entry(1, 5, -23709), "version -23709 of an aborted transaction is unknown; expected 0"),
        (entry(1, 5) + b"abc", "the last entry has only 3 of 34 bytes"),
    ],
)
def test_a_damaged_transaction_index(tmp_path: Path, content: bytes, reason: str) -> None:
    found = objects(segment(tmp_path, content, suffix=".txnindex"), code=1)
    assert [each["reason"] for each in of_kind("damage", found)] == [reason]


def test_a_marker_from_before_the_segment(tmp_path: Path) -> None:
    """A damaged entry is shown before the report about its damage."""
    path = segment(tmp_path, entry(1, 99), entry(2, 100), base_offset=100, suffix=".txnindex")
    found = objects(path, code=1)
    assert [each["kind"] for each in found] == ["file", "entry", "damage", "entry"]
    (damage,) = of_kind("damage", found)
    assert (damage["reason"], damage["position"]) == ("a marker at offset 99 follows one at 99", 0)


def test_a_transaction_index_that_gets_shorter_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment(tmp_path, entry(1, 5), entry(3, 8), suffix=".txnindex")
    cut_while_read(monkeypatch, path, 1, 0)
    (note,) = of_kind("note", objects(path))
    assert note["text"] == "the file shrank to 0 bytes while it was being read"


def test_many_lines_that_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"0\n%d\n" % (PROBLEMS_MAX + 5) + b"x\n" * (PROBLEMS_MAX + 5))
    reasons = [damage["reason"] for damage in of_kind("damage", objects(path, code=1))]
    assert reasons[:-1] == ["'x' does not have 2 columns"] * PROBLEMS_MAX
    assert reasons[-1] == "5 more problems in this file; only 1000 are reported individually"


def test_many_problems(tmp_path: Path) -> None:
    found = objects(segment(tmp_path, entry(6, 5) * (PROBLEMS_MAX + 5), suffix=".txnindex"), code=1)
    assert len(of_kind("damage", found)) == PROBLEMS_MAX + 1
    assert of_kind("damage", found)[-1]["reason"] == "5 more problems in this file; only 1000 are reported individually"


@pytest.mark.parametrize(
    ("name", "content", "entries"),
    [
        (
            "leader-epoch-checkpoint",
            "0\n2\n0 0\n3 17\n",
            [{"leaderEpoch": 0, "startOffset": 0}, {"leaderEpoch": 3, "startOffset": 17}],
        ),
        ("recovery-point-offset-checkpoint", "0\n1\nt 2 99\n", [{"topic": "t", "partition": 2, "offset": 99}]),
        ("meta.properties", "#comment\nnode.id=1\n", [{"name": "node.id", "value": "1"}]),
        ("partition.metadata", f"version: 0\ntopic_id: {TOPIC_ID}", [{"version": 0, "topicId": TOPIC_ID}]),
        ("quorum-state", '{"leaderId":1,"data_version":1}', [{"leaderId": 1, "data_version": 1}]),
    ],
)
def test_text_files(tmp_path: Path, name: str, content: str, entries: list[dict[str, object]]) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert of_kind("entry", objects(path)) == entries


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", "meta.properties"])
def test_files_are_opened_for_reading_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A broker's files may belong to another user, or be on a read-only disk."""
    content = "0\n1\n0 0\n" if "-" in name else "version: 0\ntopic_id: MTExMTExMTExMTExMTExMQ\n"
    (tmp_path / name).write_text(content)
    system_open = os.open

    def refuse(path: str, flags: int, *more: Any, **options: Any) -> int:
        assert flags & os.O_ACCMODE == os.O_RDONLY
        return system_open(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert of_kind("entry", objects(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "there are 1 entries, but the header says 2"),
        ("recovery-point-offset-checkpoint", b"0\n\xff", "not UTF-8: invalid start byte 0xff"),
        ("meta.properties", b"name\n", "no name and value in the line 'name'"),
        ("partition.metadata", b"version: 0\n", "'version: 0\\n' is not a version and a topic id"),
        ("partition.metadata", b"version: 0\ntopic_id: x", "'x' of 1 characters is not a UUID"),
        ("quorum-state", b"{", "not JSON: "),
        ("quorum-state", b'{"leaderId":"\xff"}', "not UTF-8: invalid start byte 0xff"),
        ("quorum-state", b"[" * 100_000, "not JSON: "),
        ("quorum-state", b"[]", "not a JSON object"),
        ("quorum-state", b'{"leaderId":NaN}', "not JSON: NaN is not a finite number"),
        ("quorum-state", b'{"leaderId":[-Infinity]}', "not JSON: -Infinity is not a finite number"),
        ("quorum-state", b'{"leaderId":1e999}', "not JSON: 1e999 is not a finite number"),
        ("quorum-state", b'{"kind":"damage"}', "unexpected key 'kind'"),
        ("quorum-state", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "values are nested more than 20 levels deep"),
        ("quorum-state", b'{"a":' + b"[" * 20 + b"1" + b"]" * 20 + b"}", "values are nested more than 20 levels deep"),
        ("00000000000000000007.snapshot", b"", "version: the snapshot has only 0 bytes"),
    ],
)
def test_damaged_text_files(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    (damage,) = of_kind("damage", objects(path, code=1))
    assert damage["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("name", "content", "entries", "reasons"),
    [
        (
            "leader-epoch-checkpoint",
            "0\n3\n0 0\n3 x\n2 9\n",
            [{"leaderEpoch": 0, "startOffset": 0}, {"leaderEpoch": 2, "startOffset": 9}],
            ["'x' is not a number"],
        ),
        (
            "cleaner-offset-checkpoint",
            "0\n3\nt 2 99\nu 1\n",
            [{"topic": "t", "partition": 2, "offset": 99}],
            ["'u 1' does not have 3 columns", "there are 2 entries, but the header says 3"],
        ),
        (
            "meta.properties",
            "version=1\nnode.id\n",
            [{"name": "version", "value": "1"}],
            ["no name and value in the line 'node.id'"],
        ),
    ],
)
def test_what_is_sound_of_a_damaged_file_is_shown(
    tmp_path: Path, name: str, content: str, entries: list[dict[str, object]], reasons: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    found = objects(path, code=1)
    assert of_kind("entry", found) == entries
    assert [damage["reason"] for damage in of_kind("damage", found)] == reasons


def test_the_voters_of_a_quorum(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text('{"leaderId":1,"currentVoters":[{"voterId":1},{"voterId":2}],"note":"\\u001b[2J","x":1.5}')
    assert dump(path)[1] == ('leaderId: 1 currentVoters: [{"voterId":1},{"voterId":2}] note: \\x1b[2J x: 1.5')


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    with path.open("wb") as file:
        file.truncate(SMALL_FILE_BYTES_MAX + 1)
    (damage,) = of_kind("damage", objects(path, code=1))
    assert (
        damage["reason"] == f"the file has {SMALL_FILE_BYTES_MAX + 1} bytes; "
        f"the limit for a file of this kind is {SMALL_FILE_BYTES_MAX}"
    )
