"""Every record after the consumer's position is read once, despite seeks, commits, faults and restarts.

Calls that need not wait return immediately. Method: run the whole consumer, even before it is started, against a
scripted in-memory broker that keeps batches and fails on demand.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.health import WaitsFor
from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConfigurationError,
    ConnectFailed,
    DecodeError,
    LocalProtocolError,
    NoOffset,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.transport.fork import Forked
from tests.sdk.consumer.consuming import QUICK, T, consuming, core_of, read, values
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_records_one_after_the_other() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        records = await read(consumer, 30)
        assert [record.value for record in records] == values(30)
        assert [record.offset for record in records] == list(range(30))
        assert {(record.topic, record.partition) for record in records} == {T}

    consuming(test)


@pytest.mark.parametrize(("max_batches", "sizes"), [(None, [10, 10]), (1, [10]), (3, [10, 10, 10])])
def test_a_list_of_batches_has_as_many_records_as_a_list_of_records(max_batches: int | None, sizes: list[int]) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [len(batch) for batch in await consumer.getbatches(1000, max_batches)] == sizes

    consuming(test, max_poll_records=15)


def test_every_way_of_reading_continues_where_the_last_one_stopped() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [record.value for record in await read(consumer, 3)] == values(3)
        assert await consumer.position(T) == 3
        got = await consumer.getmany(1000, 4)
        assert [record.value for record in got[T]] == values(4, 3)
        assert await consumer.position(T) == 7
        assert [record.value for record in await read(consumer, 3)] == values(3, 7)
        async for batch in consumer.batches():
            assert [record.value for record in batch] == values(10, 10)
            assert await consumer.position(T) == 20
            break
        got = await consumer.getmany(1000)
        assert [record.value for record in got[T]] == values(10, 20)

    consuming(test)


def test_new_records_are_waited_for() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 30)
        assert await consumer.getmany(10) == {}
        assert consumer._core is not None
        assert not consumer._core.queue.is_awaited, "a read that has ended must not wait any longer"
        waiting = asyncio.ensure_future(read(consumer, 1))
        await asyncio.sleep(0)
        broker.fill("t", b"new")
        assert [record.value for record in await waiting] == [b"new"]

    consuming(test)


def test_latest_begins_after_the_last_record() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert await consumer.position(T) == 30

    consuming(test, auto_offset_reset="latest")


def test_none_raises() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(NoOffset, match="t-0 has no committed offset, and auto_offset_reset is none"):
            await read(consumer, 1)
        assert consumer.health().stopped.keys() == {T}
        consumer.seek(T, 28)
        consumer.resume(T)
        assert consumer.health().stopped == {}
        assert [record.value for record in await read(consumer, 2)] == values(2, 28)

    consuming(test, auto_offset_reset="none")


def test_all_partitions_are_read_without_a_group() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        for number in range(4):
            broker.fill("m", b"%d" % number, partition=number)
        assert consumer.assignment == {TopicPartition("m", number) for number in range(4)}
        assert sorted(record.value or b"" for record in await read(consumer, 4)) == [b"0", b"1", b"2", b"3"]

    consuming(test, "m")


def test_seek() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 5)
        consumer.seek(T, 17)
        assert [record.value for record in await read(consumer, 2)] == values(2, 17)
        consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 2)] == values(2)
        consumer.seek_to_end(T)
        assert await consumer.position(T) == 30
        with pytest.raises(LocalProtocolError, match="expected 0 to"):
            consumer.seek(T, -1)
        with pytest.raises(LocalProtocolError, match="x-0 is not assigned"):
            consumer.seek(TopicPartition("x", 0), 1)

    consuming(test)


def test_seek_inside_the_loop() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 4 and len(seen) < 8:
                consumer.seek(T, 2)
            if len(seen) == 10:
                break
        assert seen == [0, 1, 2, 3, 4, 2, 3, 4, 5, 6]

    consuming(test)


def test_pause_and_resume() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.pause(T)
        assert await consumer.getmany(20) == {}
        consumer.resume(T)
        assert len((await consumer.getmany(1000))[T]) == 30

    consuming(test)


def test_calls_without_arguments_are_about_all_assigned_partitions_or_refused() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        partitions = {TopicPartition("m", number) for number in range(4)}
        consumer.pause()
        assert consumer.paused == consumer.assignment == partitions
        consumer.resume([])
        assert consumer.paused == partitions
        consumer.resume()
        assert consumer.paused == frozenset()
        consumer.pause([])
        assert consumer.paused == frozenset()
        assert (await consumer.end_offsets()).keys() == (await consumer.beginning_offsets()).keys() == partitions
        assert await consumer.end_offsets([]) == {}
        await consumer.commit({TopicPartition("m", 1): 3})
        assert (await consumer.committed()).keys() == {TopicPartition("m", 1)}
        assert await consumer.committed([]) == {}
        consumer.finish([])
        with pytest.raises(LocalProtocolError, match="finish: expected records or batches; an empty list"):
            consumer.finish()
        with pytest.raises(LocalProtocolError, match="assign: expected partitions"):
            consumer.assign()

    async def run() -> None:
        broker = StoringBroker({"m": 4})
        options = {**QUICK, "group_id": "g", "enable_auto_commit": False, "enable_auto_finish": False}
        async with Consumer(str(BROKER), network=broker.network, **options) as consumer:
            consumer.assign([TopicPartition("m", number) for number in range(4)])
            await test(broker, consumer)

    asyncio.run(run())


def test_a_denied_position_is_raised_by_each_call_and_found_after_the_grant(time_skips: None) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        usual = broker.responders[ApiKey.LIST_OFFSETS]
        data = ListOffsetsResponse.ListOffsetsPartitionResponse(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        denied = ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", [data])])
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: denied
        consumer.seek_to_beginning()
        for _ in range(3):
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: offset of t-0"):
                await consumer.position(T)
        health = consumer.health()
        assert (health.waits_for, health.partitions, health.stopped) == (WaitsFor.ACCESS, {T: WaitsFor.ACCESS}, {})
        assert str(health.error) == "TOPIC_AUTHORIZATION_FAILED: offset of t-0"
        broker.responders[ApiKey.LIST_OFFSETS] = usual
        assert await consumer.position(T) == 0
        assert consumer.health().error is None

    consuming(test)


def test_assign() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.fill("t", *values(3), partition=1)
        async with Consumer(str(BROKER), network=broker.network, **QUICK) as consumer:
            consumer.assign([TopicPartition("t", 1)])
            assert [record.value for record in await read(consumer, 3)] == values(3)
            with pytest.raises(LocalProtocolError, match="committed offsets belong to a group"):
                await consumer.commit()
            with pytest.raises(LocalProtocolError, match="uses assign"):
                await consumer.subscribe("t")

    asyncio.run(run())


def test_assign_beside_topics() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(LocalProtocolError, match="subscribes to topics"):
            consumer.assign([T])

    consuming(test)


def test_offsets() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert await consumer.beginning_offsets([T]) == {T: 0}
        assert await consumer.end_offsets([T]) == {T: 30}
        for time in 5, datetime(1970, 1, 2, tzinfo=UTC):
            assert await consumer.offsets_for_times({T: time}) == {T: OffsetAndTimestamp(0, -1)}
        with pytest.raises(LocalProtocolError, match="expected 1970 or later"):
            await consumer.offsets_for_times({T: -1})

    consuming(test)


def test_the_next_fetch_is_sent_while_records_wait_for_the_application() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        while len(broker.asked(ApiKey.FETCH)) < 2:
            await asyncio.sleep(0)
        first, second, *_ = broker.asked(ApiKey.FETCH)
        assert isinstance(first, FetchRequest)
        assert isinstance(second, FetchRequest)
        assert [each.topics[0].partitions[0].fetch_offset for each in (first, second)] == [0, 30]

    consuming(test)


def test_a_pattern_without_a_group() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await consumer.subscribe(pattern="n.*")
        assert await consumer.getmany(20) == {}
        broker.topics |= {"new": 1, "other": 1}
        broker.fill("new", b"first")
        broker.fill("other", b"not this")
        assert [record.value for record in await read(consumer, 1)] == [b"first"]
        assert consumer.assignment == {TopicPartition("new", 0)}
        await consumer.subscribe("t")
        assert [record.value for record in await read(consumer, 1)] == values(1)
        with pytest.raises(ConfigurationError, match="expected topic names or a pattern"):
            await consumer.subscribe("t", pattern="n.*")

    consuming(test, metadata_max_age_ms=100)


# Faults.


def test_a_broker_that_restarts_while_records_are_read() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [record.value for record in await read(consumer, 30)] == values(30)
        broker.stop()
        broker.fill("t", *values(10, 30))
        await asyncio.sleep(0)
        broker.start()
        assert [record.value for record in await read(consumer, 10)] == values(10, 30)

    consuming(test)


def test_passing_errors_are_retried() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [record.value for record in await read(consumer, 30)] == values(30)

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", *values(30))
        broker.script(ApiKey.FETCH, *[fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 3)
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer:
            await test(broker, consumer)

    asyncio.run(run())


def fetched(code: ErrorCode, records: bytes | None = None) -> Callable[[Request], FetchResponse]:
    """Answer a fetch with an error, or bytes, for each partition."""

    def respond(request: Request) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(
                    topic.topic,
                    topic.topic_id,
                    [FetchResponse.PartitionData(each.partition, code, records=records) for each in topic.partitions],
                )
                for topic in request.message.topics
            ]
        )

    return respond


def test_lasting_errors_are_raised_by_the_read() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.script(ApiKey.FETCH, fetched(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer:
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: fetch from t-0 at offset 0"):
                await read(consumer, 1)

    asyncio.run(run())


def test_damaged_batches_are_not_skipped() -> None:
    """The records before the damage are read; the partition then stops until the application seeks past the damage."""

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        for start in (0, 10, 20):
            broker.fill("t", *values(10, start))
        damaged = bytearray(broker.logs["t", 0][1])
        damaged[-1] ^= 1
        broker.logs["t", 0][1] = bytes(damaged)
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer:
            assert [record.value for record in await read(consumer, 10)] == values(10)
            with pytest.raises(DecodeError, match="checksum"):
                await read(consumer, 1)
            assert await consumer.position(T) == 10
            assert await consumer.getmany(10) == {}
            consumer.seek(T, 20)
            consumer.resume(T)
            assert [record.value for record in await read(consumer, 10)] == values(10, 20)

    asyncio.run(run())


@pytest.mark.parametrize("times", [1, 2])
def test_responses_that_break_the_protocol(times: int) -> None:
    """After one such response, the fetch is simply repeated; two in a row are reported to the reader."""

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", *values(3))

        def rubbish(request: Request) -> None:
            broker.links[-1].wire.write([frame(b"\xff" * 40)])

        broker.script(ApiKey.FETCH, *[rubbish] * times)
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer:
            if times > 1:
                with pytest.raises(RemoteProtocolError, match="at byte"):
                    await read(consumer, 1)
            assert [record.value for record in await read(consumer, 3)] == values(3)

    asyncio.run(run())


def test_start_and_close() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        consumer = Consumer(str(BROKER), "t", network=broker.network, **QUICK)
        with pytest.raises(Closed, match="not started"):
            await read(consumer, 1)
        await consumer.close()
        broker.stop()
        with pytest.raises(ConnectFailed):
            await consumer.start()
        broker.start()
        await consumer.start()
        with pytest.raises(LocalProtocolError, match="already started"):
            await consumer.start()
        await consumer.close()
        with pytest.raises(Closed):
            await consumer.getmany()

    asyncio.run(run())


def test_the_constructor_does_no_io_and_checks_options() -> None:
    Consumer("broker:9092", "t")
    unknown: dict[str, Any] = {"groupid": "g"}
    with pytest.raises(ConfigurationError, match="did you mean group_id"):
        Consumer("broker:9092", "t", **unknown)


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ((["a"], "b"), "topic .*: expected a string, got list; pass several as separate arguments or in a list"),
        ((b"t",), "topic b't': expected a string, got bytes"),
        (("t", "broker:9092"), "topic 'broker:9092': expected .*; the servers are the first argument"),
    ],
)
def test_topics_that_cannot_be(topics: Any, message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        Consumer("broker:9092", *topics)

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(LocalProtocolError, match=message):
            await consumer.subscribe(*topics)
        assert consumer.assignment == {T}

    consuming(test)


def test_reads_of_a_forked_process_do_not_just_end() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert consumer._core is not None
        consumer._core.forked(Forked("created by the parent"))
        for reading in (aiter(consumer), consumer.batches()):
            with pytest.raises(Forked, match="created by the parent"):
                await anext(reading)

    consuming(test)


def test_servers_beside_the_first_argument() -> None:
    with pytest.raises(
        ConfigurationError, match="the first argument, 'orders', already lists the servers; topics follow it"
    ):
        Consumer("orders", bootstrap_servers="broker:9092")


def test_a_position_is_found_while_records_of_other_partitions_wait() -> None:
    """The waiting records must not keep the event loop from running, since it looks up the position."""

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        other = TopicPartition("m", 0)
        broker.fill("m", b"v", partition=1)
        while not core_of(consumer).queue._items:
            await asyncio.sleep(0)
        consumer.seek_to_end(other)
        assert await consumer.position(other) == 0
        assert len(await read(consumer, 31)) == 31

    consuming(test, "t", "m")


def test_a_position_is_not_waited_for_once_the_login_was_refused() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.seek_to_end(T)
        queue = core_of(consumer).queue
        queue.report(AuthenticationFailed("broker:9092", "sasl: refused"))
        with pytest.raises(AuthenticationFailed, match="sasl"):
            await consumer.position(T)
        assert await consumer.position(T) == 30

    consuming(test)


@pytest.mark.usefixtures("time_skips")
def test_the_position_of_a_partition_that_does_not_exist() -> None:
    async def run() -> None:
        network = StoringBroker({"m": 4}).network
        async with Consumer(str(BROKER), network=network, api_timeout_ms=500) as consumer:
            consumer.assign([TopicPartition("m", 9)])
            with pytest.raises(RequestTimedOut, match="m-9: not found within 500 ms; topic m has partitions 0 to 3"):
                await consumer.position(TopicPartition("m", 9))

    asyncio.run(run())


@pytest.mark.parametrize("group", [{}, {"group_id": "g"}])
def test_a_consumer_with_nothing_to_read_says_so(group: dict[str, Any]) -> None:
    """Without topics or partitions, a read would wait forever; a pattern without matches may match later."""

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a")
        async with Consumer(str(BROKER), network=broker.network, **QUICK, **group) as consumer:
            for read in (
                lambda: consumer.getmany(60_000),
                lambda: consumer.getbatches(1_000),
                lambda: anext(consumer.batches()),
                lambda: anext(aiter(consumer)),
                lambda: anext(consumer.records(stop_at_end=True)),
            ):
                with pytest.raises(
                    LocalProtocolError, match="nothing to read: subscribe to topics, or assign partitions"
                ):
                    await read()
            consumer.assign([T])
            assert (await anext(aiter(consumer))).value == b"a"
            consumer.assign([])
            with pytest.raises(LocalProtocolError, match="nothing to read"):
                await consumer.getmany(60_000)
            await consumer.subscribe(pattern="nothing-.*")
            assert await consumer.getmany(1) == {}

    asyncio.run(run())


@pytest.mark.parametrize("call", ["pause", "resume", "seek_to_beginning", "seek_to_end", "lag"])
def test_before_the_start(call: str) -> None:
    with pytest.raises(Closed, match="not started"):
        getattr(Consumer(str(BROKER)), call)(T0)


def test_a_closed_consumer_takes_no_partitions() -> None:
    async def run() -> None:
        async with Consumer(str(BROKER), network=StoringBroker({"t": 1}).network) as consumer:
            pass
        with pytest.raises(Closed, match="the consumer was closed"):
            consumer.assign([T0])
        with pytest.raises(Closed, match="the consumer was closed"):
            await consumer.subscribe("t")
        assert consumer.assignment == frozenset()

    asyncio.run(run())


def test_what_it_subscribes_to_and_what_is_paused() -> None:
    async def run() -> None:
        consumer = Consumer(str(BROKER), "t", network=StoringBroker({"t": 2, "u": 1}).network)
        assert (consumer.subscription, consumer.paused) == ({"t"}, frozenset())
        async with consumer:
            consumer.pause(T0, T1)
            consumer.resume(T1)
            assert consumer.paused == {T0}
            await consumer.subscribe(["t", "u"])
            assert consumer.subscription == {"t", "u"}
            await consumer.subscribe(pattern="u")
            assert consumer.subscription == frozenset()
            for name, advice in (
                ("topics", "pass topics as separate arguments or in one list: subscribe('a', 'b')"),
                ("listener", "the listener is an argument of Consumer"),
                ("on_assign", "the listener is an argument of Consumer"),
                ("nonsense", "there is no such argument"),
            ):
                with pytest.raises(TypeError, match=f"^subscribe: {name}=…: {re.escape(advice)}$"):
                    await consumer.subscribe(**{name: ["t"]})  # type: ignore[arg-type]  # as in other clients
        by_hand = Consumer(str(BROKER))
        by_hand.assign(T0)
        assert by_hand.subscription == frozenset()

    asyncio.run(run())


def test_an_assignment_with_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """Partitions are assigned before startup, after startup and while they are read; no position is looked up."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for partition in (0, 1):
            broker.fill("t", b"a", b"b", b"c", partition=partition)
        consumer = Consumer(str(BROKER), network=broker.network, auto_offset_reset="none")
        consumer.assign({T0: 1})
        assert consumer.assignment == {T0}
        async with consumer:
            assert (await anext(aiter(consumer))).offset == 1
            consumer.assign({T0: 0, T1: 2})
            found = [await anext(aiter(consumer)) for _ in range(4)]
            assert sorted((each.partition, each.offset) for each in found) == [(0, 0), (0, 1), (0, 2), (1, 2)]
            with pytest.raises(LocalProtocolError, match="offset of t-0"):
                consumer.assign({T0: -1})
            assert consumer.assignment == {T0, T1}

    asyncio.run(run())
    assert caplog.messages == []


def test_an_assignment_before_the_start() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b", b"c")
        consumer = Consumer(str(BROKER), network=broker.network, auto_offset_reset="earliest")
        consumer.assign([T0])
        assert consumer.assignment == {T0}
        async with consumer:
            assert (await anext(aiter(consumer))).offset == 0
            assert consumer.lag(T0) == 2
            consumer.seek_to_time(1_000, T0)
            assert consumer.lag(T0) is None
            assert (await anext(aiter(consumer))).offset == 0
            for place in 1, datetime(1970, 1, 1, tzinfo=UTC):
                await anext(aiter(consumer))
                consumer.seek(T0, place)
                assert (await anext(aiter(consumer))).offset == (1 if place == 1 else 0)
            for wrong in (-1, datetime(1969, 1, 1, tzinfo=UTC)):
                with pytest.raises(LocalProtocolError, match="expected"):
                    consumer.seek(T0, wrong)
            with pytest.raises(LocalProtocolError, match="expected 1970 or later"):
                consumer.seek_to_time(-2)
            with pytest.raises(LocalProtocolError, match="x-0 is not assigned"):
                consumer.pause(TopicPartition("x", 0))

    asyncio.run(run())
