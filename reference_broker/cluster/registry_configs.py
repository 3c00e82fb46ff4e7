"""Topic and broker configurations, as stored in a cluster's registry.

    request ──change──▶ /config/topics/t, then a notification ──▶ all brokers
                                                │ ChangeNotifications
    UpdateMetadata ──read──▶ RegistryConfigs ◀──┘ read ──on_change──▶ metadata, broker

`RegistryConfigs` knows this broker's resources and the topics that have been read. Since other programs can write to
the registry, unusable values are logged and left out; they stay in the registry.

Source: `ZkConfigRepository`, `ZkAdminManager.alterConfigs`, `DynamicBrokerConfig` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.topic_changes import change_broker_config, change_topic_config
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.cluster.startup import BrokerConfigs
from kafkawire.reference_broker.config.broker_configs import held, is_password
from kafkawire.reference_broker.config.config_values import InvalidConfig
from kafkawire.reference_broker.config.topic_configs import check_topic_config
from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, ConfigDone, ConfigListener, Revise
from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import BROKER_CONFIG, TOPIC_CONFIG
from kafkawire.sdk.registry.acls import default_acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data, Registry, RegistryError
from kafkawire.sdk.registry.steps import Steps, across_sessions, read_each, run

__all__ = ["ConfigResource", "RegistryConfigs", "usable_configs"]

_log = logging.getLogger("kafkawire.broker")

_TOPIC: Final = ConfigResourceType.TOPIC
_BROKER: Final = ConfigResourceType.BROKER


class ConfigResource(NamedTuple):
    """A resource that has configurations.

    Attributes:
        kind: TOPIC or BROKER.
        name: the topic's name, or the broker's id (empty for all brokers).
    """

    kind: ConfigResourceType
    name: str

    @property
    def path(self) -> str:
        """The path of the node that holds the configurations.

        Raises:
            EncodeError: no such node can exist.
        """
        if self.kind is _TOPIC:
            return TOPIC_CONFIG.path(self.name)
        return BROKER_CONFIG.path(int(self.name) if self.name else None)


class RegistryConfigs:
    """The configurations in a registry; see `ConfigStore`.

    Args:
        registry: holds the configurations.
        broker_id: the id of this broker.
        is_secure: whether only brokers may change the nodes (`zookeeper.set.acl`).
    """

    def __init__(self, registry: Registry, broker_id: int, *, is_secure: bool = False) -> None:
        self.on_change: ConfigListener = lambda kind, name: None
        self.is_registry = True
        self._registry = registry
        self._acl = default_acl(is_secure=is_secure)
        self._secret_acl = default_acl(is_secure=is_secure, is_sensitive=True)
        self._own = (ConfigResource(_BROKER, ""), ConfigResource(_BROKER, str(broker_id)))
        #: The topics that have been read, including those without configurations.
        self._topics: dict[str, Mapping[str, str]] = {}
        #: The configurations of this broker, and those of all brokers; no entry is empty.
        self._brokers: dict[str, Mapping[str, str]] = {}

    def expect(self, topics: Mapping[str, Mapping[str, str]], own: BrokerConfigs) -> None:
        """Take over the configurations read at startup; later reads tell the listener about changes to them.

        Args:
            topics: the configurations of topics.
            own: the configurations of this broker.
        """
        self._topics.update({name: usable_configs(name, configs) for name, configs in topics.items()})
        for resource, configs in zip(self._own, (own.defaults, own.own), strict=True):
            if configs:
                self._brokers[resource.name] = held(configs)

    def of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        return self.resources(kind).get(name, NO_CONFIGS)

    def resources(self, kind: ConfigResourceType) -> Mapping[str, Mapping[str, str]]:
        if kind is _TOPIC:
            return self._topics
        return self._brokers if kind is _BROKER else {}

    def change(self, kind: ConfigResourceType, name: str, revise: Revise, done: ConfigDone) -> None:
        resource = ConfigResource(kind, name)

        def failed(error: Exception) -> None:
            done(broker_error(error, f"the configuration of {kind.name.lower()} {name!r} was not changed"))

        run(self._registry, across_sessions(lambda: self._change(resource, revise)), lambda _: done(None), failed)

    def read(self, resources: Iterable[ConfigResource]) -> Steps[None]:
        """Read configurations, and tell the listener which ones have changed.

        Configurations that are damaged or cannot be read keep their previous values.

        Raises:
            RegistryError: the error from the first resource that could not be read; the other resources have been read.
        """
        yield from read_each(resources, lambda resource: resource.path, self._take)

    def read_topics(self, names: Iterable[str]) -> Steps[None]:
        """Read the configurations of topics, and include these topics in later calls of `read_all`; see `read`."""
        yield from self.read(ConfigResource(_TOPIC, name) for name in names)

    def read_all(self) -> Steps[None]:
        """Read the configurations of this broker, of all brokers, and of known topics; see `read`."""
        yield from self.read((*self._own, *(ConfigResource(_TOPIC, name) for name in self._topics)))

    def follows(self, resource: ConfigResource) -> bool:
        """Return whether this broker depends on the configurations of a resource."""
        return resource.name in self._topics if resource.kind is _TOPIC else resource in self._own

    def changed(self, delta: MetadataDelta) -> None:
        """Forget topics that have been deleted."""
        for change in delta.topics:
            if change.is_deletion and change.name not in delta.after.topics:
                self._topics.pop(change.name, None)

    def _change(self, resource: ConfigResource, revise: Revise) -> Steps[None]:
        if resource.kind is _TOPIC:
            yield from change_topic_config(resource.name, revise, self._acl)
        else:
            broker_id = int(resource.name) if resource.name else None
            revised = _without_new_passwords(revise, is_for_all=not resource.name)
            yield from change_broker_config(broker_id, revised, self._acl, self._secret_acl)
        if self.follows(resource):
            try:
                yield from self.read((resource,))
            except RegistryError as error:  # the change has been made; its notification triggers another read
                _log.warning("a changed configuration could not be read, and will be re-read later: %s", error)

    def _take(self, resource: ConfigResource, data: Data | None) -> None:
        """Apply the configurations that were read for a resource."""
        try:
            stored = NO_CONFIGS if data is None else TOPIC_CONFIG.decode(data.data, resource.path).config
        except DamagedZnode as error:
            _log.error("a configuration could not be read, so its previous value stays in effect: %s", error)
            if resource.kind is _TOPIC:
                self._topics.setdefault(resource.name, NO_CONFIGS)
            return
        before = self.of(*resource)
        if resource.kind is _TOPIC:
            self._topics[resource.name] = after = usable_configs(resource.name, stored)
        elif stored:
            self._brokers[resource.name] = after = held(stored)
        else:
            self._brokers.pop(resource.name, None)
            after = NO_CONFIGS
        if after != before:
            try:
                self.on_change(*resource)
            except Exception:  # a defect, which must not keep other configurations from being read
                _log.exception("a listener failed to apply %s", resource.path)


def usable_configs(topic: str, stored: Mapping[str, str]) -> Mapping[str, str]:
    """Return the configurations of a topic that this broker accepts."""
    usable: dict[str, str] = {}
    for name, value in stored.items():
        try:
            usable[name] = check_topic_config(name, value)
        except InvalidConfig as error:
            _log.error("a configuration of topic %s has no effect: %s", topic, error)
    return usable


def _without_new_passwords(revise: Revise, *, is_for_all: bool) -> Revise:
    """Refuse changed passwords, which brokers could encode only with a shared secret (`password.encoder.secret`)."""

    def revised(before: Mapping[str, str]) -> Mapping[str, str]:
        after = revise(before)
        for name, value in after.items():
            if is_password(name) and before.get(name) != value:
                reason = f"Password encoder secret not configured, so {name} cannot be stored"
                if is_for_all:
                    reason = "Password config can be defined only at broker level"
                raise BrokerError(ErrorCode.INVALID_CONFIG, reason)
        return after

    return revised
