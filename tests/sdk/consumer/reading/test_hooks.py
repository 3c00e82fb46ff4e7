"""Deserializers and interceptors see each record once, when it is handed out; no record is lost if they raise.

Method: run the asyncio and the blocking consumer against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkawire import Consumer, ConsumerInterceptor, OffsetAndMetadata, Record, TopicPartition, sync
from kafkawire.errors import DeserializationFailed, LocalProtocolError
from kafkawire.records import BatchBuilder
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 1}
BAD = 3


def filled() -> StoringBroker:
    """Return a broker with numbers 0 to 9 in partition 0, one of which is unreadable, and 10 to 14 in partition 1."""
    broker = StoringBroker({"t": 2})
    broker.fill("t", *[b"x" if number == BAD else b"%d" % number for number in range(10)])
    broker.fill("t", *[b"%d" % number for number in range(10, 15)], partition=1)
    return broker


def consumer_of(broker: StoringBroker, *topics: str, **options: Any) -> sync.Consumer[bytes, int]:
    return sync.Consumer(str(BROKER), *topics, network=broker.network, value_deserializer=int, **{**QUICK, **options})


READS: dict[str, Callable[[sync.Consumer[bytes, int]], list[Record[bytes, int]]]] = {
    "iteration": lambda consumer: [next(iter(consumer))],
    "records": lambda consumer: [next(consumer.records())],
    "getmany": lambda consumer: [each for found in consumer.getmany(60_000, 4).values() for each in found],
}


def read_until_it_fails(consumer: sync.Consumer[bytes, int], way: str) -> None:
    while True:
        READS[way](consumer)


@pytest.mark.parametrize("way", READS)
def test_a_record_that_cannot_be_read_stops_its_partition_alone(way: str) -> None:
    with consumer_of(filled(), "t") as consumer:
        values: list[int | None] = []
        failures = []
        while len(values) < BAD + 5:
            try:
                values += [record.value for record in READS[way](consumer)]
            except DeserializationFailed as error:
                failures.append(error)
        (failure,) = failures
        assert (failure.topic, failure.partition, failure.offset, failure.what) == ("t", 0, BAD, "value")
        assert (failure.key, failure.value, failure.headers) == (None, b"x", ())
        assert failure.timestamp_ms > 0
        assert str(failure).startswith("the value of the record at offset 3 of t-0: ValueError(")
        assert isinstance(failure.__cause__, ValueError)
        assert consumer.position(T0) == BAD
        assert sorted(value for value in values if value is not None) == [0, 1, 2, 10, 11, 12, 13, 14]
        assert consumer.getmany(1) == {}
        consumer.resume(T0)  # then try again
        with pytest.raises(DeserializationFailed):
            read_until_it_fails(consumer, way)
        consumer.skip(failure)
        rest: list[int | None] = []
        while len(rest) < 10 - BAD - 1:
            rest += [record.value for record in READS[way](consumer)]
        assert rest == list(range(BAD + 1, 10))


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
@pytest.mark.parametrize("face", ["asyncio", "sync"])
@pytest.mark.parametrize("hook", ["deserializer", "interceptor"])
@pytest.mark.parametrize("finishes", [True, False])
def test_a_hook_that_is_cancelled_in_the_middle_loses_nothing(
    hook: str, face: str, error: type[BaseException], finishes: bool
) -> None:
    """The hook is cancelled in the second of three batches; nothing before it is lost, and everything comes again."""
    broker = StoringBroker({"t": 1})
    for numbers in ((0, 1, 2), (3, 4, 5, 6), (7, 8, 9)):
        broker.fill("t", *[b"%d" % number for number in numbers])
    left = [error()]

    def cancelled_once(value: bytes) -> int:
        if value == b"5" and left:
            raise left.pop()
        return int(value)

    class Cancelled(ConsumerInterceptor[bytes, bytes]):
        def on_consume(self, record: Record) -> Record:
            assert record.value is not None
            cancelled_once(record.value)
            return record

    hooks: dict[str, Any] = {"value_deserializer": cancelled_once} if hook == "deserializer" else {}
    hooks |= {"interceptors": [Cancelled()]} if hook == "interceptor" else {}
    group = {"group_id": "g", "enable_auto_commit": False, "enable_auto_finish": finishes}
    options = {**QUICK, **hooks, **group, "network": broker.network}

    def offsets(found: Mapping[TopicPartition, list[Record[Any, Any]]]) -> list[int]:
        return [record.offset for record in found.get(T0, ())]

    def read() -> list[int]:
        with sync.Consumer(str(BROKER), "t", **options) as consumer:
            assert offsets(consumer.getmany(60_000, 1)) == [0]
            with pytest.raises(error):
                consumer.getmany(60_000)
            found: list[int] = []
            while not found or found[-1] < 9:
                found += offsets(consumer.getmany(60_000))
            return found

    async def read_with_asyncio() -> list[int]:
        async with Consumer(str(BROKER), "t", **options) as consumer:
            assert offsets(await consumer.getmany(60_000, 1)) == [0]
            with pytest.raises(error):
                await consumer.getmany(60_000)
            assert await consumer.position(T0) == 1
            found: list[int] = []
            while not found or found[-1] < 9:
                found += offsets(await consumer.getmany(60_000))
            return found

    found = read() if face == "sync" else asyncio.run(read_with_asyncio())
    again = [0] if face == "sync" and not finishes else []  # an interrupted read returns to the unfinished records
    assert found == [*again, *range(1, 10)]


@pytest.mark.parametrize("finishes", [True, False])
def test_a_dead_letter_keeps_everything_and_reading_goes_on_behind_it(finishes: bool) -> None:
    """Records that were handed out before the dead letter but not finished are not committed."""
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"0", b"1")
    builder = BatchBuilder()
    builder.append(77, b"\xff", b"x", (("h", b"\xfe"),))
    broker.store(builder.seal(), "t", 0)
    broker.fill("t", b"3")
    options = {"group_id": "g", "enable_auto_commit": False, "enable_auto_finish": finishes}
    with consumer_of(broker, "t", **options) as consumer:
        handed_out = consumer.getmany(60_000)[T0]
        with pytest.raises(DeserializationFailed) as caught:
            consumer.getmany(60_000)
        assert str(caught.value).endswith("not read until skip(error), resume(partition) or seek")
        error = pickle.loads(pickle.dumps(caught.value))
        assert str(error) == str(caught.value)
        stopped = consumer.health().stopped[T0]
        assert isinstance(stopped, DeserializationFailed)
        assert str(stopped) == str(caught.value)
        assert (error.key, error.value, error.headers, error.timestamp_ms) == (b"\xff", b"x", (("h", b"\xfe"),), 77)
        consumer.skip(error)
        consumer.commit()
        assert broker.commits.get(("g", "t", 0)) == (3 if finishes else 0)
        handed_out += consumer.getmany(60_000)[T0]
        assert [record.value for record in handed_out] == [0, 1, 3]
        assert all(isinstance(record, Record) for record in handed_out)
        consumer.skip(error)  # has no effect, because the position has moved on
        assert consumer.position(T0) == 4
        if not finishes:
            consumer.finish(*handed_out)
        consumer.commit()
        assert broker.commits["g", "t", 0] == 4
        with pytest.raises(LocalProtocolError, match="skip: expected a DeserializationFailed, got 7"):
            consumer.skip(7)  # type: ignore[arg-type]  # wrong on purpose


def test_the_records_before_it_can_be_committed() -> None:
    broker = filled()
    with consumer_of(broker, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        assert [record.value for record in consumer.getmany(60_000)[T0]] == [0, 1, 2]
        with pytest.raises(DeserializationFailed):
            consumer.getmany(60_000)
        consumer.commit()
    assert broker.commits["g", "t", 0] == BAD


def test_with_asyncio() -> None:
    async def run() -> list[int | None]:
        broker = filled()
        async with Consumer(str(BROKER), network=broker.network, value_deserializer=int, **QUICK) as consumer:
            consumer.assign([T0, T1])
            found = []
            try:
                async for record in consumer:
                    found.append(record.value)
            except DeserializationFailed:
                consumer.seek(T0, 8)
            while len(found) < 10:
                found += [record.value for each in (await consumer.getmany(60_000)).values() for record in each]
            return found

    assert sorted(value for value in asyncio.run(run()) if value is not None) == [0, 1, 2, 8, 9, 10, 11, 12, 13, 14]


def test_nothing_is_called_for_what_is_not_there() -> None:
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"")

    def never(key: bytes) -> str:
        raise AssertionError(key)

    with sync.Consumer(
        str(BROKER), "t", network=broker.network, key_deserializer=never, value_deserializer=bytes.decode, **QUICK
    ) as consumer:
        record = next(iter(consumer))
        assert (record.key, record.value) == (None, "")
        for copied in (copy.copy(record), pickle.loads(pickle.dumps(record))):
            assert copied == record


def test_batches_are_as_they_were_sent() -> None:
    with consumer_of(filled(), "t") as consumer:
        batch = next(consumer.batches())
        assert all(isinstance(record.value, bytes) for record in batch)


class Interceptor(ConsumerInterceptor[bytes, bytes]):
    """An interceptor that notes the records and commits that it sees, and raises errors."""

    def __init__(self, error: BaseException) -> None:
        self.seen: list[int] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.error = error

    def on_consume(self, record: Record) -> Record:
        self.seen.append(record.offset)
        if record.offset == BAD:
            raise ZeroDivisionError
        return record

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append({partition: offset.offset for partition, offset in offsets.items()})
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError(), GeneratorExit()])
def test_interceptors(caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    class Marking(ConsumerInterceptor[bytes, bytes]):
        def on_consume(self, record: Record) -> Record:
            return Record(record.offset, record.timestamp_ms, b"marked", record.value)

    first = Interceptor(error)
    broker = filled()
    with (
        caplog.at_level(logging.ERROR),
        sync.Consumer(
            str(BROKER), network=broker.network, group_id="g", interceptors=[first, Marking()], **QUICK
        ) as consumer,
    ):
        consumer.assign([T0])
        found = consumer.getmany(60_000)[T0]
        assert [record.offset for record in found] == first.seen == list(range(10))
        assert {record.key for record in found} == {b"marked"}
        consumer.commit()
        assert first.commits == [{T0: 10}]
    assert broker.commits["g", "t", 0] == 10
    raised = [record.getMessage() for record in caplog.records if record.exc_info]
    assert raised == ["Interceptor.on_consume raised", "Interceptor.on_commit raised"]
