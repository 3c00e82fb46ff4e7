"""Snapshots equal Apache Kafka's byte for byte, and damage is noticed wherever it is.

Method: read a file written by Apache Kafka 4.3.0, and write it back; cut the same file, and change each byte.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.producer_snapshots import parse_snapshot, snapshot_content
from tests.sdk.storage.kafkas_snapshots import EMPTY, KAFKAS


def test_a_snapshot_of_kafka() -> None:
    entries = parse_snapshot(KAFKAS)
    assert [entry.producer_id for entry in entries] == [2**32 + 1, 0, 33, 17, 1, 70000]
    assert entries[1].current_txn_first_offset == 13
    assert (entries[4].last_sequence, entries[4].last_offset, entries[4].offset_delta) == (1, 7, 3)
    assert snapshot_content(entries) == KAFKAS


def test_empty() -> None:
    assert snapshot_content([]) == EMPTY
    assert len(parse_snapshot(EMPTY)) == 0


def test_cut(subtests: pytest.Subtests) -> None:
    for size in range(len(KAFKAS)):
        with subtests.test(size=size), pytest.raises(DamagedContent):
            parse_snapshot(KAFKAS[:size])


def test_changed(subtests: pytest.Subtests) -> None:
    for at in range(len(KAFKAS)):
        with subtests.test(at=at):
            data = bytearray(KAFKAS)
            data[at] ^= 0x55
            with pytest.raises(DamagedContent):
                parse_snapshot(data)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_unknown_versions(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + KAFKAS[2:]
    with pytest.raises(DamagedContent, match=f"^version: version {version} is unknown; expected 1 to 1$") as caught:
        parse_snapshot(data)
    assert caught.value.position == 0


@pytest.mark.parametrize(
    ("data", "count", "reason", "position"),
    [
        (KAFKAS[:-1] + b"\0", 6, "crc: the checksum is 0x40f349d8, but the content has 0x", 2),
        (KAFKAS[:-1], 0, "producer_entries", None),
        (KAFKAS[:1], 0, "version: the snapshot has only 1 bytes", 0),
    ],
)
def test_what_can_be_read_of_a_damaged_one(data: bytes, count: int, reason: str, position: int | None) -> None:
    told: list[DamagedContent] = []
    assert len(parse_snapshot(data, told.append)) == count
    (damage,) = told
    assert damage.reason.startswith(reason)
    assert position in (None, damage.position)
