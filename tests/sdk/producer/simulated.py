"""A producer's state machines, and simulated brokers that store batches as Apache Kafka does, with sequence numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.producer.core import machines
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.producer.settings import read_producer_options
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.simulation import FRACTION, Simulation, backoff, cluster, topic_id

__all__ = ["Log", "SimulatedProducer", "chance", "outcome_of", "place_of", "refused", "sent"]

#: For each producer, a leader recognises repetitions of the last batches, up to this number, as in Apache Kafka.
_REMEMBERED = 5


class Log:
    """The log of one partition, and its leader's knowledge of producers.

    Attributes:
        start: the first offset that remains.
        refuses_unknown: whether the leader rejects an unknown producer that does not begin with 0, as brokers before
            Apache Kafka 2.5 do.
    """

    def __init__(self) -> None:
        self.start = 0
        self.refuses_unknown = False
        self.values: list[bytes | None] = []
        self.batches: list[RecordBatch] = []
        self._epochs: dict[int, int] = {}
        self._remembered: dict[int, list[tuple[int, int, int]]] = {}

    def append(self, batch: RecordBatch) -> tuple[ErrorCode, int]:
        """Store a batch, and return an error code and the offset of its first record."""
        producer, first = batch.producer_id, batch.base_sequence
        if producer >= 0:
            epoch = self._epochs.get(producer)
            if epoch is not None and batch.producer_epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            remembered = self._remembered.setdefault(producer, [])
            if self.refuses_unknown and not remembered and first != 0:
                return ErrorCode.UNKNOWN_PRODUCER_ID, -1
            if epoch is not None and batch.producer_epoch > epoch:
                if first != 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                remembered.clear()
            last = first + batch.records_count - 1
            for known_first, known_last, offset in remembered:
                if (known_first, known_last) == (first, last):
                    return ErrorCode.NONE, offset
            if remembered and first != remembered[-1][1] + 1:
                is_old = last <= remembered[-1][1]
                return (ErrorCode.DUPLICATE_SEQUENCE_NUMBER if is_old else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
            self._epochs[producer] = batch.producer_epoch
            remembered.append((first, last, len(self.values)))
            del remembered[:-_REMEMBERED]
        offset = len(self.values)
        self.batches.append(batch)
        self.values += [record.value for record in batch.records()]
        return ErrorCode.NONE, offset

    def forget(self) -> None:
        """Forget all producers, as if none had sent anything for a week or retention had deleted their records."""
        self._epochs.clear()
        self._remembered.clear()


class SimulatedProducer:
    """A producer on a simulated clock.

    Args:
        topics: the leader of each partition, keyed by topic; None for a partition without a leader.
        nodes: the node ids of the brokers.
        fraction: the source of the producer's random numbers; None for a constant.
        given: options.

    Attributes:
        leaders: the current leader of each partition, which tests may change.
        lives: how many times each topic was recreated; see `cluster`.
        stale: the leaders that Metadata responses name instead of `leaders`; None if the responses are right.
        logs: the logs, keyed by topic and partition.
        refuse: returns an error code for a batch before it is stored, or 0 to store it.
        produced: (time, node, topic and partition, batch) for every batch that arrived.
        max_batch_bytes: the largest batch that the brokers accept.
        hints: whether responses name the new leader (KIP-951).
    """

    def __init__(
        self,
        topics: Mapping[str, Sequence[int | None]] | None = None,
        nodes: Sequence[int] = (1, 2, 3),
        fraction: Callable[[], float] | None = None,
        **given: object,
    ) -> None:
        # A short delivery_timeout_ms would require a short request_timeout_ms, but some tests want only one of the two.
        timeout = {name: given.pop(name) for name in ("delivery_timeout_ms", "linger_ms") if name in given}
        self.options = ProducerOptions(**{**vars(read_producer_options("node-1:9092", given)), **timeout})
        self.nodes = nodes
        self.leaders = {name: list(numbers) for name, numbers in (topics or {"t": [1]}).items()}
        self.lives: dict[str, int] = {}
        self.stale: dict[str, list[int | None]] | None = None
        self.logs: dict[tuple[str, int], Log] = {}
        self.refuse: Callable[[str, int, RecordBatch], int] = lambda topic, number, batch: 0
        self.produced: list[tuple[int, int, tuple[str, int], RecordBatch]] = []
        self.max_batch_bytes = 1 << 20
        self.hints = False
        self.wakes = 0
        self.router = Router(self.options, backoff(), creates_topics=True)
        self.accumulator, self.identity, self.sender, self.transactions = machines(
            self.options, self.router, lambda: self.simulation.now_ms, fraction or (lambda: FRACTION), self._wake
        )
        self.simulation = Simulation(self.router, *filter(None, (self.sender, self.transactions)))
        handlers = self.simulation.handlers
        handlers[MetadataRequest] = self._metadata
        handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(producer_id=7)
        for node in nodes:
            handlers[node, ProduceRequest] = lambda request, version, node=node: self._produce(node, request)
        self.send = self.accumulator.appender.send

    def _wake(self) -> None:
        self.wakes += 1

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.simulation.run(duration_ms)

    def learn(self, *topics: str) -> None:
        """Let the producer learn its topics and open its first connection."""
        for topic in topics or tuple(self.leaders):
            self.send(topic, b"first", partition=0)
        self.run(1_000)

    def flush(self) -> Promise[None]:
        """Flush, and return the promise."""
        promise: Promise[None] = Promise()
        self.sender.flush(promise, self.simulation.now_ms)
        return promise

    def log(self, topic: str = "t", number: int = 0) -> Log:
        """Return the log of a partition."""
        return self.logs.setdefault((topic, number), Log())

    def values(self, topic: str = "t", number: int = 0) -> list[bytes | None]:
        """Return the values stored in a partition."""
        return [value for value in self.log(topic, number).values if value != b"first"]

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        answer = cluster(self.nodes, self.stale or self.leaders, lives=self.lives)(request, version)
        assert isinstance(answer, MetadataResponse)
        return answer

    def _produce(self, node: int, request: ProduceRequest) -> Message:
        names = {topic_id(name, self.lives.get(name, 0)): name for name in self.leaders}
        kind = ProduceResponse.PartitionProduceResponse
        responses = []
        for topic in request.topic_data:
            name = topic.name or names.get(topic.topic_id, "")
            partitions = []
            for data in topic.partition_data:
                batch = RecordBatch(bytes(data.records or b""))
                partitions.append(self._append(node, name, data.index, batch, kind))
            responses.append(ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, partitions))
        return ProduceResponse(responses)

    def _append(self, node: int, name: str, number: int, batch: RecordBatch, kind: Any) -> Any:
        self.produced.append((self.simulation.now_ms, node, (name, number), batch))
        if name not in self.leaders:
            return kind(number, ErrorCode.UNKNOWN_TOPIC_ID)
        if number >= len(self.leaders[name]):
            return kind(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader = self.leaders[name][number]
        if leader != node:
            moved = kind(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self.hints and leader is not None:
                moved.current_leader = ProduceResponse.LeaderIdAndEpoch(leader, 9)
            return moved
        if batch.size_in_bytes > self.max_batch_bytes:
            return kind(number, ErrorCode.MESSAGE_TOO_LARGE)
        code = self.refuse(name, number, batch)
        if code:
            return kind(number, code)
        log = self.log(name, number)
        code, offset = log.append(batch)
        return kind(number, code, offset, log_start_offset=log.start)


def outcome_of(delivery: Delivery) -> RecordMetadata | Exception:
    """Return the result of a settled delivery: its metadata or its error."""
    assert delivery.done
    error = delivery.exception()
    if error is not None:
        return error
    try:
        next(delivery.__await__())
    except StopIteration as end:
        found: RecordMetadata = end.value
        return found
    raise AssertionError("the delivery is not settled")


def place_of(delivery: Delivery) -> RecordMetadata:
    """Return the place where the record of a settled delivery is stored."""
    found = outcome_of(delivery)
    assert isinstance(found, RecordMetadata), found
    return found


def chance(seed: int) -> Callable[[], float]:
    """Return a seeded source of random numbers."""
    return Random(seed).random


def refused(code: ErrorCode, *, times: int = 1) -> Any:
    """Return a check for a broker that rejects the given number of batches."""
    left = [code] * times
    return lambda topic, number, batch: left.pop() if left else 0


def sent(
    producer: SimulatedProducer, value: bytes, duration_ms: int = 1_000, partition: int = 0, **more: Any
) -> Delivery:
    """Send a record, let time pass, and return the record's delivery."""
    delivery = producer.send("t", value, partition=partition, **more)
    producer.run(duration_ms)
    return delivery
