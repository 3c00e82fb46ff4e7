"""Every layout of every message survives a round trip, and any bytes decode to a message or raise a DecodeError.

Method: go through all messages and versions, not a sample, with seeded random values. Cut each encoding at every byte,
and flip bytes; the three engines must return the same message and end, or the same error with the same path and offset.
Construct's interface is tested on a few messages."""

from __future__ import annotations

import random
from typing import Any

import pytest
from construct import FormatField, Prefixed, SizeofError, Struct

from kafkawire.sdk.errors import DecodeError, EncodeError, KafkaWireError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.engines.construct import construct_text
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.primitives import APART_BYTES, FIXED, LIMITS
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from tests.engines import AVAILABLE
from tests.thorough import sampled

FLIPS = 40
UNKNOWN = ((100, b"unknown"), (2**31 - 2, b""))


def layouts(name: str) -> list[Layout]:
    """Return the layouts of a message that differ in more than the version number."""
    cls = message_class(name)
    first, last = cls.SCHEMA.known_versions
    every = [layout(cls, version) for version in range(first, last + 1)]
    return list(
        {construct_text(one).replace(f", {one.version},", ",").partition("=")[2]: one for one in every}.values()
    )


def sample(layout: Layout, dice: random.Random) -> Message:
    """Return a message with random values in one version's fields."""
    message = layout.cls()
    for field in layout.fields + layout.tagged:
        if field.tag is None or dice.random() < 0.7:
            setattr(message, field.name, sample_field(field, dice))
    if layout.flexible and dice.random() < 0.3:
        setattr(message, "unknown_tags", UNKNOWN)  # noqa: B010 - the base class does not declare it
    return message


def sample_field(field: FieldLayout, dice: random.Random) -> Any:
    if field.nullable and dice.random() < 0.2:
        return None
    if field.array:
        return tuple(sample_value(field, dice) for _ in range(dice.choice((0, 1, 1, 2))))
    return sample_value(field, dice)


def sample_value(field: FieldLayout, dice: random.Random) -> Any:
    match field.kind:
        case "struct":
            assert field.structure is not None
            return sample(field.structure, dice)
        case "bool":
            return dice.random() < 0.5
        case "float64":
            return dice.choice((0.0, -1.5, float("inf")))
        case "uuid":
            return dice.randbytes(FIXED["uuid"].size)
        case "string":
            return dice.choice(("", "a", "Ж", "topic", "x" * 130))
        case "bytes" | "records":
            return dice.randbytes(dice.choice((0, 1, 9)))
        case _:
            low, high = LIMITS[field.kind]
            return dice.choice((low, high, 0, dice.randint(low, high)))


def outcome(messages: Codec[Any], data: bytes) -> tuple[Any, ...]:
    """Return the result of decoding: the message and its end, or everything that the error contains."""
    try:
        return messages.decode(data)
    except DecodeError as error:
        return error.path, error.offset, error.reason


def encoded(messages: Codec[Any], message: Any) -> bytes | str:
    try:
        return messages.encode(message)
    except KafkaWireError as error:
        return repr(error)


@pytest.mark.names_engine
@pytest.mark.parametrize("name", sampled(sorted(MODULES), 4))
def test_every_layout(name: str) -> None:
    dice = random.Random(name)
    for one in layouts(name):
        engines = [codec(one.cls, one.version, engine) for engine in AVAILABLE]
        for message in (one.cls(), sample(one, dice), sample(one, dice)):
            data = engines[0].encode(message)
            for messages in engines:
                assert encoded(messages, message) == data
                assert b"".join(messages.encode_parts(message)) == data
                assert messages.decode(data + b"more") == (message, len(data))
                assert messages.decode(b"before" + data, 6) == (message, 6 + len(data))
        assert_cuts(engines, data)
        assert_flips(engines, data, dice)


def assert_cuts(engines: list[Codec[Any]], data: bytes) -> None:
    """Check that all engines refuse every proper prefix of an encoding, with the same error."""
    for cut in range(len(data)):
        expected = outcome(engines[-1], data[:cut])
        assert len(expected) == 3, f"accepted {cut} of {data.hex()}"
        assert expected[1] <= cut
        for messages in engines[:-1]:
            assert outcome(messages, data[:cut]) == expected


def assert_flips(engines: list[Codec[Any]], data: bytes, dice: random.Random) -> None:
    """Check that all engines decode damaged bytes to the same result, and encode the decoded messages identically."""
    for _ in range(FLIPS if data else 0):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        results = [outcome(messages, bytes(damaged)) for messages in engines]
        assert len({repr(result) for result in results}) == 1, damaged.hex()  # as text: a NaN does not equal itself
        if len(results[0]) == 2:
            again = [encoded(messages, result[0]) for messages, result in zip(engines, results, strict=True)]
            assert len(set(again)) == 1, damaged.hex()


# ---------------------------------------------------------------------------------------------------- finding a codec


def test_the_same_codec_for_the_same_arguments() -> None:
    assert codec("MetadataRequest", 12) is codec("MetadataRequest", 12)
    assert codec(MetadataRequest, 12).cls is MetadataRequest


def test_the_default_engine() -> None:
    assert codec(MetadataRequest, 12).engine == ENGINE


def test_an_unknown_version_names_message_version_and_range() -> None:
    with pytest.raises(UnsupportedVersion, match="MetadataRequest has no version 99; the known versions are 0-13"):
        codec("MetadataRequest", 99)


def test_an_unknown_message_names_the_nearest() -> None:
    with pytest.raises(LocalProtocolError, match=r"no message is named 'FetchRequst'; did you mean FetchRequest\?"):
        codec("FetchRequst", 4)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="engine 'rust' is not available"):
        codec(MetadataRequest, 12, "rust")


def test_a_derived_class_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Traced cannot derive from Codec: use a codec, or wrap one in a"):
        type("Traced", (Codec,), {"decode": print})


def test_repr() -> None:
    assert repr(codec(MetadataRequest, 12, "python")) == "<codec of MetadataRequest version 12, engine python>"


# ------------------------------------------------------------------------------------------- construct's own interface

HEADER = ResponseHeader(correlation_id=7)
SHORT = FormatField(">", "H")


@pytest.mark.parametrize("engine", AVAILABLE)
def test_parse_and_build(engine: str) -> None:
    headers = codec(ResponseHeader, 0, engine)
    assert headers.build(HEADER) == b"\0\0\0\7"
    assert headers.parse(b"\0\0\0\7") == HEADER


@pytest.mark.parametrize("engine", AVAILABLE)
def test_inside_other_constructs(engine: str) -> None:
    frame = Struct("magic" / SHORT, "header" / Prefixed(SHORT, codec(ResponseHeader, 1, engine)), "end" / SHORT)
    data = frame.build({"magic": 1, "header": HEADER, "end": 2})
    assert data == bytes.fromhex("0001 0005 00000007 00 0002")
    parsed: Any = frame.parse(data)
    assert (parsed.magic, parsed.header, parsed.end) == (1, HEADER, 2)


def test_sizeof() -> None:
    assert codec(ResponseHeader, 0).sizeof() == 4
    with pytest.raises(SizeofError, match="ResponseHeader version 1"):
        codec(ResponseHeader, 1).sizeof()


# ----------------------------------------------------------------------------------------------------------- buffers


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("offset", [-1, 5, 2**63, -(2**63) - 1, 2**64])
def test_an_offset_outside_the_buffer(engine: str, offset: int) -> None:
    with pytest.raises(ValueError, match=f"offset {offset} is outside the buffer of 4 bytes"):
        codec(ResponseHeader, 0, engine).decode(b"\0\0\0\7", offset)


PRODUCE = ProduceRequest(
    topic_data=[
        ProduceRequest.TopicProduceData(
            name="t", partition_data=[ProduceRequest.PartitionProduceData(index=0, records=bytes(APART_BYTES))]
        )
    ]
)


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(data).cast("b")])
def test_records_are_views_of_any_buffer(engine: str, kind: Any) -> None:
    buffer = kind(codec(ProduceRequest, 9, engine).encode(PRODUCE))
    message, end = codec(ProduceRequest, 9, engine).decode(buffer)
    records = message.topic_data[0].partition_data[0].records
    assert end == len(buffer)
    assert message == PRODUCE
    assert isinstance(records, memoryview)
    assert records.nbytes == len(records) == APART_BYTES
    assert records.format == "B"
    assert memoryview(records.obj).nbytes == len(buffer)


class Region:
    """A part of a file, which has a length but is not in memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def with_records(records: Any) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("engine", AVAILABLE)
def test_parts_keep_large_records_apart(engine: str) -> None:
    records = bytes(APART_BYTES)
    parts = codec(ProduceRequest, 9, engine).encode_parts(with_records(records))
    assert [len(part) for part in parts] == [len(parts[0]), APART_BYTES, 3]
    assert parts[1] is records
    assert b"".join(parts) == codec(ProduceRequest, 9, engine).encode(PRODUCE)


@pytest.mark.parametrize("engine", AVAILABLE)
def test_parts_copy_small_records(engine: str) -> None:
    parts = codec(ProduceRequest, 9, engine).encode_parts(with_records(bytes(APART_BYTES - 1)))
    assert [type(part) for part in parts] == [bytes]


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("size", [0, 1, 2**31 - 1])
def test_parts_keep_what_is_no_buffer(engine: str, size: int) -> None:
    region = Region(size)
    messages = codec(ProduceRequest, 8, engine)
    parts = messages.encode_parts(with_records(region))
    assert parts[-1] is region
    assert parts[0].endswith(size.to_bytes(4, "big"))
    with pytest.raises(EncodeError, match=r"topic_data\[0\].partition_data\[0\].records: expected bytes"):
        messages.encode(with_records(region))


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("records", ["text", [b"x"], 5, Region(2**31)])
def test_records_of_the_wrong_type(engine: str, records: Any) -> None:
    messages = codec(ProduceRequest, 9, engine)
    for encode in (messages.encode, messages.encode_parts):
        with pytest.raises(EncodeError, match=r"partition_data\[0\].records: "):
            encode(with_records(records))


# --------------------------------------------------------------------------------------------- values that do not fit

BROKER = MetadataResponse.MetadataResponseBroker


class Changing:
    """A number that empties the list that holds it as soon as it is read."""

    def __init__(self, victims: list[Any]) -> None:
        self.victims = victims

    def __index__(self) -> int:
        self.victims.clear()
        return 1


WRONG = [
    ("ResponseHeader", 0, {"correlation_id": 2**31}, "correlation_id: 2147483648 is outside int32, -2147483648 to"),
    ("ResponseHeader", 0, {"correlation_id": 2**64}, "correlation_id: 18446744073709551616 is outside int32"),
    ("ResponseHeader", 0, {"correlation_id": 1.0}, "correlation_id: expected int32, got float 1.0"),
    ("ResponseHeader", 0, {"correlation_id": None}, "correlation_id: expected int32, got NoneType None"),
    ("RequestHeader", 1, {"client_id": b"x"}, "client_id: expected a str, got bytes b'x'"),
    (
        "RequestHeader",
        2,
        {"client_id": "x" * 32768},
        "client_id: the string has 32768 bytes, but at most 32767 are allowed",
    ),
    ("RequestHeader", 2, {"client_id": "\ud800"}, "client_id: '.ud800' is not encodable as UTF-8"),
    ("ApiVersionsRequest", 3, {"client_software_name": None}, "client_software_name: null is not allowed"),
    (
        "ApiVersionsRequest",
        3,
        {"client_software_name": "x" * 32768},
        "client_software_name: the string has 32768 bytes",
    ),
    ("MetadataRequest", 0, {"topics": None}, "topics: null is not allowed in this version"),
    ("MetadataRequest", 12, {"topics": "abc"}, "topics: expected a sequence, got str 'abc'"),
    ("MetadataRequest", 12, {"topics": 5}, "topics: expected a sequence, got int 5"),
    ("MetadataRequest", 12, {"topics": [None]}, r"topics\[0\]: null is not allowed"),
    (
        "MetadataRequest",
        12,
        {"topics": [BROKER()]},
        r"topics\[0\]: expected MetadataRequest.MetadataRequestTopic, got ",
    ),
    ("MetadataRequest", 12, {"allow_auto_topic_creation": "yes"}, "allow_auto_topic_creation: expected bool, got str"),
    ("MetadataRequest", 12, {"allow_auto_topic_creation": []}, "allow_auto_topic_creation: expected bool, got list"),
    ("ResponseHeader", 1, {"unknown_tags": ((2, b""), (1, b""))}, "unknown_tags: tag 1 follows tag 2, but ascending"),
    ("ResponseHeader", 1, {"unknown_tags": ((2, b""), (2, b""))}, "unknown_tags: tag 2 follows tag 2"),
    ("ResponseHeader", 1, {"unknown_tags": ((2**31 - 1, b""),)}, "unknown_tags: tag 2147483647 is outside"),
    ("ResponseHeader", 1, {"unknown_tags": ((-1, b""),)}, "unknown_tags: tag -1 is outside 0 to 2147483646"),
    ("ResponseHeader", 1, {"unknown_tags": ((1, "x"),)}, "unknown_tags: expected bytes"),
    ("ResponseHeader", 1, {"unknown_tags": (1,)}, "unknown_tags: expected pairs"),
    ("ResponseHeader", 1, {"unknown_tags": None}, "unknown_tags: expected a sequence, got None"),
    ("FetchRequest", 12, {"unknown_tags": ((0, b""),)}, "unknown_tags: tag 0 belongs to a field of this version"),
    (
        "DescribeTopicPartitionsRequest",
        0,
        {"cursor": 5},
        "cursor: expected DescribeTopicPartitionsRequest.Cursor, got int",
    ),
]


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("name", "version", "values", "text"), WRONG)
def test_wrong_values(engine: str, name: str, version: int, values: dict[str, Any], text: str) -> None:
    with pytest.raises(EncodeError, match=f"^{text}"):
        codec(name, version, engine).encode(message_class(name)(**values))


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_wrong_uuid(engine: str) -> None:
    topic = MetadataRequest.MetadataRequestTopic(topic_id=b"short", name="t")
    with pytest.raises(EncodeError, match=r"topics\[0\].topic_id: expected a UUID of 16 bytes, got 5 bytes"):
        codec(MetadataRequest, 12, engine).encode(MetadataRequest(topics=[topic]))


@pytest.mark.parametrize("engine", AVAILABLE)
def test_another_class(engine: str) -> None:
    with pytest.raises(EncodeError, match="expected ResponseHeader, got RequestHeader"):
        codec("ResponseHeader", 0, engine).encode(RequestHeader())


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_deleted_attribute(engine: str) -> None:
    header = ResponseHeader()
    del header.correlation_id
    with pytest.raises(EncodeError, match="correlation_id: not set"):
        codec(ResponseHeader, 0, engine).encode(header)


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_field_of_another_version(engine: str) -> None:
    message = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with pytest.raises(
        UnsupportedVersion,
        match="allow_auto_topic_creation: it is not in version 3 of MetadataRequest, but exists in 4-13",
    ):
        codec(MetadataRequest, 3, engine).encode(message)


@pytest.mark.parametrize("engine", AVAILABLE)
def test_an_ignorable_field_of_another_version_is_dropped(engine: str) -> None:
    assert codec(ApiVersionsRequest, 0, engine).encode(ApiVersionsRequest(client_software_name="x")) == b""


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("kind", [list, tuple])
def test_any_sequence_is_an_array(engine: str, kind: Any) -> None:
    topics = kind([MetadataRequest.MetadataRequestTopic(name="t")])
    assert codec(MetadataRequest, 1, engine).encode(MetadataRequest(topics=topics)) == b"\0\0\0\1\0\1t"


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_value_that_changes_its_message(engine: str) -> None:
    victims: list[Any] = []
    victims += [BROKER(node_id=Changing(victims), host="a"), BROKER(node_id=2, host="b")]  # type: ignore[arg-type]  # a wrong value is the point
    response = MetadataResponse(brokers=victims)
    data = codec(MetadataResponse, 0, engine).encode(response)
    unchanged = MetadataResponse(brokers=[BROKER(node_id=1, host="a"), BROKER(node_id=2, host="b")])
    assert data == codec(MetadataResponse, 0, engine).encode(unchanged)
    assert victims == []


@pytest.mark.parametrize("engine", AVAILABLE)
def test_what_a_value_raises_is_not_swallowed(engine: str) -> None:
    class Interrupting:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        codec(ResponseHeader, 0, engine).encode(ResponseHeader(Interrupting()))  # type: ignore[arg-type]  # a wrong value is the point
