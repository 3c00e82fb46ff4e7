"""The filter of DescribeClientQuotas: which entities it matches, and what is wrong with it.

Source: `ClientQuotasImage.describe` in Apache Kafka 4.3; `ZkAdminManager.describeClientQuotas` in 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkawire.reference_broker.security.quotas.entities import QuotaEntity
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.sdk.protocol.tables.enums import QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaMatchType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["QuotaFilter", "read_filter", "read_filter_in_registry"]

Component = DescribeClientQuotasRequest.ComponentData

_TYPES: Final = frozenset((QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP))

#: What 3.9 calls the types in its texts.
_SHORT: Final = {QUOTA_USER: "user", QUOTA_CLIENT_ID: "client", QUOTA_IP: "ip"}

_WITH_OTHERS: Final = (
    "Invalid entity filter component combination{separator} IP filter component should not be used with "
    "user or clientId filter component."
)


class QuotaFilter(NamedTuple):
    """A filter.

    Attributes:
        exact: names that must be equal; None for the default.
        any_name: the types that an entity must have, with any name.
        is_strict: whether entities with other types are left out.
    """

    exact: QuotaEntity
    any_name: frozenset[str]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether an entity matches."""
        if self.is_strict and len(entity) != len(self.exact) + len(self.any_name):
            return False
        is_equal = all(kind in entity and entity[kind] == name for kind, name in self.exact.items())
        return is_equal and all(kind in entity for kind in self.any_name)


def read_filter(components: Sequence[Component], *, is_strict: bool) -> QuotaFilter:
    """Return a filter, checked as in Apache Kafka 4.3.

    Raises:
        BrokerError: INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown type of entity.
    """
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in exact or kind in any_name:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        match component.match_type:
            case QuotaMatchType.EXACT:
                if match is None:
                    raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
                exact[kind] = match
            case QuotaMatchType.DEFAULT:
                if match is not None:
                    raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
                exact[kind] = None
            case QuotaMatchType.SPECIFIED:
                if match is not None:
                    raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
                any_name.add(kind)
            case _:
                raise _invalid(f"Unknown match type {component.match_type}")
    if QUOTA_IP in (*exact, *any_name) and len(exact) + len(any_name) > 1:
        raise _invalid(_WITH_OTHERS.format(separator="."))
    return QuotaFilter(exact, frozenset(any_name), is_strict)


def read_filter_in_registry(components: Sequence[Component], *, is_strict: bool) -> QuotaFilter:
    """Return a filter, checked as in Apache Kafka 3.9 with ZooKeeper.

    Raises:
        BrokerError: INVALID_REQUEST, UNSUPPORTED_VERSION, or UNKNOWN_SERVER_ERROR for an impossible match type.
    """
    for component in components:
        is_nameless = component.match_type == QuotaMatchType.EXACT and component.match is None
        if is_nameless or component.match_type not in set(QuotaMatchType):
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in components:
        kind = component.entity_type
        if kind in exact or kind in any_name:
            raise _invalid(f"Duplicate {_SHORT[kind]} filter component entity type")
        if not kind:
            raise _invalid("Unexpected empty filter component entity type")
        if kind not in _TYPES:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if component.match_type == QuotaMatchType.SPECIFIED:
            any_name.add(kind)
        else:
            exact[kind] = component.match if component.match_type == QuotaMatchType.EXACT else None
    if QUOTA_IP in (*exact, *any_name) and len(exact) + len(any_name) > 1:
        raise _invalid(_WITH_OTHERS.format(separator=","))
    return QuotaFilter(exact, frozenset(any_name), is_strict)


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, text)
