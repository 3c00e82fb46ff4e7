"""Check an application's ACLs and filters, as a broker would, but with names in the errors."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from kafkawire.sdk.client.arguments import checked_text, given_several
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
from kafkawire.sdk.protocol.values import quoted

__all__ = ["checked_acls", "checked_filter", "checked_filters"]

T = TypeVar("T", bound=tuple[Any, ...])


class _Kind(NamedTuple):
    """An attribute that is a member of an enumeration, and the members that an ACL cannot have."""

    name: str
    kind: type[IntEnum]
    only_in_filters: frozenset[IntEnum]


_KINDS: Final = (
    _Kind("resource_type", ResourceType, frozenset({ResourceType.ANY})),
    _Kind("pattern_type", PatternType, frozenset({PatternType.ANY, PatternType.MATCH})),
    _Kind("operation", AclOperation, frozenset({AclOperation.ANY})),
    _Kind("permission_type", AclPermissionType, frozenset({AclPermissionType.ANY})),
)

_TEXTS: Final = ("name", "principal", "host")


def checked_acls(given: tuple[Any, ...]) -> list[AclBinding]:
    """Return ACLs to create, without duplicates.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is not an `AclBinding`, or has an attribute that is wrong or only for filters.
    """
    acls = [_checked("ACL", each, AclBinding) for each in _several(given, AclBinding)]
    for each in acls:
        for part in (
            _checked("pattern", each.pattern, ResourcePattern),
            _checked("entry", each.entry, AccessControlEntry),
        ):
            _check(part, is_filter=False)
    return list(dict.fromkeys(acls))


def checked_filter(given: Any) -> AclBindingFilter:
    """Return a filter, which for None matches every ACL.

    Raises:
        LocalProtocolError: the value is not an `AclBindingFilter`, or has an attribute that is wrong.
    """
    (checked,) = _checked_filters([AclBindingFilter() if given is None else given])
    return checked


def checked_filters(given: tuple[Any, ...]) -> list[AclBindingFilter]:
    """Return filters, without duplicates.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: an argument is not an `AclBindingFilter`, or has an attribute that is wrong.
    """
    return list(dict.fromkeys(_checked_filters(_several(given, AclBindingFilter))))


def _checked_filters(given: Iterable[Any]) -> list[AclBindingFilter]:
    filters = [_checked("filter", each, AclBindingFilter) for each in given]
    for each in filters:
        for part in (
            _checked("pattern_filter", each.pattern_filter, ResourcePatternFilter),
            _checked("entry_filter", each.entry_filter, AccessControlEntryFilter),
        ):
            _check(part, is_filter=True)
    return filters


def _several(given: tuple[Any, ...], kind: type[Any]) -> Iterable[Any]:
    return given_several(given, lambda value: isinstance(value, kind))


def _checked(name: str, given: Any, kind: type[T]) -> T:
    if not isinstance(given, kind):
        raise LocalProtocolError(f"{name}: expected an instance of {kind.__name__}, got {quoted(given, 100)}")
    return given


def _check(part: tuple[Any, ...], *, is_filter: bool) -> None:
    """Check the attributes of one half of an ACL or of a filter."""
    for name in _TEXTS:
        if hasattr(part, name) and not (is_filter and getattr(part, name) is None):
            checked_text(name, getattr(part, name))
    for name, kind, only_in_filters in _KINDS:
        if not hasattr(part, name):
            continue
        value = getattr(part, name)
        allowed = [each for each in kind if each and (is_filter or each not in only_in_filters)]
        if not isinstance(value, kind) or value not in allowed:
            names = ", ".join(each.name for each in allowed)
            text = f"{name}: expected a member of {kind.__name__} ({names}), got {quoted(value, 100)}"
            raise LocalProtocolError(text)
