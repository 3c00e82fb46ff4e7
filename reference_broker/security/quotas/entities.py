"""Quota entities as requests name them: a mapping of types to names, in which a null name means the default.

Source: `ClientQuotaEntity` in Apache Kafka, whose `HashMap` decides the order of the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityName
from kafkawire.sdk.protocol.tables.enums import QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER
from kafkawire.sdk.registry.map_order import java_hash_map

__all__ = ["QuotaEntity", "config_entity", "entity_text", "quota_entity"]

#: The name of each type; None for the default.
QuotaEntity: TypeAlias = Mapping[str, str | None]

_TYPES: Final = (QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP)


def config_entity(entity: QuotaEntity) -> ConfigEntity:
    """Return the owner of the configurations of a quota entity that has been checked."""
    return ConfigEntity(*(_name(entity[kind]) if kind in entity else None for kind in _TYPES))


def quota_entity(entity: ConfigEntity) -> QuotaEntity:
    """Return an owner of configurations as responses name it."""
    names = {kind: name for kind, name in zip(_TYPES, entity, strict=True) if name is not None}
    return {kind: name if isinstance(name := names[kind], str) else None for kind in java_hash_map(names)}


def entity_text(entity: QuotaEntity) -> str:
    """Return an entity as it appears in Kafka's texts."""
    entries = ", ".join(f"{kind}={_text(entity[kind])}" for kind in java_hash_map(entity))
    return f"ClientQuotaEntity(entries={{{entries}}})"


def _name(name: str | None) -> EntityName:
    return DEFAULT if name is None else name


def _text(name: str | None) -> str:
    return "null" if name is None else name
