"""The extension's messages have no garbage collector header and do not leak, and chains of any length are freed.

Method: compare reference counts around decoding, encoding and their failures, check which buffers are locked and
released, and let the garbage collector run in between. `test_codec.py` compares the engine with the others on every
layout; `test_hostile.py` gives it objects that lie."""

from __future__ import annotations

import codecs
import contextlib
import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines import selection
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.primitives import APART_BYTES, MALFORMED_UTF8, MAX_STRING_BYTES
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.values import DEFAULT
from tests.needs import NATIVE_ENGINE
from tests.thorough import sampled

pytestmark = pytest.mark.usefixtures("frozen_heap")

NATIVE_ENGINE.require()
native: Any = selection.native

PARTITION = FetchResponse.PartitionData(partition_index=3, records=b"abc")
FETCHED = FetchResponse(
    responses=[FetchResponse.FetchableTopicResponse(topic="orders", partitions=[PARTITION])],
    unknown_tags=((7, b"kept"),),
)
FETCH = codec(FetchResponse, 12, "native")
DATA = FETCH.encode(FETCHED)


class Marker:
    """An object whose deallocation can be observed."""


def test_messages_have_no_garbage_collector_header() -> None:
    message = FETCH.decode(DATA)[0]
    assert not gc.is_tracked(message)
    assert not FetchResponse.__flags__ & 1 << 14  # Py_TPFLAGS_HAVE_GC
    assert sys.getsizeof(ResponseHeader()) == object().__sizeof__() + 2 * 8


def test_what_a_message_holds_is_freed_with_it() -> None:
    marker = Marker()
    gone = weakref.ref(marker)
    header = ResponseHeader(marker)  # type: ignore[arg-type]  # the types do not allow this
    del marker
    assert gone() is not None
    del header
    assert gone() is None


def test_the_class_is_not_kept_by_its_instances() -> None:
    gc.collect()  # garbage left by other tests
    before = sys.getrefcount(ResponseHeader)
    headers = [ResponseHeader() for _ in range(100)]
    assert sys.getrefcount(ResponseHeader) == before + 100
    headers.clear()
    assert sys.getrefcount(ResponseHeader) == before


def test_decoded_objects_are_freed() -> None:
    gc.collect()  # garbage left by other tests
    before = sys.getrefcount(FetchResponse.PartitionData), sys.getrefcount(DEFAULT)
    for cut in range(len(DATA) + 1):
        for _ in range(3):
            with contextlib.suppress(DecodeError):
                FETCH.decode(DATA[:cut])
    assert (sys.getrefcount(FetchResponse.PartitionData), sys.getrefcount(DEFAULT)) == before


def test_encoding_keeps_nothing() -> None:
    records = bytes(APART_BYTES)
    message = ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(partition_data=[ProduceRequest.PartitionProduceData(records=records)])
        ]
    )
    before = sys.getrefcount(records)
    for _ in range(10):
        codec(ProduceRequest, 9, "native").encode(message)
        codec(ProduceRequest, 9, "native").encode_parts(message)
    assert sys.getrefcount(records) == before


def test_a_refused_value_is_not_kept() -> None:
    value = object()
    header = ResponseHeader(value)  # type: ignore[arg-type]  # the types do not allow this
    before = sys.getrefcount(value)
    for _ in range(10):
        with pytest.raises(EncodeError):
            codec(ResponseHeader, 0, "native").encode(header)
    gc.collect()
    assert sys.getrefcount(value) == before


def test_buffers_are_locked_only_by_views() -> None:
    buffer = bytearray(DATA)
    message, _ = FETCH.decode(buffer)
    with pytest.raises(BufferError):
        buffer.clear()
    del message
    buffer.clear()
    buffer = bytearray(b"\0\0")
    with pytest.raises(DecodeError):
        FETCH.decode(buffer)
    buffer.clear()


def test_views_are_read_only_where_the_buffer_is() -> None:
    for buffer in (DATA, bytearray(DATA)):
        records = FETCH.decode(buffer)[0].responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert bytes(records) == b"abc"
        assert records.readonly == isinstance(buffer, bytes)
        assert records[1:].tobytes() == b"bc"
        assert hash(records) == hash(b"abc") if records.readonly else True


def test_numbers_agree_with_the_other_engines() -> None:
    assert codec(ResponseHeader, 0, "native").decode(b"\x80\0\0\1")[0].correlation_id == -(2**31) + 1
    topic = FetchRequest.FetchTopic(topic="x" * MAX_STRING_BYTES)
    request = FetchRequest(topics=[topic])
    assert codec(FetchRequest, 12, "native").encode(request) == codec(FetchRequest, 12, "python").encode(request)


@pytest.mark.parametrize("count", [127, 128, 300])
def test_more_unknown_tags_than_one_byte_counts(count: int) -> None:
    header = ResponseHeader(1, unknown_tags=tuple((tag, bytes(tag % 200)) for tag in range(count)))
    data = codec(ResponseHeader, 1, "native").encode(header)
    assert data == codec(ResponseHeader, 1, "construct").encode(header)
    assert codec(ResponseHeader, 1, "native").decode(data) == (header, len(data))


@pytest.mark.parametrize("size", [0, 127, 128, 20000])
def test_known_tagged_fields_of_any_size(size: int) -> None:
    request = FetchRequest(cluster_id="c" * size, unknown_tags=((2, b"two"), (9, b"nine")))
    data = codec(FetchRequest, 12, "native").encode(request)
    assert data == codec(FetchRequest, 12, "construct").encode(request)
    assert codec(FetchRequest, 12, "native").decode(data) == (request, len(data))


def test_a_half_filled_tuple_is_nowhere_to_be_seen() -> None:
    """The collector may run while elements are read; its list of tuples must not include the half-filled tuple."""
    topic = MetadataResponse.MetadataResponseTopic
    topics = [topic(name="t", partitions=[]) for _ in range(37)]
    messages = codec(MetadataResponse, 9, "native")
    data = messages.encode(MetadataResponse(topics=topics))
    seen: set[int] = set()

    def look(phase: str = "", info: object = None) -> None:
        seen.update(id(thing) for thing in gc.get_objects() if type(thing) is tuple and len(thing) == 37)

    look()
    others = seen.copy()

    threshold, callbacks = gc.get_threshold(), gc.callbacks[:]
    gc.callbacks[:] = [look]
    gc.set_threshold(1, 1000, 1000)
    try:
        kept = [messages.decode(data)[0] for _ in range(30)]
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*threshold)
    assert seen <= others
    assert not any(gc.is_tracked(message.topics) for message in kept)


def test_a_buffer_that_changes_while_it_is_decoded() -> None:
    """Malformed text is passed to Python code, so any other thread may run at that point."""
    topics = [MetadataResponse.MetadataResponseTopic(name="name", partitions=[]) for _ in range(3)]
    messages = codec(MetadataResponse, 9, "native")
    whole = messages.encode(MetadataResponse(topics=topics)).replace(b"name", b"nam\xff")
    replace = codecs.lookup_error(MALFORMED_UTF8)

    filler = data = bytearray(whole)
    meddled = 0

    def meddle(error: UnicodeError) -> Any:
        nonlocal meddled
        meddled += 1
        with pytest.raises(BufferError):
            data.clear()
        data[:] = filler
        return replace(error)

    codecs.register_error(MALFORMED_UTF8, meddle)
    try:
        for byte in range(256):
            data, filler = bytearray(whole), bytearray([byte]) * len(whole)
            with contextlib.suppress(DecodeError):
                assert messages.decode(data)[1] <= len(whole)
            data.clear()
    finally:
        codecs.register_error(MALFORMED_UTF8, replace)
    assert meddled >= 256


def test_unknown_tags_that_the_collector_takes_away() -> None:
    """A message may lose an object while it is written; here, code that the collector runs removes the object."""

    class Tags(list[Any]):
        """A list that does not come from CPython's free list."""

    header: Any = ResponseHeader()
    messages = codec(ResponseHeader, 1, "native")

    def take_away(phase: str, info: object) -> None:
        header.unknown_tags = ()

    threshold, callbacks = gc.get_threshold(), gc.callbacks[:]
    kept: list[list[Any]] = []
    gc.callbacks[:] = [take_away]
    try:
        for first in range(1, 30):
            gc.disable()
            header.unknown_tags = Tags([(5, b"content" * 9)])
            kept += [[] for _ in range(200)]
            gc.set_threshold(first, 1000, 1000)
            gc.enable()
            assert messages.decode(messages.encode(header))[1] in (5, 70)
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*threshold)
        gc.enable()


# These are values that their types do not allow.
AnyHeader: Any = ResponseHeader
AnyRequest: Any = FetchRequest


@pytest.mark.parametrize(
    "wrap",
    sampled(
        [
            lambda inner: AnyRequest(replica_state=inner),
            lambda inner: AnyHeader(inner),
            lambda inner: AnyHeader(0, [inner]),
            lambda inner: AnyRequest(topics=(AnyHeader({1: inner}),)),
        ],
        2,
    ),
)
def test_chains_of_any_length_are_freed(wrap: Any) -> None:
    marker = Marker()
    gone = weakref.ref(marker)
    message: Any = marker
    del marker
    for _ in range(1_000_000):
        message = wrap(message)
    assert gone() is not None
    del message
    assert gone() is None


def test_a_message_that_somebody_else_holds_stays() -> None:
    inner = ResponseHeader(5)
    outer = ResponseHeader(inner, (inner,))  # type: ignore[arg-type]  # the types do not allow this
    count = sys.getrefcount(inner)
    del outer
    assert sys.getrefcount(inner) == count - 2
    assert inner.correlation_id == 5


def test_attributes_copies_and_pickles() -> None:
    message = FETCH.decode(DATA)[0]
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
        assert type(other) is FetchResponse
    del message.session_id
    with pytest.raises(AttributeError):
        _ = message.session_id
    message.session_id = 4
    assert message.session_id == 4
    assert isinstance(message, Message)
    with pytest.raises(AttributeError):
        message.other = 1  # type: ignore[attr-defined]  # the types do not allow this


def test_a_structure_is_made_when_it_is_read() -> None:
    partition = FETCH.decode(DATA)[0].responses[0].partitions[0]
    leader = partition.current_leader
    assert leader == FetchResponse.LeaderIdAndEpoch()
    assert partition.current_leader is leader
    leader.leader_id = 5
    assert b"\0\0\0\5" in codec(FetchResponse, 12, "native").encode(
        FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
    )


def test_a_buffer_from_the_previous_message_does_not_stay() -> None:
    brokers = codec(MetadataResponse, 9, "native")
    many = MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(i, "h" * 30, 9092) for i in range(50_000)])
    assert len(brokers.encode(many)) > 2**20
    assert len(brokers.encode(MetadataResponse())) == layout_size(brokers.layout.cls)
    assert sys.getsizeof(brokers.encode(MetadataResponse())) < 100


def layout_size(cls: type[Message]) -> int:
    return len(codec(cls, layout(cls, 9).version, "construct").encode(cls()))
