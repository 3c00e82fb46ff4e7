"""Find the brokers that are responsible for the items of an operation: leaders, coordinators, or given brokers.

Coordinators are looked up in one request, or in one for each key if the broker is older than Apache Kafka 3.0. As for
`OffsetQueries`, a topic that does not exist is reported at once, but a missing leader is waited for. A partition that
an existing topic lacks, or a broker that the cluster lacks, is waited for only for a while, unlike in Java: it is
probably a mistake, and new partitions and brokers are known to all brokers within that time.

Source: Apache Kafka, `PartitionLeaderStrategy`, `CoordinatorStrategy`, `StaticBrokerStrategy`; KIP-699 (several keys).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Generic

from kafkawire.sdk.admin.descriptions import Item
from kafkawire.sdk.admin.item_batches import Placed, one_by_one
from kafkawire.sdk.client.operations import ABSENT_MS, NO_SUCH_TOPIC, Operations
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, ConnectFailed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Coordinator, Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import carries, coordinator, error_text, find_coordinator, lacking
from kafkawire.sdk.routing.router import NOT_IN_CLUSTER
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["ANY_NODE", "Anywhere", "Coordinators", "Leaders", "Nodes"]

#: Stands for the node id of items that any broker takes.
ANY_NODE: Final = -1


class Anywhere(Generic[Item]):
    """Any broker: all items in one batch, whose node id is `ANY_NODE`."""

    async def find(self, items: Collection[Item], deadline_ms: int, *, is_first: bool) -> Placed[Item]:
        """Return all items in one batch; see `Places`."""
        return Placed({ANY_NODE: list(items)}, {}, {})


class Nodes(Generic[Item]):
    """The brokers that the items themselves name.

    Args:
        node_of: returns the node id of an item's broker.
        operations: knows the brokers of the cluster, so that others are waited for only for a while; None if the node
            ids come from the cluster.
    """

    def __init__(self, node_of: Callable[[Item], int], operations: Operations | None = None) -> None:
        self._node_of = node_of
        self._operations = operations
        self._begun_ms = monotonic_ms()

    async def find(self, items: Collection[Item], deadline_ms: int, *, is_first: bool) -> Placed[Item]:
        """Return the brokers of items; see `Places`."""
        placed: Placed[Item] = Placed({}, {}, {})
        for item in items:
            placed.nodes.setdefault(self._node_of(item), []).append(item)
        if self._operations is None:
            return placed
        brokers = self._operations.router.metadata.brokers
        if placed.nodes.keys() - brokers.keys() - {ANY_NODE}:
            await self._operations.describe((), deadline_ms=deadline_ms)
        for node_id in placed.nodes.keys() - self._operations.router.metadata.brokers.keys() - {ANY_NODE}:
            error = ConnectFailed(Node(node_id), NOT_IN_CLUSTER)
            is_late = monotonic_ms() - self._begun_ms >= ABSENT_MS
            (placed.refused if is_late else placed.errors).update(dict.fromkeys(placed.nodes.pop(node_id), error))
        return placed


class Leaders:
    """The leaders of partitions.

    Args:
        operations: sends the requests, and has the metadata.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._begun_ms = monotonic_ms()

    async def find(
        self, items: Collection[TopicPartition], deadline_ms: int, *, is_first: bool
    ) -> Placed[TopicPartition]:
        """Return the leaders of partitions; see `Places`."""
        metadata = self._operations.router.metadata
        if doubtful := {each.topic for each in items if not is_first or metadata.leader(each) is None}:
            asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(doubtful)]
            await self._operations.look_up(asked, deadline_ms=deadline_ms)
        placed: Placed[TopicPartition] = Placed({}, {}, {})
        for partition in items:
            leader = metadata.leader(partition)
            if leader is not None:
                placed.nodes.setdefault(leader, []).append(partition)
                continue
            known = metadata.partition(partition)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.LEADER_NOT_AVAILABLE
            of_topic = metadata.errors.get(partition.topic)
            text = error_text(f"partition {partition}", metadata.absence(partition))
            error = BrokerError(code if of_topic is None else of_topic, text)
            is_late = known is None and of_topic is None and monotonic_ms() - self._begun_ms >= ABSENT_MS
            (placed.refused if is_late or of_topic in NO_SUCH_TOPIC else placed.errors)[partition] = error
        return placed


class Coordinators:
    """The coordinators of groups or of transactional ids.

    Args:
        operations: sends the requests.
        kind: what the items name.
    """

    def __init__(self, operations: Operations, kind: CoordinatorType) -> None:
        self._operations = operations
        self._kind = kind

    async def find(self, items: Collection[str], deadline_ms: int, *, is_first: bool) -> Placed[str]:
        """Return the coordinators of items; see `Places`."""
        keys = list(items)
        try:
            found = await self._together(keys, deadline_ms)
        except UnsupportedVersion:  # the broker takes one key in each request
            found = dict(await one_by_one(self._one)(ANY_NODE, keys, deadline_ms))
        placed: Placed[str] = Placed({}, {}, {})
        for key, node in found.items():
            if isinstance(node, KafkaWireError):
                placed.errors[key] = node
            else:
                placed.nodes.setdefault(node, []).append(key)
        return placed

    async def _together(self, keys: list[str], deadline_ms: int) -> dict[str, int | KafkaWireError]:
        def request(versions: Versions) -> tuple[FindCoordinatorRequest, int]:
            version = versions.version_for(FindCoordinatorRequest)
            if not carries(FindCoordinatorRequest, "coordinator_keys", version):
                raise UnsupportedVersion(f"FindCoordinator: version {version} takes one key")
            return FindCoordinatorRequest(key_type=self._kind, coordinator_keys=keys), version

        response = await self._operations.request(ANY_BROKER, request, FindCoordinatorResponse, deadline_ms=deadline_ms)
        found: dict[str, int | KafkaWireError] = {key: lacking(response, self._name(key)) for key in keys}
        for each in response.coordinators:
            is_found = each.error_code == ErrorCode.NONE
            text = error_text(self._name(each.key), each.error_message)
            found[each.key] = each.node_id if is_found else BrokerError(each.error_code, text)
        return {key: found[key] for key in keys}

    async def _one(self, _: int, key: str, deadline_ms: int) -> int:
        def request(versions: Versions) -> tuple[FindCoordinatorRequest, int]:
            version = versions.version_for(FindCoordinatorRequest)
            return find_coordinator(key, version, self._kind), version

        response = await self._operations.request(ANY_BROKER, request, FindCoordinatorResponse, deadline_ms=deadline_ms)
        return coordinator(response, self._name(key))[0]

    def _name(self, key: str) -> str:
        return str(Coordinator(self._kind, key))
