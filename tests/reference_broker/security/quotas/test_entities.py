"""Entities keep their names on the way from a request to the store and back.

Method: convert every form of entity; compare texts with those of Java's `HashMap.toString`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity
from kafkawire.reference_broker.security.quotas.entities import QuotaEntity, config_entity, entity_text, quota_entity

ENTITIES: list[tuple[QuotaEntity, ConfigEntity, str]] = [
    ({"user": "alice"}, ConfigEntity("alice"), "{user=alice}"),
    ({"user": None}, ConfigEntity(DEFAULT), "{user=null}"),
    ({"client-id": "app"}, ConfigEntity(client_id="app"), "{client-id=app}"),
    ({"user": "a", "client-id": None}, ConfigEntity("a", DEFAULT), "{client-id=null, user=a}"),
    ({"client-id": "b", "user": "a"}, ConfigEntity("a", "b"), "{client-id=b, user=a}"),
    ({"ip": "::1"}, ConfigEntity(ip="::1"), "{ip=::1}"),
]


@pytest.mark.parametrize(("entity", "owner", "text"), ENTITIES, ids=[text for _, _, text in ENTITIES])
def test_there_and_back(entity: QuotaEntity, owner: ConfigEntity, text: str) -> None:
    assert config_entity(entity) == owner
    assert quota_entity(owner) == entity
    assert entity_text(entity) == f"ClientQuotaEntity(entries={text})"
