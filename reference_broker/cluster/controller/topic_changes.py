"""Registry writes for admin requests: topics, partitions, deletion marks and configurations.

Nothing is sent to brokers here: the controller notices changed topics, and every broker notices changed configurations.
A topic's configuration is written first, so that its partitions never exist without it.

Source: `AdminZkClient`, `KafkaZkClient.setOrCreateEntityConfigs` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.reassignments import stored_assignment
from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, Revise
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
    Create,
    CreateMode,
    Data,
    Exists,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
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
    "announce_config",
    "change_broker_config",
    "change_topic_config",
    "check_new_topic",
    "create_topic",
    "mark_for_deletion",
    "revise_config",
]

#: The errors of a write to a configuration that another program has changed, created or deleted since it was read.
_CONFLICTS: Final = frozenset({RegistryCode.BAD_VERSION, RegistryCode.NODE_EXISTS, RegistryCode.NO_NODE})


def check_new_topic(topic: str) -> Steps[None]:
    """Check that a topic can be created.

    Args:
        topic: a valid name.

    Raises:
        Refused: the topic exists, is being deleted, or differs from an existing one only in periods and underscores,
            which metrics cannot tell apart.
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
        topic: a name accepted by `check_new_topic`.
        config: the topic's configurations.
        assignments: the replicas of each partition, starting with partition 0.
        topic_id: a new id of 16 bytes.
        acl: the access control list for the nodes.

    Raises:
        Refused: the topic exists, or there is no controller.
    """
    yield from _write_config(TOPIC_CONFIG.path(topic), config, acl)
    replicas = {number: ReplicaAssignment(tuple(each)) for number, each in assignments.items()}
    content = TOPIC.encode(stored_assignment(topic_id, replicas))
    if not (yield from create_with_parents(TOPIC.path(topic), content, acl)):
        # The outcome of the create may have been lost, and the create resent.
        data = yield from read(TOPIC.path(topic))
        if data is None or data.data != content:
            raise _exists(topic)


def add_partitions(topic: str, assignments: Mapping[int, Sequence[int]]) -> Steps[None]:
    """Add partitions to a topic.

    Args:
        topic: the topic.
        assignments: the replicas of each new partition.

    Raises:
        Refused: the topic does not exist, is being moved, or has been changed in the meantime.
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
        # The outcome of the write may have been lost, and the write resent.
        again = yield from read(TOPIC.path(topic))
        if again is not None and again.data == content:
            return
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"The topic '{topic}' was changed at the same time.") from error


def mark_for_deletion(topic: str, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[None]:
    """Mark a topic for deletion by the controller; a topic that is already marked stays marked.

    Raises:
        Refused: the topic does not exist.
    """
    if (yield from stat_of(TOPIC.path(topic))) is None:
        text = f"Topic `{topic}` to delete does not exist"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    yield from create_with_parents(TOPIC_DELETION.path(topic), None, acl)


def change_topic_config(topic: str, revise: Revise, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[None]:
    """Change the configuration of a topic, and announce it to all brokers.

    Args:
        topic: the topic's name.
        revise: returns the new configuration; called again if another program changes the configuration at the same
            time.
        acl: the access control list for the nodes.

    Raises:
        Refused: the topic does not exist, there is no controller, or every attempt collides with another program's
            change.
        DamagedZnode: the configuration cannot be read.
        BrokerError: raised by `revise`.
    """
    if (yield from stat_of(TOPIC.path(topic))) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
    yield from revise_config(TOPIC_CONFIG.path(topic), revise, acl)
    yield from announce_config(TOPIC_CONFIG.path(topic), acl)


def change_broker_config(
    broker_id: int | None,
    revise: Revise,
    acl: tuple[Acl, ...] = OPEN_ACL,
    secret_acl: tuple[Acl, ...] = OPEN_ACL,
) -> Steps[None]:
    """Change the configuration of one broker or of all brokers, and announce it to all brokers.

    Args:
        broker_id: the broker's id; None for all brokers.
        revise: see `change_topic_config`.
        acl: the access control list for the announcement.
        secret_acl: the access control list for the configuration, which may contain secrets.

    Raises:
        Refused: there is no controller, or every attempt collides with another program's change.
        DamagedZnode: the configuration cannot be read.
        BrokerError: raised by `revise`.
    """
    yield from revise_config(BROKER_CONFIG.path(broker_id), revise, secret_acl)
    yield from announce_config(BROKER_CONFIG.path(broker_id), acl)


def revise_config(path: str, revise: Revise, acl: tuple[Acl, ...]) -> Steps[None]:
    """Change a configuration, or create its node, provided that the controller stays the same.

    In Apache Kafka, the last writer wins. Here, concurrent changes by other programs are kept.

    Args:
        path: the node of a topic, a broker, a user, a client id or an address.
        revise: see `change_topic_config`.
        acl: the access control list of a new node.

    Raises:
        Refused: there is no controller, or every attempt collides with another program's change.
        DamagedZnode: the configuration cannot be read.
        BrokerError: raised by `revise`.
    """
    for _ in range(ATTEMPTS_MAX):
        check = yield from _controller_check(path)
        data = yield from read(path)
        content = TOPIC_CONFIG.encode(EntityConfig(dict(revise(_configs_of(path, data)))))
        change = Create(path, content, acl=acl) if data is None else SetData(path, content, data.stat.version)
        outcome = yield from perform(Transaction((check, change)))
        if not isinstance(outcome, RegistryError):
            return
        _raise_if_moved(path, outcome)
        if outcome.code not in _CONFLICTS:
            raise outcome
        if data is None and outcome.code is RegistryCode.NO_NODE:
            yield from create_with_parents(parent_of(path), None, acl)
    text = f"Another program changed {path} during each of {ATTEMPTS_MAX} attempts."
    raise Refused(ErrorCode.REQUEST_TIMED_OUT, text)


def _configs_of(path: str, data: Data | None) -> Mapping[str, str]:
    return NO_CONFIGS if data is None else TOPIC_CONFIG.decode(data.data, path).config


def announce_config(path: str, acl: tuple[Acl, ...]) -> Steps[None]:
    """Tell all brokers that a configuration has changed.

    Args:
        path: its node.
        acl: the access control list of the announcement.
    """
    change = CONFIG_CHANGE.encode(ConfigChange(entity_path=path.removeprefix(f"{CONFIG.path()}/")))
    yield from create_with_parents(parent_of(CONFIG_CHANGE.prefix), None, acl)
    yield from create(CONFIG_CHANGE.prefix, change, CreateMode.PERSISTENT_SEQUENTIAL, acl)


def _write_config(path: str, config: Mapping[str, str], acl: tuple[Acl, ...]) -> Steps[None]:
    """Replace a configuration, or create its node, provided that the controller stays the same.

    The controller is checked because a KRaft controller takes over the configurations.
    """
    check = yield from _controller_check(path)
    encoded = TOPIC_CONFIG.encode(EntityConfig(dict(config)))
    write = Transaction((check, SetData(path, encoded)))
    for attempt in range(2):
        outcome = yield from perform(write)
        if not isinstance(outcome, RegistryError):
            return
        _raise_if_moved(path, outcome)
        if outcome.code is not RegistryCode.NO_NODE or attempt:
            raise outcome
        if (yield from create_with_parents(path, encoded, acl)):
            return


def _controller_check(path: str) -> Steps[Check]:
    """Return a check that the controller is still the current one, which must not be a KRaft controller."""
    data = yield from read(CONTROLLER.path())
    if data is None or CONTROLLER.decode(data.data, CONTROLLER.path()).kraft_controller_epoch > 0:
        raise Refused(ErrorCode.NOT_CONTROLLER, f"{path} was not written, since the cluster has no controller")
    return Check(CONTROLLER.path(), data.stat.version)


def _raise_if_moved(path: str, outcome: RegistryError) -> None:
    """Raise an error if the write failed because the controller has changed."""
    if isinstance(outcome, TransactionFailed) and outcome.index == 0:
        raise Refused(
            ErrorCode.NOT_CONTROLLER, f"{path} was not written, since the controller has changed"
        ) from outcome


def _exists(topic: str) -> Refused:
    return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
