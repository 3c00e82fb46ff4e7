"""Reads the configurations that other brokers and programs have changed, as notifications say.

    /config/changes/config_change_0000000007   {"version":2,"entity_path":"topics/payments"}

A notification names the resource, or the user, client id or address, whose configuration must be re-read.

Source: `ZkConfigManager` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkawire.reference_broker.cluster.change_notifications import ChangeNotifications
from kafkawire.reference_broker.cluster.registry_configs import ConfigResource, RegistryConfigs
from kafkawire.reference_broker.cluster.registry_entity_configs import RegistryEntityConfigs, entity_of
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER_CONFIG,
    CONFIG,
    CONFIG_CHANGE,
    CONFIG_CHANGES,
    TOPIC_CONFIG,
)
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Registry
from kafkawire.sdk.registry.steps import Steps

__all__ = ["config_changes"]

_log = logging.getLogger("kafkawire.broker")


def config_changes(
    registry: Registry,
    configs: RegistryConfigs,
    entity_configs: RegistryEntityConfigs,
    timers: Timers,
    clock: Callable[[], int],
    acl: tuple[Acl, ...] = OPEN_ACL,
) -> ChangeNotifications:
    """Return what follows the changes of all configurations.

    Args:
        registry: holds the notifications.
        configs: reads configurations of topics and brokers.
        entity_configs: reads configurations of users, client ids and addresses.
        timers: used for the pauses after failures.
        clock: returns the time in ms.
        acl: the access control list for the notifications' parent, if it has to be created.
    """
    owner = _Configs(configs, entity_configs)
    return ChangeNotifications(registry, CONFIG_CHANGES, CONFIG_CHANGE, owner, "configurations", timers, clock, acl)


class _Configs:
    """All configurations, as their notifications see them; see `Notified`."""

    def __init__(self, configs: RegistryConfigs, entity_configs: RegistryEntityConfigs) -> None:
        self._configs = configs
        self._entity_configs = entity_configs

    def read_all(self) -> Steps[None]:
        yield from self._configs.read_all()
        yield from self._entity_configs.read_all()

    def read_changed(self, notifications: Mapping[str, bytes | None]) -> Steps[None]:
        named = [_named(path, content) for path, content in notifications.items()]
        resources = [each for each in named if isinstance(each, ConfigResource)]
        yield from self._configs.read(each for each in resources if self._configs.follows(each))
        yield from self._entity_configs.read(each for each in named if isinstance(each, ConfigEntity))


def _named(path: str, content: bytes | None) -> ConfigResource | ConfigEntity | None:
    """Return what a notification names; None if it is of another kind, or damaged."""
    try:
        change = CONFIG_CHANGE.decode(content, path)
        entity = change.entity_path or f"{change.entity_type}/{change.entity_name}"
        node = f"{CONFIG.path()}/{entity}"
        if entity.startswith("topics/"):
            return ConfigResource(ConfigResourceType.TOPIC, *TOPIC_CONFIG.parameters(node))
        if entity.startswith("brokers/"):
            (broker_id,) = BROKER_CONFIG.parameters(node)
            return ConfigResource(ConfigResourceType.BROKER, "" if broker_id is None else str(broker_id))
        return entity_of(entity)
    except DamagedZnode as error:
        _log.error("ignoring a notification about a changed configuration: %s", error)
    return None
