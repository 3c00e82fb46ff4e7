"""Every delivery of a blocking producer is settled, even with many threads, a full buffer, callbacks and forks.

Method: run the producer on its I/O thread against a scripted in-memory broker or the reference broker.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import kafkawire
from kafkawire import Delivery, GroupMetadata, TopicPartition
from kafkawire.errors import BrokerError, BufferFull, Closed, DeliveryTimedOut, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sync import Producer
from tests.sdk.scripted_broker import BROKER, StoringBroker

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


def producer_of(broker: StoringBroker, **options: Any) -> Producer:
    return Producer(str(BROKER), network=broker.network, **{**QUICK, **options})


def test_results() -> None:
    broker = StoringBroker({"t": 1})
    with producer_of(broker) as producer:
        assert producer.send("t", "text", key=b"k", timestamp_ms=7).result() == ("t", 0, 0, 7)
        delivery = producer.send("t", b"more")
        producer.flush()
        assert delivery.done
        assert delivery.result(0).offset == 1
        assert producer.send_many("t", [b"x"] * 2_500) == 2_500
        producer.drain()
    assert broker.end("t") == 2_502
    with pytest.raises(Closed):
        producer.send("t")
    with pytest.raises(Closed):
        producer.flush()


def test_a_result_that_takes_too_long_or_is_an_error() -> None:
    broker = StoringBroker({"t": 1})
    broker.responders[ApiKey.PRODUCE] = lambda request: None
    with producer_of(broker, delivery_timeout_ms=200, request_timeout_ms=100, linger_ms=0) as producer:
        delivery = producer.send("t", b"x")
        with pytest.raises(RequestTimedOut, match=r"the record for t-.* was not settled within 1 ms"):
            delivery.result(1)
        with pytest.raises(RequestTimedOut, match="flush: after 0 ms some records are still unacknowledged"):
            producer.flush(timeout_ms=0)
        for _ in range(2):
            with pytest.raises(DeliveryTimedOut):
                delivery.result()


def test_flush_raises_what_nobody_asked_for() -> None:
    broker = StoringBroker({"t": 1})

    def refuse(request: Any) -> ProduceResponse:
        (topic,) = request.message.topic_data
        failed = ProduceResponse.PartitionProduceResponse(0, ErrorCode.INVALID_RECORD)
        return ProduceResponse([ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, [failed])])

    broker.script(ApiKey.PRODUCE, refuse)
    with producer_of(broker) as producer:
        producer.send("t", b"x")
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            producer.flush()


def test_flush_does_not_linger_for_a_topic_that_is_not_known_yet() -> None:
    broker = StoringBroker({"t": 1})
    with producer_of(broker, linger_ms=100_000, delivery_timeout_ms=200_000) as producer:
        producer.send("t", b"x")
        producer.flush()  # the test would time out before the batch stops lingering


def test_sending_from_many_threads() -> None:
    """No record is lost, duplicated or torn, each thread's records keep their order, and every delivery is settled."""
    broker = StoringBroker({"t": 3})
    count, threads = 2_000, 8
    kept: dict[int, list[Delivery]] = {}
    with producer_of(broker, batch_size=2_000, buffer_memory=40_000) as producer:
        ready = threading.Barrier(threads)

        def send(thread: int) -> None:
            kept[thread] = []
            ready.wait()
            while len(kept[thread]) < count:
                value = b"%d:%d" % (thread, len(kept[thread]))
                try:
                    kept[thread].append(producer.send("t", value, key=b"%d" % thread))
                except BufferFull:
                    producer.drain()

        workers = [threading.Thread(target=send, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        places = {delivery.result()[:3] for deliveries in kept.values() for delivery in deliveries}
    assert len(places) == count * threads
    stored = [bytes(value or b"").split(b":") for value in broker.values("t")]
    assert Counter(thread for thread, _ in stored) == {b"%d" % thread: count for thread in range(threads)}
    for thread in range(threads):
        numbers = [int(number) for owner, number in stored if int(owner) == thread]
        assert numbers == list(range(count))


def test_a_class_of_the_application_may_have_a_send_of_its_own() -> None:
    class Counting(Producer):
        count = 0

        def send(self, *arguments: Any, **named: Any) -> Delivery:
            self.count += 1
            return super().send(*arguments, **named)

    broker = StoringBroker({"t": 1})
    with Counting(str(BROKER), network=broker.network, **QUICK) as producer:
        assert producer.send("t", b"x").result().offset == 0
        assert producer.count == 1
    with producer_of(broker) as plain:
        assert plain.send == plain._inner.send, "without one, the application must call the engine directly"


def test_a_transaction_is_committed_at_the_end_of_its_block_or_aborted() -> None:
    broker = StoringBroker({"t": 1})
    broker.responders |= {
        ApiKey.ADD_PARTITIONS_TO_TXN: lambda request: AddPartitionsToTxnResponse(),
        ApiKey.ADD_OFFSETS_TO_TXN: lambda request: AddOffsetsToTxnResponse(),
        ApiKey.TXN_OFFSET_COMMIT: lambda request: TxnOffsetCommitResponse(),
        ApiKey.END_TXN: lambda request: EndTxnResponse(),
    }

    def fail(producer: Producer) -> None:
        with producer.transaction():
            producer.send("t", b"b").result()
            raise ZeroDivisionError

    with producer_of(broker, transactional_id="x", linger_ms=0) as producer:
        with pytest.raises(LocalProtocolError):
            producer.send("t", b"outside")
        with producer.transaction() as transaction:
            delivery = producer.send("t", b"a")
            transaction.send_offsets({TopicPartition("in", 0): 5}, GroupMetadata("g", 1, "member"))
        assert delivery.done
        with pytest.raises(ZeroDivisionError):
            fail(producer)
    ends: list[Any] = broker.asked(ApiKey.END_TXN)
    assert [request.committed for request in ends] == [True, False]
    assert len(broker.asked(ApiKey.TXN_OFFSET_COMMIT)) == 1


def test_send_many_waits_for_room() -> None:
    broker = StoringBroker({"t": 1})
    with producer_of(broker, buffer_memory=10_000, batch_size=1_000) as producer:
        assert producer.send_many("t", (b"%05d" % number for number in range(20_000))) == 20_000
    assert broker.values("t") == [b"%05d" % number for number in range(20_000)]


def test_close_keeps_its_limit_and_settles_everything() -> None:
    broker = StoringBroker({"t": 1})
    broker.responders[ApiKey.PRODUCE] = lambda request: None
    producer = producer_of(broker)
    producer.start()
    delivery = producer.send("t", b"x")
    with pytest.raises(Closed):
        producer.close(timeout_ms=20)
    with pytest.raises(Closed):
        delivery.result()
    producer.close()


def test_a_block_that_fails_does_not_flush() -> None:
    broker = StoringBroker({"t": 1})
    broker.responders[ApiKey.PRODUCE] = lambda request: None
    deliveries = []

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), producer_of(broker) as producer:  # noqa: PT012 - the state after the block
        deliveries.append(producer.send("t", b"x"))
        fail()
    assert isinstance(deliveries[0].exception(), Closed)


@pytest.mark.parametrize("face", ["asyncio", "sync"])
def test_callbacks_run_on_the_io_thread_and_may_not_block_it(face: str) -> None:
    broker = StoringBroker({"t": 1})
    told: list[tuple[str, str]] = []
    done = threading.Event()

    def on_delivery(delivery: Delivery) -> None:
        later = producer.send("t", b"sent by the callback")
        try:
            later.result()
        except LocalProtocolError as error:
            told.append((threading.current_thread().name, str(error)))
        done.set()

    def use(send: Any) -> None:
        send("t", b"x", on_delivery=on_delivery)
        assert done.wait(10)  # the caller's own event loop, if there is one, is blocked meanwhile

    producer: Any
    if face == "sync":
        with producer_of(broker) as producer:
            use(producer.send)
    else:

        async def run() -> None:
            nonlocal producer
            producer = kafkawire.Producer(str(BROKER), network=broker.network, io="thread", **QUICK)
            async with producer:
                use(producer.send)

        asyncio.run(run())
    ((thread, message),) = told
    assert thread == "kafkawire producer"
    assert "would block the event loop" in message
    assert len(broker.values("t")) == 2


def test_waiting_on_the_loop_of_the_producer_is_refused() -> None:
    broker = StoringBroker({"t": 1})

    async def run() -> None:
        async with kafkawire.Producer(str(BROKER), network=broker.network, **QUICK) as producer:
            delivery = producer.send("t", b"x")
            with pytest.raises(LocalProtocolError, match="await instead"):
                delivery.result()
            await delivery
            assert delivery.result().offset == 0

    asyncio.run(run())


def test_deliveries_go_on_while_the_loop_is_blocked() -> None:
    broker = StoringBroker({"t": 1})

    async def run() -> None:
        async with kafkawire.Producer(str(BROKER), network=broker.network, io="thread", **QUICK) as producer:
            settled = threading.Event()
            delivery = producer.send("t", b"x", on_delivery=lambda _: settled.set())
            assert settled.wait(10), "deliveries must continue while the loop is blocked"
            assert delivery.done

    asyncio.run(run())


def test_a_fork_is_told_to_make_its_own() -> None:
    broker = StoringBroker({"t": 1})
    with producer_of(broker) as producer:
        producer.send("t", b"x").result()
        pending = producer.send("t", b"y")

        def in_child() -> Iterator[str]:
            calls = (lambda: producer.send("t"), producer.flush, lambda: producer.send_many("t", [b"x"]))
            for call in calls:
                try:
                    call()
                except Closed as error:
                    yield str(error)
            producer.close()
            yield "closed"

        told = child_of(in_child)
        assert len(told) == 4
        assert all("create one in the child" in each for each in told[:3])
        assert told[-1] == "closed"
        assert pending.result().offset == 1
        assert producer.send("t", b"z").result().offset == 2


def child_of(work: Any) -> list[str]:
    """Fork, and return the output of the child."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            for line in work():
                os.write(writing, line.encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    return lines
