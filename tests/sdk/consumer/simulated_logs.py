"""Simulated brokers with logs, fetch sessions (KIP-227), offset lookups by time and the ends of leader epochs.

A consumer's complete I/O side runs against them on the clock of `tests/sdk/simulation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkawire.sdk.client.offset_queries import OffsetQueries
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.consumer.fetching.planner import FetchPlanner
from kafkawire.sdk.consumer.fetching.queue import FetchQueue
from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.consumer.reading.reader import Reader
from kafkawire.sdk.consumer.subscription import SubscribedTopics
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.committed_offsets import Found
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk_headers
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.consumer.batches import made, marker
from tests.sdk.simulation import Simulation, address, backoff, options

__all__ = ["Cluster", "Log", "reading"]

WALL_MS = 1_700_000_000_000


class Log:
    """The log of one partition.

    Attributes:
        leader: the leader's node id; None for no leader.
        epoch: the leader epoch.
        batches: the batches and their offsets.
        start: the first offset that remains.
        error: the error that is returned to a fetch instead of records.
        replica: the follower to which consumers are sent; -1 for none.
        epoch_ends: the answer to OffsetForLeaderEpoch, as (epoch, end offset); None for the end of the log.
        cut: the maximum number of bytes returned to a fetch.
        aborted: (first offset, producer id) for each aborted transaction; a response lists them in this order.
        listed: the answer to ListOffsets for a time; None for the start.
    """

    def __init__(self, leader: int | None) -> None:
        self.leader = leader
        self.epoch = 1
        self.batches: list[bytes] = []
        self.start = 0
        self.error = ErrorCode.NONE
        self.replica = -1
        self.epoch_ends: tuple[int, int] | None = None
        self.listed: int | None = None
        self.cut: int | None = None
        self.aborted: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return next(walk_headers(self.batches[-1])).next_offset if self.batches else self.start

    def append(self, *values: bytes) -> None:
        """Write a batch."""
        self.batches.append(made(self.end, *values, epoch=self.epoch))

    def abort(self, *producers: int) -> None:
        """Write a transaction for each producer; the last one to begin is aborted first."""
        for producer in producers:
            self.aborted.insert(0, (self.end, producer))
            self.batches.append(made(self.end, b"aborted", producer=producer, epoch=self.epoch))
        for producer in reversed(producers):
            self.batches.append(marker(self.end, producer, is_commit=False, epoch=self.epoch))


class Cluster:
    """A cluster and the I/O side of a consumer.

    Args:
        topics: the leader of each partition, keyed by topic; None for a partition without a leader.
        given: options for the consumer.

    Attributes:
        logs: the log of each partition.
        ids: the id of each topic.
        commits: the offsets that the consumer's group has committed, or the error that a lookup returns; None without a
            group.
        sessions: the session that each node keeps: its id, its next epoch, and offsets keyed by (topic id, partition).
    """

    def __init__(
        self,
        topics: Mapping[str, list[int | None]],
        commits: Found | None = None,
        **given: object,
    ) -> None:
        self.logs = {
            TopicPartition(name, number): Log(leader)
            for name, leaders in topics.items()
            for number, leader in enumerate(leaders)
        }
        self.ids = {name: name.encode().ljust(16, b"-")[:16] for name in topics}
        self.nodes = [1, 2, 3]
        self.commits = commits
        self.sessions: dict[int, tuple[int, int, dict[tuple[bytes, int], int]]] = {}
        self.session_ids = 0
        self.failed: set[tuple[bytes, int]] = set()
        self.metadata_asked = 0
        settings: ConsumerOptions = options(ConsumerOptions, **{"auto_offset_reset": "earliest", **given})
        router = Router(settings, backoff())
        self.queue = FetchQueue(lambda: None)
        source = None if commits is None else self._committed
        self.planner = FetchPlanner(router, settings, backoff(), self.queue, lambda: WALL_MS, source)
        self.assignment = Assignment(self.planner, self.queue, lambda step: step(self.simulation.now_ms), int)
        self.planner.user = self.assignment
        self.reader = Reader(self.assignment, self.queue, check_crcs=True)
        self.queries = OffsetQueries(router, settings, backoff(), settings.isolation_level)
        self.subscription = SubscribedTopics(router.metadata, self.assignment)
        self.simulation = Simulation(router, self.subscription, self.planner, self.queries)
        self.simulation.handlers[MetadataRequest] = self._metadata
        self.simulation.handlers[ListOffsetsRequest] = self._list
        self.simulation.handlers[OffsetForLeaderEpochRequest] = self._epoch_ends
        for node in self.nodes:
            self.simulation.handlers[node, FetchRequest] = lambda request, version, node=node: self._fetch(
                node, request, version
            )

    def run(self, duration_ms: int = 1_000) -> None:
        """Let time pass."""
        self.simulation.run(duration_ms)

    def read(self, duration_ms: int = 1_000) -> list[tuple[int, int]]:
        """Let time pass, and return (partition, offset) for each record handed out."""
        found = []
        for _ in range(0, duration_ms, 10):
            self.simulation.run(10)
            while self.reader.advance():
                assert self.reader.handout is not None
                record = self.reader.handout.take()
                found.append((record.partition, record.offset))
        return found

    def read_on(self, duration_ms: int) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
        """Let time pass; return (partition, offset) for each record handed out, and (ms, text) for each error."""
        found: list[tuple[int, int]] = []
        errors: list[tuple[int, str]] = []
        step_ms = 10 if duration_ms <= 2_000 else 100
        for passed_ms in range(step_ms, duration_ms + 1, step_ms):
            self.simulation.run(step_ms)
            while True:
                try:
                    if not self.reader.advance():
                        break
                except KafkaWireError as error:
                    errors.append((passed_ms, str(error)))
                    continue
                assert self.reader.handout is not None
                record = self.reader.handout.take()
                found.append((record.partition, record.offset))
        return found, errors

    def fetches(self, node: int | None = None) -> list[Any]:
        """Return the fetch requests so far."""
        return self.simulation.requests(FetchRequest, node)

    def asked(self, node: int | None = None) -> list[dict[int, int]]:
        """Return the offsets, keyed by partition, in each fetch request so far."""
        return [
            {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
            for request in self.fetches(node)
        ]

    def recreate(self, topic: str) -> None:
        """Delete and recreate a topic."""
        self.ids[topic] = bytes(reversed(self.ids[topic]))
        for partition in [each for each in self.logs if each.topic == topic]:
            self.logs[partition] = Log(self.logs[partition].leader)

    # Handlers.

    def _metadata(self, request: MetadataRequest, version: int) -> Message:
        self.metadata_asked += 1
        names = list(self.ids) if request.topics is None else [topic.name or "" for topic in request.topics]
        topics = []
        for name in names:
            partitions = [
                MetadataResponse.MetadataResponsePartition(
                    5 if log.leader is None else 0, each.partition, -1 if log.leader is None else log.leader, log.epoch
                )
                for each, log in self.logs.items()
                if each.topic == name
            ]
            kind = MetadataResponse.MetadataResponseTopic
            topics.append(kind(0, name, self.ids[name], False, partitions) if name in self.ids else kind(3, name))
        brokers = [MetadataResponse.MetadataResponseBroker(node, *address(node)) for node in self.nodes]
        return MetadataResponse(0, brokers, "simulated", 1, topics)

    def _fetch(self, node: int, request: FetchRequest, version: int) -> Message:
        session = self.sessions.get(node)
        if request.session_epoch <= 0:
            self.session_ids += 1
            members: dict[tuple[bytes, int], int] = {}
            session = self.session_ids, 1, members
        elif session is None or session[0] != request.session_id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        elif session[1] != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        else:
            session = session[0], session[1] + 1, session[2]
            members = session[2]
        self.sessions[node] = session
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del members[topic.topic_id, number]
        for topic in request.topics:
            for each in topic.partitions:
                members[topic.topic_id, each.partition] = each.fetch_offset
        is_full = request.session_epoch <= 0
        responses = []
        for (topic_id, number), offset in members.items():
            data = self._data(node, topic_id, number, offset)
            recovers = (topic_id, number) in self.failed and not data.error_code
            (self.failed.add if data.error_code else self.failed.discard)((topic_id, number))
            if is_full or recovers or data.error_code or len(data.records or b"") or data.preferred_read_replica >= 0:
                responses.append(FetchResponse.FetchableTopicResponse("", topic_id, [data]))
        return FetchResponse(session_id=session[0], responses=responses)

    def _data(self, node: int, topic_id: bytes, number: int, offset: int) -> FetchResponse.PartitionData:
        name = next((name for name, known in self.ids.items() if known == topic_id), None)
        log = None if name is None else self.logs.get(TopicPartition(name, number))
        if log is None:
            return FetchResponse.PartitionData(number, ErrorCode.UNKNOWN_TOPIC_ID)
        if log.error:
            return FetchResponse.PartitionData(number, log.error)
        if log.replica >= 0 and node == log.leader:
            return FetchResponse.PartitionData(number, 0, log.end, preferred_read_replica=log.replica)
        if node not in (log.leader, log.replica):
            hint = FetchResponse.LeaderIdAndEpoch(log.leader or -1, log.epoch)
            return FetchResponse.PartitionData(number, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
        if not log.start <= offset <= log.end:
            return FetchResponse.PartitionData(number, ErrorCode.OFFSET_OUT_OF_RANGE)
        records = b"".join(each for each in log.batches if next(walk_headers(each)).next_offset > offset)
        aborted = [FetchResponse.AbortedTransaction(producer, first) for first, producer in log.aborted]
        return FetchResponse.PartitionData(
            number, 0, log.end, log.end, aborted_transactions=aborted, records=records[: log.cut]
        )

    def _list(self, request: ListOffsetsRequest, version: int) -> Message:
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.name, asked.partition_index)]
                offset = log.start if log.listed is None else log.listed
                if asked.timestamp == OffsetTimestamp.LATEST:
                    offset = log.end
                kind = ListOffsetsResponse.ListOffsetsPartitionResponse
                partitions.append(kind(asked.partition_index, 0, offset=offset, leader_epoch=log.epoch))
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
        return ListOffsetsResponse(topics=topics)

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest, version: int) -> Message:
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.topic, asked.partition)]
                epoch, end = log.epoch_ends or (asked.leader_epoch, log.end)
                partitions.append(OffsetForLeaderEpochResponse.EpochEndOffset(0, asked.partition, epoch, end))
            topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic.topic, partitions))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _committed(self, partitions: Any, on_found: Callable[[Found, int], None], now_ms: int) -> None:
        """Report committed offsets after 5 ms, and errors after a second."""
        assert self.commits is not None
        found = {each: self.commits.get(each) for each in partitions}
        late = {each: result for each, result in found.items() if isinstance(result, KafkaWireError)}
        for delay_ms, results in (5, {each: found[each] for each in found if each not in late}), (1_000, late):
            if results:
                self.simulation.at(delay_ms, lambda results=results: on_found(results, self.simulation.now_ms))  # type: ignore[misc]  # a default binds the loop's value


def reading(*partitions: TopicPartition, topics: dict[str, list[int | None]] | None = None, **given: object) -> Cluster:
    """Return a cluster whose topic t has three partitions, led by node 1, some of which are assigned."""
    cluster = Cluster(topics or {"t": [1, 1, 1]}, **given)  # type: ignore[arg-type]  # options by name
    cluster.assignment.assign(partitions)
    return cluster
