"""Access control lists of nodes, in the notation of ZooKeeper's schemes.

`default_acl` returns the lists that Kafka gives its nodes.

Source: `ZooDefs.Ids`, `DigestAuthenticationProvider` in Apache ZooKeeper; `ZkData.defaultAcls` in Apache Kafka.
"""

from __future__ import annotations

import base64
import hashlib
from enum import IntFlag
from typing import Final, NamedTuple

__all__ = ["CREATOR_ACL", "OPEN_ACL", "READ_ACL", "Acl", "Permission", "default_acl", "digest_id"]


class Permission(IntFlag):
    """What an entry permits: READ data and children, WRITE data, CREATE and DELETE children, ADMIN (set the list)."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Acl(NamedTuple):
    """An entry of an access control list.

    Attributes:
        permissions: the permissions that it grants.
        scheme: `world`, `auth` (every identity of the creator; used only in requests), `digest` or `sasl`.
        id: the identity, in the format of the scheme; `anyone` for `world`, empty for `auth`.
    """

    permissions: Permission
    scheme: str
    id: str


#: Anyone may do anything.
OPEN_ACL: Final = (Acl(Permission.ALL, "world", "anyone"),)
#: Only the creator may do anything. The session must have an identity.
CREATOR_ACL: Final = (Acl(Permission.ALL, "auth", ""),)
#: Anyone may read.
READ_ACL: Final = (Acl(Permission.READ, "world", "anyone"),)


def default_acl(*, is_secure: bool, is_sensitive: bool = False) -> tuple[Acl, ...]:
    """Return the access control list of a node that Kafka creates.

    Args:
        is_secure: whether `zookeeper.set.acl` is true, in which case only brokers may change the node. The path
            `/consumers` remains open even then, since every consumer writes below it.
        is_sensitive: whether the node may contain secrets, in which case only brokers may read it.
    """
    if not is_secure:
        return OPEN_ACL
    return CREATOR_ACL if is_sensitive else CREATOR_ACL + READ_ACL


def digest_id(credentials: str) -> str:
    """Return the id for `user:password` in the scheme `digest`; the id does not reveal the password."""
    user = credentials.partition(":")[0]
    digest = hashlib.sha1(credentials.encode(), usedforsecurity=False).digest()
    return f"{user}:{base64.b64encode(digest).decode()}"
