"""Quotas as an admin gets and sets them: entities, alterations and filters, named as in Java's client.

Source: KIP-546; `org.apache.kafka.common.quota` in Apache Kafka.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from kafkawire.sdk.client.arguments import checked_mapping, checked_text, given_several, is_several
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaMatchType
from kafkawire.sdk.protocol.values import quoted

__all__ = [
    "ClientQuotaAlteration",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientQuotaFilterComponent",
    "DefaultEntity",
    "checked_alterations",
    "checked_filter",
    "entity_of",
    "match_type_of",
    "names_of",
]


class DefaultEntity(Enum):
    """Stands for all users, client ids or addresses that have no quotas of their own."""

    DEFAULT = "<default>"


#: A name; the default; or None if a quota does not depend on it.
_Name: TypeAlias = str | DefaultEntity | None


class ClientQuotaEntity(NamedTuple):
    """The clients that a quota is for: those of a user, those with a client id, both, or those at an address.

    `DefaultEntity.DEFAULT` stands for all users, client ids or addresses without quotas of their own:
    `ClientQuotaEntity(user=DefaultEntity.DEFAULT)`.

    Attributes:
        user: the name of the principal, without its type.
        client_id: the client id.
        ip: the address, for the rate of new connections.
    """

    user: str | DefaultEntity | None = None
    client_id: str | DefaultEntity | None = None
    ip: str | DefaultEntity | None = None

    def __str__(self) -> str:
        parts = (f"{kind} {_text(name)}" for kind, name in names_of(self).items())
        return " and ".join(parts) or "no entity"


class ClientQuotaAlteration(NamedTuple):
    """A change to the quotas of an entity.

    Attributes:
        entity: the entity.
        ops: the new value of each quota, keyed by name, such as `producer_byte_rate`; None removes the quota.
    """

    entity: ClientQuotaEntity
    ops: Mapping[str, float | None]


class ClientQuotaFilterComponent(NamedTuple):
    """A condition on one type of name.

    Attributes:
        entity_type: `user`, `client-id` or `ip`.
        match: the name that is meant; `DefaultEntity.DEFAULT` for the default; None for any name, or the default.
    """

    entity_type: str
    match: str | DefaultEntity | None = None


class ClientQuotaFilter(NamedTuple):
    """Selects entities.

    Attributes:
        components: conditions, all of which must hold.
        strict: whether entities with other types of names are left out: `ClientQuotaFilterComponent("user")` then
            selects users, but not client ids of users.
    """

    components: tuple[ClientQuotaFilterComponent, ...] = ()
    strict: bool = False


_KINDS: Final = (QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP)


def names_of(entity: ClientQuotaEntity) -> dict[str, str | DefaultEntity]:
    """Return the names of an entity, keyed by type, as on the wire."""
    return {kind: name for kind, name in zip(_KINDS, entity, strict=True) if name is not None}


def entity_of(names: Mapping[str, str | None]) -> ClientQuotaEntity | None:
    """Return the entity with names as in a response; None if it has a name of an unknown type."""
    if not names.keys() <= set(_KINDS):
        return None
    default = DefaultEntity.DEFAULT
    found = {kind: default if name is None else name for kind, name in names.items()}
    return ClientQuotaEntity(*(found.get(kind) for kind in _KINDS))


def checked_filter(given: object) -> ClientQuotaFilter:
    """Return a filter; None selects all entities, and an entity selects only itself.

    Raises:
        LocalProtocolError: the value is neither a filter nor an entity, or a component is of the wrong type or
            repeated.
    """
    if given is None:
        return ClientQuotaFilter()
    if isinstance(given, ClientQuotaEntity):
        names = names_of(_checked_entity(given))
        return ClientQuotaFilter(tuple(ClientQuotaFilterComponent(*each) for each in names.items()), strict=True)
    if not isinstance(given, ClientQuotaFilter):
        text = "expected a ClientQuotaFilter or a ClientQuotaEntity"
        raise LocalProtocolError(f"filter: {text}, got {quoted(given, 100)}")
    if not is_several(given.components):
        text = f"expected ClientQuotaFilterComponents, got {quoted(given.components, 100)}"
        raise LocalProtocolError(f"components: {text}")
    components = tuple(_checked_component(each) for each in given.components)
    kinds = [each.entity_type for each in components]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise LocalProtocolError(f"components: there are several for the entity type {kind}")
    return ClientQuotaFilter(components, bool(given.strict))


def checked_alterations(given: tuple[Any, ...]) -> list[ClientQuotaAlteration]:
    """Return alterations.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: a value is not an alteration, has no entity, or is for the same entity as another one.
    """
    checked: dict[ClientQuotaEntity, ClientQuotaAlteration] = {}
    for each in given_several(given, _is_alteration):
        if not isinstance(each, ClientQuotaAlteration):
            raise LocalProtocolError(f"alteration: expected a ClientQuotaAlteration, got {quoted(each, 100)}")
        entity = _checked_entity(each.entity)
        ops = {
            checked_text(f"name of a quota of {entity}", key): _checked_value(f"{key} of {entity}", value)
            for key, value in checked_mapping(f"ops of {entity}", each.ops).items()
        }
        if entity in checked:
            raise LocalProtocolError(f"alteration: there are several for {entity}")
        checked[entity] = ClientQuotaAlteration(entity, ops)
    return list(checked.values())


def match_type_of(component: ClientQuotaFilterComponent) -> QuotaMatchType:
    """Return how a component matches names, as on the wire."""
    if component.match is None:
        return QuotaMatchType.SPECIFIED
    return QuotaMatchType.EXACT if isinstance(component.match, str) else QuotaMatchType.DEFAULT


def _checked_component(given: object) -> ClientQuotaFilterComponent:
    if not isinstance(given, ClientQuotaFilterComponent):
        raise LocalProtocolError(f"component: expected a ClientQuotaFilterComponent, got {quoted(given, 100)}")
    if given.entity_type not in _KINDS:
        raise LocalProtocolError(f"entity_type: expected {', '.join(_KINDS)}, got {quoted(given.entity_type, 100)}")
    return ClientQuotaFilterComponent(given.entity_type, _checked_name(given.entity_type, given.match))


def _checked_entity(given: object) -> ClientQuotaEntity:
    if not isinstance(given, ClientQuotaEntity):
        raise LocalProtocolError(f"entity: expected a ClientQuotaEntity, got {quoted(given, 100)}")
    entity = ClientQuotaEntity(*(_checked_name(kind, name) for kind, name in zip(_KINDS, given, strict=True)))
    if not names_of(entity):
        raise LocalProtocolError("entity: expected a user, a client_id or an ip")
    return entity


def _checked_name(kind: str, given: object) -> _Name:
    if given is None or isinstance(given, DefaultEntity):
        return given
    return checked_text(kind, given)


def _checked_value(what: str, given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise LocalProtocolError(f"{what}: expected a number or None, got {quoted(given, 100)}")
    try:
        return float(given)
    except OverflowError:
        raise LocalProtocolError(f"{what}: the number is too large, got {quoted(given, 100)}") from None


def _is_alteration(given: object) -> bool:
    return isinstance(given, tuple) and isinstance(given, ClientQuotaAlteration)


def _text(name: str | DefaultEntity) -> str:
    return name if isinstance(name, str) else name.value
