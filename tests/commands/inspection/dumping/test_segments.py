"""Segments and snapshots are shown batch by batch and record by record; damage is reported and skipped.

Method: dump hand-built segments, whole and with every kind of damage that occurs, as text and as JSON.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.records import Compression, MessageSetBuilder, crc32c
from kafkawire.sdk.records.control import end_transaction_marker
from tests.commands.inspection.dumping.dump_bench import (
    START_MS,
    batch,
    cut_while_read,
    dump,
    objects,
    of_kind,
    segment,
)
from tests.sdk.records.conftest import batch_of
from tests.thorough import sampled

CRC_AT, COUNT_AT, DELTA_AT, LENGTH_AT, MAGIC_AT = 17, 57, 23, 8, 16


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def sealed(data: bytes) -> bytes:
    """Return a batch with the checksum of its current content."""
    return changed(data, CRC_AT, struct.pack(">I", crc32c(data[21:])))


def test_text(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(7, b"v", None), base_offset=7)
    first, second, header, *records, end = dump(path)
    assert (first, second) == (f"Dumping {path}", "Log starting offset: 7")
    assert header.startswith(
        "baseOffset: 7 lastOffset: 8 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: none position: 0 "
        f"CreateTime: {START_MS + 8} size: {path.stat().st_size} magic: 2 compresscodec: none crc: "
    )
    assert header.endswith(" isvalid: true")
    assert records == [
        f"| offset: 7 CreateTime: {START_MS + 7} keySize: 2 valueSize: 1 sequence: -1 headerKeys: [] key: k7 "
        "payload: v",
        f"| offset: 8 CreateTime: {START_MS + 8} keySize: 2 valueSize: -1 sequence: -1 headerKeys: [] key: k8",
    ]
    assert end == f"batches: 1 records: 2 gaps: 0 bytes: {path.stat().st_size}"


def test_json(tmp_path: Path) -> None:
    data = batch(0, b"v", producer_id=5, producer_epoch=2, base_sequence=9, is_transactional=True)
    path = segment(tmp_path, data)
    found = objects(path)
    assert of_kind("file", found) == [
        {"path": str(path), "type": "log", "baseOffset": 0, "topic": "t", "size": len(data)}
    ]
    (shown,) = of_kind("batch", found)
    assert shown.pop("crc") == struct.unpack_from(">I", data, CRC_AT)[0]
    assert shown == {
        "baseOffset": 0,
        "lastOffset": 0,
        "count": 1,
        "baseSequence": 9,
        "lastSequence": 9,
        "producerId": 5,
        "producerEpoch": 2,
        "partitionLeaderEpoch": 0,
        "isTransactional": True,
        "isControl": False,
        "deleteHorizonMs": None,
        "position": 0,
        "timestampType": "CreateTime",
        "maxTimestamp": START_MS,
        "size": len(data),
        "magic": 2,
        "compression": "none",
        "isValid": True,
    }
    assert [(each["key"], each["value"], each["sequence"]) for each in of_kind("record", found)] == [("k0", "v", 9)]
    assert of_kind("end", found) == [{"batches": 1, "records": 1, "gaps": 0, "bytes": len(data)}]


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression(tmp_path: Path, compression: Compression) -> None:
    path = segment(tmp_path, *(batch(at, b"x" * 500, b"y" * 500, compression=compression) for at in range(0, 40, 2)))
    found = objects(path)
    assert {each["compression"] for each in of_kind("batch", found)} == {compression.name.lower()}
    assert [each["offset"] for each in of_kind("record", found)] == list(range(40))


def test_control_batches(tmp_path: Path) -> None:
    key, value = end_transaction_marker(True, 6)
    marker = batch_of([(1, key, value, ())], is_control=True, is_transactional=True, producer_id=1, producer_epoch=0)
    path = segment(tmp_path, batch(0, b"v"), changed(marker, 0, struct.pack(">q", 1)))
    found = objects(path)
    (control,) = of_kind("control", found)
    assert control["control"] == {"type": "COMMIT", "number": 1, "version": 0, "body": {"coordinatorEpoch": 6}}
    assert len(of_kind("record", found)) == 1
    *_, shown, _ = dump(path)
    assert shown.endswith("headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 6")
    assert len(of_kind("control", objects("--without-content", path))) == 1
    assert of_kind("control", objects("--only", "record", path)) == []
    assert of_kind("record", objects("--only", "control", path)) == []


@pytest.mark.parametrize("only", ["record", "control"])
def test_records_of_old_formats_are_shown_if_records_are_wanted(tmp_path: Path, only: str) -> None:
    """Old batches are shown even after control batches, which come first if a broker was downgraded."""
    old = MessageSetBuilder(1, Compression.NONE, base_offset=1)
    old.append(5, b"k", b"v")
    marker = batch_of(
        [(1, *end_transaction_marker(True, 6), ())],
        is_control=True, is_transactional=True, producer_id=1, producer_epoch=0,
    )  # fmt: skip
    path = segment(tmp_path, marker, old.build())
    found = objects("--only", only, path)
    assert [len(of_kind(kind, found)) for kind in ("record", "control")] == [only == "record", only == "control"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_old_formats(tmp_path: Path, magic: int, compression: Compression) -> None:
    builder = MessageSetBuilder(magic, compression, base_offset=3)
    for number in range(3):
        builder.append(5 + number, b"k%d" % number, b"v")
    path = segment(tmp_path, builder.build(), base_offset=3)
    found = objects(path)
    assert [(each["offset"], each["key"], each["isValid"]) for each in of_kind("record", found)] == [
        (3, "k0", True),
        (4, "k1", True),
        (5, "k2", True),
    ]
    times = [each["timestamp"] for each in of_kind("record", found)]
    assert times == ([-1, -1, -1] if magic == 0 else [5, 6, 7])
    line = next(each for each in dump(path) if each.startswith("offset: "))
    name = "NoTimestampType" if magic == 0 else "CreateTime"
    last = 3 if compression is Compression.NONE else 5
    assert line.startswith(f"offset: {last} position: 0 {name}: ")
    shown = next(each for each in dump(path) if each.startswith("| "))
    assert " keySize: 2 valueSize: 1 isValid: true crc: " in shown


def test_records_of_internal_topics_are_decoded(tmp_path: Path) -> None:
    key, value = bytes.fromhex("0001 000167 000174 00000001"), bytes.fromhex("0003 0000000000000005 ffffffff 0000 00")
    data = batch_of(
        [(0, key, value + bytes(7), ()), (0, key, None, ()), (0, b"\x7f\xff", b"new", ()), (0, key, b"", ())]
    )
    path = segment(tmp_path, data, topic="__consumer_offsets")
    found = objects(path, code=1)
    first, second, third, fourth = of_kind("record", found)
    assert first["decoded"]["value"] == {"offset": 5, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 0}
    assert second["decoded"]["value"] is None
    assert "record type 32767 is unknown" in third["unknown"]
    assert (third["keyBase64"], third["value"]) == ("f/8=", "new")
    assert "a value of at least 2 bytes" in fourth["undecoded"]
    assert [each["reason"] for each in of_kind("damage", found)] == [
        "offset 3: value at byte 0: __consumer_offsets: a record has a value of at least 2 bytes, "
        "but this one has 0 bytes"
    ]
    *_, one, two, three, four, _damage, _end = dump(path, code=1)
    data_text = '"data":{"group":"g","topic":"t","partition":1}}'
    assert f' key: {{"type":"1",{data_text} payload: {{"version":"3","data":{{"offset":5,' in one
    assert two.endswith(f' key: {{"type":"1",{data_text} payload: <DELETE>')
    assert " unknown: (" in three
    assert three.endswith("key: \\x7f\\xff payload: new".replace("\\x7f", "\\x7f"))
    assert " undecoded: (" in four
    assert "decoded" not in of_kind("record", objects("--topic", "", path))[0]
    assert "decoded" not in of_kind("record", objects("--without-content", path))[0]
    copied = tmp_path / path.name
    copied.write_bytes(path.read_bytes())
    assert "decoded" not in of_kind("record", objects(copied))[0]
    assert "decoded" in of_kind("record", objects("--topic", "__consumer_offsets", copied, code=1))[0]


def test_a_snapshot_of_cluster_metadata(tmp_path: Path) -> None:
    topic = bytes.fromhex("010200 0274") + bytes(16) + b"\0"
    path = tmp_path / f"{77:020}-{3:010}.checkpoint"
    path.write_bytes(batch_of([(0, None, topic, ())]))
    found = objects(path)
    assert of_kind("note", found) == [{"endOffset": 77, "epoch": 3}]
    (record,) = of_kind("record", found)
    assert (record["decoded"]["name"], record["decoded"]["value"]["name"]) == ("TopicRecord", "t")
    lines = dump(path)
    assert lines[1] == "Snapshot end offset: 77, epoch: 3"
    assert ' payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"t",' in lines[3]
    bootstrap = tmp_path / "bootstrap.checkpoint"
    bootstrap.write_bytes(path.read_bytes())
    assert dump(bootstrap)[1] == "KRaft bootstrap snapshot"


def damage_of(*batches: bytes, folder: Path, base_offset: int = 0) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the reported damage, and the offsets of the records shown."""
    found = objects(segment(folder, *batches, base_offset=base_offset), code=1)
    return of_kind("damage", found), [each["offset"] for each in of_kind("record", found)]


GOOD = batch(0, b"value", b"value")
NEXT = batch(2, b"value", b"value")
SIZE = len(GOOD)


def test_a_wrong_checksum(tmp_path: Path) -> None:
    """The damaged batch is shown, and so are the batches after it."""
    damage, offsets = damage_of(changed(GOOD, len(GOOD) - 3, b"?"), NEXT, folder=tmp_path)
    assert damage == [{"position": 0, "reason": "the batch's checksum is wrong", "passedOver": None}]
    assert offsets == [0, 1, 2, 3]


def test_a_wrong_length(tmp_path: Path) -> None:
    """The next batch is found by its checksum."""
    for length in (SIZE - 20, SIZE + 5, 2**31 - 1, -5, 3):
        data = changed(GOOD, LENGTH_AT, struct.pack(">i", length))
        damage, offsets = damage_of(data, NEXT, folder=tmp_path)
        assert [(each["position"], each["passedOver"]) for each in damage] == [(0, SIZE)], length
        assert offsets[-2:] == [2, 3]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_one_flipped_bit_of_a_length_costs_no_other_batch(tmp_path: Path, compression: Compression) -> None:
    """Among batches of equal size, a length that is too large may end at the start of a later batch, or inside one."""
    written = [batch(each, bytes(40), bytes(each % 7), compression=compression) for each in range(0, 60, 2)]
    for bit in range(31):
        length = struct.unpack_from(">i", written[1], LENGTH_AT)[0] ^ 1 << bit
        written_now = [written[0], changed(written[1], LENGTH_AT, struct.pack(">i", length)), *written[2:]]
        _, offsets = damage_of(*written_now, folder=tmp_path)
        assert offsets[:2] == [0, 1], bit
        assert offsets[-56:] == list(range(4, 60)), bit


def test_several_wrong_checksums(tmp_path: Path) -> None:
    """No batch is skipped: a batch begins where the one before it ends, even if that one is damaged."""
    written = [changed(batch(each, b"value"), 70, b"?") for each in range(5)]
    damage, offsets = damage_of(*written, batch(5, b"value"), folder=tmp_path)
    assert [each["passedOver"] for each in damage] == [None] * 5
    assert [each["reason"] for each in damage] == ["the batch's checksum is wrong"] * 5
    assert offsets == list(range(6))
    assert len(of_kind("batch", objects("--only", "batch", tmp_path, code=1))) == 6


def test_a_batch_inside_a_value_is_none_of_the_segment(tmp_path: Path) -> None:
    """A value may hold a batch; the damaged batch around it is skipped by its size."""
    outer = batch(0, batch(7, b"inner"), b"value")
    damage, offsets = damage_of(changed(outer, len(outer) - 3, b"?"), NEXT, folder=tmp_path)
    assert [each["passedOver"] for each in damage] == [None]
    assert offsets == [0, 1, 2, 3]


def test_noise_between_batches(tmp_path: Path) -> None:
    damage, offsets = damage_of(GOOD, b"noise" * 1000, NEXT, folder=tmp_path)
    assert [(each["position"], each["passedOver"]) for each in damage] == [(SIZE, 5000)]
    assert "magic 111 is unknown; expected 0 to 2" in damage[0]["reason"]
    assert offsets == [0, 1, 2, 3]


def test_a_truncated_tail(tmp_path: Path) -> None:
    for cut in range(1, SIZE):
        damage, offsets = damage_of(GOOD, NEXT[:cut], folder=tmp_path)
        assert [(each["position"], each["passedOver"]) for each in damage] == [(SIZE, cut)]
        assert "the file was cut" in damage[0]["reason"]
        assert offsets == [0, 1]


def test_a_tail_of_zeros(tmp_path: Path) -> None:
    damage, offsets = damage_of(GOOD, bytes(3_000_000), folder=tmp_path)
    assert damage == [
        {
            "position": SIZE,
            "reason": "zeros up to the end of the file: preallocated, or lost in a crash",
            "passedOver": 3_000_000,
        }
    ]
    assert offsets == [0, 1]


def test_zeros_between_batches(tmp_path: Path) -> None:
    damage, offsets = damage_of(GOOD, bytes(3_000_000), NEXT, folder=tmp_path)
    assert [(each["position"], each["passedOver"]) for each in damage] == [(SIZE, 3_000_000)]
    assert offsets == [0, 1, 2, 3]


def test_offsets_that_go_back(tmp_path: Path) -> None:
    damage, offsets = damage_of(GOOD, NEXT, GOOD, folder=tmp_path)
    assert [each["reason"] for each in damage[:1]] == ["offsets go back, from 3 to 0"]
    assert damage[0]["position"] == 2 * SIZE
    assert offsets == [0, 1, 2, 3, 0, 1]
    damage, _ = damage_of(GOOD, folder=tmp_path, base_offset=1)
    assert damage[0]["reason"] == "offsets go back, from 0 to 0"


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (COUNT_AT, struct.pack(">i", 1), "bytes follow the last of 1 records"),
        (COUNT_AT, struct.pack(">i", 0), "bytes follow the last of 0 records"),
        (COUNT_AT, struct.pack(">i", 3), "records[2]: it is cut"),
        (COUNT_AT, struct.pack(">i", 2**31 - 1), "2147483647 records are counted in"),
        (COUNT_AT, struct.pack(">i", -1), "-1 records are counted in"),
        (DELTA_AT, struct.pack(">i", 0), "a record has offset 1, but the batch's last offset is 0"),
        (DELTA_AT, struct.pack(">i", -1), "the last offset -1 is lower than the first offset 0"),
        (22, b"\x05", "compression 5 is not known"),
        (22, b"\x01", "gzip"),
    ],
)
def test_headers_that_lie(tmp_path: Path, at: int, value: bytes, text: str) -> None:
    """The checksums of these headers are correct."""
    damage, _ = damage_of(sealed(changed(GOOD, at, value)), NEXT, folder=tmp_path)
    assert any(text in each["reason"] for each in damage), damage
    assert all(each["position"] == 0 for each in damage)


def test_from_an_offset_on(tmp_path: Path) -> None:
    path = segment(tmp_path, *(batch(at, b"a", b"b") for at in range(0, 20, 2)))
    found = objects("--from-offset", "13", path)
    assert [each["offset"] for each in of_kind("record", found)] == list(range(13, 20))
    assert [each["baseOffset"] for each in of_kind("batch", found)] == [12, 14, 16, 18]
    assert of_kind("end", found)[0]["gaps"] == 0


def test_with_an_index_the_beginning_is_not_read(tmp_path: Path) -> None:
    batches = [batch(at, b"a" * 100) for at in range(20)]
    path = segment(tmp_path, *batches)
    size = len(batches[0])
    entries = b"".join(struct.pack(">ii", at, at * size) for at in range(5, 20, 5))
    segment(tmp_path, entries, suffix=".index")
    found = objects("--from-offset", "12", path)
    assert [each["offset"] for each in of_kind("record", found)] == list(range(12, 20))
    assert of_kind("end", found)[0]["bytes"] == path.stat().st_size - 10 * size
    # An index that does not match the segment is ignored.
    segment(tmp_path, struct.pack(">ii", 5, 7), suffix=".index")
    found = objects("--from-offset", "12", path)
    assert [each["offset"] for each in of_kind("record", found)] == list(range(12, 20))
    assert of_kind("end", found)[0]["bytes"] == path.stat().st_size


def test_a_part_of_a_file(tmp_path: Path) -> None:
    path = segment(tmp_path, GOOD, NEXT)
    for limit in (SIZE, SIZE + 5, SIZE + 50, 2 * SIZE - 1):
        found = objects("--max-bytes", str(limit), path)
        assert [each["offset"] for each in of_kind("record", found)] == [0, 1]
    assert len(of_kind("record", objects("--max-bytes", str(2 * SIZE), path))) == 4


def test_a_batch_over_the_limit_is_not_opened(tmp_path: Path) -> None:
    large = batch(0, b"x" * 5000)
    path = segment(tmp_path, large, batch(1, b"v"))
    found = objects("--max-batch-bytes", "4000", path)
    assert [each["count"] for each in of_kind("batch", found)] == [1, 1]
    assert all(each["isValid"] for each in of_kind("batch", found))
    assert [each["offset"] for each in of_kind("record", found)] == [1]
    (note,) = [each["text"] for each in of_kind("note", found) if "text" in each]
    assert note == f"position 0: a batch of {len(large)} bytes was not opened, because the limit is 4000"
    assert of_kind("end", found)[0]["gaps"] == 0
    path.write_bytes(changed(large, 3000, b"?") + batch(1, b"v"))
    found = objects("--max-batch-bytes", "4000", path, code=1)
    assert [each["isValid"] for each in of_kind("batch", found)] == [False, True]
    bomb = batch(0, b"x" * 100_000, compression=Compression.GZIP)
    path.write_bytes(bomb)
    (damage,) = of_kind("damage", objects("--max-batch-bytes", "4000", path, code=1))
    assert "gzip" in damage["reason"]
    assert "4000" in damage["reason"]


def test_gaps_are_counted_and_reported_if_wanted(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(2, b"v"), batch(5, b"v"))
    assert of_kind("end", objects(path))[0]["gaps"] == 2
    assert of_kind("gap", objects(path)) == []
    assert of_kind("gap", objects("--only", "gap", path)) == [{"after": -1, "next": 2}, {"after": 2, "next": 5}]


def test_a_segment_without_an_offset_in_its_name(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(7, b"v"), batch(8, b"v")).rename(tmp_path / "copy.log")
    found = objects(path)
    assert [each["text"] for each in of_kind("note", found)] == ["the file name contains no offset"]
    assert of_kind("end", found)[0]["gaps"] == 0


def test_batches_alone_are_not_opened(tmp_path: Path) -> None:
    path = segment(tmp_path, sealed(changed(GOOD, COUNT_AT, struct.pack(">i", 5))))
    assert [each["kind"] for each in objects("--only", "batch", path)] == ["batch"]
    assert [each["kind"] for each in objects("--only", "damage", path, code=1)] == ["damage"]


def test_a_line_is_one_line(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"two\nlines\r\x1b[2J"))
    *_, shown, _ = dump(path)
    assert shown.endswith("payload: two\\nlines\\r\\x1b[2J")
    assert json.loads(dump("--json", path)[3])["value"] == "two\nlines\r\x1b[2J"


@pytest.mark.parametrize("options", [[], ["--max-batch-bytes", "1000"]])
@pytest.mark.parametrize("fill", sampled(range(1, 5), 4))
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_file_that_gets_shorter_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], fill: int, is_damaged: bool
) -> None:
    """The batches are larger than a window; the file after the truncated one is still dumped."""
    content = batch(0, bytes(1_500_000)) + batch(1, bytes(1_500_000))
    after = segment(tmp_path, batch(9, b"after"), base_offset=9)
    if is_damaged:
        content = changed(content, CRC_AT, b"?")
    first = len(content) // 2
    for size in (0, 5, 17, 30, 61, first - 1, first, first + 5, first + 17, first + 61, first + 100, 2 * first - 1):
        path = segment(tmp_path, content)
        with monkeypatch.context() as patch:
            cut_while_read(patch, path, fill, size)
            found = objects("--without-content", *options, path, after, code=None)
        assert path.stat().st_size in (size, len(content))
        assert of_kind("record", found)[-1]["offset"] == 9
        assert all(each["passedOver"] is None or each["passedOver"] >= 0 for each in of_kind("damage", found))
        if path.stat().st_size != size:  # the file was read with fewer fills
            continue
        notes = [each["text"] for each in of_kind("note", found) if "shrank" in each.get("text", "")]
        damage = [each["reason"] for each in of_kind("damage", found) if "the file was cut" in each["reason"]]
        assert notes or damage or size >= first, (size, found)
        assert notes in ([], [f"the file shrank to {size} bytes while it was being read"])


@pytest.mark.parametrize("topic", ["t", "__consumer_offsets", "__cluster_metadata"])
def test_any_damage_is_reported_and_nothing_is_raised(tmp_path: Path, topic: str) -> None:
    """Segments of every format get seeded noise; half of the checksums are correct."""
    chance = random.Random(topic)
    old = MessageSetBuilder(1, Compression.GZIP, base_offset=6)
    old.append(5, b"k", b"v")
    old.append(6, b"k", b"v")
    good = [GOOD, NEXT, batch(4, b"a" * 50, b"b", compression=Compression.LZ4), old.build()]
    for number in range(150):
        damaged = []
        for each in good:
            content = bytearray(each)
            for _ in range(chance.choice([0, 0, 1, 3])):
                content[chance.randrange(len(content))] = chance.randrange(256)
            is_new = len(content) > 61 and content[MAGIC_AT] == 2
            damaged.append(sealed(bytes(content)) if is_new and chance.random() < 0.5 else bytes(content))
        path = segment(tmp_path, *damaged, b"" if number % 3 else chance.randbytes(40), topic=topic)
        as_json = objects(path, code=None)
        as_text = dump(path, code=None)
        assert len(as_json) == len(as_text), number
        assert of_kind("end", as_json), number
        if damaged == good and number % 3 and topic == "t":
            assert of_kind("damage", as_json) == []
