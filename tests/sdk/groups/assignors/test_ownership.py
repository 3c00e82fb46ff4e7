"""Outdated and conflicting claims are resolved to one owner or none.

Method: settle a table of claims.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.groups.assignors.ownership import Claim, resolve_claims
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from tests.sdk.groups.assignors.groups import partition, partitions


@pytest.mark.parametrize(
    ("claims", "owned", "disputed", "former"),
    [
        ({"x": ("a-0 a-1", 1), "y": ("a-2", 1)}, {"x": "a-0 a-1", "y": "a-2"}, "", {}),
        ({"x": ("a-0 a-1", 1), "y": ("a-1 a-2", 1)}, {"x": "a-0", "y": "a-2"}, "a-1", {}),
        ({"x": ("a-0", 1), "y": ("a-0", 1), "z": ("a-0", 1)}, {"x": "", "y": "", "z": ""}, "a-0", {}),
        ({"x": ("a-0 a-1", 1), "y": ("a-1", 2)}, {"x": "a-0", "y": "a-1"}, "", {"a-0": "x", "a-1": "x"}),
        ({"x": ("a-0", 2), "y": ("a-0 a-1", 1)}, {"x": "a-0", "y": "a-1"}, "", {"a-0": "y", "a-1": "y"}),
        ({"x": ("a-0", 1), "y": ("a-0", 2), "z": ("", 3)}, {"x": "", "y": "a-0", "z": ""}, "", {"a-0": "y"}),
        ({"x": ("a-0", UNKNOWN_GENERATION_ID), "y": ("", 0)}, {"x": "a-0", "y": ""}, "", {"a-0": "x"}),
        ({"x": ("gone-0 a-0 a-3", 1)}, {"x": "a-0"}, "", {}),
        ({}, {}, "", {}),
    ],
)
def test_settle(
    claims: dict[str, tuple[str, int]], owned: dict[str, str], disputed: str, former: dict[str, str]
) -> None:
    stated = {member: Claim(partitions(text), generation_id) for member, (text, generation_id) in claims.items()}
    ownership = resolve_claims(stated, {"a": 3})
    assert ownership.owned == {member: partitions(text) for member, text in owned.items()}
    assert list(ownership.owned) == list(claims)
    assert ownership.disputed == set(partitions(disputed))
    assert ownership.former == {partition(text): member for text, member in former.items()}
