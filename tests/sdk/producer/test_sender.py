"""Batches reach their partition's leader once and in order, and each delivery is settled by its deadline.

Method: run the producer's state machines with simulated brokers that check sequence numbers as Apache Kafka does, on a
simulated clock, and inject faults singly and at random from a seed.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BatchRefused,
    BrokerError,
    Closed,
    ConnectionLost,
    DeliveryTimedOut,
    KafkaWireError,
    RemoteProtocolError,
)
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.identity import MAX_EPOCH, ProducerId
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.simulated import SimulatedProducer, outcome_of, place_of, refused, sent
from tests.sdk.simulation import SILENT, cluster, topic_id

#: A delivery is settled at most this long after `delivery_timeout_ms`.
GRACE_MS = 100

LATE = ErrorCode.NOT_ENOUGH_REPLICAS


def test_records_are_stored_in_order_with_sequence_numbers() -> None:
    producer = SimulatedProducer(batch_size=200)
    deliveries = [producer.send("t", b"%03d" % number, timestamp_ms=5) for number in range(100)]
    producer.run(100)
    assert producer.values() == [b"%03d" % number for number in range(100)]
    assert [outcome_of(each) for each in deliveries] == [RecordMetadata("t", 0, n, 5) for n in range(100)]
    batches = [batch for _, _, _, batch in producer.produced]
    assert len(batches) > 5
    assert {(batch.producer_id, batch.producer_epoch) for batch in batches} == {(7, 0)}
    sequences = [batch.base_sequence for batch in batches]
    assert sequences == [sum(batch.records_count for batch in batches[:place]) for place in range(len(batches))]
    assert producer.accumulator.bytes_held == 0
    assert producer.sender.is_settled
    assert producer.sender.is_silent


def test_a_stored_batch_is_acknowledged_though_its_topic_was_forgotten_meanwhile() -> None:
    """Another broker, which does not know a new topic yet, answers Metadata while the request is in flight."""
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    metadata, store = producer.router.metadata, producer.simulation.handlers[1, ProduceRequest]

    def store_and_forget(request: Any, version: int) -> Any:
        unaware = cluster([1], {})(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")]), 12)
        metadata.update(unaware, producer.simulation.now_ms)  # type: ignore[arg-type]  # it is one
        assert metadata.name_of(topic_id("t")) is None
        return store(request, version)

    producer.simulation.handlers[1, ProduceRequest] = store_and_forget
    delivery = producer.send("t", b"v")
    producer.run(100)
    assert place_of(delivery).offset == 1


def test_a_batch_lingers_unless_it_is_full_or_flushed() -> None:
    producer = SimulatedProducer(linger_ms=500, batch_size=300)
    producer.learn()
    producer.produced.clear()
    start_ms = producer.simulation.now_ms
    producer.send("t", b"a")
    producer.run(499)
    assert not producer.produced
    producer.run(10)
    assert [time - start_ms for time, *_ in producer.produced] == [500]
    producer.send("t", b"b")
    promise = producer.flush()
    producer.run(5)
    assert promise.done
    for _ in range(10):
        producer.send("t", b"x" * 50)
    producer.run(5)
    assert len(producer.produced) >= 3, "full batches must not linger"


def test_batches_of_one_leader_share_requests_and_none_starves() -> None:
    producer = SimulatedProducer({"t": [1, 2] * 20}, batch_size=1024, max_request_size=4096, linger_ms=0)
    producer.learn()
    for _ in range(20):
        for number in range(40):
            producer.send("t", b"x" * 200, partition=number)
    producer.run(1_000)
    assert {number: len(producer.values("t", number)) for number in range(40)} == dict.fromkeys(range(40), 20)
    requests = producer.simulation.requests(ProduceRequest, 1)
    sizes = [sum(len(data.records) for topic in each.topic_data for data in topic.partition_data) for each in requests]
    assert max(sizes) <= 4096
    assert len(requests) < 20 * 20


def test_at_most_so_many_requests_are_in_flight() -> None:
    producer = SimulatedProducer(batch_size=128, max_in_flight=3, linger_ms=0)
    producer.learn()
    producer.produced.clear()
    producer.simulation.latency_ms = 50
    for _ in range(10):
        producer.send("t", b"x" * 100)
    producer.run(49)
    assert len(producer.produced) == 3
    producer.run(1_000)
    assert producer.values() == [b"x" * 100] * 10


@pytest.mark.parametrize("idempotence", [None, False])
def test_retried_batches_keep_their_order(idempotence: bool | None) -> None:
    producer = SimulatedProducer(batch_size=128, linger_ms=0, enable_idempotence=idempotence, max_in_flight=1)
    producer.refuse = refused(LATE, times=4)
    values = [b"%03d" % number + b"x" * 90 for number in range(20)]
    for value in values:
        producer.send("t", value)
    producer.run(30_000)
    assert producer.values() == values


def test_an_unanswered_batch_fails_by_its_deadline_though_it_is_in_flight() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=700)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    delivery = producer.send("t", b"v")
    producer.run(699)
    assert not delivery.done
    producer.run(1 + GRACE_MS)
    error = outcome_of(delivery)
    assert isinstance(error, DeliveryTimedOut)
    assert "1 record for t-0: not acknowledged within delivery_timeout_ms=700" in str(error)
    held = producer.accumulator.bytes_held
    assert held > 0, "the request must still hold its memory"
    producer.run(40_000)
    assert producer.accumulator.bytes_held == 0


@pytest.mark.parametrize(("late_ms", "attempts"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("code", [LATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_no_attempt_is_due_at_the_deadline(code: ErrorCode, late_ms: int, attempts: int) -> None:
    """The response arrives after 1 ms, and the pause is 100 ms."""
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=101 + late_ms)
    producer.learn()
    producer.produced.clear()
    producer.refuse = refused(code, times=9)
    delivery = sent(producer, b"v", 50)
    assert delivery.done is (attempts == 1), "without another attempt, there is nothing to wait for"
    producer.run(100)
    assert isinstance(outcome_of(delivery), DeliveryTimedOut if code is LATE else BrokerError)
    assert len(producer.produced) == attempts


def test_too_large_a_batch_is_split_and_its_deliveries_follow() -> None:
    producer = SimulatedProducer(batch_size=4096, linger_ms=50)
    producer.learn()
    producer.max_batch_bytes = 600
    called: list[Delivery] = []
    values = [b"%02d" % number + b"x" * 100 for number in range(30)]
    deliveries = [producer.send("t", value, on_delivery=called.append) for value in values]
    promise = producer.flush()
    producer.run(5_000)
    assert promise.done
    assert producer.values() == values
    assert [place_of(each).offset for each in deliveries] == list(range(1, 31))
    assert Counter(map(id, called)) == Counter(map(id, deliveries))
    assert producer.accumulator.bytes_held == 0


def test_parts_of_a_batch_end_with_the_client() -> None:
    producer = SimulatedProducer(batch_size=4096, linger_ms=0)
    producer.learn()
    producer.max_batch_bytes = 600
    producer.refuse = refused(LATE, times=99)
    deliveries = [producer.send("t", b"x" * 100) for _ in range(20)]
    producer.run(50)
    producer.simulation.close()
    assert all(isinstance(outcome_of(each), Closed) for each in deliveries)


def test_the_last_retry_may_come_too_late() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=101, retries=1)
    producer.learn()
    producer.refuse = refused(LATE)
    assert isinstance(outcome_of(sent(producer, b"v", 50)), DeliveryTimedOut)


def test_a_single_record_that_is_too_large_fails_alone() -> None:
    producer = SimulatedProducer(batch_size=4096, linger_ms=50)
    producer.learn()
    producer.max_batch_bytes = 600
    deliveries = [producer.send("t", value) for value in (b"a", b"x" * 700, b"b")]
    producer.run(5_000)
    assert producer.values() == [b"a", b"b"]
    error = outcome_of(deliveries[1])
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_moved_leader_is_followed_by_metadata() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [2]
    assert isinstance(outcome_of(sent(producer, b"v", 2_000)), RecordMetadata)
    assert [node for _, node, *_ in producer.produced][-2:] == [1, 2]


def test_a_leader_named_in_the_response_is_followed_at_once() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.leaders["t"] = [2]
    producer.hints = True
    asked = len(producer.simulation.requests(MetadataRequest))
    start_ms = producer.simulation.now_ms
    delivery = producer.send("t", b"v")
    producer.run(20)
    assert isinstance(outcome_of(delivery), RecordMetadata)
    assert len(producer.simulation.requests(MetadataRequest)) == asked
    assert producer.produced[-1][0] - start_ms < 20, "the batch must be sent without a pause"


def test_without_acknowledgement_a_moved_leader_is_followed_too() -> None:
    producer = SimulatedProducer(linger_ms=0, acks=0)
    producer.learn()
    producer.leaders["t"] = [2]
    producer.send("t", b"lost")
    producer.run(1)
    producer.simulation.break_connections(1)  # as a broker does when it rejects a request with acks=0
    producer.run(1_000)
    sent(producer, b"v")
    assert producer.values() == [b"v"]


def test_without_acknowledgement_a_congested_connection_holds_batches_back() -> None:
    producer = SimulatedProducer(linger_ms=0, acks=0, buffer_memory=4096, batch_size=1024)
    producer.learn()
    producer.produced.clear()
    link = producer.router.reach(1, producer.simulation.now_ms)
    assert link is not None
    link.congested = True
    for _ in range(3):
        producer.send("t", b"x" * 900)
    producer.run(100)
    assert not producer.produced
    assert producer.accumulator.bytes_held > 2700
    link.congested = False
    producer.run(100)
    assert len(producer.produced) == 3


def test_a_partition_without_a_leader_delays_itself_alone() -> None:
    producer = SimulatedProducer({"t": [None, 1]}, linger_ms=0, delivery_timeout_ms=5_000)
    producer.send("t", b"x", partition=1)
    producer.run(1_000)
    stuck = producer.send("t", b"v", partition=0)
    free = producer.send("t", b"v", partition=1)
    producer.run(100)
    assert isinstance(outcome_of(free), RecordMetadata)
    assert producer.send("t", b"v").done is False
    producer.run(100)
    assert producer.values("t", 1)[-1] == b"v", "records without a key must avoid the partition"
    producer.leaders["t"] = [2, 1]
    producer.run(3_000)
    assert isinstance(outcome_of(stuck), RecordMetadata)


def test_a_dead_broker_delays_its_partitions_alone_and_is_named() -> None:
    producer = SimulatedProducer({"t": [1, 2]}, linger_ms=0, delivery_timeout_ms=3_000)
    producer.learn()
    producer.simulation.down = {2}
    dead = producer.send("t", b"v", partition=1)
    producer.run(500)
    assert isinstance(outcome_of(sent(producer, b"v", partition=0)), RecordMetadata)
    producer.run(3_000)
    error = outcome_of(dead)
    assert isinstance(error, DeliveryTimedOut)
    assert "cannot connect to node-2:9092: refused" in str(error)


def loading(request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_batches_wait_for_the_producer_id_and_have_it() -> None:
    producer = SimulatedProducer({"t": [1, 1]}, linger_ms=0)
    usual = producer.simulation.handlers[InitProducerIdRequest]
    producer.simulation.handlers[InitProducerIdRequest] = loading
    deliveries = [producer.send("t", b"v", partition=number) for number in (0, 1)]
    producer.run(2_000)
    assert not producer.produced
    producer.simulation.handlers[InitProducerIdRequest] = usual
    producer.run(2_000)
    assert [place_of(each).offset for each in deliveries] == [0, 0]
    assert {(batch.producer_id, batch.base_sequence) for *_, batch in producer.produced} == {(7, 0)}


@pytest.mark.parametrize("insists", [True, None])
def test_batches_that_get_no_producer_id_fail_or_go_without(insists: bool | None) -> None:
    producer = SimulatedProducer(linger_ms=0, enable_idempotence=insists)
    producer.simulation.handlers[InitProducerIdRequest] = loading
    waited = sent(producer, b"waited")
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    producer.run(2_000)
    later = sent(producer, b"later")
    if insists:
        for delivery in (waited, later):
            with pytest.raises(KafkaWireError, match="issues no producer id: CLUSTER_AUTHORIZATION_FAILED"):
                raise outcome_of(delivery)  # type: ignore[misc]  # else this is a TypeError
        assert not producer.produced
    else:
        assert [place_of(each).offset for each in (waited, later)] == [0, 1]
        assert {(batch.producer_id, batch.base_sequence) for *_, batch in producer.produced} == {(-1, -1)}
    assert producer.accumulator.bytes_held == 0


def test_batches_without_an_id_and_with_one_are_all_stored_once_it_is_granted() -> None:
    """The id arrives while a batch without one is being sent again, and others wait behind it."""
    producer = SimulatedProducer(linger_ms=0, max_in_flight=1)
    usual = producer.simulation.handlers[InitProducerIdRequest]
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    producer.learn()
    producer.simulation.handlers[InitProducerIdRequest] = usual
    producer.refuse = lambda topic, number, batch: 0 if producer.identity.enabled else ErrorCode.NOT_ENOUGH_REPLICAS
    deliveries = []
    for number in range(30):
        deliveries.append(producer.send("t", b"%d" % number))
        producer.run(100)
    producer.run(2_000)
    assert [place_of(each).offset for each in deliveries] == list(range(1, 31))
    assert producer.values() == [b"%d" % number for number in range(30)]
    assert ids(producer) == {-1, 7}
    assert producer.log().batches[-1].producer_id == 7


def test_who_waits_for_a_producer_id_is_told_that_the_client_has_ended() -> None:
    producer = SimulatedProducer(enable_idempotence=True)
    producer.simulation.handlers[InitProducerIdRequest] = loading
    producer.learn()
    assert not producer.identity.ready.done
    producer.sender.fail(Closed("the client has ended"), producer.simulation.now_ms)
    assert producer.identity.ready.done
    with pytest.raises(Closed, match="the client has ended"):
        producer.identity.ready.wait()


def test_another_producer_id_follows_the_last_epoch() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.identity.current = ProducerId(7, MAX_EPOCH)
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    ids = iter([8])
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        producer_id=next(ids)
    )
    for value in (b"refused", b"stored"):
        sent(producer, value)
    assert producer.values() == [b"stored"]
    last = producer.produced[-1][3]
    assert (last.producer_id, last.producer_epoch, last.base_sequence) == (8, 0, 0)


def test_a_response_without_the_batch_fails_it() -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: ProduceResponse([])
    error = outcome_of(sent(producer, b"v"))
    assert isinstance(error, RemoteProtocolError)


def test_ending_the_client_settles_everything() -> None:
    producer = SimulatedProducer({"t": [1, None]}, linger_ms=10_000)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    deliveries = [
        producer.send("t", b"lingering", partition=0),
        producer.send("t", b"no leader", partition=1),
        producer.send("unknown", b"v"),
    ]
    promise = producer.flush()
    producer.run(100)
    deliveries.append(producer.send("t", b"open", partition=0))
    producer.simulation.close()
    for delivery in deliveries:
        assert isinstance(outcome_of(delivery), Closed)
    assert promise.done
    with pytest.raises(Closed):
        producer.send("t", b"v")
    with pytest.raises(Closed):
        producer.flush().wait(0)
    drained: Promise[None] = Promise()
    producer.sender.drain(drained, producer.simulation.now_ms)
    with pytest.raises(Closed):
        drained.wait(0)
    assert not producer.sender._waiters.awaits_room, "no call may be waiting any longer"


def test_a_record_that_comes_while_the_client_ends_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may send right up to the moment when records are refused."""
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    late: list[Delivery] = []
    refuse_all = producer.accumulator.refuse_all

    def refused_now(error: KafkaWireError) -> None:
        late.append(producer.send("t", b"late"))
        refuse_all(error)

    monkeypatch.setattr(producer.accumulator, "refuse_all", refused_now)
    monkeypatch.setattr(producer.accumulator, "_wake", lambda: None)  # the sender is running
    producer.simulation.close()
    (delivery,) = late
    assert isinstance(outcome_of(delivery), Closed)


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_what_is_flushed_is_settled_when_that_is_told(topic: str) -> None:
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    delivery = producer.send(topic, b"v")
    promise, told = producer.flush(), []
    promise.add_done_callback(lambda: told.append(delivery.done))
    producer.run(10)
    assert not told
    producer.simulation.close()
    assert told == [True]


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_callback_can_tell_that_records_were_lost(topic: str) -> None:
    """The callback may end the transaction, which must not be committed if records are lost."""
    producer = SimulatedProducer(linger_ms=0)
    producer.learn()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    lost: list[bool] = []
    producer.send(topic, b"v").add_done_callback(lambda _: lost.append(producer.accumulator.failed is not None))
    producer.simulation.close()
    assert lost == [True]


def test_a_partition_that_waits_for_its_leader_keeps_its_turn() -> None:
    producer = SimulatedProducer({"t": [1, 1]}, linger_ms=0, max_in_flight=1, batch_size=1024, enable_idempotence=False)
    producer.learn()
    for number in (0, 1, 0, 1, 1):  # the first is sent directly; the last opens a batch because the one before is full
        producer.send("t", b"x" * 900, partition=number)
        producer.sender.poll(producer.simulation.now_ms)
    (waiting,) = producer.sender._schedule.ready.values()
    assert [queue.partition.partition for queue in waiting] == [1, 0]


def test_work_grows_with_what_is_ready_and_not_with_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SimulatedProducer({"t": [1 + number % 3 for number in range(10_000)]}, linger_ms=100_000)
    producer.learn()
    for number in range(10_000):
        producer.send("t", b"v", partition=number)
    producer.run(10)
    looked = 0
    place = producer.sender._place

    def counted(queue: Any, now_ms: int) -> None:
        nonlocal looked
        looked += 1
        place(queue, now_ms)

    monkeypatch.setattr(producer.sender, "_place", counted)
    for _ in range(10):
        producer.send("t", b"x" * 2**17, partition=5)
        producer.run(20)
    assert looked <= 100


def test_records_wait_for_a_refused_login_to_be_accepted() -> None:
    producer = SimulatedProducer({"t": [1, 2]}, linger_ms=0, metadata_max_age_ms=600_000)
    producer.learn()
    simulation = producer.simulation
    producer.run(1_000)
    simulation.opened.clear()
    simulation.down, simulation.refusal = {1}, AuthenticationFailed
    simulation.break_connections(1)
    waiting = sent(producer, b"v")
    for _ in range(20):
        assert place_of(sent(producer, b"v", partition=1)).partition == 1
    producer.run(10_000)
    times = [time_ms for time_ms, node in simulation.opened if node == 1]
    assert [later - earlier for earlier, later in pairwise(times[1:])] == [2_001, 4_001, 8_001]
    simulation.down = set()
    producer.run(20_000)
    assert place_of(waiting).partition == 0


def test_a_login_that_is_refused_for_too_long_is_the_reason_why_a_record_fails() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=20_000)
    producer.learn()
    simulation = producer.simulation
    simulation.down, simulation.refusal = {1, 2, 3}, AuthenticationFailed
    simulation.break_connections(1)
    waiting = producer.send("t", b"v")
    producer.run(20_010)
    error = outcome_of(waiting)
    assert isinstance(error, DeliveryTimedOut)
    assert isinstance(error.__cause__, AuthenticationFailed)
    assert producer.accumulator.bytes_held == 0


def lose_id(producer: SimulatedProducer) -> None:
    """Make the next request for a producer id lose its connection, and every login after that fail."""
    simulation = producer.simulation

    def lose(request: InitProducerIdRequest, version: int) -> Exception:
        simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(producer_id=7)
        simulation.down, simulation.refusal = set(producer.nodes), AuthenticationFailed
        return ConnectionLost("reset by peer")

    simulation.handlers[InitProducerIdRequest] = lose


def ids(producer: SimulatedProducer) -> set[int]:
    """Return the producer ids of the batches that have arrived."""
    return {batch.producer_id for *_, batch in producer.produced}


def test_a_login_that_is_refused_before_there_is_a_producer_id_is_no_end_of_idempotence() -> None:
    producer = SimulatedProducer(linger_ms=0, metadata_max_age_ms=60_000)
    producer.simulation.down, producer.simulation.refusal = {1, 2, 3}, AuthenticationFailed
    producer.run(1_000)
    producer.simulation.down = set()
    producer.run(60_000)
    assert place_of(sent(producer, b"v")).offset == 0
    assert ids(producer) == {7}


@pytest.mark.parametrize("wanted", [None, False])
def test_records_of_a_refused_login_arrive_with_idempotence_and_without(wanted: bool | None) -> None:
    producer = SimulatedProducer(linger_ms=0, metadata_max_age_ms=600_000, enable_idempotence=wanted)
    simulation = producer.simulation
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    producer.send("t", b"1", partition=0)
    producer.run(150)
    lose_id(producer)
    producer.run(1_000)
    if wanted is False:
        simulation.down, simulation.refusal = {1, 2, 3}, AuthenticationFailed
        simulation.break_connections(1)
    simulation.opened.clear()
    waiting = producer.send("t", b"2", partition=0)
    producer.run(10_000)
    assert len(simulation.opened) <= 5
    simulation.down = set()
    producer.run(30_000)
    assert isinstance(place_of(waiting), RecordMetadata)
    assert producer.values() == [b"1", b"2"]
    assert ids(producer) == ({7} if wanted is None else {-1})


def test_a_record_that_waits_for_a_producer_id_fails_in_time_and_says_why() -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=5_000)
    simulation = producer.simulation
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.UNKNOWN_SERVER_ERROR
    )
    deliveries = [producer.send("t", b"%d" % number) for number in range(3)]
    flushed = producer.flush()
    producer.run(5_000 + GRACE_MS)
    late = "3 records for t-0: not acknowledged within delivery_timeout_ms=5000; UNKNOWN_SERVER_ERROR: producer id"
    for delivery in deliveries:
        error = outcome_of(delivery)
        assert isinstance(error, DeliveryTimedOut)
        assert str(error) == late
    assert flushed.done
    assert producer.accumulator.bytes_held == 0
    assert len(simulation.requests(InitProducerIdRequest)) <= 10
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(producer_id=7)
    assert isinstance(outcome_of(sent(producer, b"v", 2_000)), RecordMetadata)
    assert ids(producer) == {7}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            "COORDINATOR_LOAD_IN_PROGRESS: producer id",
        ),
        (SILENT, "no broker has given a producer id"),
    ],
    ids=["loading", "silent"],
)
def test_a_record_that_waits_while_the_id_is_still_asked_for_says_so(answer: Any, reason: str) -> None:
    producer = SimulatedProducer(linger_ms=0, delivery_timeout_ms=5_000)
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: answer
    delivery = producer.send("t", b"v")
    producer.run(5_000 + GRACE_MS)
    late = "1 record for t-0: not acknowledged within delivery_timeout_ms=5000; "
    assert str(outcome_of(delivery)).removeprefix(late) == reason


def test_no_batch_goes_without_a_number_while_the_next_id_is_asked_for() -> None:
    """One partition uses up the last epoch while others with the same leader have batches to send."""
    producer = SimulatedProducer({"t": [1] * 3}, linger_ms=0, max_request_size=1_024, batch_size=512, max_in_flight=1)
    for number in range(3):
        sent(producer, b"first", partition=number)
    producer.identity.current = ProducerId(7, MAX_EPOCH)
    producer.produced.clear()
    ids_left = iter([8])
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        producer_id=next(ids_left)
    )
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    deliveries = [producer.send("t", b"x" * 900, partition=number) for number in range(3) for _ in range(3)]
    producer.run(2_000)
    assert isinstance(outcome_of(deliveries[0]), BrokerError)
    assert all(isinstance(outcome_of(each), RecordMetadata) for each in deliveries[1:])
    assert -1 not in ids(producer)
    assert 8 in ids(producer)


def test_records_of_all_partitions_fail_if_there_will_be_no_other_id() -> None:
    producer = SimulatedProducer({"t": [1] * 3}, linger_ms=0, enable_idempotence=True, max_in_flight=1)
    producer.learn()
    producer.identity.current = ProducerId(7, MAX_EPOCH)
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    producer.simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.UNSUPPORTED_VERSION
    )
    deliveries = [producer.send("t", b"x" * 100, partition=number) for number in range(3)]
    producer.run(10)
    deliveries += [producer.send("t", b"x" * 100, partition=number) for number in range(3)]
    producer.run(1_000)
    failed = [outcome_of(each) for each in deliveries if "issues no producer id" in str(outcome_of(each))]
    assert len(failed) >= 3
    assert producer.accumulator.bytes_held == 0


def test_one_record_that_is_refused_leaves_the_others_an_error_that_says_so() -> None:
    producer = SimulatedProducer(linger_ms=100)
    producer.learn()
    kind = ProduceResponse.PartitionProduceResponse
    named = [ProduceResponse.BatchIndexAndErrorMessage(1, "no key"), ProduceResponse.BatchIndexAndErrorMessage(9, "?")]
    store = producer.simulation.handlers[1, ProduceRequest]
    refusal = kind(0, ErrorCode.INVALID_RECORD, record_errors=named, error_message="One or more records: no key")
    answers = [ProduceResponse([ProduceResponse.TopicProduceResponse("t", topic_id("t"), [refusal])])]
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: (
        answers.pop() if answers else store(request, version)
    )
    deliveries = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
    promise = producer.flush()
    producer.run(1_000)
    assert promise.done
    outcomes = [outcome_of(delivery) for delivery in deliveries]
    assert [type(each) for each in outcomes] == [BatchRefused, BrokerError, BatchRefused]
    assert str(outcomes[1]) == "INVALID_RECORD: record for t-0: no key"
    assert len(producer.produced) == 1, "a batch that was refused must not be sent again"
    again = producer.send("t", b"2", partition=0)
    producer.run(1_000)
    assert isinstance(outcome_of(again), RecordMetadata)


def test_a_batch_that_a_throttling_broker_held_up_says_so() -> None:
    producer = SimulatedProducer({"t": [1, 2]}, delivery_timeout_ms=2_000)
    for number in (0, 1):
        producer.send("t", b"v", partition=number)
    producer.run(500)
    link = producer.router.reach(1, producer.simulation.now_ms)
    assert link is not None
    link.throttled(5_000, producer.simulation.now_ms)
    held_up, stored = (producer.send("t", b"v", partition=number) for number in (0, 1))
    producer.run(3_000)
    assert str(outcome_of(held_up)).endswith("throttled by node-1:9092 for 5000 ms")
    place_of(stored)


def test_a_record_whose_topic_no_broker_may_be_asked_for_says_so() -> None:
    producer = SimulatedProducer({"t": [1]}, nodes=[1], delivery_timeout_ms=2_000)
    producer.learn()
    link = producer.router.reach(1, producer.simulation.now_ms)
    assert link is not None
    link.throttled(5_000, producer.simulation.now_ms)
    delivery = producer.send("other", b"v")
    producer.run(3_000)
    assert str(outcome_of(delivery)).endswith(
        "no broker has responded; this client exceeds a quota and was throttled by node-1:9092 for 5000 ms"
    )
