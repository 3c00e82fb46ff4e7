"""Requests left out of comparisons with Apache Kafka, either because they trigger a defect in Kafka or because a name
would not be known in time.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, regexes_of
from tests.reference_broker.groups import consumer_sequences as sequences
from tests.reference_broker.groups.consumer_sequences import Asked

__all__ = ["is_left_out"]


def is_left_out(group: ClassicGroup | ConsumerGroup | None, asked: Asked) -> bool:
    """Return whether a name would not be known in time, or whether the request would replace a waiting one."""
    if isinstance(asked, sequences.Join | sequences.Beat) and asked.topics == ():  # noqa: SIM102  # nested for mypy
        # Kafka treats a new member without a subscription as if it had all the others' subscriptions.
        if group is None or asked.member_id not in group.members:
            return True
    is_empty = isinstance(group, ConsumerGroup) and not group.members
    if is_empty and isinstance(asked, sequences.Join) and asked.member_id:
        return True  # Kafka forgets the group when it refuses the join
    if isinstance(group, ConsumerGroup) and len(group.members) > 2 and _takes_topics_along(group, asked):
        # Kafka may behave as if the remaining members had different subscriptions.
        return True
    if not isinstance(group, ClassicGroup):
        # Kafka's state becomes inconsistent when a member takes over another instance id.
        if group is None or not isinstance(asked, sequences.Beat):
            return False
        known = group.members.get(asked.member_id)
        if known is not None and asked.instance not in (None, known.instance_id):
            return True
        return group.epoch > group.assignment_epoch and _is_unresolved(group, asked)
    if isinstance(asked, sequences.Beat) and asked.epoch == 0 and group.state is not GroupState.STABLE:
        # Kafka leaves the group without an assignment from this rebalance until the group changes again.
        return not asked.topics or asked.instance in group.static_members or asked.member_id in group.members
    if isinstance(asked, sequences.Leave):
        return len(group.members) > 2
    if not isinstance(asked, sequences.Join | sequences.Sync):
        return False
    if isinstance(asked, sequences.Join) and asked.instance is not None:
        return bool(group.members or group.pending_members)
    member = group.members.get(asked.member_id)
    return member is not None and bool(member.awaiting_join or member.awaiting_sync)


def _takes_topics_along(group: ConsumerGroup, asked: Asked) -> bool:
    """Return whether the only member with a regular expression is leaving."""
    leaving: list[str | None] = []
    if isinstance(asked, sequences.Beat) and asked.epoch == sequences.LEAVE:
        leaving = [asked.member_id]
    elif isinstance(asked, sequences.Leave):
        leaving = [member_id or group.static_members.get(instance or "") for member_id, instance in asked.members]
    members = [group.members[each] for each in leaving if each in group.members]
    staying = regexes_of(group.subscriptions_after(members))
    return any(member.regex in group.resolved and member.regex not in staying for member in members)


def _is_unresolved(group: ConsumerGroup, asked: sequences.Beat) -> bool:
    """Return whether a member's only subscription is an expression that has not been resolved yet.

    If there are partitions to assign, Kafka then treats the member as if it had all the others' subscriptions.
    """
    if not asked.regex or asked.regex in group.resolved:
        return False
    known = group.members.get(group.static_members.get(asked.instance or "", asked.member_id))
    topics = () if known is None else known.topics
    return asked.topics is None or tuple(sorted(asked.topics)) == topics
