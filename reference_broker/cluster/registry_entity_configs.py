"""Quotas and SCRAM credentials in a cluster's registry.

    request ──change──▶ /config/users/alice, then a notification ──▶ all brokers
                                                 │ ChangeNotifications
    quotas, logins ◀──listener── RegistryEntityConfigs ◀── read

Every broker knows all entities, so that it can enforce quotas and check passwords without asking the registry. As in
Kafka, the node of an entity without configurations is deleted.

Source: `AdminZkClient.changeEntityConfig`, `tryCleanQuotaNodes`, `fetchAllChildEntityConfigs` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kafkawire.reference_broker.cluster.controller.topic_changes import announce_config, revise_config
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, Revise
from kafkawire.reference_broker.metadata.entity_configs import (
    ConfigEntity,
    EntitiesDone,
    EntityListener,
    EntityName,
)
from kafkawire.sdk.errors import BrokerError, EncodeError
from kafkawire.sdk.protocol.tables.znodes import (
    CLIENT_CONFIG,
    CLIENT_CONFIGS,
    IP_CONFIG,
    IP_CONFIGS,
    TOPIC_CONFIG,
    USER_CLIENT_CONFIG,
    USER_CLIENTS,
    USER_CONFIG,
    USER_CONFIGS,
)
from kafkawire.sdk.registry.acls import default_acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Children, Data, GetChildren, Outcome, Registry, RegistryError
from kafkawire.sdk.registry.steps import (
    BATCH_MAX,
    Steps,
    across_sessions,
    delete_recursively,
    found,
    list_children,
    read,
    read_each,
    run,
)

__all__ = ["RegistryEntityConfigs", "entity_of", "entity_path"]

_log = logging.getLogger("kafkawire.broker")

#: The parents of entities.
_PARENTS: Final = (USER_CONFIGS.path(), CLIENT_CONFIGS.path(), IP_CONFIGS.path())

_CONFIG_PREFIX: Final = "/config/"


class RegistryEntityConfigs:
    """The configurations of users, client ids and addresses in a registry; see `EntityConfigStore`.

    Args:
        registry: holds the configurations.
        is_secure: whether only brokers may change the nodes (`zookeeper.set.acl`).
    """

    def __init__(self, registry: Registry, *, is_secure: bool = False) -> None:
        self.is_registry = True
        self._registry = registry
        self._acl = default_acl(is_secure=is_secure)
        self._secret_acl = default_acl(is_secure=is_secure, is_sensitive=True)
        self._listeners: list[EntityListener] = []
        #: The configurations of each entity; no entry is empty.
        self._entities: dict[ConfigEntity, Mapping[str, str]] = {}

    def all(self) -> Mapping[ConfigEntity, Mapping[str, str]]:
        return self._entities

    def of(self, entity: ConfigEntity) -> Mapping[str, str]:
        return self._entities.get(entity, NO_CONFIGS)

    def listen(self, listener: EntityListener) -> None:
        self._listeners.append(listener)

    def change(self, revisions: Mapping[ConfigEntity, Revise], done: EntitiesDone) -> None:
        errors: dict[ConfigEntity, BrokerError] = {}

        def failed(error: Exception) -> None:  # a defect: the errors of the registry are those of single entities
            problem = broker_error(error, "quotas or credentials were not changed")
            done({entity: errors.get(entity, problem) for entity in revisions})

        run(self._registry, self._change_each(revisions, errors), lambda _: done(errors), failed)

    def read(self, entities: Iterable[ConfigEntity]) -> Steps[None]:
        """Read configurations, and tell the listeners which ones have changed.

        Configurations that are damaged or cannot be read keep their previous values.

        Raises:
            RegistryError: the error from the first entity that could not be read; the other entities have been read.
        """
        yield from read_each(entities, entity_path, self._take)

    def read_all(self) -> Steps[None]:
        """Read the configurations of all entities, including those that are known but have been deleted; see `read`."""
        entities = yield from self._list()
        yield from self.read((*entities, *self._entities))

    def _list(self) -> Steps[list[ConfigEntity]]:
        outcomes: Sequence[Outcome] = yield [GetChildren(parent) for parent in _PARENTS]
        paths = [
            f"{parent.removeprefix(_CONFIG_PREFIX)}/{name}"
            for parent, outcome in zip(_PARENTS, outcomes, strict=True)
            for name in _names(found(outcome, Children))
        ]
        entities = [entity for path in paths if (entity := entity_of(path)) is not None]
        users = [entity.user for entity in entities if entity.user is not None]
        for begin in range(0, len(users), BATCH_MAX):
            parents = [USER_CLIENTS.path(_given(user)) for user in users[begin : begin + BATCH_MAX]]
            outcomes = yield [GetChildren(parent) for parent in parents]
            for parent, outcome in zip(parents, outcomes, strict=True):
                for name in _names(found(outcome, Children)):
                    entity = entity_of(f"{parent.removeprefix(_CONFIG_PREFIX)}/{name}")
                    if entity is not None:
                        entities.append(entity)
        return entities

    def _take(self, entity: ConfigEntity, data: Data | None) -> None:
        """Apply the configurations that were read for an entity."""
        path = entity_path(entity)
        try:
            after = NO_CONFIGS if data is None else TOPIC_CONFIG.decode(data.data, path).config
        except DamagedZnode as error:
            _log.error("quotas or credentials could not be read, so their previous values stay in effect: %s", error)
            return
        if after == self.of(entity):
            return
        if after:
            self._entities[entity] = after
        else:
            del self._entities[entity]
        for listener in self._listeners:
            try:
                listener(entity)
            except Exception:  # a defect, which must not keep other configurations from being read
                _log.exception("a listener failed to apply %s", path)

    # Changes.

    def _change_each(
        self, revisions: Mapping[ConfigEntity, Revise], errors: dict[ConfigEntity, BrokerError]
    ) -> Steps[None]:
        for entity, revise in revisions.items():
            try:
                yield from across_sessions(partial(self._change, entity, revise))
            except Exception as error:
                errors[entity] = broker_error(error, f"the configuration of {entity.path} was not changed")
                continue
            try:
                yield from self.read((entity,))
            except RegistryError as error:  # the change has been made; its notification triggers another read
                _log.warning("a changed configuration could not be read, and will be re-read later: %s", error)

    def _change(self, entity: ConfigEntity, revise: Revise) -> Steps[None]:
        path, after = entity_path(entity), NO_CONFIGS

        def revised(before: Mapping[str, str]) -> Mapping[str, str]:
            nonlocal after
            after = revise(before)
            return after

        yield from revise_config(path, revised, self._acl if entity.user is None else self._secret_acl)
        if not after:
            yield from self._clean(entity)
        yield from announce_config(path, self._acl)

    def _clean(self, entity: ConfigEntity) -> Steps[None]:
        """Delete the node of an entity without configurations, and its parents if nothing else needs them."""
        path = entity_path(entity)
        if _names((yield from list_children(path))):
            return
        if entity.user is not None and entity.client_id is not None:
            user, clients = USER_CONFIG.path(_given(entity.user)), USER_CLIENTS.path(_given(entity.user))
            if _names((yield from list_children(clients))) == [path.rpartition("/")[2]]:
                path = clients
                data = yield from read(user)
                is_bare = data is None or not TOPIC_CONFIG.decode(data.data, user).config
                if is_bare and _names((yield from list_children(user))) == [clients.rpartition("/")[2]]:
                    path = user
        yield from delete_recursively(path)


def entity_path(entity: ConfigEntity) -> str:
    """Return the path of the node that holds the configurations of an entity.

    Raises:
        EncodeError: no such node can exist.
    """
    if entity.ip is not None:
        return IP_CONFIG.path(_given(entity.ip))
    if entity.user is None:
        return CLIENT_CONFIG.path(_given(entity.client_id))
    if entity.client_id is None:
        return USER_CONFIG.path(_given(entity.user))
    return USER_CLIENT_CONFIG.path(_given(entity.user), _given(entity.client_id))


def _given(name: EntityName) -> str | None:
    """Return a name as paths of the registry take it: None for the default."""
    return name if isinstance(name, str) else None


def _names(children: Children | None) -> list[str]:
    return [] if children is None else list(children.names)


def entity_of(path: str) -> ConfigEntity | None:
    """Return the entity with a path relative to `/config`; log and return None if Kafka would not write such a path."""
    try:
        entity = ConfigEntity.parse(path)
        if entity_path(entity) == f"{_CONFIG_PREFIX}{path}":
            return entity
        reason = "its name is not sanitized as in Kafka"
    except (ValueError, EncodeError) as error:
        reason = str(error)
    _log.error("ignoring the configuration of %s: %s", path, reason)
    return None
