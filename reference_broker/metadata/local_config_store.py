"""Dynamic configurations of brokers, groups and client metrics subscriptions, stored on a single broker's disk.

Configurations of topics are stored with their topics. Changes are made in order, and take effect once durable.

Source: `ConfigurationControlManager`, `KRaftMetadataCache.config` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.reference_broker.config.broker_configs import held
from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, ConfigDone, ConfigListener, Revise
from kafkawire.reference_broker.metadata.stored_entries import StoredEntries, quoted, unquoted
from kafkawire.reference_broker.storage.checkpoints import DYNAMIC_CONFIGS, DamagedFile
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType

__all__ = ["LocalConfigStore"]

_KEPT: Final = (ConfigResourceType.BROKER, ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS)


class LocalConfigStore:
    """The dynamic configurations of a broker; see `ConfigStore`.

    A change fails with POLICY_VIOLATION if the file would become too large, and with KAFKA_STORAGE_ERROR if the disk
    fails.

    Args:
        directory: the directory that holds the file.

    Raises:
        DamagedFile: the file contains an entry that cannot be configured.
    """

    def __init__(self, directory: LogDirectory) -> None:
        #: Configurations, keyed by kind and name of the resource; no entry is empty.
        self._resources: dict[ConfigResourceType, dict[str, Mapping[str, str]]] = {kind: {} for kind in _KEPT}
        self.on_change: ConfigListener = lambda kind, name: None
        self.is_registry = False
        # Passwords of key stores are among them.
        self._stored = StoredEntries(directory, DYNAMIC_CONFIGS, "configurations", is_private=True)
        self._read()

    def of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        return self._resources[kind].get(name, NO_CONFIGS)

    def resources(self, kind: ConfigResourceType) -> Mapping[str, Mapping[str, str]]:
        return self._resources[kind]

    def change(self, kind: ConfigResourceType, name: str, revise: Revise, done: ConfigDone) -> None:
        revised: Mapping[str, str] = NO_CONFIGS

        def entries(stored: Mapping[str, str]) -> Mapping[str, str]:
            nonlocal revised
            revised = _held(kind, revise(self.of(kind, name)))
            others = {entry: value for entry, value in stored.items() if not entry.startswith(_entry(kind, name, ""))}
            return {**others, **{_entry(kind, name, config): value for config, value in revised.items()}}

        def written(error: BrokerError | None) -> None:
            if error is None:
                self._keep(kind, name, revised)
                self.on_change(kind, name)
            done(error)

        self._stored.change(entries, written)

    def _keep(self, kind: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self._resources[kind][name] = configs
        else:
            self._resources[kind].pop(name, None)

    def _read(self) -> None:
        kinds = {kind.name.lower(): kind for kind in _KEPT}
        entries: dict[str, str] = {}
        for entry, value in self._stored.entries.items():
            kind, _, rest = entry.partition("/")
            name, slash, config = rest.partition("/")
            if kind not in kinds or not slash:
                raise DamagedFile(self._stored.path, f"the entry {entry!r:.60} does not identify a configuration")
            resources = self._resources[kinds[kind]]
            own = _held(kinds[kind], {config: value})
            resources[unquoted(name)] = {**resources.get(unquoted(name), NO_CONFIGS), **own}
            entries[entry] = own[config]
        self._stored.entries = entries


def _held(kind: ConfigResourceType, configs: Mapping[str, str]) -> dict[str, str]:
    return held(configs) if kind is ConfigResourceType.BROKER else dict(configs)


def _entry(kind: ConfigResourceType, name: str, config: str) -> str:
    return f"{kind.name.lower()}/{quoted(name)}/{config}"
