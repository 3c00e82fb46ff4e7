"""What the requests of admins write to the registry: topics, partitions, marks of deletion, configurations.

Nothing is sent to a broker here: the controller notices topics, and every broker notices configurations. A topic's
configuration is written first, so that its partitions never exist without it.

Source: `AdminZkClient`, `KafkaZkClient.setOrCreateEntityConfigs` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.reassignments import stored_assignment
from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER_CONFIG,
    CONFIG,
    CONFIG_CHANGE,
    CONTROLLER,
    TOPIC,
    TOPIC_CONFIG,
    TOPIC_DELETION,
    TOPICS,
    ConfigChange,
    EntityConfig,
)
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.paths import parent_of
from kafkawire.sdk.registry.registry import (
    Check,
    CreateMode,
    Exists,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
    Transaction,
)
from kafkawire.sdk.registry.steps import (
    Steps,
    create,
    create_with_parents,
    found,
    list_children,
    perform,
    read,
    set_data,
    stat_of,
)

__all__ = [
    "add_partitions",
    "change_broker_config",
    "change_topic_config",
    "check_new_topic",
    "create_topic",
    "mark_for_deletion",
]


def check_new_topic(topic: str) -> Steps[None]:
    """Check that a topic can be created.

    Args:
        topic: a valid name.

    Raises:
        Refused: it exists, is being deleted, or differs from an existing one only in dots and underscores, which
            metrics do not tell apart.
    """
    outcomes = yield (Exists(TOPIC_DELETION.path(topic)), Exists(TOPIC.path(topic)))
    is_marked, exists = (found(outcome, Stat) is not None for outcome in outcomes)
    if is_marked:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion.")
    if exists:
        raise _exists(topic)
    if "." in topic or "_" in topic:
        children = yield from list_children(TOPICS.path())
        names = () if children is None else children.names
        alike = [name for name in names if name.replace(".", "_") == topic.replace(".", "_")]
        if topic in alike:
            raise _exists(topic)
        if alike:
            text = f"Topic '{topic}' collides with existing topics: {', '.join(alike)}"
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def create_topic(
    topic: str,
    config: Mapping[str, str],
    assignments: Mapping[int, Sequence[int]],
    topic_id: bytes,
    acl: tuple[Acl, ...] = OPEN_ACL,
) -> Steps[None]:
    """Create a topic: its configuration, then its assignment.

    Args:
        topic: a name that `check_new_topic` accepted.
        config: its configurations.
        assignments: the replicas of each partition, from 0.
        topic_id: a new id of 16 bytes.
        acl: the access control list of the nodes.

    Raises:
        Refused: the topic exists, or there is no controller.
    """
    yield from _write_config(TOPIC_CONFIG.path(topic), config, acl)
    replicas = {number: ReplicaAssignment(tuple(each)) for number, each in assignments.items()}
    content = TOPIC.encode(stored_assignment(topic_id, replicas))
    if not (yield from create_with_parents(TOPIC.path(topic), content, acl)):
        # The outcome of the creation may have been lost, and the creation sent twice.
        data = yield from read(TOPIC.path(topic))
        if data is None or data.data != content:
            raise _exists(topic)


def add_partitions(topic: str, assignments: Mapping[int, Sequence[int]]) -> Steps[None]:
    """Add partitions to a topic.

    Args:
        topic: the topic.
        assignments: the replicas of each new partition.

    Raises:
        Refused: the topic does not exist, is being moved, or was changed meanwhile.
        DamagedZnode: the topic cannot be read.
    """
    data = yield from read(TOPIC.path(topic))
    if data is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    stored = TOPIC.decode(data.data, TOPIC.path(topic))
    if any(stored.adding_replicas.values()) or any(stored.removing_replicas.values()):
        text = f"A partition reassignment is in progress for the topic '{topic}'."
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    if min(assignments, default=len(stored.partitions)) < len(stored.partitions):
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic '{topic}' has {len(stored.partitions)} partitions already.")
    combined = {**stored.partitions, **{number: tuple(each) for number, each in assignments.items()}}
    content = TOPIC.encode(stored._replace(partitions=combined))
    try:
        yield from set_data(TOPIC.path(topic), content, data.stat.version)
    except RegistryError as error:
        if error.code is not RegistryCode.BAD_VERSION:
            raise
        # The outcome of the write may have been lost, and the write sent twice.
        again = yield from read(TOPIC.path(topic))
        if again is not None and again.data == content:
            return
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"The topic '{topic}' was changed at the same time.") from error


def mark_for_deletion(topic: str, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[None]:
    """Have the controller delete a topic; one that is marked already stays so.

    Raises:
        Refused: the topic does not exist.
    """
    if (yield from stat_of(TOPIC.path(topic))) is None:
        text = f"Topic `{topic}` to delete does not exist"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    yield from create_with_parents(TOPIC_DELETION.path(topic), None, acl)


def change_topic_config(topic: str, config: Mapping[str, str], acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[None]:
    """Replace the configuration of a topic, and announce it to all brokers.

    Raises:
        Refused: the topic does not exist, or there is no controller.
    """
    if (yield from stat_of(TOPIC.path(topic))) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
    yield from _change_config(TOPIC_CONFIG.path(topic), config, acl)


def change_broker_config(
    broker_id: int | None, config: Mapping[str, str], acl: tuple[Acl, ...] = OPEN_ACL
) -> Steps[None]:
    """Replace the configuration of a broker, or that of all brokers for None, and announce it to all brokers.

    Raises:
        Refused: there is no controller.
    """
    yield from _change_config(BROKER_CONFIG.path(broker_id), config, acl)


def _change_config(path: str, config: Mapping[str, str], acl: tuple[Acl, ...]) -> Steps[None]:
    yield from _write_config(path, config, acl)
    change = CONFIG_CHANGE.encode(ConfigChange(entity_path=path.removeprefix(f"{CONFIG.path()}/")))
    yield from create_with_parents(parent_of(CONFIG_CHANGE.prefix), None, acl)
    yield from create(CONFIG_CHANGE.prefix, change, CreateMode.PERSISTENT_SEQUENTIAL, acl)


def _write_config(path: str, config: Mapping[str, str], acl: tuple[Acl, ...]) -> Steps[None]:
    """Replace a configuration, or create its node, while one controller is in office.

    The controller is checked because a controller of KRaft takes over the configurations.
    """
    data = yield from read(CONTROLLER.path())
    if data is None or CONTROLLER.decode(data.data, CONTROLLER.path()).kraft_controller_epoch > 0:
        raise Refused(ErrorCode.NOT_CONTROLLER, f"{path} is not written, since the cluster has no controller")
    content = EntityConfig(dict(config))
    encoded = TOPIC_CONFIG.encode(content)
    write = Transaction((Check(CONTROLLER.path(), data.stat.version), SetData(path, encoded)))
    for attempt in range(2):
        outcome = yield from perform(write)
        if not isinstance(outcome, RegistryError):
            return
        if outcome.path == CONTROLLER.path():
            raise Refused(ErrorCode.NOT_CONTROLLER, f"{path} is not written, since the controller changes") from outcome
        if outcome.code is not RegistryCode.NO_NODE or attempt:
            raise outcome
        if (yield from create_with_parents(path, encoded, acl)):
            return


def _exists(topic: str) -> Refused:
    return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
