"""Requests that create ACLs, and Apache Kafka 4.3's answers; `tests/kafka/test_authorization.py` asks it."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["CREATIONS", "CreationCase", "results_of"]

_TOPIC, _CLUSTER, _LITERAL, _READ, _ALLOW, _ANY, _LATER = 2, 4, 3, 3, 3, 1, 99


class CreationCase(NamedTuple):
    """A request that creates ACLs.

    Attributes:
        name: what is special about it.
        creations: the ACLs.
        results: the answer: an error code and a text for each ACL.
    """

    name: str
    creations: tuple[CreateAclsRequest.AclCreation, ...]
    results: tuple[tuple[ErrorCode, str | None], ...]

    @property
    def request(self) -> CreateAclsRequest:
        """The request."""
        return CreateAclsRequest(list(self.creations))


def results_of(response: CreateAclsResponse) -> tuple[tuple[ErrorCode, str | None], ...]:
    """Return what a response says about each ACL."""
    return tuple((ErrorCode(each.error_code), each.error_message) for each in response.results)


def _acl(
    kind: int = _TOPIC,
    name: str = "acl-cases",
    pattern_type: int = _LITERAL,
    principal: str = "User:cases",
    host: str = "*",
    operation: int = _READ,
    permission: int = _ALLOW,
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(kind, name, pattern_type, principal, host, operation, permission)


_GOOD: Final = (ErrorCode.NONE, "")
_FILTER: Final = (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _case(name: str, *pairs: tuple[CreateAclsRequest.AclCreation, tuple[ErrorCode, str | None]]) -> CreationCase:
    return CreationCase(name, tuple(acl for acl, _ in pairs), tuple(result for _, result in pairs))


def _invalid(text: str | None) -> tuple[ErrorCode, str | None]:
    return ErrorCode.INVALID_REQUEST, text


_NO_COLON: Final = (
    "Could not parse principal from `x` (no colon is present separating the principal type from the principal name)"
)
_ONLY_NAME: Final = "The only valid name for the CLUSTER resource is kafka-cluster"

CREATIONS: Final = (
    _case("one", (_acl(), _GOOD)),
    _case("none"),
    _case("twice the same", (_acl(), _GOOD), (_acl(), _GOOD)),
    _case("a host name", (_acl(host="example.com"), _GOOD)),
    _case("an empty host", (_acl(host=""), _GOOD)),
    _case("an operation that topics lack", (_acl(operation=12), _GOOD)),
    _case("another kind of principal", (_acl(principal="Group:cases"), _GOOD)),
    _case("a name that no topic can have", (_acl(name="a/b ä"), _GOOD)),
    _case("another cluster", (_acl(_CLUSTER, "x"), _invalid(_ONLY_NAME))),
    _case("no name", (_acl(name=""), _invalid("Invalid empty resource name"))),
    _case("no name, and a good one", (_acl(name=""), _invalid("Invalid empty resource name")), (_acl(), _GOOD)),
    _case("no kind of principal", (_acl(principal="x"), _invalid(_NO_COLON))),
    _case("an empty kind of principal", (_acl(principal=":x"), _GOOD)),
    _case("no name of a principal", (_acl(principal="User:"), _GOOD)),
    _case("any type", (_acl(_ANY), _FILTER)),
    _case("any pattern", (_acl(pattern_type=_ANY), _FILTER)),
    _case("matching patterns", (_acl(pattern_type=2), _FILTER)),
    _case("any operation", (_acl(operation=_ANY), _FILTER)),
    _case("any permission", (_acl(permission=_ANY), _FILTER)),
    _case("any permission, and a good one", (_acl(permission=_ANY), _FILTER), (_acl(), _FILTER)),
    _case("a type of a later release", (_acl(_LATER), _invalid("Invalid resourceType UNKNOWN"))),
    _case("a pattern of a later release", (_acl(pattern_type=_LATER), _invalid("Invalid patternType UNKNOWN"))),
    _case("an operation of a later release", (_acl(operation=_LATER), _invalid("Invalid operation UNKNOWN"))),
    _case("a permission of a later release", (_acl(permission=_LATER), _invalid("Invalid permissionType UNKNOWN"))),
)  # fmt: skip
