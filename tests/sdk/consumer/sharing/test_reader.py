"""Acquired records are handed out once, while their locks hold, and accepted by the next read in implicit mode.

Method: fill the queue directly, with a clock that the test sets.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks
from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, AcquiredRange, Ledger
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.consumer.sharing.queue import ShareFetched, ShareQueue
from kafkawire.sdk.consumer.sharing.reader import LIST_MS, ShareReader
from kafkawire.sdk.errors import BrokerError, Closed, DecodeError, DeserializationFailed, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicIdPartition, TopicPartition
from tests.sdk.consumer.batches import made

T0 = TopicPartition("t", 0)


class Bench:
    def __init__(self, *, is_explicit: bool = False) -> None:
        self.now_ms = 1_000
        self.tick_ms = 0
        self.queue = ShareQueue(lambda: None)
        self.ledger = Ledger(lambda: None, self.clock_ms, is_explicit=is_explicit)
        self.reader: ShareReader[Any] = ShareReader(self.queue, self.ledger, ShareDelivery, check_crcs=True)
        self.reader.subscribed = {"t"}
        self.offset = 0

    def clock_ms(self) -> int:
        self.now_ms += self.tick_ms
        return self.now_ms

    def fill(self, *values: bytes, topic: str = "t", data: bytes | None = None) -> Acquired:
        partition = TopicIdPartition(topic.encode() * 16, topic, 0)
        acquired = Acquired(partition, 1, len(values), self.now_ms + 30_000, 30_000, self.ledger)
        ranges = (AcquiredRange(self.offset, self.offset + len(values) - 1, 1),)
        self.queue.put(ShareFetched(acquired, ranges, made(self.offset, *values) if data is None else data))
        self.offset += len(values)
        return acquired

    def take(self) -> ShareDelivery[Any, Any]:
        """Return a delivery that must be there."""
        delivery = self.reader.take()
        assert delivery is not None
        return delivery

    def taken(self) -> list[tuple[int, int]]:
        """Return and remove the acknowledgements so far: first offsets and types."""
        found = [(each.first, each.type) for each in self.ledger.given]
        self.ledger.given.clear()
        return found


ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def test_the_next_read_accepts_in_implicit_mode() -> None:
    bench = Bench()
    bench.fill(b"a", b"b", b"c")
    assert bench.take().record.value == b"a"
    assert bench.taken() == []
    assert bench.take().record.value == b"b"
    assert bench.taken() == [(0, ACCEPT)]
    assert bench.reader.take_many(9)[T0][0].record.value == b"c"
    assert bench.taken() == [(1, ACCEPT)]
    assert bench.reader.take() is None
    assert bench.taken() == [(2, ACCEPT)]
    assert bench.reader.taken == 3


def test_nothing_is_acknowledged_in_explicit_mode() -> None:
    bench = Bench(is_explicit=True)
    bench.fill(b"a", b"b")
    first = bench.take()
    bench.reader.take()
    bench.reader.finish()
    assert bench.taken() == []
    first.accept()
    assert bench.taken() == [(0, ACCEPT)]


def test_only_a_read_that_finds_nothing_asks_for_more() -> None:
    bench = Bench()
    bench.fill(b"a")
    assert bench.reader.take_many(9)
    assert not bench.queue.is_asked
    assert bench.reader.take_many(9) == {}
    assert bench.queue.is_asked


def test_lists_end_at_their_limit_and_after_a_while() -> None:
    bench = Bench()
    bench.fill(*[b"v"] * 10)
    assert len(bench.reader.take_many(3)[T0]) == 3
    bench.tick_ms = LIST_MS
    assert len(bench.reader.take_many(9)[T0]) == 1, "slow deserializers do not block the event loop for long"


def test_records_without_a_lock_are_not_handed_out(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.fill(b"a", b"b").is_lost = True
    bench.fill(b"c")
    bench.now_ms += 1_000
    late = bench.fill(b"d", b"e")
    bench.now_ms += 29_000
    assert bench.take().record.value == b"d"
    late.is_lost = True
    assert bench.reader.take() is None
    assert "t: records not handed out, because their acquisition locks have run out or were lost: 2" in caplog.text


def test_records_of_other_topics_are_released() -> None:
    bench = Bench()
    bench.fill(b"a", topic="u")
    assert bench.reader.take() is None
    assert bench.taken() == [(0, RELEASE)]


def test_what_is_left_of_a_topic_is_released_once_it_is_no_longer_read() -> None:
    """Also what was found in a batch, what follows it, and what an interrupted read has found."""
    bench = Bench()
    batches = made(0, b"a", b"b", b"c") + made(3, b"d") + made(4, b"e")
    bench.fill(*[b"v"] * 5, data=batches)
    bench.take()
    bench.take()
    bench.reader.rewind()
    bench.taken()
    bench.reader.subscribed = {"u"}
    bench.fill(b"f", topic="u")
    assert bench.take().record.value == b"f"
    assert [(each.first, each.last, each.type) for each in bench.ledger.given] == [
        (1, 1, RELEASE),
        (2, 2, RELEASE),
        (3, 4, RELEASE),
    ]
    bench.taken()
    assert bench.reader.take() is None
    assert bench.taken() == [(5, ACCEPT)]


def test_a_record_that_was_released_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may raise once a record is released, and the application may subscribe to its topic again."""
    bench = Bench()
    bench.fill(b"a", b"b", b"c")
    bench.take()

    def interrupted(delivery: ShareDelivery[Any, Any], type: AcknowledgeType) -> None:
        acknowledge(delivery, type)
        raise KeyboardInterrupt

    acknowledge = ShareDelivery.acknowledged
    bench.reader.finish()
    bench.reader.subscribed = {"u"}
    monkeypatch.setattr(ShareDelivery, "acknowledged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.reader.take()
    monkeypatch.undo()
    bench.reader.subscribed = {"t"}
    assert bench.take().record.value == b"c"
    assert bench.taken() == [(0, ACCEPT), (1, RELEASE)]


def test_errors_are_raised_in_order() -> None:
    bench = Bench()
    bench.fill(b"a")
    bench.reader.report(error := BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert bench.reader.is_unread(error)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        bench.reader.take()
    assert not bench.reader.is_unread(error)
    assert bench.take().record.value == b"a"
    bench.queue.fail(Closed("closed"))
    with pytest.raises(Closed):
        bench.reader.take()


def test_a_damaged_batch_after_records() -> None:
    bench = Bench()
    sound, broken = made(0, b"a"), bytearray(made(1, b"b"))
    broken[-1] ^= 1
    bench.fill(b"a", b"b", data=sound + bytes(broken))
    assert len(bench.reader.take_many(9)[T0]) == 1
    with pytest.raises(DecodeError, match="t-0: crc"):
        bench.reader.take_many(9)
    assert bench.taken() == [(1, REJECT), (0, ACCEPT)]
    assert bench.reader.take() is None


def hooked(bench: Bench) -> None:
    def deserialize(value: bytes) -> str:
        if value == b"interrupt":
            raise KeyboardInterrupt
        return value.decode()

    bench.reader.hooks = ConsumerHooks(None, deserialize, ())


def test_a_record_that_cannot_be_deserialized_is_released_by_the_next_read() -> None:
    bench = Bench()
    hooked(bench)
    bench.fill(b"a", b"\xff", b"c")
    assert [each.record.value for each in bench.reader.take_many(9)[T0]] == ["a"]
    with pytest.raises(DeserializationFailed) as failed:
        bench.reader.take()
    assert failed.value.offset == 1
    assert bench.taken() == [(0, ACCEPT)]
    assert bench.take().record.value == "c"
    assert bench.taken() == [(1, RELEASE)]
    with pytest.raises(LocalProtocolError, match="is not held any more; call reject before the next read"):
        bench.reader.reject(failed.value)


def test_a_record_that_cannot_be_deserialized_can_be_rejected() -> None:
    bench = Bench()
    hooked(bench)
    bench.fill(b"\xff")
    with pytest.raises(DeserializationFailed) as failed:
        bench.reader.take()
    bench.reader.reject(failed.value)
    assert bench.taken() == [(0, REJECT)]
    assert bench.reader.take() is None
    assert bench.taken() == []


def test_an_interrupted_read_loses_nothing() -> None:
    bench = Bench()
    hooked(bench)
    bench.fill(b"a", b"b", b"interrupt")
    assert bench.take().record.value == "a"
    bench.reader.rewind()
    assert bench.taken() == [], "it did not reach the caller"
    assert bench.take().record.value == "a"
    with pytest.raises(KeyboardInterrupt):
        bench.reader.take_many(9)
    bench.reader.rewind()
    bench.reader.hooks = None
    assert [each.record.value for each in bench.reader.take_many(9)[T0]] == ["b", b"interrupt"]


def test_the_time_of_the_last_read() -> None:
    bench = Bench()
    assert bench.reader.last_handed_out_ms == 1_000
    bench.now_ms = 2_000
    assert bench.reader.last_handed_out_ms == 1_000
    waiting = bench.queue.wait()
    assert bench.reader.last_handed_out_ms is None
    bench.queue.cancel(waiting)
    assert bench.reader.last_handed_out_ms == 2_000
    bench.fill(b"a")
    bench.reader.take()
    bench.now_ms = 3_000
    assert bench.reader.last_handed_out_ms == 3_000


def test_a_forked_child_hands_out_nothing() -> None:
    bench = Bench()
    bench.fill(b"a", b"b")
    bench.reader.take()
    bench.reader.abandon(Closed("forked"))
    with pytest.raises(Closed, match="forked"):
        bench.reader.take()
    assert bench.taken() == []
