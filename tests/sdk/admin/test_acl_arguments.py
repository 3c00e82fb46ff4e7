"""ACLs and filters are passed on as they are, or rejected with an error that names the fault.

Method: check tables of arguments.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.admin.acl_arguments import checked_acls, checked_filter, checked_filters
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.acls import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

PATTERN = ResourcePattern(ResourceType.TOPIC, "t")
ENTRY = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
ACL = AclBinding(PATTERN, ENTRY)
FILTER = AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "t", PatternType.MATCH))

#: Untyped, so that type checkers allow invalid arguments.
acl: Any = AclBinding
acl_filter: Any = AclBindingFilter
entry_filter: Any = AccessControlEntryFilter


def test_separate_arguments_or_one_iterable() -> None:
    other = ACL._replace(pattern=PATTERN._replace(name="u"))
    assert checked_acls((ACL, other, ACL)) == checked_acls(([ACL, other],)) == [ACL, other]
    assert checked_acls((ACL,)) == [ACL]
    assert checked_acls(()) == checked_acls(([],)) == []
    assert checked_filters((FILTER, AclBindingFilter(), FILTER)) == [FILTER, AclBindingFilter()]
    assert checked_filters((iter([FILTER]),)) == checked_filters((FILTER,)) == [FILTER]


def test_a_filter_or_none() -> None:
    assert checked_filter(FILTER) == FILTER
    assert checked_filter(None) == AclBindingFilter()
    with pytest.raises(LocalProtocolError, match="filter: expected an instance of AclBindingFilter"):
        checked_filter([FILTER])


WRONG_ACLS: list[tuple[Any, str]] = [
    ("t", "ACL: expected an instance of AclBinding, got 't'"),
    (PATTERN, "ACL: expected an instance of AclBinding, got ResourcePattern("),
    (FILTER, "ACL: expected an instance of AclBinding, got AclBindingFilter("),
    (acl("t", ENTRY), "pattern: expected an instance of ResourcePattern, got 't'"),
    (acl(PATTERN, None), "entry: expected an instance of AccessControlEntry"),
    (AclBinding(PATTERN._replace(name=None), ENTRY), "name: expected a string"),
    (AclBinding(PATTERN, ENTRY._replace(principal=5)), "principal: expected a string"),
    (
        AclBinding(PATTERN._replace(resource_type=2), ENTRY),
        "resource_type: expected a member of ResourceType (TOPIC, GROUP, ",
    ),
    (
        AclBinding(PATTERN._replace(pattern_type=PatternType.MATCH), ENTRY),
        "pattern_type: expected a member of PatternType (LITERAL, PREFIXED), got",
    ),
    (
        AclBinding(PATTERN, ENTRY._replace(permission_type=AclPermissionType.ANY)),
        "permission_type: expected a member of AclPermissionType (DENY, ALLOW), got",
    ),
    (
        AclBinding(PATTERN, ENTRY._replace(operation=AclOperation.UNKNOWN)),
        "operation: expected a member of AclOperation (ALL, ",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG_ACLS)
def test_wrong_acls(given: Any, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_acls((given,))
    assert str(caught.value).startswith(message)


WRONG_FILTERS: list[tuple[Any, str]] = [
    (ACL, "filter: expected an instance of AclBindingFilter"),
    (acl_filter(PATTERN), "pattern_filter: expected an instance of ResourcePatternFilter"),
    (
        acl_filter(entry_filter=entry_filter(host=1)),
        "host: expected a string",
    ),
    (
        AclBindingFilter(ResourcePatternFilter(ResourceType.UNKNOWN)),
        "resource_type: expected a member of ResourceType (ANY, TOPIC, ",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG_FILTERS)
def test_wrong_filters(given: Any, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_filters((given,))
    assert str(caught.value).startswith(message)
