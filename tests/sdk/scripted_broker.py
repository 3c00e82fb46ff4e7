"""A minimal in-memory broker for client tests, with scripted responses for tests that need a fault.

The clients' connection class, in its server role, handles framing and versions; for each API, a function takes the
request and returns the response. Unlike the reference broker, this one can be made to send anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.records import BatchBuilder, stamp, walk, walk_headers
from kafkawire.sdk.transport.memory import MemoryNetwork
from kafkawire.sdk.transport.wire import Address, Wire

__all__ = ["BROKER", "Later", "Link", "Responder", "ScriptedBroker", "StoringBroker", "topic_id_of"]

BROKER = Address("broker", 9092)


class Later(NamedTuple):
    """A response that is sent after a delay."""

    message: Message
    delay_ms: int


#: Returns the response to a request, or None for no response.
Responder = Callable[[Request], Message | Later | None]


#: The APIs that a broker offers only if it has a metrics receiver.
_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


class ScriptedBroker:
    """A broker with scripted responses.

    Args:
        topics: the number of partitions, keyed by topic name; this broker leads all of them.
        supported: the supported versions, keyed by API; None for all.

    Attributes:
        network: a network that connects to the broker.
        responders: the functions that return the response, keyed by API.
        once: responders for the next requests, keyed by API; each is used once, before the usual responder.
        requests: every request so far, except ApiVersions, Metadata and InitProducerId.
        links: the open connections, for tests that break them.
    """

    def __init__(
        self, topics: dict[str, int] | None = None, supported: dict[ApiKey, VersionRange] | None = None
    ) -> None:
        self.topics = topics or {}
        self.supported = supported or {
            key: api.versions for key, api in APIS.items() if "broker" in api.listeners and key not in _TELEMETRY
        }
        self.network = MemoryNetwork()
        self.responders: dict[ApiKey, Responder] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.INIT_PRODUCER_ID: lambda request: InitProducerIdResponse(producer_id=1_000),
        }
        self.once: dict[ApiKey, deque[Responder]] = {}
        self.requests: list[Request] = []
        self.links: list[Link] = []
        self.start()

    def start(self) -> None:
        """Start listening."""
        self.network.servers[BROKER] = self._accept

    def stop(self) -> None:
        """Stop listening and break all connections."""
        del self.network.servers[BROKER]
        for link in self.links:
            link.wire.close()
        self.links.clear()

    def script(self, key: ApiKey, *responders: Responder) -> None:
        """Use these responders for an API's next requests, then the usual responder again."""
        self.once.setdefault(key, deque()).extend(responders)

    def asked(self, key: ApiKey) -> list[Message]:
        """Return the requests of an API so far."""
        return [request.message for request in self.requests if request.api.key == key]

    def respond(self, request: Request) -> Message | Later | None:
        """Return the response to a request."""
        key = ApiKey(request.api.key)
        if key not in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID):
            self.requests.append(request)
        if self.once.get(key):
            return self.once[key].popleft()(request)
        return self.responders[key](request)

    def _accept(self, wire: Wire) -> Link:
        link = Link(self, wire)
        self.links.append(link)
        return link

    def _api_versions(self, request: Request) -> ApiVersionsResponse:
        keys = [ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in self.supported.items()]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Request) -> MetadataResponse:
        asked = request.message.topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked]
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponse.MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        partitions = [
            MetadataResponse.MetadataResponsePartition(0, number, 1, 0, [1], [1]) for number in range(self.topics[name])
        ]
        return MetadataResponse.MetadataResponseTopic(0, name, topic_id_of(name), partitions=partitions)


class Link:
    """The broker's end of one connection."""

    def __init__(self, broker: ScriptedBroker, wire: Wire) -> None:
        self.broker = broker
        self.wire = wire
        # An older or newer broker may list APIs that this release does not know.
        known = {key: both for key, theirs in broker.supported.items() if (both := APIS[key].versions & theirs)}
        self.connection = ServerConnection(known)

    def receive_frame(self, frame: Buffer) -> None:
        request = self.connection.receive(frame)
        message = self.broker.respond(request)
        if isinstance(message, Later):
            asyncio.get_running_loop().call_later(message.delay_ms / 1000, self._respond, request, message.message)
            return
        unasked = request.api.key == ApiKey.PRODUCE and request.message.acks == 0
        if message is not None or unasked:
            self._respond(request, message)

    def _respond(self, request: Request, message: Message | None) -> None:
        self.wire.write(self.connection.respond(request, message))

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.broker.links:
            self.broker.links.remove(self)


def topic_id_of(name: str) -> bytes:
    """Return the id that the broker assigns to a topic."""
    return name.encode().ljust(16, b"\1")[:16]


class StoringBroker(ScriptedBroker):
    """A scripted broker that stores batches and commits, and accepts a group of one member.

    Attributes:
        logs: the batches of each partition, with their offsets.
        commits: the offsets, keyed by (group, topic, partition).
    """

    def __init__(
        self, topics: dict[str, int] | None = None, supported: dict[ApiKey, VersionRange] | None = None
    ) -> None:
        super().__init__(topics, supported)
        self.logs: dict[tuple[str, int], list[bytes]] = {}
        self.commits: dict[tuple[str, str, int], int] = {}
        self.generation = 0
        self.responders |= {
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_ends,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.OFFSET_COMMIT: self._offset_commit,
            ApiKey.OFFSET_FETCH: self._offset_fetch,
            ApiKey.JOIN_GROUP: self._join_group,
            ApiKey.SYNC_GROUP: self._sync_group,
            ApiKey.HEARTBEAT: lambda request: HeartbeatResponse(),
            ApiKey.LEAVE_GROUP: lambda request: LeaveGroupResponse(),
            ApiKey.CONSUMER_GROUP_DESCRIBE: _no_consumer_group,
        }

    def end(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record of a partition."""
        log = self.logs.get((topic, partition))
        return next(walk_headers(log[-1])).next_offset if log else 0

    def store(self, data: Buffer, topic: str, partition: int = 0) -> int:
        """Store a batch as a leader does, and return its first offset."""
        base_offset = self.end(topic, partition)
        batch = bytearray(data)
        stamp(batch, base_offset, 0)
        self.logs.setdefault((topic, partition), []).append(bytes(batch))
        return base_offset

    def fill(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Store one batch with these values."""
        builder = BatchBuilder()
        for value in values:
            builder.append(1000, None, value)
        self.store(builder.seal(), topic, partition)

    def values(self, topic: str) -> list[bytes | None]:
        """Return all values stored in a topic, partition by partition."""
        return [
            record.value
            for (name, _), log in sorted(self.logs.items())
            for data in log
            for batch in walk(data)
            for record in batch.records()
            if name == topic
        ]

    def name(self, topic: str, topic_id: bytes) -> str:
        """Return the name of a topic that a request identifies by name or by id."""
        return topic or next(name for name in self.topics if topic_id_of(name) == topic_id)

    def _produce(self, request: Request) -> ProduceResponse | None:
        topics = []
        for topic in request.message.topic_data:
            name = self.name(topic.name, topic.topic_id)
            partitions = [
                ProduceResponse.PartitionProduceResponse(
                    data.index, base_offset=self.store(data.records, name, data.index)
                )
                for data in topic.partition_data
            ]
            topics.append(ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, partitions))
        return ProduceResponse(topics) if request.message.acks else None

    def _fetch(self, request: Request) -> FetchResponse | Later:
        topics = []
        found = False
        for topic in request.message.topics:
            partitions = []
            for asked in topic.partitions:
                place = (self.name(topic.topic, topic.topic_id), asked.partition)
                log = self.logs.get(place, [])
                records = b"".join(batch for batch in log if next(walk_headers(batch)).next_offset > asked.fetch_offset)
                found = found or bool(records)
                data = FetchResponse.PartitionData(asked.partition, high_watermark=self.end(*place), records=records)
                partitions.append(data)
            topics.append(FetchResponse.FetchableTopicResponse(topic.topic, topic.topic_id, partitions))
        # A broker without enough records waits for more; this one always waits for the full time.
        response = FetchResponse(responses=topics)
        return response if found else Later(response, request.message.max_wait_ms)

    def _list_offsets(self, request: Request) -> ListOffsetsResponse:
        topics = []
        for topic in request.message.topics:
            partitions = []
            for asked in topic.partitions:
                latest = asked.timestamp == OffsetTimestamp.LATEST
                offset = self.end(topic.name, asked.partition_index) if latest else 0
                partitions.append(
                    ListOffsetsResponse.ListOffsetsPartitionResponse(asked.partition_index, offset=offset)
                )
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
        return ListOffsetsResponse(topics=topics)

    def _epoch_ends(self, request: Request) -> OffsetForLeaderEpochResponse:
        kind = OffsetForLeaderEpochResponse.EpochEndOffset
        topics = [
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic.topic,
                [
                    kind(0, asked.partition, asked.leader_epoch, self.end(topic.topic, asked.partition))
                    for asked in topic.partitions
                ],
            )
            for topic in request.message.topics
        ]
        return OffsetForLeaderEpochResponse(topics=topics)

    def _find_coordinator(self, request: Request) -> FindCoordinatorResponse:
        if request.message.key:  # the form before version 4
            return FindCoordinatorResponse(node_id=1, host=BROKER.host, port=BROKER.port)
        kind = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(coordinators=[kind(key, 1, *BROKER) for key in request.message.coordinator_keys])

    def _offset_commit(self, request: Request) -> OffsetCommitResponse:
        message = request.message
        topics = []
        for topic in message.topics:
            for partition in topic.partitions:
                place = (message.group_id, self.name(topic.name, topic.topic_id), partition.partition_index)
                self.commits[place] = partition.committed_offset
            partitions = [
                OffsetCommitResponse.OffsetCommitResponsePartition(each.partition_index) for each in topic.partitions
            ]
            topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
        return OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, request: Request) -> OffsetFetchResponse:
        message = request.message
        groups = [(group.group_id, group.topics) for group in message.groups] or [(message.group_id, message.topics)]
        kind: Any = OffsetFetchResponse
        ending = "s" if message.groups else ""  # the old form has separate classes
        partition = getattr(kind, f"OffsetFetchResponsePartition{ending}")
        topic = getattr(kind, f"OffsetFetchResponseTopic{ending}")
        found = []
        for group_id, asked in groups:
            by_id = any(not each.name for each in asked or ())
            wanted = {each.name or self.name("", each.topic_id): each.partition_indexes for each in asked or ()}
            if asked is None:
                for group, name, number in self.commits:
                    wanted.setdefault(name, []).append(number) if group == group_id else None
            topics = [
                topic(
                    **({"topic_id": topic_id_of(name)} if by_id else {"name": name}),
                    partitions=[partition(each, self.commits.get((group_id, name, each), -1)) for each in numbers],
                )
                for name, numbers in wanted.items()
            ]
            found.append((group_id, topics))
        if not message.groups:
            return OffsetFetchResponse(topics=found[0][1])
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(*each) for each in found])

    def _join_group(self, request: Request) -> JoinGroupResponse:
        message = request.message
        self.generation += 1
        protocol = message.protocols[0]
        member = JoinGroupResponse.JoinGroupResponseMember("m1", None, protocol.metadata)
        return JoinGroupResponse(
            0, 0, self.generation, message.protocol_type, protocol.name, "m1", False, "m1", [member]
        )

    def _sync_group(self, request: Request) -> SyncGroupResponse:
        (assignment,) = request.message.assignments
        return SyncGroupResponse(assignment=assignment.assignment)


def _no_consumer_group(request: Request) -> ConsumerGroupDescribeResponse:
    """Answer like a coordinator that supports only classic groups."""
    kind = ConsumerGroupDescribeResponse.DescribedGroup
    return ConsumerGroupDescribeResponse(
        groups=[kind(ErrorCode.GROUP_ID_NOT_FOUND, group_id=group_id) for group_id in request.message.group_ids]
    )
