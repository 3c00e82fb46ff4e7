"""ACLs and their filters.

Goal: a filter selects what Apache Kafka's filter of the same name selects.
Method: check a table of filters and patterns, after `ResourcePatternFilterTest` and `AclBindingTest` in Apache Kafka.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.acls import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
    known_or_unknown,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ANY, MATCH = PatternType.ANY, PatternType.MATCH
ENTRY = AccessControlEntry("User:alice", "10.0.0.1", AclOperation.READ, AclPermissionType.ALLOW)

PATTERNS = [
    (ResourcePatternFilter(), ResourcePattern(TOPIC, "t"), True),
    (ResourcePatternFilter(), ResourcePattern(TOPIC, "t", PREFIXED), True),
    (ResourcePatternFilter(TOPIC), ResourcePattern(TOPIC, "t"), True),
    (ResourcePatternFilter(TOPIC), ResourcePattern(GROUP, "t"), False),
    (ResourcePatternFilter(TOPIC, "t", LITERAL), ResourcePattern(TOPIC, "t"), True),
    (ResourcePatternFilter(TOPIC, "t", LITERAL), ResourcePattern(TOPIC, "t", PREFIXED), False),
    (ResourcePatternFilter(TOPIC, "t", LITERAL), ResourcePattern(TOPIC, "*"), False),
    (ResourcePatternFilter(TOPIC, "*", LITERAL), ResourcePattern(TOPIC, "t"), False),
    (ResourcePatternFilter(TOPIC, None, LITERAL), ResourcePattern(TOPIC, "t", PREFIXED), False),
    (ResourcePatternFilter(TOPIC, None, PREFIXED), ResourcePattern(TOPIC, "t", PREFIXED), True),
    (ResourcePatternFilter(TOPIC, "t", PREFIXED), ResourcePattern(TOPIC, "t", PREFIXED), True),
    (ResourcePatternFilter(TOPIC, "topic", PREFIXED), ResourcePattern(TOPIC, "t", PREFIXED), False),
    (ResourcePatternFilter(TOPIC, "t", ANY), ResourcePattern(TOPIC, "t", PREFIXED), True),
    (ResourcePatternFilter(TOPIC, "topic", ANY), ResourcePattern(TOPIC, "t", PREFIXED), False),
    (ResourcePatternFilter(TOPIC, "t", ANY), ResourcePattern(TOPIC, "*"), False),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(TOPIC, "t", PREFIXED), True),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(TOPIC, "u", PREFIXED), False),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(TOPIC, "topic"), True),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(TOPIC, "t"), False),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(TOPIC, "*"), True),
    (ResourcePatternFilter(TOPIC, "topic", MATCH), ResourcePattern(GROUP, "*"), False),
    (ResourcePatternFilter(TOPIC, "*", MATCH), ResourcePattern(TOPIC, "*"), True),
    (ResourcePatternFilter(TOPIC, "*", MATCH), ResourcePattern(TOPIC, "t"), False),
]

ENTRIES = [
    (AccessControlEntryFilter(), True),
    (AccessControlEntryFilter("User:alice"), True),
    (AccessControlEntryFilter("User:*"), False),
    (AccessControlEntryFilter(host="10.0.0.1"), True),
    (AccessControlEntryFilter(host="*"), False),
    (AccessControlEntryFilter(operation=AclOperation.READ), True),
    (AccessControlEntryFilter(operation=AclOperation.ALL), False),
    (AccessControlEntryFilter(permission_type=AclPermissionType.ALLOW), True),
    (AccessControlEntryFilter(permission_type=AclPermissionType.DENY), False),
    (AccessControlEntryFilter("User:alice", "10.0.0.1", AclOperation.READ, AclPermissionType.ALLOW), True),
]


@pytest.mark.parametrize(("selects", "pattern", "expected"), PATTERNS)
def test_a_filter_of_patterns(selects: ResourcePatternFilter, pattern: ResourcePattern, expected: bool) -> None:
    assert selects.matches(pattern) is expected
    assert AclBindingFilter(selects).matches(AclBinding(pattern, ENTRY)) is expected


@pytest.mark.parametrize(("selects", "expected"), ENTRIES)
def test_a_filter_of_entries(selects: AccessControlEntryFilter, expected: bool) -> None:
    assert selects.matches(ENTRY) is expected
    binding = AclBinding(ResourcePattern(TOPIC, "t"), ENTRY)
    assert AclBindingFilter(entry_filter=selects).matches(binding) is expected


@pytest.mark.parametrize("selects", [selects for selects, _, _ in PATTERNS])
def test_the_only_patterns_of_a_filter(selects: ResourcePatternFilter) -> None:
    if selects.patterns is None:
        assert selects.name is None or selects.resource_type == ANY or selects.pattern_type == MATCH
    else:
        matching = [pattern for _, pattern, _ in PATTERNS if selects.matches(pattern)]
        assert set(matching) <= set(selects.patterns)


def test_numbers_of_a_later_release_are_unknown() -> None:
    assert known_or_unknown(AclOperation, 3) is AclOperation.READ
    assert known_or_unknown(AclOperation, 100) is AclOperation.UNKNOWN
    assert known_or_unknown(PatternType, -1) is PatternType.UNKNOWN


def test_the_filter_of_an_acl_selects_only_it() -> None:
    pattern = ResourcePattern(TOPIC, "t", PREFIXED)
    binding = AclBinding(pattern, ENTRY)
    selected = binding.to_filter()
    assert selected == AclBindingFilter(
        ResourcePatternFilter(TOPIC, "t", PREFIXED),
        AccessControlEntryFilter("User:alice", "10.0.0.1", AclOperation.READ, AclPermissionType.ALLOW),
    )
    assert selected.matches(binding)
    others = [AclBinding(pattern._replace(pattern_type=LITERAL), ENTRY), AclBinding(pattern, ENTRY._replace(host="*"))]
    assert not any(selected.matches(other) for other in others)


def test_an_entry_allows_every_host_by_default_but_no_operation() -> None:
    entry = AccessControlEntry("User:alice", operation=AclOperation.READ)
    assert entry == ("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
    assert AccessControlEntry("User:alice").operation is AclOperation.UNKNOWN, "an admin refuses it"
