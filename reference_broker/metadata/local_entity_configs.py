"""Quotas and SCRAM credentials in a file of a standalone broker, which only the broker's own user may read.

    entity-configs     users/alice/clients/app/producer_byte_rate=1048576.0, one line for each value

Source: `ClientQuotaControlManager`, `ScramControlManager` in Apache Kafka, whose metadata log contains the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, Revise
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntitiesDone, EntityListener
from kafkawire.reference_broker.metadata.stored_entries import StoredEntries
from kafkawire.reference_broker.storage.checkpoints import ENTITY_CONFIGS, DamagedFile
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.sdk.errors import BrokerError

__all__ = ["LocalEntityConfigs"]


class LocalEntityConfigs:
    """The configurations of users, client ids and addresses; see `EntityConfigStore`.

    All entities of a change are written together. A change fails with POLICY_VIOLATION if the file would become too
    large, and with KAFKA_STORAGE_ERROR if the disk fails.

    Args:
        directory: the directory that holds the file.

    Raises:
        DamagedFile: the file is damaged, or contains an entry of another kind.
    """

    def __init__(self, directory: LogDirectory) -> None:
        #: The configurations of each entity; no entry is empty.
        self._entities: dict[ConfigEntity, Mapping[str, str]] = {}
        self._listeners: list[EntityListener] = []
        self.is_registry = False
        self._stored = StoredEntries(directory, ENTITY_CONFIGS, "quotas and credentials", is_private=True)
        self._read()

    def all(self) -> Mapping[ConfigEntity, Mapping[str, str]]:
        return self._entities

    def of(self, entity: ConfigEntity) -> Mapping[str, str]:
        return self._entities.get(entity, NO_CONFIGS)

    def listen(self, listener: EntityListener) -> None:
        self._listeners.append(listener)

    def change(self, revisions: Mapping[ConfigEntity, Revise], done: EntitiesDone) -> None:
        revised: dict[ConfigEntity, Mapping[str, str]] = {}
        refused: dict[ConfigEntity, BrokerError] = {}

        def entries(stored: Mapping[str, str]) -> Mapping[str, str]:
            for entity, revise in revisions.items():
                try:
                    revised[entity] = dict(revise(self.of(entity)))
                except BrokerError as error:
                    refused[entity] = error
            after = dict(stored)
            for entity, configs in revised.items():
                for name in self.of(entity):
                    after.pop(f"{entity.path}/{name}", None)
                after.update({f"{entity.path}/{name}": value for name, value in configs.items()})
            return after

        def written(error: BrokerError | None) -> None:
            if error is None:
                for entity, configs in revised.items():
                    self._keep(entity, configs)
            else:
                refused.update({entity: error.again() for entity in revised})
            done(refused)

        self._stored.change(entries, written)

    def _keep(self, entity: ConfigEntity, configs: Mapping[str, str]) -> None:
        if configs == self.of(entity):
            return
        if configs:
            self._entities[entity] = configs
        else:
            del self._entities[entity]
        for listener in self._listeners:
            listener(entity)

    def _read(self) -> None:
        for entry, value in self._stored.entries.items():
            path, _, config = entry.rpartition("/")
            try:
                entity = ConfigEntity.parse(path)
            except ValueError as error:
                raise DamagedFile(self._stored.path, f"an entry has an unexpected name: {error}") from None
            self._entities[entity] = {**self.of(entity), config: value}
