"""Dynamic configurations of brokers, groups and client metrics subscriptions, stored on a single broker's disk.

    dynamic-configs     broker/1/log.retention.ms=5000, one line for each value

Configurations of topics are stored with their topics. Changes are made in order, and take effect once durable.

Source: `ConfigurationControlManager`, `KRaftMetadataCache.config` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, ConfigDone, ConfigListener, Revise
from kafkawire.reference_broker.storage.checkpoints import DYNAMIC_CONFIGS, DamagedFile
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.services import storage_error
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["CONFIGS_BYTES_MAX", "LocalConfigStore"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum size of the file, all of which is written on every change, and read at every startup.
CONFIGS_BYTES_MAX: Final = 4 * 1024 * 1024

_KEPT: Final = (ConfigResourceType.BROKER, ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS)


class LocalConfigStore:
    """The dynamic configurations of a broker; see `ConfigStore`.

    A change fails with POLICY_VIOLATION if the file would become too large, and with KAFKA_STORAGE_ERROR if the disk
    fails.

    Args:
        directory: the directory that holds the file.

    Raises:
        ConfigurationError: the file contains an entry that cannot be configured.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        #: Configurations, keyed by kind and name of the resource; no entry is empty.
        self._resources: dict[ConfigResourceType, dict[str, Mapping[str, str]]] = {kind: {} for kind in _KEPT}
        self.on_change: ConfigListener = lambda kind, name: None
        self.is_registry = False
        self._read()

    def of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        return self._resources[kind].get(name, NO_CONFIGS)

    def resources(self, kind: ConfigResourceType) -> Mapping[str, Mapping[str, str]]:
        return self._resources[kind]

    def change(self, kind: ConfigResourceType, name: str, revise: Revise, done: ConfigDone) -> None:
        revised: Mapping[str, str] = NO_CONFIGS

        def prepare() -> Callable[[], None]:
            nonlocal revised
            revised = dict(revise(self.of(kind, name)))
            content = self._content(kind, name, revised)
            return lambda: replace_file(self._directory.services.disk, DYNAMIC_CONFIGS, content)

        def written(error: Exception | None) -> None:
            if isinstance(error, BrokerError):
                done(error)
            elif error is not None:
                _log.error("the configuration of %s %r cannot be written: %s", kind.name.lower(), name, error)
                done(storage_error(error))
            else:
                self._keep(kind, name, revised)
                self.on_change(kind, name)
                done(None)

        self._directory.queue.do(prepare, written)

    def _keep(self, kind: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self._resources[kind][name] = configs
        else:
            self._resources[kind].pop(name, None)

    # The file.

    def _content(self, kind: ConfigResourceType, name: str, revised: Mapping[str, str]) -> bytes:
        """Return the content of the file after a change.

        Raises:
            BrokerError: POLICY_VIOLATION if the content would be too large.
        """
        others = {entry: value for entry, value in self._entries() if not entry.startswith(_entry(kind, name, ""))}
        changed = {_entry(kind, name, config): value for config, value in revised.items()}
        content = properties_content({**others, **changed})
        if len(content) > CONFIGS_BYTES_MAX:
            reason = f"The configurations of all resources together would take more than {CONFIGS_BYTES_MAX} bytes."
            raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)
        return content

    def _entries(self) -> Iterator[tuple[str, str]]:
        for kind, resources in self._resources.items():
            for name, configs in resources.items():
                for config, value in configs.items():
                    yield _entry(kind, name, config), value

    def _read(self) -> None:
        disk = self._directory.services.disk
        kinds = {kind.name.lower(): kind for kind in _KEPT}
        try:
            for entry, value in self._directory.dynamic_configs.items():
                kind, _, rest = entry.partition("/")
                name, slash, config = rest.partition("/")
                if kind not in kinds or not slash:
                    raise DamagedFile(
                        disk.describe(DYNAMIC_CONFIGS), f"the entry {entry!r:.60} does not identify a configuration"
                    )
                resources = self._resources[kinds[kind]]
                resources[_unquoted(name)] = {**resources.get(_unquoted(name), NO_CONFIGS), config: value}
        except DamagedFile as error:
            raise ConfigurationError("data_dir", disk.describe(""), str(error)) from error


def _entry(kind: ConfigResourceType, name: str, config: str) -> str:
    return f"{kind.name.lower()}/{_quoted(name)}/{config}"


def _quoted(name: str) -> str:
    """Return a name with its slashes quoted, since group names may contain slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")
