"""A block commits at its end or aborts if it raises; whatever is cancelled, the next transaction begins properly.

Method: run the whole producer on an event loop against a scripted broker that can delay its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ns
from kafkawire.sdk.errors import Closed, LocalProtocolError, ProducerFenced, RequestTimedOut, TransactionAborted
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.scripted_broker import BROKER, StoringBroker

GROUP = GroupMetadata("g", 1, "member")


def sending(test: Callable[[StoringBroker, Producer], Awaitable[None]], **options: Any) -> StoringBroker:
    """Run a test with a broker that has topic t, and with a started producer that uses transactions."""
    made: list[StoringBroker] = []

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        made.append(broker)
        broker.responders |= {
            ApiKey.INIT_PRODUCER_ID: lambda request: InitProducerIdResponse(0, 0, 7, 0),
            ApiKey.ADD_PARTITIONS_TO_TXN: lambda request: AddPartitionsToTxnResponse(),
            ApiKey.ADD_OFFSETS_TO_TXN: lambda request: AddOffsetsToTxnResponse(),
            ApiKey.TXN_OFFSET_COMMIT: lambda request: TxnOffsetCommitResponse(),
            ApiKey.END_TXN: lambda request: EndTxnResponse(),
        }
        options.setdefault("linger_ms", 0)
        async with asyncio.timeout(20):
            producer = Producer(str(BROKER), network=broker.network, transactional_id="x", **options)
            async with producer:
                await test(broker, producer)
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    return made[0]


def ends(broker: StoringBroker) -> list[bool]:
    """Return the end of each transaction: True for a commit."""
    return [request.committed for request in broker.asked(ApiKey.END_TXN)]  # type: ignore[attr-defined]  # by its key


async def raising(producer: Producer) -> None:
    """Raise an error once records are stored in a transaction."""
    async with producer.transaction():
        await producer.send_many("t", [b"b", b"c"])
        await producer.flush()
        raise ZeroDivisionError


def silent(request: Any) -> None:
    """Never answer."""


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_block(io: Any) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        async with producer.transaction() as transaction:
            delivery = producer.send("t", b"a")
            await transaction.send_offsets({TopicPartition("in", 0): 5}, GROUP)
            await producer.flush()
            assert delivery.done
        with pytest.raises(ZeroDivisionError):
            await raising(producer)
        with pytest.raises(LocalProtocolError, match="no transaction is open"):
            producer.send("t", b"v")

    broker = sending(test, io=io)
    assert ends(broker) == [True, False]
    (commit,) = broker.asked(ApiKey.TXN_OFFSET_COMMIT)
    assert commit.topics[0].partitions[0].committed_offset == 5  # type: ignore[attr-defined]  # by its key


def test_explicit_calls() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.begin_transaction()
        with pytest.raises(LocalProtocolError, match="a transaction is open"):
            await producer.begin_transaction()
        await producer.send("t", b"a")
        await producer.send_offsets({TopicPartition("in", 0): 5}, GROUP)
        await producer.commit_transaction()
        await producer.commit_transaction()  # reports the outcome again
        with pytest.raises(LocalProtocolError, match="abort: no transaction is open"):
            await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("t", b"b")
        await producer.abort_transaction()

    assert ends(sending(test)) == [True, False]


def times(producer: Producer) -> dict[str, float]:
    """Return the nanoseconds that the application has spent in each kind of transactional call."""
    found = producer.metrics().items()
    return {name.name[4:-14]: value for name, value in found if name.name.endswith("-time-ns-total")}


def test_the_time_that_it_takes() -> None:
    """As in Kafka's producer, only calls that succeed are counted."""

    async def test(broker: StoringBroker, producer: Producer) -> None:
        spent = times(producer)
        assert set(spent) == {"init", "begin", "send-offsets", "commit", "abort"}
        assert [what for what, ns in spent.items() if ns] == ["init"]
        for what, step in (
            ("begin", producer.begin_transaction),
            ("send-offsets", lambda: producer.send_offsets({TopicPartition("in", 0): 5}, GROUP)),
            ("commit", producer.commit_transaction),
        ):
            before_ns = monotonic_ns()
            await step()
            assert 0 < times(producer)[what] <= monotonic_ns() - before_ns
        await producer.begin_transaction()
        committed = times(producer)["commit"]
        broker.script(ApiKey.END_TXN, lambda request: EndTxnResponse(0, ErrorCode.TRANSACTION_ABORTABLE))
        await producer.send_offsets({TopicPartition("in", 0): 6}, GROUP)
        with pytest.raises(TransactionAborted):
            await producer.commit_transaction()
        assert times(producer)["commit"] == committed
        await producer.begin_transaction()
        await producer.abort_transaction()
        assert times(producer)["abort"] > 0

    sending(test)


def test_without_a_transactional_id() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        async with Producer(str(BROKER), network=broker.network, enable_idempotence=False) as producer:
            for call in (
                producer.begin_transaction(),
                producer.commit_transaction(),
                producer.abort_transaction(),
                producer.send_offsets({}, GROUP),
                producer.transaction().__aenter__(),
            ):
                with pytest.raises(LocalProtocolError, match="transactions need the option transactional_id"):
                    await call
        with pytest.raises(Closed):
            await producer.begin_transaction()

    asyncio.run(run())


def test_a_cancelled_block_is_aborted() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        stored = asyncio.Event()

        async def work() -> None:
            async with producer.transaction():
                await producer.send("t", b"a")
                stored.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await stored.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction():
            await producer.send("t", b"b")

    assert ends(sending(test)) == [False, True]


@pytest.mark.usefixtures("time_skips")
def test_a_cancelled_commit_goes_on() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        asked = asyncio.Event()
        broker.script(ApiKey.END_TXN, lambda request: asked.set())
        await producer.begin_transaction()
        await producer.send("t", b"a")
        task = asyncio.create_task(producer.commit_transaction())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(LocalProtocolError, match="no transaction is open"):
            producer.send("t", b"v")
        await producer.begin_transaction()  # the lost answer cost the connection, and the request is repeated
        await producer.send("t", b"b")
        await producer.abort_transaction()

    assert ends(sending(test, request_timeout_ms=300, delivery_timeout_ms=600)) == [True, True, False]


def test_a_cancelled_begin_leaves_nothing_open() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        for turns in range(6):
            task = asyncio.create_task(producer.begin_transaction())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()  # raises if the previous transaction is open
                await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"a")

    assert ends(sending(test)) == [True]


def test_limits_are_kept() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.responders[ApiKey.END_TXN] = silent
        with pytest.raises(RequestTimedOut, match="after 50 ms the transaction is still being committed"):
            async with producer.transaction(timeout_ms=50):
                await producer.send("t", b"a")
        with pytest.raises(LocalProtocolError, match="being committed"):
            await producer.abort_transaction(50)
        before = asyncio.get_running_loop().time()
        await producer.close(timeout_ms=100)
        assert asyncio.get_running_loop().time() - before < 1

    sending(test)


def test_an_abort_that_fails_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        broker.responders[ApiKey.END_TXN] = lambda request: EndTxnResponse(0, ErrorCode.PRODUCER_FENCED)
        with caplog.at_level(logging.WARNING, "kafkawire.producer"), pytest.raises(ZeroDivisionError):
            await raising(producer)
        assert "after ZeroDivisionError(), the transaction could not be aborted: PRODUCER_FENCED" in caplog.text
        with pytest.raises(ProducerFenced):
            async with producer.transaction():
                pass

    sending(test)


@pytest.mark.parametrize("flush", [True, False])
def test_close_aborts(flush: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"a")
        broker.responders[ApiKey.PRODUCE] = silent
        waiting = [producer.send("t", b"x" * 100) for _ in range(9)]
        await asyncio.sleep(0)
        broker.stop()
        await producer.close(flush=flush, timeout_ms=100)
        assert any(isinstance(each.exception(), TransactionAborted) for each in waiting)
        assert all(each.done for each in waiting)

    sending(test, batch_size=128)
    assert caplog.text.count("the transaction was not ended before the producer was closed: ") == 1


@pytest.mark.parametrize("flush", [True, False])
def test_close_asks_for_the_abort(flush: bool) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"a")
        await producer.close(flush=flush)

    assert ends(sending(test)) == [False]
