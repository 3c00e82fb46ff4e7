"""Access control lists: create, list and delete them.

Any broker can be asked: in a cluster without ZooKeeper, it passes the request on to the controller.

Source: KIP-140, KIP-290 (prefixes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    known_or_unknown,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import check, error_text, lacking

__all__ = ["create_acls", "delete_acls", "describe_acls"]


async def create_acls(operations: Operations, acls: Sequence[AclBinding]) -> ItemResults[AclBinding, None]:
    """Create ACLs; see `Admin.create_acls`."""
    values: dict[AclBinding, None] = {}
    errors: dict[AclBinding, KafkaWireError] = {}
    if not acls:
        return ItemResults(values, errors)

    def read(response: messages.CreateAclsResponse) -> None:
        if len(response.results) < len(acls):
            raise lacking(response, "the result of an ACL")
        _check_moved(response.results)

    Creation = messages.CreateAclsRequest.AclCreation
    creations = [Creation(kind, name, pattern_type, *entry) for (kind, name, pattern_type), entry in acls]
    response = await operations.request(
        ANY_BROKER, messages.CreateAclsRequest(creations), messages.CreateAclsResponse, read
    )
    for binding, result in zip(acls, response.results, strict=False):
        if result.error_code == ErrorCode.NONE:
            values[binding] = None
        else:
            errors[binding] = _error(result.error_code, _described(binding), result.error_message)
    return ItemResults(values, errors)


async def describe_acls(operations: Operations, wanted: AclBindingFilter) -> list[AclBinding]:
    """Return ACLs; see `Admin.describe_acls`."""
    (kind, name, pattern_type), entry = wanted
    response = await operations.request(
        ANY_BROKER,
        messages.DescribeAclsRequest(kind, name, pattern_type, *entry),
        messages.DescribeAclsResponse,
        lambda response: check(response.error_code, error_text("ACLs", response.error_message)),
    )
    return [AclBinding(_pattern(resource), _entry(each)) for resource in response.resources for each in resource.acls]


async def delete_acls(
    operations: Operations, filters: Sequence[AclBindingFilter]
) -> ItemResults[AclBindingFilter, ItemResults[AclBinding, None]]:
    """Delete ACLs; see `Admin.delete_acls`."""
    values: dict[AclBindingFilter, ItemResults[AclBinding, None]] = {}
    errors: dict[AclBindingFilter, KafkaWireError] = {}
    if not filters:
        return ItemResults(values, errors)

    def read(response: messages.DeleteAclsResponse) -> None:
        if len(response.filter_results) < len(filters):
            raise lacking(response, "the result of a filter")
        _check_moved(response.filter_results)

    Filter = messages.DeleteAclsRequest.DeleteAclsFilter
    asked = [Filter(kind, name, pattern_type, *entry) for (kind, name, pattern_type), entry in filters]
    response = await operations.request(
        ANY_BROKER, messages.DeleteAclsRequest(asked), messages.DeleteAclsResponse, read
    )
    for each, result in zip(filters, response.filter_results, strict=False):
        if result.error_code == ErrorCode.NONE:
            values[each] = _deleted(result.matching_acls)
        else:
            errors[each] = _error(result.error_code, "ACLs of a filter", result.error_message)
    return ItemResults(values, errors)


def _check_moved(results: Iterable[Any]) -> None:
    """Have the whole request sent again if the controller has moved."""
    for result in results:
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            raise BrokerError(result.error_code, error_text("ACLs", result.error_message))


def _deleted(
    matching: Iterable[messages.DeleteAclsResponse.DeleteAclsMatchingAcl],
) -> ItemResults[AclBinding, None]:
    values: dict[AclBinding, None] = {}
    errors: dict[AclBinding, KafkaWireError] = {}
    for each in matching:
        binding = AclBinding(_pattern(each), _entry(each))
        if each.error_code == ErrorCode.NONE:
            values[binding] = None
        else:
            errors[binding] = _error(each.error_code, _described(binding), each.error_message)
    return ItemResults(values, errors)


def _pattern(found: Any) -> ResourcePattern:
    kind, pattern_type = found.resource_type, found.pattern_type
    return ResourcePattern(
        known_or_unknown(ResourceType, kind), found.resource_name, known_or_unknown(PatternType, pattern_type)
    )


def _entry(found: Any) -> AccessControlEntry:
    return AccessControlEntry(
        found.principal,
        found.host,
        known_or_unknown(AclOperation, found.operation),
        known_or_unknown(AclPermissionType, found.permission_type),
    )


def _error(code: int, what: str, text: str | None) -> BrokerError:
    return BrokerError(code, error_text(what, text))


def _described(binding: AclBinding) -> str:
    """Return an ACL in words: `ALLOW User:alice READ on topic orders`."""
    (kind, name, pattern_type), (principal, host, operation, permission) = binding
    words = [permission.name, principal, operation.name, "on", kind.name.lower(), name]
    if pattern_type is not PatternType.LITERAL:
        words.append(f"({pattern_type.name.lower()})")
    if host != "*":
        words += ["from", host]
    return " ".join(words)
