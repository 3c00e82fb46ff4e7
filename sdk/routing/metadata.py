"""A client's metadata about a cluster: brokers, topics, and the leader of each partition.

The metadata comes from Metadata responses and is used for routing. An older leader epoch does not replace a newer one,
so a lagging broker cannot send the client back to a previous leader. As long as a topic keeps its id, its number of
partitions does not shrink. Without ids, only time distinguishes a lagging broker from a recreated topic, whose epochs
restart.

Source: Apache Kafka, `MetadataCache`; KIP-320 (leader epochs), KIP-516 (topic ids), KIP-951 (leaders in responses),
KIP-1102 (rebootstrap on request).
"""

import logging
from collections.abc import Iterable
from math import nan
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.wire import Address

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["ClusterBroker", "Endpoint", "Metadata", "Partition", "Topic"]

logger = logging.getLogger("kafkawire.client")

#: An older leader epoch of a topic without an id is accepted once all responses have named it for this long. A broker
#: learns of a new leader within a few seconds; records can wait longer (see `delivery_timeout_ms`).
_OLDER_EPOCH_MS = 10_000


class ClusterBroker(NamedTuple):
    """A broker of the cluster.

    Attributes:
        node_id: its node id.
        address: its address for clients.
        rack: its rack; None if it has none.
        is_fenced: whether it is registered but does not serve clients; only `Admin.describe_cluster` lists such
            brokers, and only on request.
    """

    node_id: int
    address: Address
    rack: str | None = None
    is_fenced: bool = False


class Partition(NamedTuple):
    """A partition and its replicas, which are given as node ids.

    Attributes:
        leader: the leader; None while there is none.
        leader_epoch: increases whenever the leader changes; -1 if unknown.
        replicas: all replicas, the preferred leader first.
        in_sync: the in-sync replicas.
        offline: the replicas on brokers or log directories that are offline.
        eligible_leaders: the replicas that are not in sync, but are known to have every committed record (KIP-966);
            None unless `Admin.describe_topics` has asked for them.
        last_known_eligible_leaders: the last known eligible leaders, for an election if there is no other candidate;
            None unless `Admin.describe_topics` has asked for them.
    """

    leader: int | None
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] | None = None
    last_known_eligible_leaders: tuple[int, ...] | None = None


class Topic(NamedTuple):
    """A topic.

    Attributes:
        name: its name.
        topic_id: 16 bytes; zeros if the broker has no topic ids.
        partitions: the partitions by number, from 0.
        is_internal: whether it belongs to Kafka itself.
        authorized_operations: what this user may do with the topic; None unless `Admin.describe_topics` has asked.
    """

    name: str
    topic_id: bytes
    partitions: dict[int, Partition]
    is_internal: bool = False
    authorized_operations: "frozenset[AclOperation] | None" = None


class Endpoint(Protocol):
    """A broker's address, as given in the response to another request."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Metadata:
    """The latest known state of a cluster.

    Args:
        max_age_ms: the age at which the metadata becomes stale.

    Attributes:
        brokers: the brokers, keyed by node id.
        topics: the topics without an error, keyed by name.
        errors: the reason why each requested topic is missing from `topics`, keyed by name.
        cluster_id: the id of the cluster; None if unknown.
        controller_id: the node id of the broker that accepts requests for the controller; None if unknown.
        wanted: names of the topics to keep up to date; None for all topics of the cluster.
        changes: increases whenever something may have changed.
        is_complete: whether all topics of the cluster are known and kept up to date.
        invalidations: the number of events that have shown earlier metadata to be outdated.
        refreshed_ms: when the last response arrived; NaN before the first.
    """

    def __init__(self, max_age_ms: int = 300_000) -> None:
        self.brokers: dict[int, ClusterBroker] = {}
        self.topics: dict[str, Topic] = {}
        self.errors: dict[str, ErrorCode] = {}
        self.cluster_id: str | None = None
        self.controller_id: int | None = None
        self.wanted: set[str] | None = set()
        self.changes = 0
        self.is_complete = False
        self.invalidations = 0
        self.refreshed_ms = nan
        self._names: dict[bytes, str] = {}
        #: Ids of topics that have an error or were missing from the last response with all topics.
        self._former_ids: dict[str, bytes] = {}
        #: When responses began to name a leader epoch older than the known one, keyed by topic.
        self._older_since_ms: dict[str, int] = {}
        self._max_age_ms = max_age_ms
        self._updated_ms: int | None = None
        #: Names of the known topics that were requested at `_updated_ms` or later.
        self._recent: set[str] = set()
        self._lines = LogLimit(logger)

    def update(
        self,
        response: MetadataResponse,
        now_ms: int,
        *,
        is_complete: bool = False,
        has_epochs: bool = True,
        invalidations: int | None = None,
    ) -> BrokerError | None:
        """Merge a Metadata response.

        A response without brokers, which a starting broker may send, changes nothing. If a response requests a
        rebootstrap, the client forgets the brokers (KIP-1102).

        Args:
            response: replaces the brokers and the topics that it mentions; other topics stay unchanged.
            now_ms: the current time, on the clock of `stale_ms`.
            is_complete: whether all topics were requested, in which case any topic not in the response no longer
                exists.
            has_epochs: whether the leader epochs in the response are reliable; see `MetadataQuestion`.
            invalidations: the number of invalidations when the request was sent; None for the current number. If it has
                increased since then, the metadata stays stale, because the broker may have answered before the event.

        Returns:
            Why there was nothing to merge, in which case a retry may help; None if the response was merged.
        """
        if response.error_code != ErrorCode.NONE or not response.brokers:
            return self._decline(response, now_ms)
        self.brokers = {
            broker.node_id: ClusterBroker(broker.node_id, Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        self.cluster_id = response.cluster_id
        self.controller_id = _node(response.controller_id)
        if is_complete:
            self._former_ids = {name: each for name, each in self._former_ids.items() if name in self.errors}
            for name in self.topics.keys() - {topic.name for topic in response.topics}:
                self._forget(name)
        for topic in response.topics:
            self._update_topic(topic, now_ms, has_epochs)
        self.refreshed_ms = now_ms
        if invalidations in (None, self.invalidations):
            self._note_update({topic.name or "" for topic in response.topics}, now_ms, is_complete=is_complete)
        self.is_complete = is_complete or (self.is_complete and self.wanted is None)
        self.changes += 1
        return None

    def stale_ms(self) -> int:
        """Return when the metadata becomes stale, which may be in the past.

        The metadata is stale while a topic is missing, or if a topic became wanted after the last request was sent.
        """
        is_lacking = not self.is_complete if self.wanted is None else not self.wanted <= self._recent
        if self._updated_ms is None or is_lacking:
            return 0
        return self._updated_ms + self._max_age_ms

    def invalidate(self) -> None:
        """Become stale because an event has shown that the metadata, and any response on its way, may be outdated."""
        self.invalidations += 1
        self._updated_ms = None

    def expire(self) -> None:
        """Become stale because needed metadata is missing; a response on its way may contain it."""
        self._updated_ms = None

    def partition(self, partition: TopicPartition) -> Partition | None:
        """Return the metadata of a partition; None if it is unknown."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def absence(self, partition: TopicPartition) -> str:
        """Describe which partitions a topic has if this one does not exist; empty otherwise, or for unknown topics."""
        topic = self.topics.get(partition.topic)
        if topic is None or partition.partition in topic.partitions:
            return ""
        return f"topic {partition.topic} has partitions 0 to {len(topic.partitions) - 1}"

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node id of the leader; None if there is none or it is unknown."""
        topic = self.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return known.leader if known is not None and known.leader in self.brokers else None

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic; zeros if unknown."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def last_topic_id(self, name: str) -> bytes:
        """Return the id that a topic has, or had before it went missing; zeros if unknown."""
        return self.topic_id(name) if name in self.topics else self._former_ids.get(name, ZERO_UUID)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with an id; None if unknown."""
        return self._names.get(topic_id)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names of unknown topics."""
        return [name for name in names if name not in self.topics]

    def move_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, endpoints: Iterable[Endpoint] = ()
    ) -> bool:
        """Update the leader of a partition from the response to another request (KIP-951).

        Args:
            partition: the partition.
            leader: the node id of the leader.
            leader_epoch: the leader's epoch; unless it is newer than the known one, nothing changes.
            endpoints: the broker addresses in the response; a newer leader's address replaces the known one.

        Returns:
            Whether the leader was newer than the known one.
        """
        known = self.partition(partition)
        if known is None or leader_epoch <= known.leader_epoch:
            return False
        for each in endpoints:
            if each.node_id == leader:
                self.brokers[leader] = ClusterBroker(leader, Address(each.host, each.port), each.rack)
        if leader not in self.brokers:
            return False
        moved = known._replace(leader=leader, leader_epoch=leader_epoch)
        self.topics[partition.topic].partitions[partition.partition] = moved
        self._older_since_ms.pop(partition.topic, None)
        self.changes += 1
        return True

    def drop(self, name: str) -> None:
        """Forget a topic that is no longer wanted."""
        if self.wanted is not None:
            self.wanted.discard(name)
        self._forget(name)
        self._former_ids.pop(name, None)

    def _note_update(self, names: set[str], now_ms: int, *, is_complete: bool) -> None:
        """Mark the topics in a response as refreshed; topics that it does not mention stay as stale as before."""
        if is_complete or (self.wanted is not None and self.wanted <= names):
            self._updated_ms = now_ms
            self._recent.clear()
        self._recent |= names & self.topics.keys()

    def _decline(self, response: MetadataResponse, now_ms: int) -> BrokerError:
        error = BrokerError(response.error_code, "metadata")
        if error.code is ErrorCode.NONE:
            error = BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "metadata: the response lists no brokers")
        if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
            self._lines.warning("rebootstrap", now_ms, "the cluster asks its clients to bootstrap again")
            self.brokers = {}
            self.changes += 1
        error.retriable = True  # whatever the code is: the next response comes later, or from another broker
        return error

    def _update_topic(self, topic: MetadataResponse.MetadataResponseTopic, now_ms: int, has_epochs: bool) -> None:
        name = topic.name or self._names.get(topic.topic_id)
        if name is None:
            return
        if topic.error_code != ErrorCode.NONE:
            self._forget(name)
            self.errors[name] = _error_code(topic.error_code)
            return
        known = self.topics.get(name)
        is_same = known is not None and topic.topic_id in (known.topic_id, ZERO_UUID)  # older brokers have no ids
        former = known.partitions if known is not None and is_same else {}
        older_since_ms = None
        if has_epochs and topic.topic_id == ZERO_UUID and _are_older(topic.partitions, former):
            older_since_ms = self._older_since_ms.get(name, now_ms)
        begins_anew = older_since_ms is not None and now_ms - older_since_ms >= _OLDER_EPOCH_MS
        if begins_anew:
            former, older_since_ms = {}, None
        if begins_anew or (known is not None and not is_same and known.topic_id != ZERO_UUID):
            self._lines.warning(name, now_ms, "topic %s was deleted and created again", name)
        listed = {
            partition.partition_index: _newer(former.get(partition.partition_index), partition, has_epochs)
            for partition in topic.partitions
        }
        has_id = known is not None and topic.topic_id == known.topic_id != ZERO_UUID
        partitions = _with_omitted(listed, former, only_gaps=not has_id)
        self._forget(name)
        if older_since_ms is not None:
            self._older_since_ms[name] = older_since_ms
        if partitions is None:
            self.errors[name] = ErrorCode.LEADER_NOT_AVAILABLE  # equivalent: the broker is still learning of it
            return
        self._former_ids.pop(name, None)
        self.topics[name] = Topic(name, topic.topic_id, partitions, topic.is_internal)
        if topic.topic_id != ZERO_UUID:
            self._names[topic.topic_id] = name

    def _forget(self, name: str) -> None:
        self._recent.discard(name)
        self._older_since_ms.pop(name, None)
        self.errors.pop(name, None)
        former = self.topics.pop(name, None)
        if former is not None:
            self._names.pop(former.topic_id, None)
            self._former_ids[name] = former.topic_id


def _newer(
    former: Partition | None, partition: MetadataResponse.MetadataResponsePartition, has_epoch: bool
) -> Partition:
    if has_epoch and former is not None and partition.leader_epoch < former.leader_epoch:
        return former
    epoch = partition.leader_epoch if has_epoch else -1
    return Partition(
        _node(partition.leader_id),
        epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )


def _are_older(listed: Iterable[MetadataResponse.MetadataResponsePartition], former: dict[int, Partition]) -> bool:
    """Return whether a response has an older leader epoch than the known one for any partition."""
    known = ((each, former.get(each.partition_index)) for each in listed)
    return any(each.leader_epoch < before.leader_epoch for each, before in known if before is not None)


def _with_omitted(
    listed: dict[int, Partition], former: dict[int, Partition], *, only_gaps: bool
) -> dict[int, Partition] | None:
    """Add the partitions that a response leaves out; return None if any of them is unknown.

    A broker that is still learning about a topic lists only some of its partitions. The number of partitions determines
    the partition of each key, so a part must not be mistaken for the whole.

    Args:
        listed: the partitions in the response.
        former: the known partitions of the topic.
        only_gaps: whether to fill only gaps, because the last partitions may be gone: without topic ids, the topic may
            have been recreated.
    """
    end = max(listed, default=-1) + 1
    if len(listed) == end and (only_gaps or len(former) <= end):
        return listed
    whole = {number: each for number, each in former.items() if number < end or not only_gaps} | listed
    return dict(sorted(whole.items())) if len(whole) == max(whole) + 1 else None


def _node(node_id: int) -> int | None:
    return None if node_id == NO_LEADER_ID else node_id


def _error_code(code: int) -> ErrorCode:
    return ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
