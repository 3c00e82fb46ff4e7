"""An idempotent producer with several batches in flight, which resends each of them until it is acknowledged."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from kafkawire.reference_broker.simulation.checkers import Checkers, Violation
from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.routing.call import ANY_BROKER, Node
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["IN_FLIGHT_MAX", "IdempotentProducer", "batch_of", "produce_request"]

#: How many batches of a producer may be in flight, `max.in.flight.requests.per.connection`.
IN_FLIGHT_MAX: Final = 5

#: How often a script looks whether the batches before have been acknowledged.
_LOOK_MS: Final = 5

#: How often the first batch in flight may be refused as out of order: those after it may be stored, but not committed.
_REFUSALS_MAX: Final = 20

_TIMEOUT_MS: Final = 700
_BATCH_BYTES: Final = 16 * 1024
#: The last version in which topics have names, and the client itself adds partitions to transactions.
_VERSION: Final = 11
#: The errors after which a batch is resent.
_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def batch_of(
    values: tuple[bytes, ...], now_ms: int, producer: tuple[int, int], sequence: int, *, is_transactional: bool = False
) -> bytes:
    """Return a batch; `producer` is a producer id and epoch."""
    builder = BatchBuilder(
        _BATCH_BYTES,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    for value in values:
        builder.append(now_ms, value, value)
    return bytes(builder.seal())


def produce_request(leader: int, partition: TopicPartition, batch: bytes, transactional_id: str | None = None) -> Ask:
    """Return a producer's request."""
    data = ProduceRequest.PartitionProduceData(partition.partition, batch)
    topic = ProduceRequest.TopicProduceData(name=partition.topic, partition_data=[data])
    request = ProduceRequest(transactional_id, Acks.ALL, _TIMEOUT_MS, [topic])
    return Ask(Node(leader), request, _VERSION, 2 * _TIMEOUT_MS)


class IdempotentProducer:
    """Produces numbered values to one partition, with several batches in flight, until each is acknowledged.

    As in Apache Kafka's producer, a batch is resent only once all batches before it have been acknowledged. The first
    batch is sent alone: a broker accepts any sequence number from a producer that it does not know, so if the first
    batch were lost, the second would be stored in its place.

    Args:
        client: sends the requests.
        checkers: record which values have been acknowledged.
        partition: the partition to produce to.
        batches: the number of batches.
        pause_ms: the maximum pause between batches.

    Attributes:
        partition: see above.
        sent: the values that have been sent at least once, in order.
        is_done: whether all batches have been acknowledged.
    """

    def __init__(
        self, client: Client, checkers: Checkers, partition: TopicPartition, batches: int, pause_ms: int
    ) -> None:
        self._client = client
        self._checkers = checkers
        self.partition = partition
        self._batches = batches
        self._pause_ms = pause_ms
        self._producer = (-1, -1)
        #: The sequence numbers of the batches in flight, in order.
        self._in_flight: list[int] = []
        self.sent: list[bytes] = []
        self.is_done = False

    def __str__(self) -> str:
        return f"{self._client.name} to {self.partition}"

    def script(self) -> Script:
        """Produce all values."""
        client, chance = self._client, self._client.chance
        self._producer = yield from self._producer_id()
        for number in range(self._batches):
            limit = 1 if number <= 1 else IN_FLIGHT_MAX
            while len(self._in_flight) >= limit and not client.is_over:
                yield Pause(_LOOK_MS)
            if client.is_over:
                break
            sequence, count = len(self.sent), chance.choice([1, 1, 1, 3])
            name = f"{client.name}:{self.partition.topic}-{self.partition.partition}"
            values = tuple(f"{name}:{sequence + i}".encode() for i in range(count))
            self.sent += values
            self._in_flight.append(sequence)
            client.run(self._stored(values, sequence))
            yield Pause(chance.choice([0, 0, chance.randint(1, self._pause_ms)]))
        while self._in_flight:
            yield Pause(_LOOK_MS)
        self.is_done = True

    def _producer_id(self) -> Generator[Ask | Pause, Any, tuple[int, int]]:
        while True:
            response = yield from ask(Ask(ANY_BROKER, InitProducerIdRequest(None, 60_000)), InitProducerIdResponse)
            if response is not None and not response.error_code:
                return response.producer_id, response.producer_epoch
            yield Pause(50)

    def _stored(self, values: tuple[bytes, ...], sequence: int) -> Script:
        """Send a batch until it is stored."""
        client, partition = self._client, self.partition
        batch = batch_of(values, client.host.clock(), self._producer, sequence)
        refusals = 0
        while True:
            leader = client.leader(partition)
            if leader is None:
                yield Pause(30)
                continue
            topic_id = client.metadata.last_topic_id(partition.topic)
            was_first = self._in_flight[0] == sequence
            response = yield from ask(produce_request(leader, partition, batch), ProduceResponse)
            if response is not None:
                answer = response.responses[0].partition_responses[0]
                code = answer.error_code
                if code == ErrorCode.NONE:
                    self._checkers.acknowledged(
                        partition.topic, topic_id, partition.partition, answer.base_offset, values
                    )
                    break
                if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    if self._checkers.is_committed(topic_id, partition.partition, values):
                        break  # of each producer's batches, a snapshot contains only the last one
                    refusals += was_first
                if (code not in _AGAIN and code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) or refusals > _REFUSALS_MAX:
                    name = ErrorCode(code).name
                    raise Violation(f"{partition}: sequence {sequence} of {client.name} is refused with {name}")
            client.outdated()
            yield Pause(client.chance.randint(10, 60))
            while self._in_flight[0] != sequence:
                yield Pause(_LOOK_MS)
        self._in_flight.remove(sequence)
