"""What a broker does in the registry before it opens its logs: it finds out its identity, and which logs it owns.

`prepare` creates the nodes that every broker creates, joins or founds the cluster, determines the broker's id, and
reads the configurations and topics that the broker needs to start. Every step is repeatable; if the session ends
halfway, all of them can be repeated in the next session.

Source: `KafkaServer.startup`, `getOrGenerateClusterId`, `getOrGenerateBrokerId`, `createBrokerInfo`; `KafkaZkClient`;
`KafkaConfig.validateValues`; `MetaPropertiesEnsemble.verify` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint, LiveBroker, live_broker
from kafkawire.reference_broker.metadata.image import NO_FEATURES, FinalizedFeatures
from kafkawire.sdk.errors import ConfigurationError, EncodeError
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_CONFIG,
    BROKER_IDS,
    BROKER_SEQUENCE,
    CLUSTER_ID,
    FEATURE,
    TOPIC,
    TOPIC_CONFIG,
    ZNODES,
    ClusterId,
    TopicAssignment,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.registry.acls import Acl, default_acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    Create,
    Created,
    Data,
    GetData,
    Outcome,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    Steps,
    create_with_parents,
    expected,
    found,
    list_children,
    perform,
    read,
    read_all,
)
from kafkawire.sdk.registry.znodes import Access, Znode
from kafkawire.sdk.storage.meta_properties import META_PROPERTIES, WITH_BROKER_ID, MetaProperties
from kafkawire.sdk.storage.partitions import Partition, folder_of

__all__ = [
    "STRAYS_TOLD_MAX",
    "BrokerConfigs",
    "ExpectedPartition",
    "Prepared",
    "StartupSettings",
    "node_acl",
    "prepare",
]

_log = logging.getLogger("kafkawire.broker")

#: Maximum number of folders not belonging to this broker that are logged individually; a disk from another cluster may
#: have thousands.
STRAYS_TOLD_MAX: Final = 20


class StartupSettings(NamedTuple):
    """The configuration with which a broker starts.

    Attributes:
        broker_id: `broker.id`, or None if not configured.
        endpoints: the endpoints that the broker will advertise. A port of 0 stands for a port that is not known yet,
            and is not compared.
        generates_id: `broker.id.generation.enable`.
        reserved_id_max: `reserved.broker.max.id`; generated ids are higher.
        is_secure: `zookeeper.set.acl`.
    """

    broker_id: int | None
    endpoints: tuple[Endpoint, ...]
    generates_id: bool = True
    reserved_id_max: int = 1000
    is_secure: bool = False


class ExpectedPartition(NamedTuple):
    """A partition whose folder belongs to this broker.

    Attributes:
        topic: the topic's name.
        number: the partition's number.
        topic_id: the topic's id, 16 bytes; zeros if it has none.
        configs: the topic's configurations; partitions of the same topic share one mapping.
    """

    topic: str
    number: int
    topic_id: bytes
    configs: Mapping[str, str]


class BrokerConfigs(NamedTuple):
    """The dynamic configurations of brokers as stored in the registry; values may be encrypted or invalid.

    Attributes:
        own: the configurations of this broker.
        defaults: the configurations of all brokers.
    """

    own: Mapping[str, str]
    defaults: Mapping[str, str]


class Prepared(NamedTuple):
    """What a broker has learned from the registry.

    Attributes:
        identity: what `meta.properties` should contain.
        expected: the partitions to open.
        strays: the other folders, each with the reason why it is not opened. They are left alone until a LeaderAndIsr
            or StopReplica request decides what happens to them.
        broker_configs: the dynamic configurations.
        features: the features that the cluster has agreed to use.
    """

    identity: MetaProperties
    expected: tuple[ExpectedPartition, ...]
    strays: Mapping[Partition, str]
    broker_configs: BrokerConfigs
    features: FinalizedFeatures


def prepare(
    known: MetaProperties | None,
    settings: StartupSettings,
    folders: Mapping[Partition, bytes | None],
    new_uuid: Callable[[], bytes],
) -> Steps[Prepared]:
    """Prepare a broker's startup.

    Args:
        known: the identity of the data directory, or None if it has none yet.
        settings: the broker's configuration.
        folders: the partition folders in the data directory, each with its topic's id, or None if its
            `partition.metadata` is missing or damaged.
        new_uuid: returns 16 bytes for the id of a new cluster.

    Returns:
        What the broker needs to open its logs and to register.

    Raises:
        ConfigurationError: the data directory belongs to another cluster, to another broker, or to a broker without
            ZooKeeper; there is no id, or another broker may get the same id; or another broker advertises one of the
            endpoints.
        DamagedZnode: the cluster's id or the broker's configurations cannot be read, or the cluster has agreed to use a
            feature that this broker lacks.
        RegistryError: the session has ended, or the registry refuses an operation.
    """
    if known is not None and known.version != WITH_BROKER_ID:
        reason = f"found in {META_PROPERTIES}, so the data directory belongs to a broker without ZooKeeper"
        raise ConfigurationError("node.id", known.node_id, reason)
    yield from _make_nodes(settings.is_secure)
    cluster_id = yield from _cluster_id(settings.is_secure, new_uuid)
    if known is not None and known.cluster_id != cluster_id:
        reason = f"found in {META_PROPERTIES}, but the cluster's id is {cluster_id}; zookeeper.connect may be wrong"
        raise ConfigurationError("cluster.id", known.cluster_id, reason)
    broker_id = yield from _broker_id(known, settings)
    configs = yield from _broker_configs(broker_id)
    expected_partitions, strays = yield from _sorted_out(broker_id, folders)
    features = yield from _features()
    yield from _check_endpoints(broker_id, settings.endpoints)
    _tell_strays(strays)
    directory_id = "" if known is None else known.directory_id
    identity = MetaProperties(cluster_id, str(broker_id), directory_id, WITH_BROKER_ID)
    return Prepared(identity, expected_partitions, strays, configs, features)


def node_acl(znode: Znode[Any, *tuple[Any, ...]], *, is_secure: bool) -> tuple[Acl, ...]:
    """Return the access control list of a node that a broker creates.

    Args:
        znode: the node.
        is_secure: `zookeeper.set.acl`.
    """
    return default_acl(
        is_secure=is_secure and znode.access is not Access.OPEN, is_sensitive=znode.access is Access.SECRET
    )


# The broker's identity.


def _make_nodes(is_secure: bool) -> Steps[None]:
    """Create the nodes that always exist, parents first, in one round trip."""
    nodes = [znode for znode in ZNODES.values() if znode.is_made_at_startup]
    outcomes = yield [Create(znode.path(), None, acl=node_acl(znode, is_secure=is_secure)) for znode in nodes]
    for outcome in outcomes:
        if not isinstance(outcome, RegistryError) or outcome.code is not RegistryCode.NODE_EXISTS:
            expected(outcome, Created)


def _cluster_id(is_secure: bool, new_uuid: Callable[[], bytes]) -> Steps[str]:
    """Return the cluster's id, which the first broker creates."""
    path = CLUSTER_ID.path()
    data = yield from read(path)
    for _ in range(ATTEMPTS_MAX):
        if data is not None:
            cluster_id = CLUSTER_ID.decode(data.data, path).id
            if not cluster_id:
                raise DamagedZnode(path, "id", "is empty")
            return cluster_id
        content = CLUSTER_ID.encode(ClusterId(format_uuid(new_uuid())))
        yield from create_with_parents(path, content, node_acl(CLUSTER_ID, is_secure=is_secure))
        # Another broker may have been faster, or a resent create may find its own node.
        data = yield from read(path)
    detail = f"another program deleted the node during each of {ATTEMPTS_MAX} attempts"
    raise RegistryError(RegistryCode.NO_NODE, path, detail)


def _broker_id(known: MetaProperties | None, settings: StartupSettings) -> Steps[int]:
    """Return the configured id, the id in the data directory, or a new one."""
    own = None if known is None else _stored_id(known)
    if settings.broker_id is not None:
        if settings.generates_id and settings.broker_id > settings.reserved_id_max:
            limit = f"reserved.broker.max.id={settings.reserved_id_max}"
            reason = f"ids above {limit} are generated for other brokers (broker.id.generation.enable)"
            raise ConfigurationError("broker.id", settings.broker_id, reason)
        if own not in (None, settings.broker_id):
            reason = f"{META_PROPERTIES} has broker.id={own}, so the data directory belongs to another broker"
            raise ConfigurationError("broker.id", settings.broker_id, reason)
        return settings.broker_id
    if own is not None:
        return own
    if not settings.generates_id:
        reason = f"broker.id is not configured, and the data directory has no {META_PROPERTIES}"
        raise ConfigurationError("broker.id.generation.enable", "false", reason)
    return (yield from _generated_id(settings))


def _stored_id(known: MetaProperties) -> int:
    text = known.node_id
    # Longer strings of digits, which are too large for an id, are not converted.
    if text.isascii() and text.isdigit() and len(text) <= len(str(INT32_MAX)) and int(text) <= INT32_MAX:
        return int(text)
    raise ConfigurationError("broker.id", text, f"found in {META_PROPERTIES}; expected a number from 0 to {INT32_MAX}")


def _generated_id(settings: StartupSettings) -> Steps[int]:
    """Return the id that results from a write to the sequence node, and its new version. A resent write skips an id."""
    path = BROKER_SEQUENCE.path()
    for _ in range(ATTEMPTS_MAX):
        stat = found((yield from perform(SetData(path, b""))), Stat)
        if stat is not None:
            broker_id = stat.version + settings.reserved_id_max
            if not settings.reserved_id_max < broker_id <= INT32_MAX:
                reason = f"the next generated id would be {broker_id}; the limit is {INT32_MAX}"
                raise ConfigurationError("reserved.broker.max.id", settings.reserved_id_max, reason)
            return broker_id
        yield from create_with_parents(path, None, node_acl(BROKER_SEQUENCE, is_secure=settings.is_secure))
    detail = f"another program deleted the node during each of {ATTEMPTS_MAX} attempts"
    raise RegistryError(RegistryCode.NO_NODE, path, detail)


def _check_endpoints(broker_id: int, endpoints: Iterable[Endpoint]) -> Steps[None]:
    """Refuse endpoints that another broker advertises, since clients would mistake one broker for the other."""
    own = {(each.host, each.port): each for each in endpoints if each.port}
    children = yield from list_children(BROKER_IDS.path())
    ids = _other_ids(() if children is None else children.names, broker_id)
    outcomes = yield [GetData(BROKER.path(other)) for other in ids]
    for other, outcome in zip(ids, outcomes, strict=True):
        data = found(outcome, Data)
        broker = None if data is None else _registered(other, data)
        for each in () if broker is None else broker.endpoints:
            if (each.host, each.port) in own:
                address = f"{each.host}:{each.port}"
                raise ConfigurationError(
                    "advertised.listeners", address, f"broker {other} already advertises this address"
                )


def _other_ids(names: Iterable[str], broker_id: int) -> list[int]:
    ids: list[int] = []
    for name in names:
        try:
            ids += BROKER.parameters(f"{BROKER_IDS.path()}/{name}")
        except DamagedZnode as error:
            _log.error("ignoring a registration: %s", error)
    return [other for other in ids if other != broker_id]


def _registered(broker_id: int, data: Data) -> LiveBroker | None:
    path = BROKER.path(broker_id)
    try:
        return live_broker(broker_id, BROKER.decode(data.data, path), data.stat.czxid)
    except DamagedZnode as error:
        _log.error(
            "not checking this broker's endpoints against those of broker %d, which cannot be read: %s",
            broker_id,
            error,
        )
        return None


# What the cluster has agreed on.


def _broker_configs(broker_id: int) -> Steps[BrokerConfigs]:
    paths = (BROKER_CONFIG.path(broker_id), BROKER_CONFIG.path(None))
    own, defaults = yield from read_all(paths)
    # Without its configurations, the broker might delete what it should keep, so a damaged node is an error.
    return BrokerConfigs(
        *(_configs(BROKER_CONFIG, path, data) for path, data in zip(paths, (own, defaults), strict=True))
    )


def _configs(znode: Znode[Any, *tuple[Any, ...]], path: str, data: Data | None) -> Mapping[str, str]:
    """Return the configurations in a node, or none if the node does not exist."""
    configs: Mapping[str, str] = {} if data is None else znode.decode(data.data, path).config
    return configs


def _features() -> Steps[FinalizedFeatures]:
    """Return the cluster's features; as in Kafka, features that cannot be read are treated as absent."""
    path = FEATURE.path()
    data = yield from read(path)
    if data is None:
        return NO_FEATURES
    try:
        stored = FEATURE.decode(data.data, path)
    except DamagedZnode as error:
        _log.error("the cluster's features cannot be read: %s", error)
        return NO_FEATURES
    if not stored.status:
        return NO_FEATURES
    if stored.features:
        name, feature = min(stored.features.items())
        reason = f"the cluster uses level {feature.max_version_level}, but this broker does not have the feature"
        raise DamagedZnode(path, f"features.{name}", reason)
    return FinalizedFeatures({}, data.stat.version)


# What belongs on the disk.


def _sorted_out(
    broker_id: int, folders: Mapping[Partition, bytes | None]
) -> Steps[tuple[tuple[ExpectedPartition, ...], dict[Partition, str]]]:
    """Return the partitions expected on the disk, and for every other folder, the reason why it is not expected."""
    topics = yield from _topics(sorted({topic for topic, _ in folders}))
    hosted: list[ExpectedPartition] = []
    strays: dict[Partition, str] = {}
    for (topic, number), topic_id in folders.items():
        stored = topics[topic]
        if isinstance(stored, str):
            strays[topic, number] = stored
        elif topic_id is None and stored.assignment.topic_id is not None:
            strays[topic, number] = "its partition.metadata is missing or damaged"
        elif topic_id is not None and stored.assignment.topic_id != topic_id:
            strays[topic, number] = f"it has the topic id {format_uuid(topic_id)}, but the topic has {stored.shown_id}"
        elif broker_id not in stored.assignment.partitions.get(number, ()):
            strays[topic, number] = f"the partition is not assigned to broker {broker_id}"
        else:
            hosted.append(ExpectedPartition(topic, number, topic_id or ZERO_UUID, stored.configs))
    return tuple(hosted), strays


class _Topic(NamedTuple):
    """A topic that could be read.

    Attributes:
        assignment: the topic's id and replicas.
        configs: the topic's configurations.
    """

    assignment: TopicAssignment
    configs: Mapping[str, str]

    @property
    def shown_id(self) -> str:
        """The topic's id in readable form."""
        return "none" if self.assignment.topic_id is None else format_uuid(self.assignment.topic_id)


def _topics(names: Iterable[str]) -> Steps[dict[str, _Topic | str]]:
    """Read topics and their configurations concurrently; for unusable topics, return the reason instead."""
    topics: dict[str, _Topic | str] = {}
    paths: dict[str, tuple[str, str]] = {}
    for name in names:
        try:
            paths[name] = TOPIC.path(name), TOPIC_CONFIG.path(name)
        except EncodeError:
            topics[name] = "the name is not a valid topic name"
    outcomes = yield [GetData(path) for pair in paths.values() for path in pair]
    for (name, pair), topic, configs in zip(paths.items(), outcomes[::2], outcomes[1::2], strict=True):
        topics[name] = _topic(pair, topic, configs)
    return topics


def _topic(paths: tuple[str, str], topic: Outcome, configs: Outcome) -> _Topic | str:
    """Return a topic, or why it cannot be used; its folders then wait for the controller's decision."""
    try:
        data = found(topic, Data)
        if data is None:
            return "the topic does not exist"
        assignment = TOPIC.decode(data.data, paths[0])
        return _Topic(assignment, _configs(TOPIC_CONFIG, paths[1], found(configs, Data)))
    except DamagedZnode as error:
        return f"the topic cannot be read: {error}"
    except RegistryError as error:
        # Any other code affects more than this topic.
        if error.code is not RegistryCode.NO_AUTH:
            raise
        return f"the topic cannot be read: {error}"


def _tell_strays(strays: Mapping[Partition, str]) -> None:
    for partition, reason in list(strays.items())[:STRAYS_TOLD_MAX]:
        _log.warning("not opening %s, which is left alone: %s", folder_of(*partition), reason)
    if len(strays) > STRAYS_TOLD_MAX:
        _log.warning("not opening %d more folders, which are left alone", len(strays) - STRAYS_TOLD_MAX)
