"""Filters of ACLs in requests.

Source: `DescribeAclsRequest.filter`, `DeleteAclsRequest.aclBindingFilter` in Apache Kafka.
"""

from __future__ import annotations

from typing import Protocol

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.acls import (
    AccessControlEntryFilter,
    AclBindingFilter,
    ResourcePatternFilter,
    known_or_unknown,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

__all__ = ["AskedFilter", "read_filter"]


class AskedFilter(Protocol):
    """A filter in a request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def read_filter(api: str, asked: AskedFilter) -> AclBindingFilter:
    """Return the filter that a request describes.

    Args:
        api: the name of the API, for the error.
        asked: the filter.

    Raises:
        RemoteProtocolError: an element of the filter is UNKNOWN, which no client sends; Kafka closes the connection.
    """
    if (
        asked.resource_type_filter == ResourceType.UNKNOWN
        or asked.pattern_type_filter == PatternType.UNKNOWN
        or asked.operation == AclOperation.UNKNOWN
        or asked.permission_type == AclPermissionType.UNKNOWN
    ):
        raise RemoteProtocolError(f"{api} contains an element of type UNKNOWN: {asked!r:.200}")
    return AclBindingFilter(
        ResourcePatternFilter(
            known_or_unknown(ResourceType, asked.resource_type_filter),
            asked.resource_name_filter,
            known_or_unknown(PatternType, asked.pattern_type_filter),
        ),
        AccessControlEntryFilter(
            asked.principal_filter,
            asked.host_filter,
            known_or_unknown(AclOperation, asked.operation),
            known_or_unknown(AclPermissionType, asked.permission_type),
        ),
    )
