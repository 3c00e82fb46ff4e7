"""A member's view of its group in the registry: the members, their threads for each topic, and the topics' partitions.

Everything is read again in each rebalance, and each read sets the watches that report the next change. A registration
that is damaged, or asks for absurd numbers of threads, is logged and treated as one without topics, since a single
program must not stop the others.

Source: `TopicCount`, `AssignmentContext`, `ZkUtils.getConsumersPerTopic` in Apache Kafka 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.groups.topic_filter import FilterKind, TopicFilter
from kafkawire.sdk.protocol.tables.znodes import BROKER_IDS, CONSUMER, CONSUMER_IDS, TOPIC, TOPICS, ConsumerRegistration
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import child_path
from kafkawire.sdk.registry.registry import Data, GetData, Watcher
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps, found, list_children, stat_of, together

__all__ = ["STATIC", "GroupView", "read_group", "topics_of"]

#: The word that a registration contains if it lists topic names.
STATIC: Final = "static"

#: The maximum number of one member's threads, over all its topics. Kafka has no limit; a thread is one stream of a
#: program.
THREADS_MAX: Final = 100_000

#: Called with a description of the damage for each node that is left out.
OnDamage = Callable[[KafkaWireError], None]


class GroupView(NamedTuple):
    """A group, as read in one rebalance.

    Attributes:
        members: the ids of all members.
        threads: the threads that read each topic, `[topic][thread]`.
        partitions: the partition numbers of the topics relevant to the reader, `[topic][partition]`; empty for a topic
            that does not exist.
        has_brokers: whether a broker is alive.
    """

    members: frozenset[str]
    threads: Mapping[str, tuple[ConsumerThread, ...]]
    partitions: Mapping[str, tuple[int, ...]]
    has_brokers: bool


def read_group(
    group_id: str,
    consumer_id: str,
    watcher: Watcher,
    on_damage: OnDamage,
    *,
    reads_all_topics: bool,
    excludes_internal: bool,
) -> Steps[GroupView]:
    """Read a group.

    Args:
        group_id: the group.
        consumer_id: the member that reads the group.
        watcher: called when a member or a broker appears or disappears, or when a relevant topic changes; if a member
            has a filter, also for any new topic.
        on_damage: called for each node that is left out.
        reads_all_topics: whether all topics of the group are relevant, or just those of the reading member.
        excludes_internal: whether filters leave out Kafka's own topics.
    """
    brokers, members = yield from together(_await_children(path, watcher) for path in _folders(group_id))
    outcomes = yield [GetData(child_path(CONSUMER_IDS.path(group_id), member)) for member in members]
    registrations: dict[str, ConsumerRegistration] = {}
    for member, outcome in zip(members, outcomes, strict=True):
        data = found(outcome, Data)
        if data is not None:  # None if it has left in the meantime
            path = child_path(CONSUMER_IDS.path(group_id), member)
            try:
                registrations[member] = CONSUMER.decode(data.data, path)
            except DamagedZnode as error:
                on_damage(error)
    known: tuple[str, ...] = ()
    if any(_is_filter(registration) for registration in registrations.values()):
        known = yield from _await_children(TOPICS.path(), watcher)
    wanted: dict[str, dict[str, int]] = {}
    for member, registration in registrations.items():
        try:
            wanted[member] = topics_of(registration, known, excludes_internal=excludes_internal)
        except KafkaWireError as error:
            on_damage(DamagedZnode(CONSUMER.path(group_id, member), "subscription", str(error)))
    threads: dict[str, list[ConsumerThread]] = {}
    for member, counts in wanted.items():
        for topic, count in counts.items():
            threads.setdefault(topic, []).extend(ConsumerThread(member, number) for number in range(count))
    matter = threads.keys() if reads_all_topics else wanted.get(consumer_id, {}).keys()
    partitions = yield from together(_partitions_of(topic, watcher, on_damage) for topic in sorted(matter))
    return GroupView(
        frozenset(members),
        {topic: tuple(each) for topic, each in threads.items()},
        dict(zip(sorted(matter), partitions, strict=True)),
        bool(brokers),
    )


def topics_of(
    registration: ConsumerRegistration, known: Collection[str], *, excludes_internal: bool = True
) -> dict[str, int]:
    """Return the topics of a member, each with its number of threads.

    Args:
        registration: the registration that the member has published.
        known: the existing topics, to which a filter is applied.
        excludes_internal: whether a filter leaves out Kafka's own topics.

    Raises:
        ConfigurationError: the syntax of a filter is not supported.
        EncodeError: a number of threads is not positive, or the sum exceeds the limit.
    """
    topics = dict(registration.subscription)
    if _is_filter(registration):
        expression, count = next(iter(topics.items()))
        chosen = TopicFilter(expression, FilterKind(registration.pattern), excludes_internal=excludes_internal)
        topics = {topic: count for topic in known if chosen.accepts(topic)}
    if any(count < 1 for count in topics.values()) or sum(topics.values()) > THREADS_MAX:
        raise EncodeError("threads", f"expected at least 1 thread per topic, and at most {THREADS_MAX} in total")
    return topics


def _is_filter(registration: ConsumerRegistration) -> bool:
    """Return whether a member has a filter; Kafka treats a registration with any other word as one by names."""
    return bool(registration.subscription) and registration.pattern in {kind.value for kind in FilterKind}


def _folders(group_id: str) -> tuple[str, str]:
    return BROKER_IDS.path(), CONSUMER_IDS.path(group_id)


def _await_children(path: str, watcher: Watcher) -> Steps[tuple[str, ...]]:
    """List the children of a node and watch them; if the node is missing, watch for it."""
    for _ in range(ATTEMPTS_MAX):
        children = yield from list_children(path, watcher)
        if children is not None:
            return children.names
        if (yield from stat_of(path, watcher)) is None:
            break
    return ()


def _partitions_of(topic: str, watcher: Watcher, on_damage: OnDamage) -> Steps[tuple[int, ...]]:
    """Read the partitions of a topic and watch them; if the topic is missing, watch for it."""
    try:
        path = TOPIC.path(topic)
    except EncodeError as error:  # another member names this topic, but no topic can have this name
        on_damage(error)
        return ()
    for _ in range(ATTEMPTS_MAX):
        (outcome,) = yield (GetData(path, watcher),)
        data = found(outcome, Data)
        if data is not None:
            try:
                return tuple(TOPIC.decode(data.data, path).partitions)
            except DamagedZnode as error:
                on_damage(error)
                return ()
        if (yield from stat_of(path, watcher)) is None:
            break
    return ()
