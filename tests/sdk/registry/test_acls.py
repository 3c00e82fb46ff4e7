"""Access control lists are those that Kafka gives its nodes, and digests are the same as ZooKeeper's."""

from __future__ import annotations

import pytest

from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL, READ_ACL, Acl, Permission, default_acl, digest_id


def test_lists_of_kafka() -> None:
    assert default_acl(is_secure=False) == default_acl(is_secure=False, is_sensitive=True) == OPEN_ACL
    assert default_acl(is_secure=True) == CREATOR_ACL + READ_ACL
    assert default_acl(is_secure=True, is_sensitive=True) == CREATOR_ACL


def test_entries() -> None:
    assert (Acl(Permission(31), "world", "anyone"),) == OPEN_ACL
    assert (Acl(Permission(31), "auth", ""),) == CREATOR_ACL
    assert (Acl(Permission(1), "world", "anyone"),) == READ_ACL


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        # This case comes from ZooKeeper's own tests.
        ("super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        ("name", "name:aumZVSoNLcoU1i4ryLdk03ex3Ww="),
    ],
)
def test_digest(credentials: str, expected: str) -> None:
    assert digest_id(credentials) == expected
