"""Decoding takes time and memory in proportion to its input, whatever the bytes claim; docs/limits.md has the factors.

Method: decode the messages that take the most memory per byte, which a search of all layouts has found, at one size and
at twice that size. Measure memory with tracemalloc, and work by counting Python's instructions. Only ratios are
compared; nothing is timed.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.selection import ENGINES, native
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Message
from tests.needs import NATIVE_ENGINE
from tests.thorough import sampled

pytestmark = pytest.mark.usefixtures("frozen_heap")

AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
FAST = [engine for engine in AVAILABLE if engine != "construct"]

#: The peak memory per byte of the encoding, in bytes, as in docs/limits.md.
MEMORY_PER_BYTE = 64
#: The instructions needed to refuse cut bytes, relative to those to read whole ones; docs/limits.md allows five times
#: the time.
EXPLAINING = 3.2
#: The instructions needed to refuse a message, relative to those to write one without the wrong value.
REFUSING = 12.0


# ------------------------------------------------------------------------------------------------------------- memory


def least_bytes(structure: Layout) -> int:
    """Return the minimum size of a structure in bytes."""
    return sum(map(least_field_bytes, structure.fields)) + structure.flexible


def least_field_bytes(field: FieldLayout) -> int:
    if field.array:
        return 1 if field.compact else 4
    if field.structure is not None:
        return 1 if field.nullable else least_bytes(field.structure)
    if field.kind in FIXED:
        return FIXED[field.kind].size
    return 1 if field.compact else 2 if field.kind == "string" else 4


def arrays_of(structure: Layout) -> Iterator[FieldLayout]:
    for field in structure.fields + structure.tagged:
        if field.array:
            yield field
        if field.structure is not None:
            yield from arrays_of(field.structure)


def test_no_element_takes_less_than_a_byte() -> None:
    """A count above the number of bytes left is refused, which is right only if every element takes a byte or more."""
    for name in MODULES:
        cls = message_class(name)
        for version in cls.SCHEMA.known_versions.numbers():
            for field in arrays_of(layout(cls, version)):
                if field.structure is not None:
                    assert least_bytes(field.structure) >= 2, (name, version, field.name)


def many_partitions(count: int) -> Message:
    partitions = [ProduceRequest.PartitionProduceData(300 + index, b"") for index in range(count)]
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=partitions)])


def many_topics(count: int) -> Message:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="") for _ in range(count)])


def many_tags(count: int) -> Message:
    return ResponseHeader(unknown_tags=tuple((1000 + tag, b"") for tag in range(count)))


def many_replicas(count: int) -> Message:
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=tuple(range(1000, 1000 + count)))
    return MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])])


LARGE: list[tuple[Callable[[int], Message], int]] = [
    (many_partitions, 13),
    (many_topics, 9),
    (many_tags, 1),
    (many_replicas, 12),
]


def peak(run: Callable[[], object]) -> int:
    """Return the peak memory of a call."""
    gc.collect()  # empties the free lists, whose memory would otherwise not be counted
    tracemalloc.start()
    try:
        kept = run()
        highest = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    return highest


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("make", "version"), sampled(LARGE, 2))
def test_memory_of_decoding(engine: str, make: Callable[[int], Message], version: int) -> None:
    count = 400 if engine == "construct" else 4000
    peaks = []
    for size in (count, 2 * count):
        message = make(size)
        messages = program(type(message), version, engine)
        data = program(type(message), version).encode(message)
        messages.decode(data)
        peaks.append(peak(partial(messages.decode, data)))
        assert peaks[-1] <= MEMORY_PER_BYTE * len(data)
    assert peaks[1] <= 2.5 * peaks[0]


#: An element count followed by bytes that are not elements, for topics and then for their contents.
CLAIMS = [
    (MetadataRequest, 9, "{count:varint}"),
    (MetadataRequest, 8, "{count:int32}"),
    (MetadataResponse, 12, "00000000 01 00 00000000 {count:varint}"),
    (ProduceRequest, 9, "00 0001 00000001 {count:varint}"),
]


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("cls", "version", "start"), CLAIMS)
@pytest.mark.parametrize("filling", sampled([b"\x00", b"\x01", b"\x7f", b"\xff"], 4))
def test_memory_of_what_is_only_claimed(
    engine: str, cls: type[Message], version: int, start: str, filling: bytes
) -> None:
    for size in (5_000,) if engine == "construct" else (20_000, 40_000):
        count = (size - 20).to_bytes(4, "big").hex()
        varint = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]).hex()
        data = bytes.fromhex(start.replace("{count:varint}", varint).replace("{count:int32}", count)) + filling * size

        def read(data: bytes = data) -> None:
            try:
                program(cls, version, engine).decode(data)
            except DecodeError:
                return

        read()
        assert peak(read) <= MEMORY_PER_BYTE * len(data)


# --------------------------------------------------------------------------------------------------------------- work


def instructions(run: Callable[[], object]) -> int:
    """Return the number of Python instructions that a call runs, after a first call to warm up."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace = trace  # without this, Python 3.13 does not trace the rest of a new frame
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()  # otherwise, finalizers of garbage from earlier tests would be counted
    sys.settrace(trace)
    try:
        run()
    except (DecodeError, EncodeError):
        pass
    finally:
        sys.settrace(before)
        gc.enable()
    return count


BROKER = MetadataResponse.MetadataResponseBroker


def brokers(count: int) -> MetadataResponse:
    return MetadataResponse(brokers=[BROKER(node, f"host-{node}", 9092, "rack") for node in range(count)])


DAMAGED: list[tuple[Callable[[int], Message], int]] = [*LARGE, (brokers, 12), (brokers, 1)]


def work_of_decoding(engine: str, message: Message, version: int) -> tuple[int, int]:
    """Return the numbers of instructions needed to read a message and to refuse it without its last byte."""
    messages = program(type(message), version, engine)
    data = messages.encode(message)
    instructions(lambda: messages.decode(data[:-1]))  # the first call fills the caches
    return instructions(lambda: messages.decode(data)), instructions(lambda: messages.decode(data[:-1]))


@pytest.mark.parametrize(("make", "version"), DAMAGED)
def test_work_of_explaining_damaged_bytes(make: Callable[[int], Message], version: int) -> None:
    reading, refusing = work_of_decoding("python", make(100), version)
    # The constant covers finding and raising the error, which does not grow with the message.
    assert refusing <= EXPLAINING * reading + 1000
    assert work_of_decoding("python", make(200), version)[1] <= 2.1 * refusing


@NATIVE_ENGINE.mark
@pytest.mark.parametrize(("make", "version"), DAMAGED)
def test_the_native_engine_explains_damaged_bytes_by_itself(make: Callable[[int], Message], version: int) -> None:
    once, twice = (work_of_decoding("native", make(size), version)[1] for size in (100, 200))
    assert twice <= once + 20


@pytest.mark.parametrize("engine", FAST)
def test_work_of_refusing_a_value(engine: str) -> None:
    counts = []
    for size in (100, 200):
        response = brokers(size)
        writing = instructions(partial(program(MetadataResponse, 12, "python").encode, response))
        response.brokers[-1].node_id = "x"  # type: ignore[assignment]  # the point
        counts.append(instructions(partial(program(MetadataResponse, 12, engine).encode, response)))
        assert counts[-1] <= REFUSING * writing
    assert counts[1] <= 2.1 * counts[0]
