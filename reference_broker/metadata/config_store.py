"""The interface to the dynamic configurations of resources, wherever they are stored.

    request ──▶ ConfigController ──change──▶ ConfigStore ──on_change──▶ dependents of a configuration

A single broker keeps them in a file (`local_config_store.py`), and a cluster keeps them in its registry
(`cluster/registry_configs.py`).

Source: `ConfigRepository` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType

__all__ = ["NO_CONFIGS", "ConfigDone", "ConfigListener", "ConfigStore", "Revise", "revision_of"]

#: The configurations of a resource that has none.
NO_CONFIGS: Final[Mapping[str, str]] = {}

#: Returns the new configurations of a resource, given its current ones, or raises `BrokerError`. It may be called more
#: than once if another program changes the resource at the same time.
Revise = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Called with None once a change is durable and in effect, or with an error.
ConfigDone = Callable[[BrokerError | None], None]

#: Called with the kind and name of a resource after its configurations have changed.
ConfigListener = Callable[[ConfigResourceType, str], None]


def revision_of(changes: Mapping[str, str | None]) -> Revise:
    """Return a function that sets values, and removes those for which None is given."""

    def revise(before: Mapping[str, str]) -> Mapping[str, str]:
        after = {name: value for name, value in before.items() if changes.get(name, "") is not None}
        return after | {name: value for name, value in changes.items() if value is not None}

    return revise


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class ConfigStore(Protocol):
    """Stores the dynamic configurations.

    Attributes:
        on_change: see `ConfigListener`; also called for changes made by other programs.
        is_registry: whether this is a cluster's registry; if so, refusals and their texts are those of Apache Kafka 3.9
            with ZooKeeper.
    """

    on_change: ConfigListener
    is_registry: bool

    def of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        """Return those configurations of a resource that this broker knows."""
        ...

    def resources(self, kind: ConfigResourceType) -> Mapping[str, Mapping[str, str]]:
        """Return a live view of all resources of a kind that have configurations, keyed by name."""
        ...

    def change(self, kind: ConfigResourceType, name: str, revise: Revise, done: ConfigDone) -> None:
        """Change the configurations of a resource.

        Args:
            kind: type of the resource.
            name: name of the resource.
            revise: called when its turn comes; see `Revise`.
            done: see `ConfigDone`; the error may come from `revise`.
        """
