"""Check an application's arguments to an admin: topics, partitions, replicas, log directories and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.admin.descriptions import ConfigChange, NewPartitions, NewTopic, TopicPartitionReplica
from kafkawire.sdk.client.arguments import (
    MAX_INT32,
    checked_mapping,
    checked_number,
    checked_partition,
    checked_text,
    given_several,
    is_text,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.options import parse_integer
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ElectionType
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.topics import checked_topic

__all__ = [
    "ConfigResource",
    "checked_config_changes",
    "checked_configs",
    "checked_election_type",
    "checked_log_dirs",
    "checked_new_partitions",
    "checked_new_topics",
    "checked_node_ids",
    "checked_reassignments",
    "checked_resource",
]

#: The largest replication factor, which takes 2 bytes on the wire.
_MAX_INT16: Final = (1 << 15) - 1

#: Kinds of resources that only one broker can describe.
_OF_A_BROKER: Final = frozenset({ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER})


#: The operations for a mapping's entries, indexed by whether the value is None.
_SET_OR_DELETE: Final = (AlterConfigOperation.SET, AlterConfigOperation.DELETE)


class ConfigResource(NamedTuple):
    """A resource that has a configuration.

    Attributes:
        kind: the kind of resource.
        name: the name of the resource.
        node_id: the broker that has the configuration; None if every broker does.
    """

    kind: ConfigResourceType
    name: str
    node_id: int | None


def checked_new_topics(given: tuple[Any, ...]) -> list[NewTopic]:
    """Return the topics to create; for a bare name, the broker's defaults are used.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is neither a `NewTopic` nor a name, has an attribute of the wrong type, or is
            repeated.
    """
    if len(given) == 1 and isinstance(given[0], Mapping):
        text = "expected NewTopics or names, such as NewTopic('orders', partitions=3)"
        raise LocalProtocolError(f"topics: {text}, got {quoted(given[0], 100)}")
    topics = [_checked_new_topic(topic) for topic in given_several(given, _is_new_topic)]
    names: set[str] = set()
    for topic in topics:
        if topic.name in names:
            raise LocalProtocolError(f"create topic {topic.name}: the topic is given twice")
        names.add(topic.name)
    return topics


def checked_new_partitions(given: object) -> dict[str, NewPartitions]:
    """Return the partitions to add, keyed by topic; a bare number is the new total.

    Raises:
        LocalProtocolError: the value is not a mapping of topics to numbers or `NewPartitions`, or a number or a node id
            is out of range.
    """
    checked: dict[str, NewPartitions] = {}
    for key, value in checked_mapping("partitions", given).items():
        name = checked_topic(key)
        wanted = value if isinstance(value, NewPartitions) else NewPartitions(value)
        count = checked_number(f"total_count of {name}", wanted.total_count, 1, MAX_INT32)
        if not isinstance(wanted.assignments, Iterable) or is_text(wanted.assignments):
            text = f"expected node ids for each new partition, got {quoted(wanted.assignments, 100)}"
            raise LocalProtocolError(f"assignments of {name}: {text}")
        what = f"a new partition of {name}"
        checked[name] = NewPartitions(count, tuple(_checked_replicas(what, nodes) for nodes in wanted.assignments))
    return checked


def checked_reassignments(given: object) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Return the new replicas, keyed by partition, with None to cancel.

    Raises:
        LocalProtocolError: the value is not a mapping of partitions to node ids or None.
    """
    return {
        (partition := checked_partition(key)): None if nodes is None else _checked_replicas(str(partition), nodes)
        for key, nodes in checked_mapping("reassignments", given).items()
    }


def checked_log_dirs(given: object) -> dict[TopicPartitionReplica, str]:
    """Return the paths of log directories, keyed by replica.

    Raises:
        LocalProtocolError: the value is not a mapping of `TopicPartitionReplica` to paths.
    """
    return {
        (replica := _checked_replica(key)): checked_text(f"log directory of {replica}", path)
        for key, path in checked_mapping("log_dirs", given).items()
    }


def checked_node_ids(given: tuple[Any, ...]) -> list[int]:
    """Return node ids without duplicates.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is not a node id.
    """
    nodes = (checked_number("node id", node, 0, MAX_INT32) for node in given_several(given, is_text))
    return list(dict.fromkeys(nodes))


def checked_election_type(given: object) -> ElectionType:
    """Return the type of an election.

    Raises:
        LocalProtocolError: there is no such type.
    """
    if not isinstance(given, ElectionType):
        kinds = ", ".join(each.name for each in ElectionType)
        raise LocalProtocolError(f"election_type: expected an ElectionType ({kinds}), got {quoted(given, 100)}")
    return given


def checked_configs(given: object) -> dict[str, str]:
    """Return a whole configuration.

    Raises:
        LocalProtocolError: the value is not a mapping of names to strings.
    """
    return {
        (key := checked_text("name of a config", name)): checked_text(key, value)
        for name, value in checked_mapping("configs", given).items()
    }


def checked_config_changes(given: object) -> list[ConfigChange]:
    """Return changes to a configuration; in a mapping, a string sets an entry and None deletes it.

    Raises:
        LocalProtocolError: the value is neither a mapping of names to strings or None nor an iterable of
            `ConfigChange`s, or a change lacks the value required by its operation.
    """
    if isinstance(given, Mapping):
        return [_checked_change(name, value, _SET_OR_DELETE[value is None]) for name, value in given.items()]
    if not isinstance(given, Iterable) or is_text(given):
        text = "expected a mapping of names to values, or ConfigChanges"
        raise LocalProtocolError(f"changes: {text}, got {quoted(given, 100)}")
    changes = list(given)
    for change in changes:
        if not isinstance(change, ConfigChange):
            raise LocalProtocolError(f"change: expected a ConfigChange, got {quoted(change, 100)}")
    return [_checked_change(*change) for change in changes]


def checked_resource(kind: object, name: object) -> ConfigResource:
    """Return the resource to describe.

    Raises:
        LocalProtocolError: there is no such kind of resource, the name is not text, or a broker's name is not a node
            id.
    """
    chosen, text = _kind(kind), checked_text("name", name)
    if not chosen:
        kinds = ", ".join(each.name for each in ConfigResourceType if each)
        raise LocalProtocolError(f"resource_type: expected a ConfigResourceType ({kinds}), got {quoted(kind, 100)}")
    if chosen not in _OF_A_BROKER or (chosen is ConfigResourceType.BROKER and not text):
        return ConfigResource(chosen, text, None)
    if not (text.isascii() and text.isdecimal()):
        raise LocalProtocolError(f"name of a {chosen.name}: expected a node id as text, got {quoted(text, 100)}")
    return ConfigResource(chosen, text, checked_number("node id", parse_integer(text), 0, MAX_INT32))


def _kind(given: object) -> ConfigResourceType:
    try:
        return ConfigResourceType(given) if isinstance(given, int) else ConfigResourceType.UNKNOWN
    except ValueError:
        return ConfigResourceType.UNKNOWN


def _is_new_topic(given: object) -> bool:
    return isinstance(given, NewTopic) or is_text(given)


def _checked_new_topic(given: object) -> NewTopic:
    if isinstance(given, str):
        return NewTopic(checked_topic(given))
    if not isinstance(given, NewTopic):
        text = f"expected a NewTopic or a name, got {type(given).__name__}"
        raise LocalProtocolError(f"topic {quoted(given, 100)}: {text}")
    name = checked_topic(given.name)
    return NewTopic(
        name,
        checked_number(f"partitions of {name}", given.partitions, -1, MAX_INT32),
        checked_number(f"replication_factor of {name}", given.replication_factor, -1, _MAX_INT16),
        {
            checked_text(f"config of {name}", key): None if value is None else checked_text(f"{key} of {name}", value)
            for key, value in checked_mapping(f"configs of {name}", given.configs).items()
        },
        {
            checked_number(f"partition of {name}", number, 0, MAX_INT32): _checked_replicas(f"{name}-{number}", nodes)
            for number, nodes in checked_mapping(f"assignments of {name}", given.assignments).items()
        },
    )


def _checked_change(name: object, value: object, operation: object) -> ConfigChange:
    key = checked_text("name of a config", name)
    if not isinstance(operation, AlterConfigOperation):
        names = ", ".join(each.name for each in AlterConfigOperation)
        text = f"expected an AlterConfigOperation ({names})"
        raise LocalProtocolError(f"operation on {key}: {text}, got {quoted(operation, 100)}")
    if operation is AlterConfigOperation.DELETE and value is None:
        return ConfigChange(key, None, operation)
    return ConfigChange(key, checked_text(key, value), operation)


def _checked_replica(given: object) -> TopicPartitionReplica:
    if not isinstance(given, tuple) or len(given) != len(TopicPartitionReplica._fields):
        text = "expected a TopicPartitionReplica or (topic, number, node id)"
        raise LocalProtocolError(f"replica: {text}, got {quoted(given, 100)}")
    partition = checked_partition(given[:2])
    return TopicPartitionReplica(*partition, checked_number(f"node id of {partition}", given[2], 0, MAX_INT32))


def _checked_replicas(what: str, nodes: object) -> tuple[int, ...]:
    if not isinstance(nodes, Iterable) or is_text(nodes):
        raise LocalProtocolError(f"replicas of {what}: expected node ids, got {quoted(nodes, 100)}")
    return tuple(checked_number(f"replica of {what}", node, 0, MAX_INT32) for node in nodes)
