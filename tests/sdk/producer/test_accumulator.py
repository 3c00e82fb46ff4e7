"""Batches leave when they are full or old enough, in order, within the limits; failed ones are retried or given up.

Method: the accumulator is driven with explicit times; small limits make every edge reachable with a few records.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.options import ProducerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import BrokerError, BufferFull, Closed, DeliveryTimedOut, EncodeError, RecordTooLarge
from kafkawire.sdk.producer.accumulator import Accumulator, ProducerBatch
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch, walk

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PASSING = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)


def accumulator(**options: object) -> Accumulator:
    """Return an accumulator with a batch size of 200 bytes and a linger of 10 ms unless told otherwise."""
    return Accumulator(read_options(ProducerOptions, "a", {"batch_size": 200, "linger_ms": 10, **options}))


def put(
    records: Accumulator, partition: TopicPartition = A, value: bytes = b"x" * 50, now_ms: int = 0
) -> ProducerBatch:
    """Append a record and return its batch."""
    batch, _, _ = records.append(partition, None, value, (), 1000, now_ms)
    return batch


def take(records: Accumulator, now_ms: int = 0) -> list[ProducerBatch]:
    """Take what is ready for a broker that leads everything."""
    return records.take(lambda partition: True, now_ms)


def offsets(batch: ProducerBatch) -> list[bytes | None]:
    """Return the values in a sealed batch."""
    (found,) = walk(batch.sealed())
    assert isinstance(found, RecordBatch)
    return [record.value for record in found.records()]


def test_records_are_sent_as_they_were_appended() -> None:
    records = accumulator(linger_ms=0)
    batch, index, news = records.append(A, b"k", b"v", (("h", b"1"), ("h", None)), 1234, 0)
    assert (index, news) == (0, True)
    assert records.append(A, None, None, (), 1235, 0)[1:] == (1, False)
    assert take(records) == [batch]
    (found,) = walk(batch.sealed())
    first, second = found.records()
    assert (first.key, first.value, first.headers, first.timestamp) == (b"k", b"v", (("h", b"1"), ("h", None)), 1234)
    assert (second.key, second.value, second.timestamp) == (None, None, 1235)


def test_many_values_fill_an_open_batch_and_no_more() -> None:
    records = accumulator()
    values = [b"%d" % number + b"x" * 20 for number in range(9)]
    assert records.fill(A, values, 1000) == 0, "no batch is open"
    batch = put(records, value=values[0])
    held = records.bytes_held
    added = records.fill(A, values[1:], 1000)
    assert 0 < added < 8
    assert records.fill(A, values[1 + added :], 1000) == 0, "it is full"
    assert records.bytes_held - held == sum(len(value) + 7 for value in values[1 : 1 + added])
    assert put(records, value=values[1 + added]) is not batch
    assert offsets(batch) == values[: 1 + added]
    take(records, now_ms=0)
    records.succeed(batch, 0, -1)
    assert records.bytes_held == records.unfinished[0].bytes_held


def test_many_values_stay_within_the_buffer() -> None:
    records = accumulator(buffer_memory=1024, batch_size=800)
    put(records)
    assert records.fill(A, [b"x"], 1000) == 1
    put(records, B)
    assert records.fill(A, [b"x"], 1000) == 0, "800 bytes more might not fit"


def test_values_before_a_wrong_one_count() -> None:
    records = accumulator()
    batch = put(records, value=b"a")
    held = records.bytes_held
    with pytest.raises(EncodeError):
        records.fill(A, [b"b", 3], 1000)  # type: ignore[list-item]  # not bytes
    assert records.bytes_held == held + 8
    assert offsets(batch) == [b"a", b"b"]


def test_an_open_batch_lingers_and_a_full_one_does_not() -> None:
    records = accumulator()
    assert records.due_ms(0) is None
    first = put(records, now_ms=5)
    assert records.due_ms(5) == 15
    assert take(records, now_ms=14) == []
    put(records, now_ms=6)
    second = put(records, now_ms=6)
    assert second is not first
    assert take(records, now_ms=6) == [first]
    assert take(records, now_ms=15) == []
    assert take(records, now_ms=16) == [second]
    assert list(records.waiting()) == []


def test_flush_ends_the_linger() -> None:
    records = accumulator()
    batch = put(records)
    records.flush()
    assert take(records) == [batch]
    assert put(records) is not batch


def test_only_partitions_that_the_broker_leads() -> None:
    records = accumulator(linger_ms=0)
    put(records, A)
    other = put(records, B)
    assert records.take(lambda partition: partition == B, 0) == [other]
    assert list(records.waiting()) == [A]


def test_one_batch_per_partition_and_request_and_no_partition_starves() -> None:
    records = accumulator(linger_ms=0, max_request_size=1024)
    batches = [put(records, partition, b"x" * 400) for partition in (A, A, B, B, TopicPartition("u", 0))]
    assert take(records) == [batches[0], batches[2]]
    assert take(records) == [batches[4], batches[1]]
    assert take(records) == [batches[3]]


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    records = accumulator(linger_ms=0)
    put(records)
    big = put(records, value=b"x" * 500)
    assert take(records)[0] is not big
    assert offsets(take(records)[0]) == [b"x" * 500]


def test_a_record_larger_than_a_request_is_refused() -> None:
    records = accumulator(max_request_size=1024)
    with pytest.raises(RecordTooLarge, match=r"record of up to 1032 bytes, max_request_size=1024 leaves 963"):
        put(records, value=b"x" * 1000)
    assert records.unfinished == []


def test_the_buffer_is_bounded_and_freed() -> None:
    records = accumulator(linger_ms=0, buffer_memory=1024, batch_size=1024)
    batch = put(records, value=b"x" * 900)
    with pytest.raises(
        BufferFull,
        match=r"993 bytes are not acknowledged yet, 82 more exceed buffer_memory=1024; await producer.drain\(\)",
    ):
        put(records)
    assert take(records) == [batch]
    records.succeed(batch, 0, -1)
    assert records.bytes_held == 0
    put(records)


def test_success() -> None:
    records = accumulator(linger_ms=0)
    batch = put(records)
    calls = []
    batch.on_done.append(lambda: calls.append(batch.base_offset))
    take(records)
    records.succeed(batch, 70, 5)
    assert (batch.done, batch.error, batch.log_append_time_ms, calls) == (True, None, 5, [70])
    assert (records.unfinished, records.unobserved) == ([], None)


def test_failed_batches_go_back_in_order_when_the_last_one_in_flight_is_back() -> None:
    records = accumulator(linger_ms=0)
    batches = [put(records, value=b"x" * 150) for _ in range(4)]
    for batch in batches[:3]:
        assert take(records) == [batch]
    records.retry(batches[1], PASSING, now_ms=0, pause_ms=100)
    assert take(records, now_ms=500) == []
    records.retry(batches[0], PASSING, now_ms=0, pause_ms=100)
    assert take(records, now_ms=500) == []
    records.succeed(batches[2], 0, -1)
    assert records.due_ms(0) == 100
    assert take(records, now_ms=99) == []
    assert [take(records, now_ms=100) for _ in range(3)] == [[batches[0]], [batches[1]], [batches[3]]]
    records.succeed(batches[0], 1, -1)
    assert batches[0].error is None


def test_other_partitions_continue_while_one_waits() -> None:
    records = accumulator(linger_ms=0)
    failed, other = put(records, A), put(records, B)
    take(records)
    records.retry(failed, PASSING, now_ms=0, pause_ms=100)
    records.succeed(other, 0, -1)
    again = put(records, B)
    assert take(records) == [again]


def test_retries_are_counted() -> None:
    records = accumulator(linger_ms=0, retries=1)
    batch = put(records)
    take(records)
    records.retry(batch, PASSING, 0, 0)
    assert take(records) == [batch]
    records.retry(batch, PASSING, 0, 0)
    assert (batch.done, batch.error) == (True, PASSING)


def test_a_batch_fails_after_the_delivery_timeout() -> None:
    records = accumulator(linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=1000)
    unsent, failed = put(records, A), put(records, B)
    assert records.take(lambda partition: partition == B, 0) == [failed]
    records.expire(999)
    assert not unsent.done
    records.expire(1000)
    records.retry(failed, PASSING, 1000, 0)
    assert isinstance(unsent.error, DeliveryTimedOut)
    assert str(unsent.error) == (
        "1 records for t-0 were not acknowledged within delivery_timeout_ms=1000; nothing could be sent"
    )
    assert isinstance(failed.error, DeliveryTimedOut)
    assert failed.error.__cause__ is PASSING
    assert (records.bytes_held, list(records.waiting())) == (0, [])


def test_failures_that_nobody_awaits_are_kept() -> None:
    records = accumulator(linger_ms=0)
    awaited, first, second = (put(records, TopicPartition("t", number)) for number in range(3))
    awaited.observed = True
    for batch in take(records):
        records.fail(batch, BrokerError(ErrorCode.MESSAGE_TOO_LARGE, str(batch.partition)))
    assert records.unobserved is first
    assert second.done


def test_abandon() -> None:
    records = accumulator(linger_ms=0)
    in_flight, waiting = put(records, A), put(records, B)
    assert records.take(lambda partition: partition == A, 0) == [in_flight]
    records.abandon(Closed("closed"))
    assert (in_flight.done, waiting.done) == (False, True)
    assert isinstance(waiting.error, Closed)
