"""The assignments of a classic group of consumers: the consumer protocol and the assignors, for `ClassicGroup`.

Source: Apache Kafka, `ConsumerCoordinator`; KIP-429 (cooperative rebalancing), KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.sdk.client.groups.classic_protocol import ClusterView, Joining, MemberInfo
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors import ASSIGNORS, Assignor
from kafkawire.sdk.consumer.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE

__all__ = ["ConsumerAssignments"]


class ConsumerAssignments:
    """See `AssignmentProtocol`.

    Args:
        assignors: names of built-in assignors, or assignors of the application; the preferred one first.

    Raises:
        ConfigurationError: there is no such assignor, none at all, or two of one name.
    """

    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, assignors: Sequence[str | Assignor]) -> None:
        unknown = [each for each in assignors if isinstance(each, str) and each not in ASSIGNORS]
        if unknown or not assignors:
            raise ConfigurationError("assignors", assignors, f"expected some of {', '.join(ASSIGNORS)}, or your own")
        chosen = [ASSIGNORS[each] if isinstance(each, str) else each for each in assignors]
        self._assignors = {assignor.name: assignor for assignor in chosen}
        if len(self._assignors) < len(chosen):
            raise ConfigurationError("assignors", assignors, "expected a different name for each")
        # As in Kafka, a member is cooperative only if all of its assignors are.
        self.cooperative = all(assignor.cooperative for assignor in chosen)

    def protocols(self, joining: Joining) -> list[tuple[str, bytes]]:
        return [
            (
                name,
                encode_subscription(
                    Subscription(
                        tuple(joining.topics),
                        tuple(joining.owned),
                        joining.generation_id,
                        joining.rack,
                        assignor.user_data(sorted(joining.last), joining.last_generation_id),
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    def topics(self, members: Mapping[str, MemberInfo]) -> frozenset[str]:
        return frozenset(topic for member in members.values() for topic in decode_subscription(member.metadata).topics)

    def assign(self, protocol_name: str, members: Mapping[str, MemberInfo], view: ClusterView) -> Mapping[str, bytes]:
        subscriptions = {
            member_id: decode_subscription(member.metadata)._replace(group_instance_id=member.group_instance_id)
            for member_id, member in members.items()
        }
        assignor = self._assignors[protocol_name]
        assignments = assignor.assign(subscriptions, view.partition_counts, view.replica_racks)
        return {member_id: encode_assignment(partitions) for member_id, partitions in assignments.items()}

    def assignment(self, data: bytes) -> frozenset[TopicPartition]:
        return frozenset(decode_assignment(data)) if data else frozenset()
