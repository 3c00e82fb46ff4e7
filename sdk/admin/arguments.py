"""Check an application's arguments to an admin: topics, partitions, replicas, log directories and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkawire.sdk.admin.descriptions import (
    ConfigChange,
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicPartitionReplica,
)
from kafkawire.sdk.client.arguments import (
    MAX_INT16,
    MAX_INT32,
    checked_mapping,
    checked_number,
    checked_offset,
    checked_partition,
    checked_partitions,
    checked_text,
    given_several,
    is_several,
    is_text,
)
from kafkawire.sdk.client.option_values import ISOLATION_LEVELS
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.options import parse_integer
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ElectionType, IsolationLevel
from kafkawire.sdk.protocol.uuids import ZERO_UUID, parse_uuid
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.topics import checked_topic

__all__ = [
    "broker_of",
    "checked_choices",
    "checked_config_changes",
    "checked_configs",
    "checked_election_type",
    "checked_groups",
    "checked_isolation_level",
    "checked_log_dirs",
    "checked_new_partitions",
    "checked_new_topics",
    "checked_node_id",
    "checked_node_ids",
    "checked_numbers",
    "checked_reassignments",
    "checked_record_ends",
    "checked_replicas",
    "checked_resource",
    "checked_resource_changes",
    "checked_resource_types",
    "checked_resources",
    "checked_topic_ids",
    "checked_words",
    "some",
]

#: Kinds of resources that only one broker can describe.
_OF_A_BROKER: Final = frozenset({ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER})


#: The operations for a mapping's entries, indexed by whether the value is None.
_SET_OR_DELETE: Final = (AlterConfigOperation.SET, AlterConfigOperation.DELETE)


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
        if not is_several(wanted.assignments):
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


def checked_node_id(given: object) -> int | None:
    """Return a node id; None stands for no particular broker.

    Raises:
        LocalProtocolError: the argument is neither a node id nor None.
    """
    return None if given is None else checked_number("node id", given, 0, MAX_INT32)


def checked_election_type(given: object) -> ElectionType:
    """Return the type of an election.

    Raises:
        LocalProtocolError: there is no such type.
    """
    if not isinstance(given, ElectionType):
        kinds = ", ".join(each.name for each in ElectionType)
        raise LocalProtocolError(f"election_type: expected an ElectionType ({kinds}), got {quoted(given, 100)}")
    return given


def checked_isolation_level(given: object) -> IsolationLevel:
    """Return an isolation level.

    Raises:
        LocalProtocolError: there is no such level.
    """
    level = ISOLATION_LEVELS.get(given) if isinstance(given, str) else given
    if not isinstance(level, IsolationLevel):
        names = ", ".join(ISOLATION_LEVELS)
        raise LocalProtocolError(f"isolation_level: expected one of {names}, got {quoted(given, 100)}")
    return level


def checked_groups(given: object) -> dict[str, list[TopicPartition] | None]:
    """Return the partitions of groups, keyed by group id, with None for all.

    Raises:
        LocalProtocolError: the value is neither a mapping of group ids to partitions or None nor an iterable of group
            ids.
    """
    if not isinstance(given, Mapping):
        return dict.fromkeys(checked_words("groups", given))
    checked: dict[str, list[TopicPartition] | None] = {}
    for group_id, partitions in given.items():
        if partitions is not None and (not isinstance(partitions, Iterable) or is_text(partitions)):
            text = f"expected partitions or None, got {quoted(partitions, 100)}"
            raise LocalProtocolError(f"partitions of group {quoted(group_id, 100)}: {text}")
        chosen = None if partitions is None else checked_partitions((partitions,))
        checked[checked_text("group_id", group_id)] = chosen
    return checked


def checked_words(what: str, given: object) -> list[str]:
    """Return the words of a filter, without duplicates.

    Args:
        what: the name of the filter, for the error.
        given: an iterable of words.

    Raises:
        LocalProtocolError: the value is not an iterable of strings.
    """
    if not is_several(given):
        raise LocalProtocolError(f"{what}: expected several strings, got {quoted(given, 100)}")
    return list(dict.fromkeys(checked_text(f"one of {what}", each) for each in given))


def checked_choices(what: str, given: object, choices: Iterable[str]) -> list[str]:
    """Return the words of a filter that has a fixed set of words, without duplicates; case is ignored, as in Kafka.

    Args:
        what: the name of the filter, for the error.
        given: an iterable of words.
        choices: the possible words.

    Raises:
        LocalProtocolError: the value is not an iterable of strings, or a word is unknown.
    """
    known = {each.lower(): each for each in choices}
    checked = []
    for word in checked_words(what, given):
        if word.lower() not in known:
            text = f"expected {', '.join(known.values())}, got {quoted(word, 100)}"
            raise LocalProtocolError(f"one of {what}: {text}{did_you_mean(word, known.values())}")
        checked.append(known[word.lower()])
    return list(dict.fromkeys(checked))


def some(call: str, items: str, given: tuple[Any, ...], otherwise: str = "") -> tuple[Any, ...]:
    """Return the arguments of an operation on items; without any, it is not clear whether none or all are meant.

    Args:
        call: the operation, for the error.
        items: the items, for the error.
        given: the arguments; a single empty iterable means no items.
        otherwise: how to name all items, for the error.

    Raises:
        LocalProtocolError: there are no arguments.
    """
    if not given:
        raise LocalProtocolError(f"{call}: expected {items}; for none, pass an empty list{otherwise}")
    return given


def checked_numbers(what: str, given: object, last: int) -> list[int]:
    """Return the numbers of a filter, without duplicates.

    Args:
        what: the name of the filter, for the error.
        given: an iterable of integers from 0 on.
        last: the largest number allowed.

    Raises:
        LocalProtocolError: the value is not an iterable of such numbers.
    """
    if not is_several(given):
        raise LocalProtocolError(f"{what}: expected several integers, got {quoted(given, 100)}")
    return list(dict.fromkeys(checked_number(f"one of {what}", each, 0, last) for each in given))


def checked_topic_ids(given: object) -> list[bytes]:
    """Return topic ids without duplicates, 16 bytes each.

    Raises:
        LocalProtocolError: the value is not an iterable of topic ids, as bytes or as Kafka's text form.
    """
    if not is_several(given):
        raise LocalProtocolError(f"topic_ids: expected several topic ids, got {quoted(given, 100)}")
    checked = []
    for each in given:
        topic_id = parse_uuid(each) if isinstance(each, str) else each
        if not isinstance(topic_id, bytes) or len(topic_id) != len(ZERO_UUID):
            raise LocalProtocolError(f"topic id: expected {len(ZERO_UUID)} bytes, got {quoted(each, 100)}")
        checked.append(topic_id)
    return list(dict.fromkeys(checked))


def checked_record_ends(given: object) -> dict[TopicPartition, int | None]:
    """Return the offsets before which to delete records, keyed by partition, with None for all records.

    Raises:
        LocalProtocolError: the value is not a mapping of partitions to offsets or None.
    """
    return {
        (partition := checked_partition(key)): None if offset is None else checked_offset(partition, offset)
        for key, offset in checked_mapping("before", given).items()
    }


def checked_replicas(given: tuple[Any, ...]) -> list[TopicPartitionReplica]:
    """Return replicas.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is not a `TopicPartitionReplica` or a (topic, number, node id) triple.
    """
    return [_checked_replica(each) for each in given_several(given, _is_tuple)]


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
    if not is_several(given):
        text = "expected a mapping of names to values, or ConfigChanges"
        raise LocalProtocolError(f"changes: {text}, got {quoted(given, 100)}")
    changes = list(given)
    for change in changes:
        if not isinstance(change, ConfigChange):
            raise LocalProtocolError(f"change: expected a ConfigChange, got {quoted(change, 100)}")
    return [_checked_change(*change) for change in changes]


def checked_resource(kind: object, name: object) -> ConfigResource:
    """Return a resource that has a configuration.

    Raises:
        LocalProtocolError: there is no such kind of resource, the name is not text, or a broker's name is not a node
            id.
    """
    chosen, text = _checked_kind(kind), checked_text("name", name)
    resource = ConfigResource(chosen, text)
    broker_of(resource)
    return resource


def checked_resources(given: tuple[Any, ...]) -> list[ConfigResource]:
    """Return resources that have configurations.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is not a `ConfigResource` or a (kind, name) pair.
    """
    return [_checked_config_resource(each) for each in given_several(given, _is_tuple)]


def checked_resource_changes(given: object) -> dict[ConfigResource, list[ConfigChange]]:
    """Return the changes to the configuration of each resource.

    Raises:
        LocalProtocolError: the value is not a mapping of resources to changes.
    """
    return {
        _checked_config_resource(key): checked_config_changes(changes)
        for key, changes in checked_mapping("changes", given).items()
    }


def checked_resource_types(given: tuple[Any, ...]) -> list[ConfigResourceType]:
    """Return kinds of resources, without duplicates.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: there is no such kind.
    """
    return list(dict.fromkeys(_checked_kind(each) for each in given_several(given, is_text)))


def broker_of(resource: ConfigResource) -> int | None:
    """Return the node id of the broker that alone describes a resource; None if any broker does.

    Raises:
        LocalProtocolError: a broker's name is not a node id.
    """
    kind, text = resource
    if kind not in _OF_A_BROKER or (kind is ConfigResourceType.BROKER and not text):
        return None
    if not (text.isascii() and text.isdecimal()):
        raise LocalProtocolError(f"name of a {kind.name}: expected a node id as text, got {quoted(text, 100)}")
    return checked_number("node id", parse_integer(text), 0, MAX_INT32)


def _checked_kind(given: object) -> ConfigResourceType:
    try:
        chosen = ConfigResourceType(given) if isinstance(given, int) else ConfigResourceType.UNKNOWN
    except ValueError:
        chosen = ConfigResourceType.UNKNOWN
    if not chosen:
        kinds = ", ".join(each.name for each in ConfigResourceType if each)
        raise LocalProtocolError(f"resource_type: expected a ConfigResourceType ({kinds}), got {quoted(given, 100)}")
    return chosen


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
        checked_number(f"replication_factor of {name}", given.replication_factor, -1, MAX_INT16),
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


def _is_tuple(given: object) -> bool:
    """Return whether a value was meant as a single replica or resource: a tuple that does not contain tuples."""
    return is_text(given) or (isinstance(given, tuple) and bool(given) and not isinstance(given[0], tuple))


def _checked_config_resource(given: object) -> ConfigResource:
    if not isinstance(given, tuple) or len(given) != len(ConfigResource._fields):
        text = "expected a ConfigResource or (resource type, name)"
        raise LocalProtocolError(f"resource: {text}, got {quoted(given, 100)}")
    return checked_resource(*given)


def _checked_replicas(what: str, nodes: object) -> tuple[int, ...]:
    if not is_several(nodes):
        raise LocalProtocolError(f"replicas of {what}: expected node ids, got {quoted(nodes, 100)}")
    return tuple(checked_number(f"replica of {what}", node, 0, MAX_INT32) for node in nodes)
