"""Entities convert to and from names on the wire; wrong arguments are refused before anything is sent.

Method: tests/test_arguments.py passes wrong arguments to the methods; the tests here cover error texts and conversions.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.quota_values import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    DefaultEntity,
    checked_alterations,
    checked_filter,
    entity_of,
    match_type_of,
    names_of,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import QuotaMatchType

DEFAULT = DefaultEntity.DEFAULT


@pytest.mark.parametrize(
    ("entity", "names", "text"),
    [
        (ClientQuotaEntity("a"), {"user": "a"}, "user a"),
        (ClientQuotaEntity("a", "b"), {"user": "a", "client-id": "b"}, "user a and client-id b"),
        (ClientQuotaEntity(client_id=DEFAULT), {"client-id": None}, "client-id <default>"),
        (ClientQuotaEntity(ip="::1"), {"ip": "::1"}, "ip ::1"),
    ],
)
def test_entities(entity: ClientQuotaEntity, names: dict[str, str | None], text: str) -> None:
    assert entity_of(names) == entity
    assert {kind: name if isinstance(name, str) else None for kind, name in names_of(entity).items()} == names
    assert str(entity) == text
    assert entity_of({**names, "host": "x"}) is None
    assert str(ClientQuotaEntity()) == "no entity"


def test_the_filter_of_an_entity() -> None:
    components = (ClientQuotaFilterComponent("user", "a"), ClientQuotaFilterComponent("client-id", DEFAULT))
    assert checked_filter(ClientQuotaEntity("a", DEFAULT)) == ClientQuotaFilter(components, strict=True)
    with pytest.raises(LocalProtocolError, match="entity: expected a user, a client_id or an ip"):
        checked_filter(ClientQuotaEntity())


def test_match_types() -> None:
    components = [ClientQuotaFilterComponent("user", match) for match in ("a", DEFAULT, None)]
    assert [match_type_of(each) for each in components] == [
        QuotaMatchType.EXACT,
        QuotaMatchType.DEFAULT,
        QuotaMatchType.SPECIFIED,
    ]


def test_arguments() -> None:
    assert checked_filter(None) == ClientQuotaFilter()
    (checked,) = checked_alterations((ClientQuotaAlteration(ClientQuotaEntity("a"), {"x": 5, "y": None}),))
    assert checked.ops == {"x": 5.0, "y": None}
    assert checked_alterations(()) == checked_alterations(([],)) == []
    twice = ClientQuotaAlteration(ClientQuotaEntity("a"), {})
    with pytest.raises(LocalProtocolError, match="alteration: there are several for user a"):
        checked_alterations((twice, twice))
    with pytest.raises(LocalProtocolError, match="x of user a: expected a number or None, got '5'"):
        checked_alterations((twice._replace(ops={"x": "5"}),))  # type: ignore[arg-type]  # wrong
