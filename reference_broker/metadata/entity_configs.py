"""Users, client ids and addresses as owners of configurations: quotas and SCRAM credentials.

    users/alice                  a user: quotas and SCRAM credentials
    users/alice/clients/app      a client id of a user: quotas
    clients/<default>            all client ids without quotas of their own
    ips/10.0.0.7                 an address: a quota on new connections

A standalone broker stores them in a file (`local_entity_configs.py`), and a cluster in its registry
(`cluster/registry_entity_configs.py`); the paths are those of Kafka's nodes in ZooKeeper.

Source: `ClientQuotaEntity`, `ConfigEntityName` in Apache Kafka; KIP-55, KIP-546, KIP-554, KIP-612.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.registry.sanitizer import desanitize, sanitize

__all__ = [
    "DEFAULT",
    "ConfigEntity",
    "DefaultName",
    "EntitiesDone",
    "EntityConfigStore",
    "EntityListener",
    "EntityName",
    "user_entity",
]


class DefaultName(Enum):
    """Stands for all users, client ids or addresses that have no configurations of their own."""

    DEFAULT = "<default>"


DEFAULT: Final = DefaultName.DEFAULT

#: The name of a user, client id or address; `DEFAULT` for all others; None if a quota does not depend on it.
EntityName: TypeAlias = str | DefaultName | None

_USERS: Final = "users"
_CLIENTS: Final = "clients"
_IPS: Final = "ips"


class ConfigEntity(NamedTuple):
    """An owner of configurations: a user, a client id, a client id of a user, or an address.

    Attributes:
        user: see `EntityName`.
        client_id: see `EntityName`.
        ip: see `EntityName`.
    """

    user: EntityName = None
    client_id: EntityName = None
    ip: EntityName = None

    @property
    def path(self) -> str:
        """The path of the entity's configurations, relative to `/config` in Kafka's registry.

        Raises:
            ValueError: a name has an unpaired surrogate.
        """
        if self.ip is not None:
            return f"{_IPS}/{_part(self.ip)}"
        if self.user is None:
            return f"{_CLIENTS}/{_part(self.client_id)}"
        own = f"{_USERS}/{_part(self.user)}"
        return own if self.client_id is None else f"{own}/{_CLIENTS}/{_part(self.client_id)}"

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the entity whose configurations have a path.

        Raises:
            ValueError: no entity has this path.
        """
        match path.split("/"):
            case [kind, name] if kind == _USERS:
                return cls(user=_name(name))
            case [kind, name] if kind == _CLIENTS:
                return cls(client_id=_name(name))
            case [kind, name] if kind == _IPS:
                return cls(ip=_name(name))
            case [kind, name, inner, client_id] if (kind, inner) == (_USERS, _CLIENTS):
                return cls(user=_name(name), client_id=_name(client_id))
        raise ValueError(f"{path!r:.200} is not the path of a user, a client id or an address")


def user_entity(name: str) -> ConfigEntity:
    """Return a user as an owner of configurations."""
    return ConfigEntity(user=name)


def _part(name: EntityName) -> str:
    return str(DEFAULT.value) if not isinstance(name, str) else sanitize(name)


def _name(part: str) -> EntityName:
    return DEFAULT if part == DEFAULT.value else desanitize(part)


#: Called with an entity after its configurations have changed.
EntityListener = Callable[[ConfigEntity], None]

#: Called once all changes are durable and in effect, with the errors of the entities that were not changed.
EntitiesDone = Callable[[Mapping[ConfigEntity, BrokerError]], None]


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class EntityConfigStore(Protocol):
    """Stores the configurations of users, client ids and addresses.

    Attributes:
        is_registry: whether this is a cluster's registry; if so, refusals and their texts are those of Apache Kafka 3.9
            with ZooKeeper.
    """

    is_registry: bool

    def all(self) -> Mapping[ConfigEntity, Mapping[str, str]]:
        """Return a live view of all entities that have configurations, in the order of their first change."""
        ...

    def of(self, entity: ConfigEntity) -> Mapping[str, str]:
        """Return the configurations of an entity; empty if it has none."""
        ...

    def change(self, revisions: Mapping[ConfigEntity, Revise], done: EntitiesDone) -> None:
        """Change the configurations of entities; an entity whose change fails does not affect the others.

        Args:
            revisions: called when their turn comes, with the current configurations of each entity; see `Revise`.
            done: see `EntitiesDone`; an entity's error may come from its revision.
        """

    def listen(self, listener: EntityListener) -> None:
        """Call a listener after each change from now on, including changes made by other programs."""
