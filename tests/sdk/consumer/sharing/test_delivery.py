"""A delivery is acknowledged once, by its own methods, a `with` block or the reader, and its state tells the outcome.

Method: acknowledge deliveries of one acquisition, with a clock that the test sets; every edge of the table is taken.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, Ledger
from kafkawire.sdk.consumer.sharing.delivery import DELIVERY_EDGES, ShareDelivery, ShareDeliveryState
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.transport.promise import Promise

State = ShareDeliveryState


class Bench:
    def __init__(self, *, is_explicit: bool = True, reject_on: tuple[type[BaseException], ...] = ()) -> None:
        self.now_ms = 1_000
        self.ledger = Ledger(lambda: None, lambda: self.now_ms, is_explicit=is_explicit, reject_on=reject_on)
        partition = TopicIdPartition(b"i" * 16, "t", 0)
        self.acquired = Acquired(partition, 1, 10, 31_000, 30_000, self.ledger)
        record = Record(7, 0, None, b"v", topic="t", partition=0)
        self.delivery: ShareDelivery[Any, Any] = ShareDelivery(record, 2, self.acquired)

    @property
    def types(self) -> list[int]:
        return [each.type for each in self.ledger.given]


@pytest.mark.parametrize("act", ["accept", "release", "reject"])
def test_an_acknowledgement(act: str) -> None:
    bench = Bench()
    delivery = bench.delivery
    assert (delivery.state, delivery.lock_left_ms, delivery.delivery_count) == (State.ACQUIRED, 30_000, 2)
    getattr(delivery, act)()
    assert delivery.state is State.ACKNOWLEDGED
    (given,) = bench.ledger.given
    assert (given.first, given.last, given.type) == (7, 7, AcknowledgeType[act.upper()])
    for again in ("accept", "release", "reject", "_renew"):
        with pytest.raises(LocalProtocolError, match="already acknowledged"):
            getattr(delivery, again)()
    delivery.acknowledged(AcknowledgeType.RELEASE)
    assert len(bench.ledger.given) == 1, "the reader does not overrule the application"
    delivery.settled(None)
    assert (delivery.state, delivery.lock_left_ms) == (State.CONFIRMED, 0)


def test_the_edges() -> None:
    """Every state is reached along the edges of the table."""
    taken = set()

    def step(bench: Bench, before: State, after: State) -> None:
        assert bench.delivery.state is after
        taken.add((before, DELIVERY_EDGES.follow(before, after)))

    bench = Bench()
    bench.delivery.accept()
    step(bench, State.ACQUIRED, State.ACKNOWLEDGED)
    bench.delivery.settled(None)
    step(bench, State.ACKNOWLEDGED, State.CONFIRMED)
    bench = Bench()
    bench.now_ms = 31_000
    step(bench, State.ACQUIRED, State.LOST)
    bench.delivery.accept()
    assert bench.delivery.state is State.LOST, "it is reported, but cannot succeed"
    assert bench.types == [AcknowledgeType.ACCEPT]
    bench = Bench()
    bench.delivery.accept()
    bench.acquired.is_lost = True
    step(bench, State.ACKNOWLEDGED, State.LOST)
    assert taken == set(DELIVERY_EDGES)


def test_renewals() -> None:
    bench = Bench()
    renewal = bench.delivery._renew()
    assert bench.delivery._renew() is renewal
    assert bench.types == [AcknowledgeType.RENEW]
    bench.now_ms = 32_000
    assert (bench.delivery.state, bench.delivery.lock_left_ms) == (State.ACQUIRED, 1), "while the renewal is on its way"
    bench.delivery.renewed(62_000)
    assert bench.delivery.lock_left_ms == 30_000
    bench.delivery._renew()
    bench.delivery.settled(BrokerError(ErrorCode.INVALID_RECORD_STATE))
    assert (bench.delivery.state, bench.delivery.is_lost) == (State.LOST, True)
    with pytest.raises(BrokerError, match=r"the acquisition lock of <ShareDelivery of t-0, offset 7.* has run out"):
        bench.delivery._renew()


def test_the_outcome_of_a_renewal_may_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a blocking program, the I/O thread may have it before the thread that asks for the renewal goes on."""
    bench = Bench()
    monkeypatch.setattr(Ledger, "add", lambda self, given: bench.delivery.renewed(62_000))
    assert isinstance(bench.delivery._renew(), Promise)
    assert bench.delivery.locked_until_ms == 62_000


def test_a_lock_is_renewed_again_and_again() -> None:
    bench = Bench()
    for number in range(1, 4):
        bench.now_ms = bench.delivery.locked_until_ms - 1
        renewal = bench.delivery._renew()
        assert not renewal.done
        assert bench.types == [AcknowledgeType.RENEW] * number
        bench.delivery.renewed(bench.now_ms + 30_000)
        renewal.keep(None)
    bench.now_ms = bench.delivery.locked_until_ms
    assert (bench.delivery.state, bench.delivery.lock_left_ms) == (State.LOST, 0)


def test_a_renewal_is_awaited() -> None:
    async def run() -> None:
        bench = Bench()
        renewing = asyncio.create_task(bench.delivery.renew())
        await asyncio.sleep(0)
        promise = bench.ledger.given[0].renewal
        assert promise is not None
        promise.keep(None)
        await renewing

    asyncio.run(run())


@pytest.mark.parametrize(
    ("raised", "type"),
    [
        (None, AcknowledgeType.ACCEPT),
        (RuntimeError, AcknowledgeType.RELEASE),
        (KeyError, AcknowledgeType.REJECT),
        (asyncio.CancelledError, AcknowledgeType.RELEASE),
    ],
)
def test_a_block(raised: type[BaseException] | None, type: AcknowledgeType) -> None:
    bench = Bench(reject_on=(LookupError,))

    async def run() -> None:
        async with bench.delivery:
            if raised is not None:
                raise raised

    if raised is None:
        asyncio.run(run())
    else:
        with pytest.raises(raised):
            asyncio.run(run())
    assert bench.types == [type]


def test_a_block_that_acknowledges_itself() -> None:
    bench = Bench()

    async def run() -> None:
        async with bench.delivery as delivery:
            delivery.reject()

    asyncio.run(run())
    assert bench.types == [AcknowledgeType.REJECT]


@pytest.mark.parametrize("act", ["accept", "release", "reject", "_renew", "block"])
def test_implicit_mode(act: str) -> None:
    bench = Bench(is_explicit=False)

    async def block() -> None:
        async with bench.delivery:
            pass

    with pytest.raises(LocalProtocolError, match="set share_acknowledgement_mode='explicit'"):
        asyncio.run(block()) if act == "block" else getattr(bench.delivery, act)()
    bench.delivery.acknowledged(AcknowledgeType.ACCEPT)
    assert bench.types == [AcknowledgeType.ACCEPT]


def test_its_repr() -> None:
    assert repr(Bench().delivery) == "<ShareDelivery of t-0, offset 7, delivery 2, acquired>"
