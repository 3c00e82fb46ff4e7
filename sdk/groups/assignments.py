"""How a classic consumer group, as run by `ClassicGroup`, assigns partitions: the consumer protocol and assignors.

Source: Apache Kafka, `ConsumerCoordinator`; KIP-429 (cooperative rebalancing), KIP-881 (racks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors import ASSIGNORS, Assignor, PartitionCounts, Subscriptions
from kafkawire.sdk.groups.classic_protocol import ClusterView, GroupSubscriptions, Joining, MemberInfo
from kafkawire.sdk.groups.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
    read_subscription,
)
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.user_code import contained

__all__ = ["ConsumerAssignments"]


class ConsumerAssignments:
    """See `AssignmentProtocol`.

    Args:
        assignors: names of built-in assignors, or the application's own assignors, the preferred one first, no two with
            the same name. An assignor that is not derived from `Assignor` may omit the attributes and methods for which
            `Assignor` has a default.
    """

    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, assignors: Sequence[str | Assignor]) -> None:
        chosen = [ASSIGNORS[each] if isinstance(each, str) else each for each in assignors]
        self._assignors = {assignor.name: assignor for assignor in chosen}
        # As in Kafka, a member is cooperative only if all of its assignors are.
        self.cooperative = all(getattr(assignor, "cooperative", Assignor.cooperative) for assignor in chosen)

    def protocols(self, joining: Joining) -> list[tuple[str, bytes]]:
        topics, owned = tuple(joining.topics), tuple(joining.owned)
        said = MemberSubscription(topics, owned, joining.generation_id, joining.rack)
        protocols = []
        for name, assignor in self._assignors.items():
            try:
                told = getattr(assignor, "user_data", None)
                user_data = None if told is None else told(sorted(joining.last), joining.last_generation_id)
                protocols.append((name, encode_subscription(said._replace(user_data=user_data))))
            except BaseException as error:  # the assignor may be the application's
                raise KafkaWireError(f"user data of assignor {name}: {error!r}") from contained(error)
        return protocols

    def read(self, members: Mapping[str, MemberInfo]) -> GroupSubscriptions:
        subscriptions, damage = {}, {}
        for member_id, member in members.items():
            said, wrong = read_subscription(member.metadata)
            subscriptions[member_id] = said._replace(group_instance_id=member.group_instance_id)
            if wrong:
                damage[member_id] = wrong
        return GroupSubscriptions(subscriptions, damage)

    def assign(self, protocol_name: str, subscriptions: Subscriptions, view: ClusterView) -> Mapping[str, bytes]:
        assignor = self._assignors[protocol_name]
        assignments = assignor.assign(subscriptions, view.partition_counts, view.replica_racks)
        _check(assignments, subscriptions, view.partition_counts)
        return {member_id: encode_assignment(partitions) for member_id, partitions in assignments.items()}

    def assignment(self, data: bytes) -> frozenset[TopicPartition]:
        return frozenset(decode_assignment(data)) if data else frozenset()


def _check(
    assignments: Mapping[str, Sequence[TopicPartition]], subscriptions: Subscriptions, partition_counts: PartitionCounts
) -> None:
    """Reject an impossible assignment, with which partitions would be read twice or members would wait forever.

    Raises:
        LocalProtocolError: the assignment names a member that is not in the group; or it assigns a partition that does
            not exist, belongs to a topic that the member does not subscribe to, or is also assigned to another member.
    """
    owners: dict[TopicPartition, str] = {}
    for member, partitions in assignments.items():
        if member not in subscriptions:
            raise LocalProtocolError(f"the assignment includes {member}, which is not a member of the group")
        for topic, number in partitions:
            partition = TopicPartition(topic, number)
            if topic not in subscriptions[member].topics:
                raise LocalProtocolError(f"{partition} was assigned to {member}, which does not subscribe to its topic")
            if not 0 <= number < partition_counts.get(topic, 0):
                raise LocalProtocolError(f"{partition} was assigned to {member}, but does not exist")
            if partition in owners:
                raise LocalProtocolError(f"{partition} was assigned to {owners[partition]} and to {member}")
            owners[partition] = member
