"""Access control lists (ACLs): who may do what with which resources, and filters that select ACLs.

    AclBinding    ResourcePattern       topics whose names begin with "orders-"
                  AccessControlEntry    User:alice may READ from any host

Clients send these values, the broker stores them; they have no I/O. Numbers that this release does not know become
UNKNOWN, as in Apache Kafka.

Source: Apache Kafka, `org.apache.kafka.common.acl`, `org.apache.kafka.common.resource`; KIP-140, KIP-290.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AclBinding",
    "AclBindingFilter",
    "ResourcePattern",
    "ResourcePatternFilter",
    "known_or_unknown",
]

#: As the name of a LITERAL pattern, stands for all resources of the type; as a host, for all addresses.
WILDCARD: Final = "*"

#: The name of the only resource of type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"

E = TypeVar("E", bound=IntEnum)


class ResourcePattern(NamedTuple):
    """The resources to which an ACL applies.

    Attributes:
        resource_type: the type of the resources.
        name: a name, the beginning of names, or `*` for all names.
        pattern_type: LITERAL for a name or `*`, PREFIXED for the beginning of names.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def to_filter(self) -> ResourcePatternFilter:
        """Return the filter that selects exactly this pattern."""
        return ResourcePatternFilter(*self)


class AccessControlEntry(NamedTuple):
    """What a principal may or may not do.

    Attributes:
        principal: who, as `User:alice`; `User:*` stands for everybody.
        host: the address from which the client connects, or `*` for any.
        operation: the operation, which must be given; ALL stands for every operation.
        permission_type: ALLOW or DENY; DENY takes precedence.
    """

    principal: str
    host: str = WILDCARD
    operation: AclOperation = AclOperation.UNKNOWN
    permission_type: AclPermissionType = AclPermissionType.ALLOW

    def to_filter(self) -> AccessControlEntryFilter:
        """Return the filter that selects exactly this entry."""
        return AccessControlEntryFilter(*self)


class AclBinding(NamedTuple):
    """An ACL: an entry that applies to the resources of a pattern.

    Attributes:
        pattern: the resources.
        entry: the entry.
    """

    pattern: ResourcePattern
    entry: AccessControlEntry

    def to_filter(self) -> AclBindingFilter:
        """Return the filter that selects exactly this ACL, for example to delete it."""
        return AclBindingFilter(self.pattern.to_filter(), self.entry.to_filter())


class ResourcePatternFilter(NamedTuple):
    """Selects patterns.

    Attributes:
        resource_type: the type of the resources; ANY selects every type.
        name: the name; None selects every name.
        pattern_type: LITERAL or PREFIXED select patterns of that type with exactly this name; ANY selects both types;
            MATCH selects every pattern that applies to a resource with this name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Return whether a pattern is selected."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            # The name of a pattern also begins with itself.
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    @property
    def patterns(self) -> tuple[ResourcePattern, ...] | None:
        """The only patterns that can match; None if their number is not limited."""
        if self.name is None or self.resource_type == ResourceType.ANY:
            return None
        if self.pattern_type == PatternType.ANY:
            kinds: tuple[PatternType, ...] = (PatternType.LITERAL, PatternType.PREFIXED)
        elif self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            kinds = (self.pattern_type,)
        else:
            return None
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


class AccessControlEntryFilter(NamedTuple):
    """Selects entries.

    Attributes:
        principal: the principal; None selects every principal.
        host: the host; None selects every host.
        operation: the operation; ANY selects every operation.
        permission_type: ALLOW or DENY; ANY selects both.
    """

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return whether an entry is selected."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


class AclBindingFilter(NamedTuple):
    """Selects ACLs; by default, all of them.

    Attributes:
        pattern_filter: selects their patterns.
        entry_filter: selects their entries.
    """

    pattern_filter: ResourcePatternFilter = ResourcePatternFilter()
    entry_filter: AccessControlEntryFilter = AccessControlEntryFilter()

    def matches(self, binding: AclBinding) -> bool:
        """Return whether an ACL is selected."""
        return self.pattern_filter.matches(binding.pattern) and self.entry_filter.matches(binding.entry)


def known_or_unknown(kind: type[E], code: int) -> E:
    """Return the member of an enumeration that a number stands for; `UNKNOWN`, which is 0, if there is none."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
