"""Records go into their partition's batch, within `buffer_memory`; rejected records leave no trace.

Method: use an accumulator with the engine in use, without a sender; the test makes a topic known to it.
"""

from __future__ import annotations

import sys
import threading
from asyncio import CancelledError
from collections import Counter
from random import Random
from typing import Any

import pytest

from kafkawire.sdk.client.partitioner import murmur2_partition
from kafkawire.sdk.errors import BufferFull, Closed, EncodeError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.arguments import TO_BE_CHOSEN, Held
from kafkawire.sdk.producer.partition_queue import PartitionQueue, ProducerBatch
from kafkawire.sdk.producer.transactions.errors import OUTSIDE, STRADDLED
from kafkawire.sdk.records import RecordBatch
from tests.sdk.producer.filled import Filled


def test_the_sender_is_woken_for_new_and_full_batches_only() -> None:
    filled = Filled(batch_size=1024)
    for _ in range(9):
        filled.send("t", b"x" * 60)
    assert filled.wakes == 1
    for _ in range(9):
        filled.send("t", b"x" * 60)
    assert filled.wakes == 3, "one batch is full, and another is new"
    assert len(filled.batches()) == 2


def test_keys_go_where_java_sends_them() -> None:
    filled = Filled(partitions=7)
    random = Random(5)
    keys = [random.randbytes(size) for size in range(40)]
    for key in keys:
        filled.send("t", b"v", key=key)
    for batch in filled.batches():
        number = batch.queue.partition.partition
        assert {murmur2_partition(r.key or b"", 7) for r in RecordBatch(bytes(batch.sealed())).records()} == {number}


def test_records_without_a_key_fill_a_batch_s_worth_of_one_partition_after_the_other() -> None:
    filled = Filled(partitions=4, batch_size=1024)
    for _ in range(400):
        filled.send("t", b"x" * 5, headers=[("name", b"x" * 45)])
    counts = Counter(batch.queue.partition.partition for batch in filled.batches())
    assert len(counts) >= 3
    assert sum(counts.values()) <= 400 * 80 / 1024 + 4, "headers must be counted too"


@pytest.mark.parametrize("records_each", [1, 3])
def test_a_batch_s_worth_counts_over_batches_that_are_sent_early(records_each: int) -> None:
    filled = Filled(partitions=9, batch_size=1024)
    runs: list[tuple[int, int]] = []
    for _ in range(200):
        for _ in range(records_each):
            filled.send("t", b"x" * 70)
        (batch,) = (batch for batch in filled.batches() if not batch.is_closed)
        number, size_bytes = batch.queue.partition.partition, batch.used_bytes
        if runs and runs[-1][0] == number:
            size_bytes += runs.pop()[1]
        runs.append((number, size_bytes))
        filled.accumulator.close(batch)
    assert {number for number, _ in runs} == set(range(9))
    # The bytes in headers may or may not be counted.
    assert all(1024 <= size_bytes <= 1024 * 2.5 for _, size_bytes in runs[:-1])


@pytest.mark.parametrize("count", [1, 2])
def test_records_without_a_key_leave_a_partition_that_is_gone(count: int) -> None:
    filled = Filled(partitions=3)
    filled.topic.sticky_partition = count
    filled.accumulator.place_held(filled.topic, count, lambda outcome, other: None, lambda outcome: None)
    filled.send("t", b"x")
    assert max(filled.topic.queues) < count


def test_busy_partitions_get_less() -> None:
    filled = Filled(partitions=2, batch_size=256)
    for _ in range(100):
        filled.send("t", b"x" * 100, partition=0)
    for _ in range(100):
        filled.send("t", b"x" * 100)
    assert filled.topic.queues[1].load > 30


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    filled = Filled(partitions=3, leaderless=frozenset({0, 2}), batch_size=256)
    for _ in range(20):
        filled.send("t", b"x" * 100)
    assert list(filled.topic.queues) == [1]


def test_memory_is_taken_as_a_batch_grows_and_given_back() -> None:
    filled = Filled(batch_size=128 * 1024)
    accumulator = filled.accumulator
    filled.send("t", b"x")
    assert accumulator.bytes_held == 1024
    taken = {1024: None}
    for _ in range(100):
        filled.send("t", b"x" * 100)
        taken[accumulator.bytes_held] = None
    assert list(taken) == [1024, 2048, 4096, 8192, 16384], "the buffer must double whenever it is too small"
    (batch,) = filled.batches()
    assert batch.used_bytes <= accumulator.bytes_held <= 2 * batch.used_bytes
    accumulator.close(batch)
    assert accumulator.bytes_held == batch.used_bytes == batch.builder.size_bytes
    accumulator.release(batch.admitted_bytes)
    assert accumulator.bytes_held == 0


def noted(monkeypatch: pytest.MonkeyPatch, accumulator: Accumulator) -> list[str]:
    """Return a list that records when a batch is closed, when it leaves its queue, and when its memory is released."""
    calls: list[str] = []

    def note(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, call)

    note(ProducerBatch, "close")
    note(PartitionQueue, "let_go")
    note(accumulator, "release")
    return calls


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_batch_that_may_still_grow_gives_back_no_memory(monkeypatch: pytest.MonkeyPatch, is_refused: bool) -> None:
    """Another thread appends to a batch until it is closed, and opens the next when the batch has left the queue."""
    filled = Filled()
    if is_refused:
        monkeypatch.setattr(filled.accumulator, "_tell", lambda what: False)  # the sender has just ended
        calls = noted(monkeypatch, filled.accumulator)
        with pytest.raises(Closed):
            filled.accumulator.take(held(), 0)
        assert calls == ["close", "release"]
    else:
        filled.send("t", b"x")
        calls = noted(monkeypatch, filled.accumulator)
        filled.accumulator.close(filled.batches()[0])
        assert calls == ["close", "let_go", "release"]


def test_memory_of_a_batch_that_is_closed_is_not_free_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, another thread could take that memory, and the batches together would exceed the limit."""
    filled = Filled()
    filled.send("t", b"x")
    accumulator, (batch,) = filled.accumulator, filled.batches()
    left: list[int] = []
    release = accumulator.release

    def released(size_bytes: int) -> None:
        release(size_bytes)
        left.append(accumulator.bytes_held)

    monkeypatch.setattr(accumulator, "release", released)
    accumulator.close(batch)
    assert left == [batch.used_bytes]


def test_after_a_full_batch_the_next_takes_its_memory_at_once() -> None:
    filled = Filled(batch_size=4096)
    while len(filled.batches()) < 2:
        filled.send("t", b"x" * 100)
    full, opened = filled.batches()
    filled.accumulator.close(full)
    assert (full.admitted_bytes, opened.admitted_bytes) == (full.used_bytes, 4096)
    filled.accumulator.close(opened)
    filled.send("t", b"x" * 100)
    assert filled.batches()[-1].admitted_bytes == 1024, "the batch before it was not full"


def test_a_full_buffer_takes_no_more_than_its_limit() -> None:
    filled = Filled(partitions=5, batch_size=512, buffer_memory=4096)
    count = 0
    while filled.accumulator.bytes_held < 3_900:
        filled.send("t", b"x" * 50, partition=count % 5)
        count += 1
    with pytest.raises(BufferFull, match=r"buffer_memory=4096; wait with producer\.drain\(\)"):
        filled.send("t", b"x" * 400)
    assert count > 20
    assert filled.accumulator.bytes_held <= 4096
    assert len(filled.values()) == count


def test_an_open_batch_that_cannot_grow_stays_open() -> None:
    filled = Filled(batch_size=4096, buffer_memory=2048)
    filled.send("t", b"x" * 500)
    with pytest.raises(BufferFull):
        filled.send("t", b"x" * 1_600)
    filled.send("t", b"small")
    (batch,) = filled.batches()
    assert not batch.is_closed
    assert filled.values() == [b"x" * 500, b"small"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": 5}, EncodeError),
        ({"value": b"v", "key": 1.5}, EncodeError),
        ({"value": "\ud800"}, EncodeError),
        ({"value": b"v", "headers": [("a", 5)]}, EncodeError),
        ({"value": b"v", "headers": [("a", b"1"), ("b",)]}, EncodeError),
        ({"value": b"v", "headers": 5}, EncodeError),
        ({"value": b"v", "timestamp_ms": -5}, EncodeError),
        ({"value": b"v", "timestamp_ms": "now"}, EncodeError),
        ({"value": b"v", "timestamp_ms": 2**70}, (EncodeError, OverflowError)),
        ({"value": b"v", "partition": 2**31}, LocalProtocolError),
        ({"value": b"v", "partition": -1}, LocalProtocolError),
        ({"value": b"v", "partition": 2**70}, LocalProtocolError),
        ({"value": b"v", "partition": "0"}, LocalProtocolError),
        ({"value": bytes(2**20)}, RecordTooLarge),
        ({"value": b"v", "topic": ""}, LocalProtocolError),
        ({"value": b"v", "topic": "x" * 250}, LocalProtocolError),
        ({"value": b"v", "topic": "ä"}, LocalProtocolError),
        ({"value": b"v", "topic": b"t"}, LocalProtocolError),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_what_is_refused_leaves_no_trace(arguments: dict[str, Any], error: Any, is_open: bool) -> None:
    filled = Filled()
    if is_open:
        filled.send("t", b"before")
    before = (filled.accumulator.bytes_held, len(filled.accumulator.news), list(filled.accumulator.topics))
    with pytest.raises(error):
        filled.send(**{"topic": "t", **arguments})
    after = (filled.accumulator.bytes_held, len(filled.accumulator.news), list(filled.accumulator.topics))
    assert after == before
    assert filled.values() == [b"before"][: int(is_open)]


def test_a_record_that_the_buffer_can_never_hold_is_too_large() -> None:
    with pytest.raises(RecordTooLarge, match="buffer_memory=1024 leaves room for 963"):
        Filled(buffer_memory=1024, batch_size=128).send("t", b"x" * 1000)


@pytest.mark.parametrize("answer", [2, -1, None, "0", ZeroDivisionError(), CancelledError()])
def test_a_partitioner_that_fails_settles_its_delivery_at_once(answer: Any) -> None:
    def partitioner(key: bytes, partitions: int) -> int:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]  # wrong on purpose

    filled = Filled(partitions=2, partitioner=partitioner)
    for _ in range(3):
        delivery = filled.send("t", b"v", key=b"k")
        assert delivery.done
        error = delivery.exception()
        assert isinstance(error, LocalProtocolError)
        assert "the partitioner returned an invalid partition for key b'k'" in str(error)
        assert error.__cause__ is not None
    assert filled.accumulator.bytes_held == 0
    assert not filled.batches()


def test_what_cannot_be_called_is_refused_before_anything_is_buffered() -> None:
    filled = Filled()
    not_callable: Any = 5
    with pytest.raises(LocalProtocolError, match="on_delivery: expected a callable, got 5"):
        filled.send("t", b"v", on_delivery=not_callable)
    assert filled.accumulator.bytes_held == 0
    delivery = filled.send("t", b"v")
    with pytest.raises(LocalProtocolError, match="callback: expected a callable, got 5"):
        delivery.add_done_callback(not_callable)


def test_round_robin_puts_each_record_into_the_next_partition_that_has_a_leader() -> None:
    filled = Filled(partitions=4, leaderless=frozenset({2}), partitioner="round_robin")
    for number in range(8):
        filled.send("t", b"%d" % number, key=None if number % 2 else b"same")
    filled.send("t", b"named", partition=2)
    found = {
        batch.queue.partition.partition: [r.value for r in RecordBatch(bytes(batch.sealed())).records()]
        for batch in filled.batches()
    }
    assert found == {0: [b"0", b"4"], 1: [b"1", b"5"], 3: [b"2", b"3", b"6", b"7"], 2: [b"named"]}


def test_round_robin_needs_no_leader_to_go_on() -> None:
    filled = Filled(partitions=2, leaderless=frozenset({0, 1}), partitioner="round_robin")
    for _ in range(4):
        filled.send("t", b"v")
    assert sorted(batch.builder.count for batch in filled.batches()) == [2, 2]


def test_the_first_failure_that_nobody_asks_for_is_remembered() -> None:
    filled = Filled(partitioner=lambda key, partitions: 9)
    delivery = filled.send("t", b"v", key=b"k")
    unobserved = filled.accumulator.unobserved
    assert unobserved is not None
    filled.send("t", b"v", key=b"k")
    assert filled.accumulator.unobserved is unobserved
    delivery.exception()
    filled.send("t", b"v", key=b"k")
    assert filled.accumulator.unobserved is not unobserved


def test_the_first_failure_counts_for_a_transaction_whoever_has_asked_for_it() -> None:
    filled = Filled(partitioner=lambda key, partitions: 9)
    filled.send("t", b"v", key=b"k").exception()
    failed = filled.accumulator.failed
    assert failed is not None
    assert failed.error is not None
    filled.send("t", b"v", key=b"k")
    assert filled.accumulator.failed is failed
    filled.accumulator.failed = None
    filled.send("t", b"v", key=b"k")
    assert filled.accumulator.failed not in (None, failed)


def test_records_are_refused_for_a_while_but_a_closed_producer_stays_closed() -> None:
    filled = Filled()
    filled.send("t", b"a")
    filled.accumulator.refuse(LocalProtocolError("no transaction is open"))
    with pytest.raises(LocalProtocolError, match="no transaction is open"):
        filled.send("t", b"refused")
    assert filled.accumulator.fill("t", [b"refused"], None, 5) == 0
    filled.accumulator.refuse(None)
    filled.send("t", b"b")
    filled.accumulator.refuse(Closed("the producer is closed"))
    filled.accumulator.refuse(None)
    with pytest.raises(Closed):
        filled.send("t", b"refused")
    assert filled.values() == [b"a", b"b"]


def test_closed() -> None:
    filled = Filled()
    filled.send("t", b"before")
    filled.accumulator.refuse_all(Closed("the producer is closed"))
    errors = []
    for topic in ("t", "new"):
        with pytest.raises(Closed, match="the producer is closed") as caught:
            filled.send(topic, b"v")
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert filled.values() == [b"before"]


def test_fill() -> None:
    filled = Filled(partitions=2, batch_size=2048)
    values: list[bytes | None] = [b"%03d" % number for number in range(500)]
    assert filled.accumulator.fill("t", values, None, 5) == 0, "no batch is open"
    filled.send("t", b"first", partition=1)
    taken = filled.accumulator.fill("t", values, 1, 5)
    assert 100 < taken < 500
    (batch,) = filled.batches()
    assert filled.accumulator.bytes_held == batch.admitted_bytes == 2048
    assert filled.accumulator.fill("t", values, 1, 5) == 0
    assert filled.accumulator.fill("unknown", values, 1, 5) == 0
    assert filled.values() == [b"first", *values[:taken]]


@pytest.mark.parametrize(("buffer_memory", "count"), [(2047, 0), (2048, 1)])
def test_fill_leaves_a_scarce_buffer_to_single_records(buffer_memory: int, count: int) -> None:
    filled = Filled(batch_size=2048, buffer_memory=buffer_memory)
    filled.send("t", b"first", partition=0)
    assert filled.accumulator.fill("t", [b"x"], 0, 5) == count


def test_threads_lose_nothing_and_keep_their_order() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        _use_threads()
    finally:
        sys.setswitchinterval(interval)


def _use_threads() -> None:
    filled = Filled(partitions=2, batch_size=1024)
    deliveries: dict[int, list[Any]] = {}

    def run(thread: int) -> None:
        headers = [("h", b"1")] if thread % 2 else []
        deliveries[thread] = [
            filled.send("t", b"%d:%05d" % (thread, number), partition=0, headers=headers) for number in range(2_000)
        ]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):  # the sender's side, meanwhile
        for batch in list(filled.batches()):
            if not batch.is_closed:
                filled.accumulator.close(batch)
                batch.sealed()
    for thread in threads:
        thread.join()
    values = [value or b"" for value in filled.values()]
    for number in range(4):
        mine = [value for value in values if value.startswith(b"%d:" % number)]
        assert mine == [b"%d:%05d" % (number, each) for each in range(2_000)]
    assert filled.accumulator.bytes_held == sum(batch.admitted_bytes for batch in filled.batches())


def test_forgotten_topics_are_held_again() -> None:
    """A known topic keeps its queues because of their sequence numbers; a topic that was never known is dropped."""
    filled = Filled()
    accumulator = filled.accumulator
    filled.send("t", b"v")
    filled.send("unknown", b"v")
    unknown = accumulator.topics["unknown"]
    accumulator.forget("t")
    assert filled.send("t", b"v").done is False
    assert len(accumulator.topics["t"].arrivals) == 1
    assert accumulator.topics["t"] is filled.topic
    unknown.gather()
    accumulator.forget("unknown")
    assert accumulator.topics["unknown"] is unknown, "a record is waiting there"
    unknown.held.clear()
    accumulator.forget("unknown")
    assert list(accumulator.topics) == ["t"]
    record = Held("unknown", None, b"v", (), None, 5, 100)
    assert unknown.arrivals.add(record) == (0, None), "a thread that has seen the topic must look again"


def held(value: bytes = b"v") -> Held:
    return Held("t", None, value, (), 0, 5, 100)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_record_that_comes_with_the_end_is_refused(is_known: bool) -> None:
    """The engine checked before, but the accumulator must notice the end nevertheless."""
    filled = Filled()
    if not is_known:
        filled.accumulator.topics.clear()
    filled.accumulator.refuse_all(Closed("over"))
    with pytest.raises(Closed, match="over"):
        filled.accumulator.take(held(), 0)
    assert (filled.accumulator.bytes_held, len(filled.accumulator.news)) == (0, 0)


def test_what_ctrl_c_has_interrupted_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch exists, but the sender may not know about it."""
    filled = Filled()

    def interrupted(what: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(filled.accumulator, "_tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            filled.accumulator.take(held(), 0)
    assert list(filled.accumulator.news) == [batch.queue for batch in filled.batches()] != []
    assert filled.wakes == 1
    filled.accumulator.topics.clear()
    record = held()
    with monkeypatch.context() as patch:
        patch.setattr(filled.accumulator, "_tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            filled.accumulator.take(record, TO_BE_CHOSEN)
    assert filled.accumulator.news[-1] is record
    assert filled.wakes == 2


def test_a_batch_that_a_transaction_ends_without_takes_no_record_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler ends a transaction and begins another before the sender knows about a batch that `send` has opened."""
    filled = Filled()
    accumulator = filled.accumulator
    tell = accumulator._tell

    def interrupted(what: Any) -> bool:
        monkeypatch.undo()
        accumulator.refuse(OUTSIDE)
        accumulator.end_term(STRADDLED)
        accumulator.refuse(None)
        return tell(what)

    monkeypatch.setattr(accumulator, "_tell", interrupted)
    filled.send("t", b"of the former")
    filled.send("t", b"of the next")
    former, following = filled.batches()
    assert (accumulator.outdated(former.term), accumulator.outdated(following.term)) == (STRADDLED, None)
    assert filled.values() == [b"of the former", b"of the next"]


def test_a_batch_is_divided_in_halves() -> None:
    filled = Filled()
    for _ in range(10):
        filled.send("t", b"x" * 100)
    (batch,) = filled.batches()
    filled.accumulator.close(batch)
    parts = filled.accumulator.parts_of(batch)
    assert {part.limit_bytes for part in parts} == {batch.used_bytes // 2}
    assert sum(part.builder.count for part in parts) == 10


def test_batches_are_compressed_with_the_level_that_was_asked_for() -> None:
    sizes = []
    for level in (1, 9):
        filled = Filled(compression="gzip", compression_gzip_level=level)
        filled.send("t", b"".join(b"%d," % (number * number) for number in range(2_000)))
        (batch,) = filled.batches()
        assert batch.builder.level == level
        sizes.append(len(batch.sealed()))
    assert sizes[1] < sizes[0]
