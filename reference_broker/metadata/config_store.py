"""The dynamic configurations of resources, wherever they are kept.

    request ──▶ ConfigController ──change──▶ ConfigStore ──on_change──▶ dependents of a configuration

A single broker keeps them in a file (`local_config_store.py`), a cluster in its registry
(`cluster/registry_configs.py`).

Source: `ConfigRepository` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType

__all__ = ["NO_CONFIGS", "ConfigDone", "ConfigListener", "ConfigStore", "Revise"]

#: The configurations of a resource that has none.
NO_CONFIGS: Final[Mapping[str, str]] = {}

#: Returns the new configurations of a resource, given its current ones, or raises `BrokerError`. It may be called more
#: than once if another program changes the resource at the same time.
Revise = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Called with None once a change is durable and in effect, or with the error.
ConfigDone = Callable[[BrokerError | None], None]

#: Called with the kind and the name of a resource after its configurations have changed.
ConfigListener = Callable[[ConfigResourceType, str], None]


@runtime_checkable  # tests match the parts of a broker against the names in handlers
class ConfigStore(Protocol):
    """Keeps the dynamic configurations.

    Attributes:
        on_change: see `ConfigListener`; also called for changes that other programs make.
        is_registry: whether this is a cluster's registry; if so, refusals and their texts follow Apache Kafka 3.9 with
            ZooKeeper.
    """

    on_change: ConfigListener
    is_registry: bool

    def of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        """Return the configurations of a resource, as far as this broker knows them."""
        ...

    def resources(self, kind: ConfigResourceType) -> Mapping[str, Mapping[str, str]]:
        """Return a live view of all resources of a kind that have configurations, by name."""
        ...

    def change(self, kind: ConfigResourceType, name: str, revise: Revise, done: ConfigDone) -> None:
        """Change the configurations of a resource.

        Args:
            kind: type of the resource.
            name: name of the resource.
            revise: called when its turn comes; see `Revise`.
            done: see `ConfigDone`; the error may come from `revise`.
        """
