"""Batches that a broker must accept or refuse, and the answer of Apache Kafka 4.3 to each.

The answers came from a real broker; `tests/kafka/test_produced_cases.py` verifies them. Ours differ in four cases:
Kafka never responds to a partition without records, fails on a number with too many bytes, and stores records that no
reader can use, either because their offsets do not start at 0 or because their lengths in a compressed batch are wrong.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables import record_formats as formats
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression, TimestampType
from kafkawire.sdk.records import BatchBuilder, compress, crc32c

__all__ = [
    "COMPACTED",
    "LATEST",
    "LOG_APPEND_TIME",
    "NEAR",
    "SMALL",
    "SMALL_SEGMENTS",
    "Case",
    "Stored",
    "cases",
    "changed",
]

#: The configurations of the topics that the cases need.
COMPACTED = {"cleanup.policy": "compact"}
LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
NEAR = {"message.timestamp.before.max.ms": "5000000", "message.timestamp.after.max.ms": "1000000"}
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
SMALL = {"max.message.bytes": "300"}
SMALL_SEGMENTS = {"segment.bytes": str(2**20), "max.message.bytes": str(2**22)}

LATEST = ProduceRequest.SCHEMA.versions.last - 1  # the last version that has topic names
_BEFORE_ZSTANDARD = 6

_LENGTH = struct.Struct(">i")
_KINDS = {
    "base_offset": "q",
    "batch_length": "i",
    "magic": "b",
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "records_count": "i",
}


#: Timestamp, key and value of each record.
Records = list[tuple[int, bytes | None, bytes | None]]

#: A batch's highest timestamp and timestamp type, and (offset in the batch, timestamp) of each record.
Stored = tuple[int, TimestampType, tuple[tuple[int, int], ...]]


class Case(NamedTuple):
    """A batch and its answer.

    Attributes:
        name: what is unusual about the batch.
        records: the `records` field of the request.
        code: Kafka's answer; None if it never answers.
        bad: the indexes of the records that the answer names.
        config: the configuration of the topic.
        version: the version of the request.
        stored: the batch as Kafka stores it; None if that does not matter.
        ours: the reference broker's answer, if it differs.
    """

    name: str
    records: bytes | None
    code: ErrorCode | None = ErrorCode.NONE
    bad: tuple[int, ...] = ()
    config: dict[str, str] = {}  # noqa: RUF012  # never changed
    version: int = LATEST
    stored: Stored | None = None
    ours: ErrorCode | None = None

    @property
    def expected(self) -> ErrorCode:
        """The answer that the reference broker must give."""
        code = self.code if self.ours is None else self.ours
        assert code is not None, f"{self.name}: no response is expected"
        return code


def changed(data: bytes, **fields: int) -> bytes:
    """Return a batch with changed numbers in its header and a correct checksum."""
    found = bytearray(data)
    for name, value in fields.items():
        struct.pack_into(f">{_KINDS[name]}", found, getattr(formats, f"BATCH_{name.upper()}_AT"), value)
    crc = crc32c(memoryview(found)[formats.BATCH_CRC_COVERS_FROM :])
    struct.pack_into(">I", found, formats.BATCH_CRC_AT, crc)
    return bytes(found)


def _with_payload(payload: bytes, count: int, now_ms: int, compression: Compression = Compression.NONE) -> bytes:
    """Return a batch with exactly these bytes after its header."""
    data = bytearray(_batch([(now_ms, b"k", b"v")])[: formats.BATCH_HEADER_BYTES]) + payload
    _LENGTH.pack_into(data, formats.BATCH_BATCH_LENGTH_AT, len(data) - formats.BATCH_BATCH_LENGTH_COUNTS_FROM)
    return changed(bytes(data), attributes=compression, records_count=count, last_offset_delta=count - 1)


def _record(body: bytes, length: int | None = None) -> bytes:
    """Return a short record preceded by its length, which may be wrong."""
    return bytes([2 * (len(body) if length is None else length)]) + body


def _batch(records: Records, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(2**31 - 1, compression)
    for record in records:
        builder.append(*record)
    return bytes(builder.seal())


def _with_offsets(offsets: list[int], now_ms: int, compression: Compression) -> bytes:
    """Return a batch whose records have wrong offsets, although its header looks correct."""
    records = b"".join(_record(bytes([0, 0, 2 * offset, 1, 2, 65, 0])) for offset in offsets)
    payload = records if compression == Compression.NONE else bytes(compress(compression, records))
    return _with_payload(payload, len(offsets), now_ms, compression)


def cases(now_ms: int) -> list[Case]:
    """Return the table."""
    return [case for part in (_framing, _headers, _records, _compacted, _times, _append_times) for case in part(now_ms)]


def _framing(now_ms: int) -> list[Case]:
    good = _batch([(now_ms, b"k", b"v")])
    zstandard = _batch([(now_ms, b"k", b"v" * 100)], Compression.ZSTD)
    old = bytes(16) + b"\x01" + bytes(30)
    return [
        Case("null", None, None, ours=ErrorCode.INVALID_RECORD),
        Case("empty", b"", ErrorCode.INVALID_RECORD),
        Case("10 bytes", bytes(10), ErrorCode.INVALID_RECORD),
        Case("length 0", bytes(70), ErrorCode.CORRUPT_MESSAGE),
        Case("length -1", changed(good, batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
        Case("length 13", changed(good, batch_length=13), ErrorCode.CORRUPT_MESSAGE),
        Case("length 14", changed(good, batch_length=14)[:26], ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("length 15", changed(good, batch_length=15)[:27], ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("length 38", changed(good, batch_length=38)[:50], ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("length 39", changed(good, batch_length=39)[:51], ErrorCode.CORRUPT_MESSAGE),
        Case("length 39, base offset 1", changed(good, batch_length=39, base_offset=1)[:51], ErrorCode.INVALID_RECORD),
        Case("length 48", changed(good, batch_length=48)[:60], ErrorCode.CORRUPT_MESSAGE),
        Case("length 48, then more", changed(good, batch_length=48), ErrorCode.CORRUPT_MESSAGE),
        Case("length of 2 GiB", changed(good, batch_length=2**31 - 1), ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("length of 2 GiB - 13", changed(good, batch_length=2**31 - 13), ErrorCode.INVALID_RECORD),
        Case("length of 2 GiB after it", good + changed(good, batch_length=2**31 - 1), ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("cut to 16 bytes", good[:16], ErrorCode.INVALID_RECORD),
        Case("cut to 17 bytes", good[:17], ErrorCode.INVALID_RECORD),
        Case("cut by 1", good[:-1], ErrorCode.INVALID_RECORD),
        Case("magic 3", changed(good, magic=3), ErrorCode.CORRUPT_MESSAGE),
        Case("magic -1", changed(good, magic=-1), ErrorCode.CORRUPT_MESSAGE),
        Case("magic 1", changed(good, magic=1), ErrorCode.INVALID_RECORD),
        Case("magic 0", changed(good, magic=0), ErrorCode.INVALID_RECORD),
        Case("magic 1, length 0", old, ErrorCode.CORRUPT_MESSAGE),
        Case("two batches", good * 2, ErrorCode.INVALID_RECORD),
        Case("1 byte after it", good + b"x"),
        Case("11 bytes after it", good + bytes(11)),
        Case("12 zeros after it", good + bytes(12), ErrorCode.CORRUPT_MESSAGE),
        Case("part of a batch after it", good + good[:-1]),
        Case("part of a batch of magic 3 after it", good + changed(good, magic=3)[:-1], ErrorCode.CORRUPT_MESSAGE),
        Case("a cut header after it", good + good[:16]),
        Case("Zstandard", zstandard),
        Case("Zstandard, Produce 6", zstandard, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, version=_BEFORE_ZSTANDARD),
        Case("LZ4, Produce 3", _batch([(now_ms, b"k", b"v" * 100)], Compression.LZ4), version=3),
        Case("too large", _batch([(now_ms, b"k", b"v" * 300)]), ErrorCode.MESSAGE_TOO_LARGE, config=SMALL),
        Case("just as large as allowed", _batch([(now_ms, b"k", bytes(228))]), config=SMALL),
        Case(
            "larger than a segment",
            _batch([(now_ms, b"k", bytes(2**20))]),
            ErrorCode.RECORD_LIST_TOO_LARGE,
            config=SMALL_SEGMENTS,
        ),
        Case(
            "larger than a segment, with a bad checksum",
            _batch([(now_ms, b"k", bytes(2**20))])[:-1] + b"x",
            ErrorCode.CORRUPT_MESSAGE,
            config=SMALL_SEGMENTS,
        ),
    ]


def _headers(now_ms: int) -> list[Case]:
    good = _batch([(now_ms, b"k", b"v"), (now_ms + 1, b"k", b"v")])
    control, transactional = formats.BATCH_IS_CONTROL_MASK, formats.BATCH_IS_TRANSACTIONAL_MASK
    bad: dict[str, Any] = {"code": ErrorCode.INVALID_RECORD}
    return [
        Case("good", good),
        Case("bad checksum", good[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
        Case("base offset 1", changed(good, base_offset=1), **bad),
        Case("base offset 1 and a bad checksum", changed(good, base_offset=1)[:-1] + b"x", **bad),
        Case(
            "base offset 1, too large",
            changed(_batch([(now_ms, b"k", bytes(400))]), base_offset=1),
            config=SMALL,
            **bad,
        ),
        Case(
            "too large, with a bad checksum",
            _batch([(now_ms, b"k", bytes(400))])[:-1] + b"x",
            ErrorCode.MESSAGE_TOO_LARGE,
            config=SMALL,
        ),
        Case("count 0", changed(good, records_count=0), **bad),
        Case("count -1", changed(good, records_count=-1), **bad),
        Case("count 3", changed(good, records_count=3), **bad),
        Case("count 3 of offsets 0 to 2", changed(good, records_count=3, last_offset_delta=2), **bad),
        Case("count 1 of offset 0", changed(good, records_count=1, last_offset_delta=0), **bad),
        Case("last offset 5", changed(good, last_offset_delta=5), **bad),
        Case("last offset -1", changed(good, last_offset_delta=-1), **bad),
        Case("last offset -1, count 0", changed(good, last_offset_delta=-1, records_count=0), **bad),
        Case("control", changed(good, attributes=control), **bad),
        Case(
            "transactional without an id of a transaction",
            changed(good, attributes=transactional),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Case(
            "transactional and control",
            changed(good, attributes=transactional | control),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Case(
            "transactional, with a bad checksum",
            changed(good, attributes=transactional)[:-1] + b"x",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Case("delete horizon", changed(good, attributes=formats.BATCH_HAS_DELETE_HORIZON_MASK)),
        Case("unknown attributes", changed(good, attributes=0x7F80)),
        Case("compression 5", changed(good, attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("compression 7, count 0", changed(good, attributes=7, records_count=0), ErrorCode.UNKNOWN_SERVER_ERROR),
        Case("compression 5, bad checksum", changed(good, attributes=5)[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
        Case("producer without a sequence", changed(good, producer_id=5), **bad),
        Case("producer with sequence -2", changed(good, producer_id=5, producer_epoch=0, base_sequence=-2), **bad),
        Case("producer -2", changed(good, producer_id=-2)),
        Case("producer -2 with a sequence", changed(good, producer_id=-2, base_sequence=7)),
        Case("sequence without a producer", changed(good, base_sequence=7)),
        Case("producer 7000 with epoch -1", changed(good, producer_id=7000, base_sequence=0)),
        Case("producer 7001", changed(good, producer_id=7001, producer_epoch=0, base_sequence=0)),
        Case("new producer 7002 with sequence 9", changed(good, producer_id=7002, producer_epoch=3, base_sequence=9)),
        Case("leader epoch", good[:12] + b"\0\0\0\7" + good[16:]),
    ]


def _records(now_ms: int) -> list[Case]:
    plain = bytes([0, 0, 0, 2, 107, 2, 118, 0])
    gzip = Compression.GZIP

    def both(name: str, payload: bytes, code: ErrorCode, compressed: ErrorCode, count: int = 1) -> list[Case]:
        packed = _with_payload(bytes(compress(gzip, payload)), count, now_ms, gzip)
        # A batch that is refused is refused in every form.
        ours = None if {code, compressed} == {ErrorCode.NONE} else invalid
        return [
            Case(name, _with_payload(payload, count, now_ms), code, ours=ours),
            Case(f"{name}, compressed", packed, compressed, ours=ours),
        ]

    invalid, unknown = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
    return [
        *both("nothing", b"", invalid, invalid),
        *both("fine", _record(plain), ErrorCode.NONE, ErrorCode.NONE),
        *both("records end early", _record(plain), invalid, invalid, 2),
        *both("a byte after it", _record(plain) + b"x", invalid, invalid),
        *both("a record after it", _record(plain) * 2, invalid, invalid),
        *both("record too long", _record(plain, 9), invalid, ErrorCode.NONE),
        *both("record too short", _record(plain, 7), invalid, ErrorCode.NONE),
        *both("record of -1 bytes", b"\x01" + plain, invalid, ErrorCode.NONE),
        *both("record of 0 bytes", b"\x00", invalid, invalid),
        *both("length of 6 bytes", b"\xff" * 5 + b"\x01" + plain, unknown, invalid),
        *both("length without an end", b"\xff", invalid, invalid),
        *both("timestamp of 11 bytes", _record(b"\0" + b"\xff" * 11), invalid, invalid),
        *both("offset of 6 bytes", _record(b"\0\0" + b"\xff" * 6), invalid, invalid),
        *both("key too long", _record(bytes([0, 0, 0, 40, 107, 2, 118, 0])), invalid, invalid),
        *both("key of -2 bytes", _record(bytes([0, 0, 0, 3, 2, 118, 0])), ErrorCode.NONE, ErrorCode.NONE),
        *both("value too long", _record(bytes([0, 0, 0, 2, 107, 40, 118, 0])), invalid, invalid),
        *both("-1 headers", _record(bytes([0, 0, 0, 2, 107, 2, 118, 1])), invalid, invalid),
        *both("too many headers", _record(bytes([0, 0, 0, 2, 107, 2, 118, 100])), invalid, invalid),
        *both("header without a name", _record(bytes([0, 0, 0, 2, 107, 2, 118, 2, 1, 1])), invalid, invalid),
        *both(
            "header of bad UTF-8",
            _record(bytes([0, 0, 0, 2, 107, 2, 118, 2, 2, 255, 1])),
            ErrorCode.NONE,
            ErrorCode.NONE,
        ),
        *both("attributes of a record", _record(b"\xff" + plain[1:]), ErrorCode.NONE, ErrorCode.NONE),
        Case("no gzip", _with_payload(b"no gzip at all, whatever it may say", 1, now_ms, gzip), unknown),
        Case("no LZ4", _with_payload(b"no LZ4 at all, whatever it may say", 1, now_ms, Compression.LZ4), unknown),
        Case("no Snappy", _with_payload(b"no Snappy, whatever it may say", 1, now_ms, Compression.SNAPPY), unknown),
        Case("no Zstandard", _with_payload(b"no Zstandard, whatever it says", 1, now_ms, Compression.ZSTD), unknown),
        Case("gzip that is cut", _with_payload(bytes(compress(gzip, _record(plain)))[:-12], 1, now_ms, gzip), unknown),
        Case("nothing, said to be gzip", _with_payload(b"", 1, now_ms, gzip), unknown),
        *(
            case
            for offsets in ([0, 2], [1, 2], [1, 0], [0, 0])
            for case in (
                Case(f"offsets {offsets}", _with_offsets(offsets, now_ms, Compression.NONE), ours=invalid),
                Case(f"offsets {offsets}, compressed", _with_offsets(offsets, now_ms, Compression.LZ4), unknown),
            )
        ),
    ]


def _compacted(now_ms: int) -> list[Case]:
    gzip = Compression.GZIP
    bad: dict[str, Any] = {"code": ErrorCode.INVALID_RECORD}
    return [
        Case("compacted with keys", _batch([(now_ms, b"", b"v"), (now_ms, b"k", None)]), config=COMPACTED),
        Case(
            "compacted without a key",
            _batch([(now_ms, b"k", b"v"), (now_ms, None, b"v")]),
            bad=(1,),
            config=COMPACTED,
            **bad,
        ),
        Case(
            "compacted without keys, compressed",
            _batch([(now_ms, None, b"v")] * 2, gzip),
            bad=(0, 1),
            config=COMPACTED,
            **bad,
        ),
        Case(
            "compacted, key of -2 bytes",
            _with_payload(_record(bytes([0, 0, 0, 3, 2, 118, 0])), 1, now_ms),
            bad=(0,),
            config=COMPACTED,
            **bad,
        ),
        Case(
            "compacted without a key, and records end early",
            changed(_batch([(now_ms, None, b"v")]), records_count=2, last_offset_delta=1),
            config=COMPACTED,
            **bad,
        ),
        Case(
            "compacted without a key, too late",
            _batch([(now_ms + 2**40, None, b"v"), (now_ms, b"k", b"v")]),
            bad=(0,),
            config=COMPACTED,
            **bad,
        ),
        Case(
            "compacted without a key, another too late",
            _batch([(now_ms, None, b"v"), (now_ms + 2**40, b"k", b"v")]),
            ErrorCode.INVALID_TIMESTAMP,
            (0, 1),
            COMPACTED,
        ),
    ]


def _at(time: int) -> bytes:
    """Return a batch of one record with any timestamp."""
    return changed(_batch([(0, b"k", b"a")]), base_timestamp=time, max_timestamp=time)


def _times(now_ms: int) -> list[Case]:
    create = TimestampType.CREATE_TIME
    late = ErrorCode.INVALID_TIMESTAMP
    three = _batch([(now_ms, b"k", b"a"), (now_ms + 5, b"k", b"b"), (now_ms - 5, b"k", b"c")])
    gzip3 = _batch([(now_ms, b"k", b"a"), (now_ms + 5, b"k", b"b"), (now_ms - 5, b"k", b"c")], Compression.GZIP)
    times = ((0, now_ms), (1, now_ms + 5), (2, now_ms - 5))

    return [
        Case("three timestamps", three, stored=(now_ms + 5, create, times)),
        Case("wrong max timestamp", changed(three, max_timestamp=12), stored=(now_ms + 5, create, times)),
        Case("wrong max timestamp, gzip", changed(gzip3, max_timestamp=12), stored=(now_ms + 5, create, times)),
        Case("max timestamp far ahead", changed(three, max_timestamp=2**62), stored=(now_ms + 5, create, times)),
        Case("too late", _batch([(now_ms, b"k", b"a"), (now_ms + 2**40, b"k", b"b")]), late, (1,)),
        Case("too late, gzip", _batch([(now_ms, b"k", b"a"), (2**60, b"k", b"b")], Compression.GZIP), late, (1,)),
        Case("too early", _batch([(now_ms - 2**40, b"k", b"a"), (now_ms, b"k", b"b")]), late, (0,), NEAR),
        Case("none in a narrow topic", _at(-1), config=NEAR, stored=(-1, create, ((0, -1),))),
        Case("none", _at(-1), stored=(-1, create, ((0, -1),))),
        Case("-2", _at(-2), stored=(-1, create, ((0, -2),))),
        Case(
            "-2, gzip",
            changed(_batch([(now_ms, b"k", b"a")], Compression.GZIP), base_timestamp=-2),
            stored=(-1, create, ((0, -2),)),
        ),
        Case("-2 in a narrow topic", _at(-2), late, (0,), NEAR),
        Case("0", _at(0), stored=(0, create, ((0, 0),))),
        Case("-2^63", _at(-(2**63)), late, (0,)),
        Case("-2^63 + 1", _at(-(2**63) + 1), late, (0,)),
        Case("-2^63 where all is allowed", _at(-(2**63)), config=ANY_TIME, stored=(-1, create, ((0, -(2**63)),))),
        Case(
            "2^63 - 1 where all is allowed",
            _at(2**63 - 1),
            config=ANY_TIME,
            stored=(2**63 - 1, create, ((0, 2**63 - 1),)),
        ),
    ]


def _append_times(now_ms: int) -> list[Case]:
    create, late = TimestampType.CREATE_TIME, ErrorCode.INVALID_TIMESTAMP
    flag = formats.BATCH_TIMESTAMP_TYPE_MASK
    records: Records = [(now_ms, b"k", b"a"), (now_ms + 5, b"k", b"b"), (now_ms - 5, b"k", b"c")]
    three, gzip3 = _batch(records), _batch(records, Compression.GZIP)
    times = ((0, now_ms), (1, now_ms + 5), (2, now_ms - 5))
    return [
        Case(
            "append time by the client",
            changed(three, attributes=flag, max_timestamp=now_ms - 7),
            stored=(now_ms - 7, create, times),
        ),
        Case(
            "append time by the client, gzip",
            changed(gzip3, attributes=flag | Compression.GZIP, max_timestamp=now_ms - 7),
            stored=(now_ms - 7, create, times),
        ),
        Case(
            "append time by the client, too late", changed(three, attributes=flag, max_timestamp=2**62), late, (0, 1, 2)
        ),
        Case("append time -1 by the client", changed(three, attributes=flag, max_timestamp=-1), late, (0, 1, 2)),
        Case(
            "append time -1 by the client, without keys, to a compacted topic",
            changed(_batch([(now_ms, None, b"a")]), attributes=flag, max_timestamp=-1),
            ErrorCode.INVALID_RECORD,
            (0,),
            COMPACTED,
        ),
        Case(
            "append time -1 by the client, without a key, to a compacted topic",
            changed(_batch([(now_ms, None, b"a"), (now_ms, b"k", b"a")]), attributes=flag, max_timestamp=-1),
            late,
            (0, 1),
            COMPACTED,
        ),
        Case(
            "append time by the client, to a topic that has it",
            changed(three, attributes=flag, max_timestamp=now_ms),
            late,
            (0, 1, 2),
            LOG_APPEND_TIME,
        ),
        Case("too late for a topic of append time", _at(2**62), config=LOG_APPEND_TIME),
        Case("-2^63 in a topic of append time", _at(-(2**63)), config=LOG_APPEND_TIME),
    ]
