"""What AlterClientQuotas may change: the checks of entities, keys and values, and how values are stored.

Apache Kafka 4.3 and 3.9 check different things, in a different order, and with different texts.

Source: `ClientQuotaControlManager` in Apache Kafka 4.3; `ZkAdminManager.alterClientQuotas`, `DynamicConfig` in 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkawire.reference_broker.metadata.config_store import Revise, revision_of
from kafkawire.reference_broker.security.quotas.connection_rates import address_of
from kafkawire.reference_broker.security.quotas.entities import QuotaEntity, entity_text
from kafkawire.reference_broker.security.scram_credentials import MECHANISMS
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.options import INT32_MAX, INT64_MAX
from kafkawire.sdk.protocol.tables.enums import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    QUOTA_CLIENT_ID,
    QUOTA_IP,
    QUOTA_USER,
    REQUEST_PERCENTAGE,
    ConfigType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.sanitizer import sanitize

__all__ = ["QUOTA_KEYS", "Alteration", "check_alteration", "check_alteration_in_registry"]

_OF_CLIENTS: Final[Mapping[str, ConfigType]] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}

_OF_IPS: Final[Mapping[str, ConfigType]] = {CONNECTION_CREATION_RATE: ConfigType.INT}

#: The keys of quotas; a user's configurations also contain credentials.
QUOTA_KEYS: Final = frozenset((*_OF_CLIENTS, *_OF_IPS))

_TYPES: Final = frozenset((QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP))

_MOST: Final = {ConfigType.INT: INT32_MAX, ConfigType.LONG: INT64_MAX}

#: The difference from an integer that is taken for a rounding error.
_EPSILON: Final = 1e-6

#: From this value on, and below the other one, Java writes numbers with an exponent.
_EXPONENT_FROM: Final = 1e7
_EXPONENT_BELOW: Final = 1e-3


class Alteration(NamedTuple):
    """A change to the quotas of an entity.

    Attributes:
        entity: the entity.
        ops: keys with their new values, in order; None removes a quota.
    """

    entity: QuotaEntity
    ops: Sequence[tuple[str, float | None]]


def check_alteration(alteration: Alteration, repeated: bool) -> Revise:
    """Check a change as Apache Kafka 4.3 does, and return it.

    Args:
        alteration: the change.
        repeated: whether the request has already changed the same entity.

    Raises:
        BrokerError: INVALID_REQUEST.
    """
    entity, ops = alteration
    changes: dict[str, float | None] = {}
    for key, value in ops:
        repeated |= key in changes
        changes.setdefault(key, value)
    if repeated:  # a repeated key has the same text as a repeated entity
        raise _invalid(f"Ignoring duplicate entity {entity_text(entity)}")
    _check_entity(entity)
    keys = _OF_CLIENTS
    if QUOTA_IP in entity:
        if len(entity) > 1:
            raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        if not _is_address(entity[QUOTA_IP]):
            raise _invalid(f"{entity[QUOTA_IP]} is not a valid IP or resolvable host.")
        keys = _OF_IPS
    for key, value in changes.items():
        if value is not None:
            _check_value(keys, key, value)
    return revision_of({key: None if value is None else _java_text(value) for key, value in changes.items()})


def _check_entity(entity: QuotaEntity) -> None:
    """Check what both releases check in the same way."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in _TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")


def _check_value(keys: Mapping[str, ConfigType], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    kind = keys[key]
    if kind not in _MOST:
        return
    if value > float(_MOST[kind]):
        raise _invalid(
            f"Proposed value for {key} is too large for {'an' if kind == ConfigType.INT else 'a'} {kind.name}."
        )
    if abs(value % 1) > _EPSILON:
        raise _invalid(f"{key} cannot be a fractional value.")


def check_alteration_in_registry(alteration: Alteration) -> Revise:
    """Check a change as Apache Kafka 3.9 does with ZooKeeper, and return it.

    Raises:
        BrokerError: INVALID_REQUEST; UNKNOWN_SERVER_ERROR for values that Kafka does not expect.
    """
    entity, ops = alteration
    _check_entity(entity)
    keys = _OF_CLIENTS
    if QUOTA_IP in entity:
        if len(entity) > 1:
            text = "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            raise _invalid(text)
        name = entity[QUOTA_IP]
        sanitized = None if name is None else sanitize(name)  # so IPv6 addresses are refused, as in Kafka
        if not _is_address(sanitized):
            raise _invalid(f"{sanitized} is not a valid IP or resolvable host.")
        keys = _OF_IPS
    changes: dict[str, str | None] = {}
    for key, value in ops:
        changes[key] = None if value is None else _stored_text(entity, keys, key, value)
    return revision_of(changes)


def _stored_text(entity: QuotaEntity, keys: Mapping[str, ConfigType], key: str, value: float) -> str:
    """Return the text that Kafka stores in ZooKeeper for a value."""
    if key not in keys:
        if QUOTA_USER in entity and key in MECHANISMS.values():  # credentials are not numbers
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise _invalid(f"Invalid configuration key {key}")
    kind = keys[key]
    if kind not in _MOST:
        return _java_text(value)
    most = _MOST[kind]
    nearest = 0 if value != value else int(max(min(value + _EPSILON, float(most)), -float(most)))
    if not abs(nearest - value) <= _EPSILON:
        raise _invalid(f"Configuration {key} must be a {kind.name} value")
    return str(min(nearest, most))


def _java_text(value: float) -> str:
    """Return a number in the form of Java's `Double.toString`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if not value or _EXPONENT_BELOW <= abs(value) < _EXPONENT_FROM:
        return repr(value)
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(value).partition("e")[0].replace("-", "").replace(".", "").strip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits.lstrip('-')[0]}.{shortest[1:] or '0'}E{int(exponent)}"


def _is_address(name: str | None) -> bool:
    """Return whether a name is an address; Kafka also accepts the names of hosts, which it looks up."""
    try:
        return name is None or bool(address_of(name))
    except ValueError:
        return False


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, text)
