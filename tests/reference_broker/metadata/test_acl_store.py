"""The image of all ACLs.

Goal: an image finds the patterns that apply to a resource, and a change leaves the earlier image as it was.
Method: look up a few patterns; compare lookups of random names and prefixes with a scan of all patterns.
"""

from __future__ import annotations

import random

from kafkawire.reference_broker.metadata.acl_store import NO_ACLS, AclImage
from kafkawire.sdk.protocol.acls import AccessControlEntry, AclBinding, ResourcePattern
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
WRITE = AccessControlEntry("User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW)


def prefixed(name: str, kind: ResourceType = TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name, PatternType.PREFIXED)


def test_a_change_makes_another_image() -> None:
    first = NO_ACLS.with_entries({ResourcePattern(TOPIC, "t"): [READ, WRITE]})
    second = first.with_entries({prefixed("t"): [READ], ResourcePattern(TOPIC, "t"): [WRITE]})
    third = second.with_entries({ResourcePattern(TOPIC, "t"): [], ResourcePattern(TOPIC, "none"): []})
    assert list(first) == [AclBinding(ResourcePattern(TOPIC, "t"), each) for each in (READ, WRITE)]
    assert [len(each) for each in (NO_ACLS, first, second, third)] == [0, 2, 2, 1]
    assert AclBinding(prefixed("t"), READ) in third
    assert AclBinding(prefixed("t"), WRITE) not in third
    assert list(first.prefixes(TOPIC, "topic")) == []
    assert list(third.prefixes(TOPIC, "topic")) == [prefixed("t")]


def test_prefixes_are_found_by_type_and_length() -> None:
    patterns = [prefixed("a"), prefixed("abc"), prefixed("abd"), prefixed("abcdef"), prefixed("a", GROUP)]
    image = AclImage(dict.fromkeys((*patterns, ResourcePattern(TOPIC, "ab")), (READ,)))
    assert list(image.prefixes(TOPIC, "abcd")) == [prefixed("a"), prefixed("abc")]
    assert list(image.prefixes(GROUP, "abcd")) == [prefixed("a", GROUP)]
    assert list(image.prefixes(TOPIC, "b")) == []
    assert list(image.prefixes(ResourceType.CLUSTER, "abcd")) == []


def test_prefixes_equal_those_of_a_scan() -> None:
    chance = random.Random(7)
    for _ in range(200):
        names = ["".join(chance.choices("ab", k=chance.randint(1, 5))) for _ in range(6)]
        image = AclImage({prefixed(name): (READ,) for name in names})
        name = "".join(chance.choices("ab", k=4))
        expected = sorted({each for each in names if name.startswith(each)}, key=len)
        assert [each.name for each in image.prefixes(TOPIC, name)] == expected
