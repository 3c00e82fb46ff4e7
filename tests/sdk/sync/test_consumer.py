"""A blocking consumer takes part in its group and returns every record once, however the application reads.

Method: run the consumer on its I/O thread against a scripted in-memory broker, whose responses tell the test when to go
on; nothing sleeps. Work that must continue while the application is busy is tested with both the blocking and the
asyncio consumer.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import kafkawire
from kafkawire import Record, TopicPartition
from kafkawire.errors import Closed, DeserializationFailed, LocalProtocolError, NoOffset
from kafkawire.sdk.consumer.listener import BlockingListenerCalls
from kafkawire.sdk.groups.protocol import Assigned, Revoking
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sync import Consumer
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 2,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 1,
}
COUNT = 100


def filled() -> StoringBroker:
    """Return a broker with 100 records in two partitions, in batches of different sizes."""
    broker = StoringBroker({"t": 2})
    for partition in (0, 1):
        left, size = COUNT // 2, 1
        while left:
            broker.fill("t", *[b"x"] * min(size, left), partition=partition)
            left -= min(size, left)
            size = size % 7 + 1
    return broker


def consumer_of(broker: StoringBroker, *topics: str, **options: Any) -> Consumer:
    return Consumer(str(BROKER), *topics, network=broker.network, **{**QUICK, **options})


EVERYTHING = [(partition, offset) for partition in (0, 1) for offset in range(COUNT // 2)]


def by_record(consumer: Consumer) -> Iterator[list[Record]]:
    for record in consumer:
        yield [record]


def by_batch(consumer: Consumer) -> Iterator[list[Record]]:
    for batch in consumer.batches():
        yield list(batch)


def by_many(consumer: Consumer) -> Iterator[list[Record]]:
    while True:
        yield [record for records in consumer.getmany(60_000, 7).values() for record in records]


def by_batches(consumer: Consumer) -> Iterator[list[Record]]:
    while True:
        yield [record for batch in consumer.getbatches(1_000, 3) for record in batch]


def by_bound(consumer: Consumer) -> Iterator[list[Record]]:
    while True:
        yield list(consumer.records(until={T0: 20, T1: 0}))
        yield list(consumer.records(stop_at_end=True))


WAYS: list[Callable[[Consumer], Iterator[list[Record]]]] = [by_record, by_batch, by_many, by_batches, by_bound]


@pytest.mark.parametrize("way", WAYS)
def test_every_record_once(way: Callable[[Consumer], Iterator[list[Record]]]) -> None:
    found: list[tuple[int, int]] = []
    with consumer_of(filled(), "t") as consumer:
        for records in way(consumer):
            found.extend((record.partition, record.offset) for record in records)
            if len(found) >= COUNT:
                break
        assert consumer.position(T0) == consumer.position(T1) == COUNT // 2
        assert consumer.getmany(1) == {}
        assert consumer.getbatches() == []
    assert sorted(found) == EVERYTHING


def test_a_bounded_read_that_is_closed_early_leaves_no_bounds() -> None:
    with consumer_of(filled()) as consumer:
        consumer.assign([T0])
        records = consumer.records(until={T0: 20})
        assert next(records).offset == 0
        records.close()
        assert [record.offset for record in consumer.records(until={T0: 30})] == list(range(1, 30))


def test_an_error_ends_a_bounded_read_even_if_it_is_kept() -> None:
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"0", b"one", b"2")
    with consumer_of(broker, "t", value_deserializer=int) as consumer:
        bounded = consumer.records(stop_at_end=True)
        assert next(bounded).value == 0
        with pytest.raises(DeserializationFailed) as kept:
            next(bounded)
        consumer.seek(T0, kept.value.offset + 1)
        assert list(bounded) == []
        assert [record.value for record in consumer.records(stop_at_end=True)] == [2]
        broker.fill("t", b"3")
        assert [record.value for record in consumer.getmany(10_000)[T0]] == [3]


def test_positions_and_look_ups() -> None:
    with consumer_of(filled(), group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        assert consumer.assignment == {T0}
        assert consumer.position(T0) == 0
        assert consumer.partitions_for("t") == [T0, T1]
        assert consumer.beginning_offsets([T0]) == {T0: 0}
        assert consumer.end_offsets([T0]) == {T0: COUNT // 2}
        assert consumer.offsets_for_times({T0: 5})[T0] is not None
        assert consumer.committed(T0) == {}
        assert next(iter(consumer)).offset == 0
        consumer.commit()
        assert consumer.committed(T0)[T0].offset == 1
        consumer.commit({T0: 9}, timeout_ms=5_000)
        assert consumer.committed(T0)[T0].offset == 9
        consumer.seek(T0, 30)
        consumer.pause(T0)
        assert consumer.getmany(1) == {}
        consumer.resume(T0)
        assert next(iter(consumer)).offset == 30
        consumer.seek_to_beginning()
        assert consumer.position(T0) == 0
        consumer.seek_to_end(T0)
        assert consumer.position(T0) == COUNT // 2
        assert consumer.lag(T0) == 0
        consumer.seek_to_time(3, T0)
        assert consumer.position(T0) == 0
    with pytest.raises(Closed):
        consumer.getmany()
    with pytest.raises(Closed):
        iter(consumer)
    consumer.close()


def test_subscribing_later() -> None:
    with consumer_of(filled()) as consumer:
        consumer.subscribe("t")
        found = 0
        while found < COUNT:
            found += sum(map(len, consumer.getmany(60_000).values()))
        assert found == COUNT


def test_errors_of_reads() -> None:
    with consumer_of(filled(), group_id="g", auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        with pytest.raises(NoOffset):
            next(iter(consumer))
        consumer.seek(T0, 3)
        assert next(iter(consumer)).offset == 3


def test_threads_share_the_records() -> None:
    found: list[tuple[int, int]] = []
    everything = threading.Event()
    with consumer_of(filled(), "t") as consumer:

        def read() -> None:
            for record in consumer:
                found.append((record.partition, record.offset))
                if len(found) == COUNT:
                    everything.set()

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        assert everything.wait(10)
        consumer.close()
        for reader in readers:
            reader.join(10)
            assert not reader.is_alive(), "close must end the iterations of other threads"
    assert sorted(found) == EVERYTHING


def test_what_a_block_has_finished_is_committed_unless_it_fails() -> None:
    broker = filled()
    with consumer_of(broker, group_id="g") as consumer:
        consumer.assign([T0])
        consumer.getmany(60_000, 10)
    assert broker.commits["g", "t", 0] == 10

    def fail(consumer: Consumer) -> None:
        consumer.assign([T0])
        consumer.getmany(60_000, 10)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), consumer_of(broker, group_id="g") as consumer:
        fail(consumer)
    assert broker.commits["g", "t", 0] == 10


# Work that continues while the application is busy.


def beating(broker: StoringBroker, wanted: int) -> threading.Event:
    """Return an event that is set after this many heartbeats."""
    enough = threading.Event()
    left = [wanted]

    def beat(request: object) -> HeartbeatResponse:
        left[0] -= 1
        if left[0] == 0:
            enough.set()
        return HeartbeatResponse()

    broker.responders[ApiKey.HEARTBEAT] = beat
    return enough


def fetching(broker: StoringBroker, offset: int) -> threading.Event:
    """Return an event that is set when partition 0 is fetched from the given offset or beyond."""
    reached = threading.Event()
    usual = broker.responders[ApiKey.FETCH]

    def fetch(request: Any) -> Any:
        for topic in request.message.topics:
            if any(each.partition == 0 and each.fetch_offset >= offset for each in topic.partitions):
                reached.set()
        return usual(request)

    broker.responders[ApiKey.FETCH] = fetch
    return reached


GROUP: dict[str, Any] = {"group_id": "g", "heartbeat_interval_ms": 5, "assignors": "range"}


def test_heartbeats_and_fetches_go_on_while_the_application_is_busy() -> None:
    broker = filled()
    beats, ahead = beating(broker, 5), fetching(broker, COUNT // 2)
    with consumer_of(broker, "t", **GROUP, auto_commit_interval_ms=5) as consumer:
        next(iter(consumer))
        assert ahead.wait(10), "everything must have been fetched"
        assert beats.wait(10)


def test_heartbeats_and_fetches_go_on_while_the_event_loop_is_blocked() -> None:
    broker = filled()

    async def run() -> None:
        given = {**QUICK, **GROUP}
        async with kafkawire.Consumer(str(BROKER), "t", network=broker.network, io="thread", **given) as consumer:
            async for _ in consumer:
                assert fetching(broker, COUNT // 2).wait(10)
                assert beating(broker, 5).wait(10)
                return

    asyncio.run(run())


class Listener:
    """A listener that records its calls and their threads; `on` holds the actions to take."""

    def __init__(self, **on: Callable[[], object]) -> None:
        self.told: list[tuple[str, int]] = []
        self.on = on

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("assigned")

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("revoked")

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("lost")

    def _note(self, what: str) -> None:
        self.told.append((what, threading.get_ident()))
        self.on.get(what, lambda: None)()


@pytest.mark.parametrize("way", WAYS)
def test_the_listener_is_called_by_the_thread_that_reads(way: Callable[[Consumer], Iterator[list[Record]]]) -> None:
    """A seek in the listener takes effect before the first record; a commit works while the consumer is closing."""
    broker = filled()
    listener = Listener(
        assigned=lambda: consumer.seek(T0, 40),
        revoked=lambda: consumer.commit({T0: 45}),
    )
    with consumer_of(broker, "t", listener=listener, enable_auto_commit=False, **GROUP) as consumer:
        first = [record.offset for record in next(filter(None, way(consumer))) if record.partition == 0]
        assert not first or first[0] == 40 or way is by_bound
        assert listener.told == [("assigned", threading.get_ident())]
    assert listener.told[1:] == [("revoked", threading.get_ident())]
    assert broker.commits["g", "t", 0] == 45


def test_the_listener_is_called_before_each_read_and_each_wait() -> None:
    """This is true even if there is always something to read, and even if the wait is not for a record."""
    listener = Listener()
    inner: Any = Consumer("broker:9092")._inner
    inner._calls = BlockingListenerCalls(listener, Mock(), Mock())
    inner._calls.notify(Assigned(frozenset({T0}), 1))
    assert inner._read(Mock(), lambda: len(listener.told)) == 1
    inner._calls.notify(Revoking(frozenset({T0}), 1))
    kept: Promise[None] = Promise()
    kept.keep(None)
    core = Mock()
    core.queue.wait.return_value = kept
    assert result_of(inner._woken, core, None)
    assert [what for what, _ in listener.told] == ["assigned", "revoked"]


def test_a_listener_is_called_again_after_the_group_has_lost_the_member() -> None:
    broker = filled()
    listener = Listener()
    with consumer_of(broker, "t", listener=listener, **GROUP) as consumer:
        records = iter(consumer)
        next(records)
        failing = [HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)]
        broker.script(ApiKey.HEARTBEAT, lambda request: failing.pop())
        while len(listener.told) < 3:
            next(records)
            consumer.seek_to_beginning()
    assert [what for what, _ in listener.told[:3]] == ["assigned", "lost", "assigned"]


def test_what_a_listener_raises_is_raised_by_reads() -> None:
    def fail() -> None:
        raise ZeroDivisionError("of the application")

    listener = Listener(assigned=fail)
    with consumer_of(filled(), "t", listener=listener, **GROUP) as consumer:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match="of the application"):
                consumer.getmany(10_000)


def test_coroutine_functions_are_no_listeners_here() -> None:
    class Awaiting(Listener):
        async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:  # type: ignore[override]  # wrong
            raise AssertionError

    with (
        consumer_of(filled(), "t", listener=Awaiting(), **GROUP) as consumer,
        pytest.raises(LocalProtocolError, match=r"Awaiting\.on_assigned is a coroutine function"),
    ):
        consumer.getmany(10_000)


def test_a_fork_is_told_to_make_its_own() -> None:
    with consumer_of(filled(), "t") as consumer:
        records = iter(consumer)
        next(records)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            told = []
            reads: list[Callable[[], object]] = [
                lambda: next(consumer.batches(), None),
                consumer.getmany,
                consumer.getbatches,
                lambda: next(records),
            ]
            for read in reads:
                try:
                    told.append(repr(read()))
                except BaseException as error:
                    told.append(str(error))
            consumer.close()
            os.write(writing, "\n".join(told).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            told = pipe.read().splitlines()
        os.waitpid(child, 0)
        assert len(told) == 4
        assert all("create one in the child" in each for each in told), told
        assert next(records) is not None
