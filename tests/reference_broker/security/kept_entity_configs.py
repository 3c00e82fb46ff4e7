"""Quotas and SCRAM credentials in memory, in place of a file or a registry."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntitiesDone, EntityListener
from kafkawire.sdk.errors import BrokerError

__all__ = ["KeptEntityConfigs"]


class KeptEntityConfigs:
    """See `EntityConfigStore`.

    Args:
        is_registry: see `EntityConfigStore`.
    """

    def __init__(self, *, is_registry: bool = False) -> None:
        self.is_registry = is_registry
        self._entities: dict[ConfigEntity, Mapping[str, str]] = {}
        self._listeners: list[EntityListener] = []

    def all(self) -> Mapping[ConfigEntity, Mapping[str, str]]:
        return self._entities

    def of(self, entity: ConfigEntity) -> Mapping[str, str]:
        return self._entities.get(entity, {})

    def listen(self, listener: EntityListener) -> None:
        self._listeners.append(listener)

    def change(self, revisions: Mapping[ConfigEntity, Revise], done: EntitiesDone) -> None:
        errors: dict[ConfigEntity, BrokerError] = {}
        for entity, revise in revisions.items():
            try:
                self._keep(entity, revise(self.of(entity)))
            except BrokerError as error:
                errors[entity] = error
        done(errors)

    def set(self, entity: ConfigEntity, **configs: object) -> None:
        """Replace the configurations of an entity, or remove them if none are given."""
        self._keep(entity, {name: str(value) for name, value in configs.items()})

    def _keep(self, entity: ConfigEntity, configs: Mapping[str, str]) -> None:
        if configs:
            self._entities[entity] = configs
        else:
            self._entities.pop(entity, None)
        for listener in self._listeners:
            listener(entity)
