"""The reference broker and Apache Kafka side by side: they get the same transactional requests and show all results.

Each broker assigns its own producer ids; requests and results use the sequence's names (see `Names`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafkawire import Admin, BrokerError, Producer
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.describe_producers import DescribeProducersRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType, IsolationLevel
from kafkawire.sdk.records import walk
from kafkawire.sdk.storage.partitions import Partition
from tests.kafka.cleaning import until
from tests.kafka.line import CLIENT, Line, address_of
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.transactions.asking import Names, Requested, message, shape, version_of
from tests.reference_broker.transactions.sequences import (
    GROUP,
    PARTITIONS,
    SHORT_MS,
    TOPICS,
    TRANSACTIONAL_IDS,
    Asked,
    Delete,
    End,
    Initialize,
    Wait,
)

__all__ = ["ABORT_INTERVAL_MS", "Pair", "new_bench", "open_line"]

#: The interval at which the reference broker looks for expired transactions; Apache Kafka is configured to look often.
ABORT_INTERVAL_MS = 10_000

#: The settings for `ApacheKafka`.
OFFSETS_PARTITIONS = 4

LATEST_TIMESTAMP = -1

#: The replica id in a client's requests.
CONSUMER = -1

MAX_BYTES = 2**20

#: The maximum number of slices of work for one response: an expression is matched against the ids of all earlier
#: sequences.
_SLICES_MAX = 100


class Ours:
    """The reference broker without a network."""

    def __init__(self, bench: BrokerBench) -> None:
        self._bench = bench

    def ask(self, request: Message, version: int) -> Any:
        answer = self._bench.ask(request, version, CLIENT)
        self._bench.advance(0)
        if isinstance(answer, DelayedOperation):
            for _ in range(_SLICES_MAX):
                if answer.response is None:
                    self._bench.advance(0)
            assert answer.response is not None, f"no response to {request}"
            return self._bench.through(answer.response, version)
        return answer


class Side:
    """One of the two brokers, and its names for producers, topics and ids.

    Args:
        broker: the broker that handles requests.
        prefix: see `Names`.
    """

    def __init__(self, broker: Ours | Line, prefix: str) -> None:
        self._broker = broker
        self.names = Names(prefix, now_ms())
        #: The names that the sequence uses for this broker's producers.
        self.told = Names()

    def ask(self, request: Message, version: int) -> Any:
        """Return the response to a request."""
        return self._broker.ask(request, version)

    def learn(self, producer_id: int, own: int) -> None:
        """Record the broker's id for a producer."""
        self.names.producer_ids[producer_id] = own
        self.told.producer_ids[own] = producer_id

    def plain(self, name: str) -> str:
        """Return the sequence's name for a topic or a transactional id."""
        return name.removeprefix(self.names.prefix)

    def create(self, configs: Mapping[str, str]) -> None:
        """Create the topics."""
        Config = CreateTopicsRequest.CreatableTopicConfig
        entries = [Config(*entry) for entry in configs.items()]
        topics = [
            CreateTopicsRequest.CreatableTopic(self.names.name(name), count, 1, configs=entries)
            for name, count in TOPICS.items()
        ]
        for result in self.ask(CreateTopicsRequest(topics), 7).topics:
            assert not result.error_code, result

    def delete(self) -> None:
        """Delete the remaining topics."""
        for name in TOPICS:
            self.ask(message(Delete(name), self.names), version_of(Delete(name)))

    # Visible results.

    def state(self) -> dict[str, object]:
        """Return all visible results."""
        return {
            "transactions": self._transactions(),
            "list": self._list(),
            "producers": self._producers(),
            "offsets": self._offsets(),
            "committed": self._committed(),
        }

    def _transactions(self) -> object:
        request = DescribeTransactionsRequest([self.names.name(name) for name in TRANSACTIONAL_IDS])
        return [
            (
                state.error_code,
                self.plain(state.transactional_id),
                state.transaction_state,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms >= 0,
                self.told.producer_id(state.producer_id),
                state.producer_epoch,
                sorted((self.plain(topic.topic), sorted(topic.partitions)) for topic in state.topics),
            )
            for state in self.ask(request, 0).transaction_states
        ]

    def _list(self) -> object:
        request = ListTransactionsRequest(transactional_id_pattern=f"{self.names.prefix}.*")
        return sorted(
            (
                self.plain(state.transactional_id),
                self.told.producer_id(state.producer_id),
                state.transaction_state,
            )
            for state in self.ask(request, 2).transaction_states
        )

    def _producers(self) -> object:
        Topic = DescribeProducersRequest.TopicRequest
        topics = [Topic(self.names.name(name), list(range(count))) for name, count in TOPICS.items()]
        return {
            (self.plain(topic.name), part.partition_index): (
                part.error_code,
                sorted(
                    (
                        self.told.producer_id(producer.producer_id),
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                    )
                    for producer in part.active_producers
                ),
            )
            for topic in self.ask(DescribeProducersRequest(topics), 0).topics
            for part in topic.partitions
        }

    def _offsets(self) -> object:
        """Return high watermarks and last stable offsets."""
        found = {}
        for level in IsolationLevel:
            Part = ListOffsetsRequest.ListOffsetsPartition
            topics = [
                ListOffsetsRequest.ListOffsetsTopic(
                    self.names.name(name), [Part(number, timestamp=LATEST_TIMESTAMP) for number in range(count)]
                )
                for name, count in TOPICS.items()
            ]
            for topic in self.ask(ListOffsetsRequest(CONSUMER, level, topics), 7).topics:
                for part in topic.partitions:
                    name = self.plain(topic.name)
                    found[level, name, part.partition_index] = part.error_code, part.offset
        return found

    def _committed(self) -> object:
        found = []
        for is_stable in (False, True):
            Topics = OffsetFetchRequest.OffsetFetchRequestTopics
            topics = [
                Topics(self.names.name(name), partition_indexes=list(range(count))) for name, count in TOPICS.items()
            ]
            group = OffsetFetchRequest.OffsetFetchRequestGroup(self.names.name(GROUP), topics=topics)
            (response,) = self.ask(OffsetFetchRequest(groups=[group], require_stable=is_stable), 9).groups
            found.append(
                (
                    response.error_code,
                    sorted(
                        (self.plain(topic.name), part.partition_index, part.error_code, part.committed_offset)
                        for topic in response.topics
                        for part in topic.partitions
                    ),
                )
            )
        return found

    def fetched(self, offset: int, max_bytes: int) -> dict[Partition, object]:
        """Return the data that a `read_committed` consumer fetches: batches and the list of aborted transactions."""
        found: dict[Partition, object] = {}
        for name, number in PARTITIONS:
            part = FetchRequest.FetchPartition(number, fetch_offset=offset, partition_max_bytes=max_bytes)
            topic = FetchRequest.FetchTopic(self.names.name(name), partitions=[part])
            level = IsolationLevel.READ_COMMITTED
            request = FetchRequest(max_wait_ms=0, max_bytes=MAX_BYTES, isolation_level=level, topics=[topic])
            ((data,),) = (topic.partitions for topic in self.ask(request, 12).responses)
            found[name, number] = (
                data.error_code,
                data.high_watermark,
                data.last_stable_offset,
                [
                    (self.told.producer_id(entry.producer_id), entry.first_offset)
                    for entry in data.aborted_transactions or ()
                ],
                len(data.records),
                self._batches(data.records),
            )
        return found

    def _batches(self, records: Buffer) -> list[object]:
        found: list[object] = []
        with suppress(PartialBatch):
            for batch in walk(records):
                found.append(
                    (
                        batch.base_offset,
                        self.told.producer_id(batch.producer_id),
                        batch.producer_epoch,
                        batch.base_sequence,
                        batch.is_control,
                        batch.is_transactional,
                        [(record.offset, bytes(record.value or b"")[:20]) for record in batch.records()],
                    )
                )
        return found


def now_ms() -> int:
    """Return the current time, because with older records, the next marker would start a new segment."""
    return int(time.time() * 1000)


class Pair:
    """Both brokers.

    Args:
        bench: the reference broker.
        line: a connection to Apache Kafka.
        prefix: see `Names`.
        configs: the configurations of the topics to create.
    """

    def __init__(self, bench: BrokerBench, line: Line, prefix: str, configs: Mapping[str, str] | None = None) -> None:
        self.bench = bench
        self.ours = Side(Ours(bench), prefix)
        self.theirs = Side(line, prefix)
        for side in (self.ours, self.theirs):
            side.create(configs or {})
        self.await_state(None)

    def do(self, asked: Asked, *, is_passing: bool = False) -> Any:
        """Send a request to both, compare their responses and results, and return the response.

        Args:
            asked: the request.
            is_passing: whether the results are about to change and therefore cannot be compared.
        """
        answer = None
        if isinstance(asked, Wait):
            self.bench.advance(SHORT_MS + ABORT_INTERVAL_MS)
        else:
            answer = self._ask(asked)
        if not is_passing:
            self.await_state(asked)
        return answer

    def _ask(self, asked: Requested) -> Any:
        version = version_of(asked)
        answer = self.ours.ask(message(asked, self.ours.names), version)
        other = self.theirs.ask(message(asked, self.theirs.names), version)
        if isinstance(asked, Initialize | End) and (answer.producer_id < 0) == (other.producer_id < 0):
            self.ours.learn(answer.producer_id, answer.producer_id)
            self.theirs.learn(answer.producer_id, other.producer_id)
        ours, theirs = shape(answer, self.ours.told), shape(other, self.theirs.told)
        assert ours == theirs, f"{asked}: expected {theirs}, as from Apache Kafka, got {ours}"
        return answer

    def await_state(self, asked: Asked | None) -> None:
        """Wait until Apache Kafka has finished the work that follows its response, and compare the results of both."""
        ours, theirs = self.ours.state(), dict[str, object]()

        def is_same() -> bool:
            theirs.update(self.theirs.state())
            return theirs == ours

        def said() -> str:
            differs = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]}
            return f"after {asked}: reference broker and Apache Kafka say {differs}"

        until(is_same, said)

    def compare_fetches(self, offset: int = 0, max_bytes: int = MAX_BYTES) -> None:
        """Compare the fetches of a `read_committed` consumer."""
        ours, theirs = self.ours.fetched(offset, max_bytes), self.theirs.fetched(offset, max_bytes)
        differs = [(place, ours[place], theirs[place]) for place in ours if ours[place] != theirs[place]]
        assert not differs, f"fetching from {offset} with {max_bytes} bytes: {differs}"

    def end(self) -> None:
        """Delete the topics."""
        for side in (self.ours, self.theirs):
            side.delete()


def new_bench(first_producer_id: int = 0) -> BrokerBench:
    """Return a reference broker with coordinators; its first producer id is at least the given one."""
    bench = BrokerBench(MemoryDisk(), offsets_topic_num_partitions=OFFSETS_PARTITIONS)
    bench.now_ms = now_ms()
    for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]))
    while first_producer_id and bench.ask(InitProducerIdRequest(None)).producer_id + 1 < first_producer_id:
        pass
    return bench


def open_line(bootstrap: str) -> Line:
    """Return a connection to Apache Kafka once it has both coordinators' topics and can assign producer ids."""
    asyncio.run(_warm_up(bootstrap))
    return Line(address_of(bootstrap))


async def _warm_up(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        with suppress(BrokerError):
            await admin.describe_groups([GROUP])
    async with Producer(bootstrap, transactional_id=uuid.uuid4().hex):
        pass
