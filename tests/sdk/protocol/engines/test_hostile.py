"""Objects that lie, change, run code or raise never crash an engine or make it write nonsense.

Method: give every engine the objects of `tests/hostile.py` in every place that takes a value or a buffer, and let each
call that an engine makes on them raise once. A table says what is written, or which field is refused and why. If the
outcome depends on the order in which an engine looks at values, the engine must still write a whole message. The
sanitizers run these tests too.
"""

from __future__ import annotations

import gc
import re
from array import array
from collections import deque
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError, KafkaWireError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol import programs
from kafkawire.sdk.protocol.messages import fetch, headers, metadata, sasl_authenticate
from kafkawire.sdk.protocol.messages import produce as produce_messages
from kafkawire.sdk.protocol.primitives import APART_BYTES
from kafkawire.sdk.protocol.values import digits
from tests.engines import AVAILABLE
from tests.hostile import (
    Equal,
    Fuse,
    HostileBuffer,
    LyingList,
    LyingSequence,
    LyingText,
    LyingTuple,
    Number,
    raised_at_every_call,
)
from tests.needs import PYTHON_3_12

# The messages in this module hold values that their types do not allow.
program: Any = programs.program
FetchRequest: Any = fetch.FetchRequest
FetchResponse: Any = fetch.FetchResponse
MetadataRequest: Any = metadata.MetadataRequest
MetadataResponse: Any = metadata.MetadataResponse
ProduceRequest: Any = produce_messages.ProduceRequest
ResponseHeader: Any = headers.ResponseHeader
SaslAuthenticateRequest: Any = sasl_authenticate.SaslAuthenticateRequest

pytestmark = [pytest.mark.parametrize("engine", AVAILABLE), pytest.mark.usefixtures("frozen_heap")]


def produce(records: Any) -> Any:
    partition = ProduceRequest.PartitionProduceData(records=records)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])])


def records_of(data: bytes, engine: str) -> bytes:
    """Return the records in an encoded produce request, after checking that the encoding is whole."""
    message, end = program(ProduceRequest, 9, engine).decode(data)
    assert end == len(data)
    records = message.topic_data[0].partition_data[0].records
    assert records is not None
    return bytes(records)


# ------------------------------------------------------------------------------------------------------------ buffers


@pytest.mark.parametrize("size", [9, APART_BYTES, 500_000])
def test_a_buffer_that_is_another_one_at_each_look_is_looked_at_once(engine: str, size: int) -> None:
    data = program(ProduceRequest, 9, engine).encode(produce(b"\1" * size))
    for others in ([], [b""], [b"\2" * len(data)], [b"\3" * 7]):
        buffer = HostileBuffer(data, *others, fuse=(fuse := Fuse()))
        message, end = program(ProduceRequest, 9, engine).decode(buffer)
        assert fuse.calls == 1
        assert end == len(data)
        records = message.topic_data[0].partition_data[0].records
        del buffer
        gc.collect()
        _ = [bytearray(b"\4" * len(data)) for _ in range(10)]  # reuses the memory, if it was released
        assert records == b"\1" * size


@pytest.mark.parametrize("size", [0, 9, APART_BYTES - 1, APART_BYTES, 100_000])
@pytest.mark.parametrize("later", [b"", b"\2" * 3, b"\2" * 200_000])
def test_records_that_are_another_buffer_at_each_look(engine: str, size: int, later: bytes) -> None:
    messages = program(ProduceRequest, 9, engine)
    for looks in ([b"\1" * size, later], [later, b"\1" * size]):
        data = messages.encode(produce(HostileBuffer(*looks)))
        assert records_of(data, engine) in looks
        parts = messages.encode_parts(produce(HostileBuffer(*looks)))
        assert records_of(b"".join(parts), engine) in looks
        assert sum(map(len, parts)) == len(b"".join(parts))


def test_bytes_that_are_another_buffer_at_each_look(engine: str) -> None:
    request = SaslAuthenticateRequest(auth_bytes=HostileBuffer(b"one", b"second"))
    data = program(SaslAuthenticateRequest, 2, engine).encode(request)
    assert program(SaslAuthenticateRequest, 2, engine).decode(data)[0].auth_bytes in (b"one", b"second")
    header = ResponseHeader(1, unknown_tags=((5, HostileBuffer(b"one", b"second")),))
    data = program(ResponseHeader, 1, engine).encode(header)
    assert program(ResponseHeader, 1, engine).decode(data)[0].unknown_tags[0][1] in (b"one", b"second")


class LyingBytes(bytes):
    """Bytes that claim a different length."""

    def __len__(self) -> int:
        return 3


def test_bytes_with_another_length(engine: str) -> None:
    lying = LyingBytes(b"x" * 5000)
    assert records_of(program(ProduceRequest, 9, engine).encode(produce(lying)), engine) == bytes(lying)
    assert records_of(b"".join(program(ProduceRequest, 9, engine).encode_parts(produce(lying))), engine) == bytes(lying)
    for content, works in ((bytes(16), True), (bytes(3), False)):
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id=LyingBytes(content), name="t")])
        if works:
            data = program(MetadataRequest, 12, engine).encode(request)
            assert program(MetadataRequest, 12, engine).decode(data)[0] == request
        else:
            with pytest.raises(EncodeError, match="expected a UUID of 16 bytes, got 3 bytes"):
                program(MetadataRequest, 12, engine).encode(request)


def test_a_buffer_that_changes_its_message(engine: str) -> None:
    request = produce(b"")
    partition = request.topic_data[0].partition_data[0]

    def drop() -> None:
        partition.records = None
        request.topic_data = ()
        gc.collect()

    for _ in range(3):
        request.topic_data = [ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
        partition.records = HostileBuffer(b"\1" * APART_BYTES, fuse=Fuse(drop))
        assert records_of(program(ProduceRequest, 9, engine).encode(request), engine) == b"\1" * APART_BYTES


def test_a_buffer_that_is_no_row_of_bytes(engine: str) -> None:
    whole = bytes(range(256)) * 20
    with pytest.raises(BufferError, match=r"^the buffer is not contiguous$"):
        program(ResponseHeader, 0, engine).decode(memoryview(whole)[::2])
    with pytest.raises(TypeError):
        program(ResponseHeader, 0, engine).decode("text")
    with pytest.raises(TypeError):
        program(ResponseHeader, 0, engine).decode(4)
    square = memoryview(whole[:16]).cast("B", (4, 4))
    assert program(ResponseHeader, 0, engine).decode(square) == (ResponseHeader(0x00010203), 4)
    with pytest.raises(EncodeError, match="records: expected bytes or another contiguous buffer"):
        program(ProduceRequest, 9, engine).encode(produce(memoryview(whole)[::2]))


def test_a_decoded_view_outlives_everything_else(engine: str) -> None:
    buffer = bytearray(program(ProduceRequest, 9, engine).encode(produce(b"\7" * 5000)))
    view = memoryview(buffer)
    records = program(ProduceRequest, 9, engine).decode(view)[0].topic_data[0].partition_data[0].records
    view.release()
    with pytest.raises(BufferError):
        buffer.clear()
    assert records == b"\7" * 5000


@PYTHON_3_12.mark
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_a_buffer_that_raises_when_it_is_decoded(engine: str, error: type[BaseException]) -> None:
    with pytest.raises(error, match="call 0"):
        program(ResponseHeader, 0, engine).decode(HostileBuffer(bytes(4), fuse=Fuse(error=error("call 0"))))


# ---------------------------------------------------------------------------------------------------------- sequences


BROKER = MetadataResponse.MetadataResponseBroker


def lying(kind: type[Any], claimed: int, others: tuple[Any, ...]) -> Any:
    made = kind([BROKER(1), BROKER(2)])
    made.claimed, made.others = claimed, others
    return made


@pytest.mark.parametrize("claimed", [0, 1, 3, 2**31, -1])
def test_sequences_that_lie(engine: str, claimed: int) -> None:
    """An engine trusts the elements that hostile objects return, but nothing that the objects claim."""
    messages = program(MetadataResponse, 9, engine)
    for brokers, expected in (
        (LyingSequence(claimed, [BROKER(1), BROKER(2)]), (1, 2)),
        (LyingSequence(claimed, []), ()),
        (lying(LyingList, claimed, (BROKER(3),)), (3,)),
        (lying(LyingTuple, claimed, (BROKER(3), BROKER(4), BROKER(5))), (3, 4, 5)),
    ):
        data = messages.encode(MetadataResponse(brokers=brokers))
        decoded, end = messages.decode(data)
        assert end == len(data)
        assert tuple(broker.node_id for broker in decoded.brokers) == expected
    with pytest.raises(EncodeError, match=r"^brokers\[0\]: expected MetadataResponse.MetadataResponseBroker, got int"):
        messages.encode(MetadataResponse(brokers=lying(LyingList, claimed, (5,))))


def test_tags_that_lie(engine: str) -> None:
    class LyingInt(int):
        def __index__(self) -> int:
            return 99

        def __int__(self) -> int:
            return 2**40

        def __le__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    headers = program(ResponseHeader, 1, engine)
    for tags, expected in (
        (LyingSequence(7, [(1, b"a")]), ((1, b"a"),)),
        (lying(LyingTuple, 5, ((1, b"a"),)), ((1, b"a"),)),
        (((LyingInt(5), b"a"),), ((5, b"a"),)),
    ):
        data = headers.encode(ResponseHeader(1, unknown_tags=tags))
        assert headers.decode(data) == (ResponseHeader(1, unknown_tags=expected), len(data))
    for pair in (lying(LyingTuple, 2, (1, b"a", 3)), lying(LyingList, 2, ())):
        with pytest.raises(EncodeError, match=r"^unknown_tags: expected pairs of a tag and bytes, got Lying"):
            headers.encode(ResponseHeader(1, unknown_tags=[pair]))


def test_text_that_lies(engine: str) -> None:
    data = program(MetadataRequest, 4, engine).encode(
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=LyingText("abc"))])
    )
    assert program(MetadataRequest, 4, engine).decode(data)[0].topics[0].name == "abc"


def test_offsets_that_are_no_ints(engine: str) -> None:
    class Offset:
        def __index__(self) -> int:
            return 2

    data = bytes(2) + program(ResponseHeader, 0, engine).encode(ResponseHeader(7))
    assert program(ResponseHeader, 0, engine).decode(data, Offset()) == (ResponseHeader(7), len(data))  # type: ignore[arg-type]  # an object with __index__ is an int


def test_integers_that_lie(engine: str) -> None:
    class LyingInt(int):
        def __index__(self) -> int:
            return 2**80

        def __lt__(self, other: object) -> bool:
            return True

        def __le__(self, other: object) -> bool:
            return True

    assert program(ResponseHeader, 0, engine).encode(ResponseHeader(LyingInt(7))) == b"\0\0\0\7"
    with pytest.raises(EncodeError, match="correlation_id: 2147483648 is outside int32"):
        program(ResponseHeader, 0, engine).encode(ResponseHeader(LyingInt(2**31)))


def test_a_class_that_calls_itself_another(engine: str) -> None:
    class Fake:
        correlation_id = 5
        unknown_tags = ()

        def __getattribute__(self, name: str) -> Any:
            return ResponseHeader if name == "__class__" else object.__getattribute__(self, name)

    with pytest.raises(EncodeError, match="expected ResponseHeader, got Fake"):
        program(ResponseHeader, 0, engine).encode(Fake())


@pytest.mark.parametrize("answer", [True, False, 5, "x"])
def test_values_that_equal_everything_or_nothing(engine: str, answer: object) -> None:
    fetches = FetchRequest(cluster_id=Equal(answer), isolation_level=Equal(answer))
    for version in (4, 12):
        with pytest.raises(EncodeError, match=r"^isolation_level: expected int8, got Equal"):
            program(FetchRequest, version, engine).encode(fetches)
    with pytest.raises(EncodeError, match=r"^unknown_tags: expected a sequence, got Equal"):
        program(ResponseHeader, 1, engine).encode(ResponseHeader(1, unknown_tags=Equal(answer)))
    allow = MetadataRequest(allow_auto_topic_creation=Equal(answer))
    if answer is False:
        with pytest.raises(UnsupportedVersion, match=r"^allow_auto_topic_creation: it is not in version 0"):
            program(MetadataRequest, 0, engine).encode(allow)
        with pytest.raises(EncodeError, match=r"^allow_auto_topic_creation: expected bool, got Equal"):
            program(MetadataRequest, 4, engine).encode(allow)
    else:  # it equals the default, so its hash decides which bool it becomes
        assert program(MetadataRequest, 0, engine).encode(allow) == bytes(4)
        assert program(MetadataRequest, 4, engine).encode(allow) == bytes(5)


@pytest.mark.parametrize("answer", [True, 5, "x"])
def test_tags_that_claim_to_equal_none(engine: str, answer: object) -> None:
    """If there are no unknown tags, the value is compared, like a field that the version lacks."""
    header = ResponseHeader(1, unknown_tags=Equal(answer))
    assert program(ResponseHeader, 0, engine).encode(header) == b"\0\0\0\1"
    with pytest.raises(EncodeError, match=r"^unknown_tags: expected a sequence, got Equal"):
        program(ResponseHeader, 1, engine).encode(header)


def test_tags_that_equal_nothing(engine: str) -> None:
    with pytest.raises(UnsupportedVersion, match=r"^unknown_tags: version 0 has no tagged fields"):
        program(ResponseHeader, 0, engine).encode(ResponseHeader(1, unknown_tags=Equal(False)))


# --------------------------------------------------------------------------------------------------- code of the value


class Region:
    """An object like a region of a file, which has a length but is not a buffer."""

    def __init__(self, size: int, fuse: Fuse) -> None:
        self.size = size
        self.fuse = fuse

    def __len__(self) -> int:
        self.fuse.burn()
        return self.size


def messages_with(fuse: Fuse) -> list[tuple[Any, int]]:
    """Return messages with hostile values in every kind of place, each with the version in which to write it."""
    number: Any = Number(1, fuse)
    equal: Any = Equal(True, fuse)
    region: Any = Region(5, fuse)
    tags: Any = LyingSequence(1, [(1, b"a")], fuse)
    topic = MetadataRequest.MetadataRequestTopic(topic_id=equal, name=equal)
    return [
        (ResponseHeader(number), 0),
        (ResponseHeader(1, unknown_tags=tags), 1),
        (ResponseHeader(1, unknown_tags=equal), 0),
        (MetadataRequest(topics=LyingSequence(1, [topic], fuse)), 12),
        (MetadataRequest(allow_auto_topic_creation=equal), 4),
        (MetadataRequest(allow_auto_topic_creation=equal), 0),
        (FetchRequest(cluster_id=equal, replica_state=equal), 15),
        (FetchResponse(throttle_time_ms=number, unknown_tags=[(number, b"")]), 12),
        (produce(region), 9),
    ]


@pytest.mark.parametrize("error", [ValueError, TypeError, AttributeError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("index", range(len(messages_with(Fuse()))))
def test_exceptions_at_every_call(engine: str, error: type[BaseException], index: int) -> None:
    def run(fuse: Fuse) -> object:
        message, version = messages_with(fuse)[index]
        messages = program(type(message), version, engine)
        return messages.encode(message), messages.encode_parts(message)

    for raised in raised_at_every_call(run, error):
        if isinstance(raised, KafkaWireError) or raised is None:
            continue
        assert isinstance(raised, error)
        assert str(raised).startswith("call ")


@pytest.mark.parametrize("index", range(len(messages_with(Fuse()))))
def test_values_that_change_their_message(engine: str, index: int) -> None:
    def wreck() -> None:
        for name in message.__match_args__:
            value = getattr(message, name, None)
            if isinstance(value, list):
                value.clear()
            setattr(message, name, None)

    for _ in range(3):
        message, version = messages_with(Fuse(wreck))[index]
        messages = program(type(message), version, engine)
        # The engine determines which fields are read before the change; either way, it writes whole messages.
        data = refusal = None
        try:
            data = b"".join(messages.encode_parts(message))
        except LocalProtocolError as error:
            refusal = str(error)
        if data is not None:
            assert messages.decode(data)[1] == len(data)
        else:
            assert re.match(r"[a-z_]+(\[0\]\.[a-z_]+)?: ", refusal or "")  # the error names the field


def test_a_value_that_deletes_the_field_it_is_in(engine: str) -> None:
    header = ResponseHeader()

    def delete() -> None:
        if hasattr(header, "correlation_id"):
            del header.correlation_id
        header.unknown_tags = object()

    header.correlation_id = Number(5, Fuse(delete))
    if engine == "construct":  # it checks everything before it writes anything
        assert program(ResponseHeader, 0, engine).encode(header) == b"\0\0\0\5"
    else:
        with pytest.raises(UnsupportedVersion, match=r"^unknown_tags: version 0 has no tagged fields"):
            program(ResponseHeader, 0, engine).encode(header)
    header.correlation_id, header.unknown_tags = Number(5, Fuse(delete)), ()
    with pytest.raises(EncodeError, match=r"^(correlation_id: not set|unknown_tags: expected a sequence)"):
        program(ResponseHeader, 1, engine).encode(header)


def test_a_value_that_is_right_the_second_time_only(engine: str) -> None:
    class Late:
        looks = 0

        def __index__(self) -> int:
            self.looks += 1
            return 2**40 if self.looks == 1 else 1

    with pytest.raises(EncodeError, match=r"changed while it was written|1099511627776 is outside int32"):
        program(ResponseHeader, 0, engine).encode(ResponseHeader(Late()))


@pytest.mark.parametrize("records", [memoryview(array("i", range(20)))[::2], range(5), deque([1]), list])
def test_records_whose_length_is_not_that_of_their_bytes(engine: str, records: Any) -> None:
    messages = program(ProduceRequest, 7, engine)
    for encode in (messages.encode, messages.encode_parts):
        with pytest.raises(EncodeError, match=r"records: expected bytes or another contiguous buffer, got "):
            encode(produce(records))


class Misleading(int):
    """A number that claims to be another number."""

    def __index__(self) -> int:
        return 3

    def __lt__(self, other: object) -> bool:
        return False

    def __add__(self, other: object) -> int:
        return 1000


@pytest.mark.parametrize("offset", [1, True, Number(1), Misleading(1)])
def test_an_offset_that_is_no_plain_number(engine: str, offset: Any) -> None:
    decode = program(ResponseHeader, 0, engine).decode
    message, end = decode(bytes(5), offset)
    assert (message, end, type(end)) == (ResponseHeader(), 5, int)
    with pytest.raises(DecodeError, match=r"^correlation_id at byte 1: 4 bytes are needed, but 2 are left$"):
        decode(bytes(3), offset)


@pytest.mark.parametrize("offset", [-1, 6, pytest.param(10**5000, id="huge"), Number(-1), Number(2**70)])
def test_an_offset_outside_the_buffer(engine: str, offset: Any) -> None:
    said = digits(offset if isinstance(offset, int) else offset.value)
    with pytest.raises(ValueError, match=rf"^offset {said} is outside the buffer of 5 bytes$"):
        program(ResponseHeader, 0, engine).decode(bytes(5), offset)


@pytest.mark.parametrize("offset", ["0", 1.0, None])
def test_an_offset_that_is_no_number(engine: str, offset: Any) -> None:
    with pytest.raises(TypeError, match=r"object cannot be interpreted as an integer$"):
        program(ResponseHeader, 0, engine).decode(bytes(5), offset)
