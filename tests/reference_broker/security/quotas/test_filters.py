"""Filters select entities, and are refused with the texts of both releases of Apache Kafka.

Method: the texts of 4.3 are checked against a real Kafka (`quota_cases.py`); those of 3.9 are from its source.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.quotas.filters import Component, read_filter, read_filter_in_registry
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import QuotaMatchType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

EXACT, DEFAULT, ANY = QuotaMatchType.EXACT, QuotaMatchType.DEFAULT, QuotaMatchType.SPECIFIED
INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("read", [read_filter, read_filter_in_registry])
def test_what_matches(read) -> None:
    components = [Component("user", EXACT, "alice"), Component("client-id", ANY, None)]
    found = read(components, is_strict=True)
    assert found.matches({"user": "alice", "client-id": "a"})
    assert found.matches({"user": "alice", "client-id": None})
    assert not found.matches({"user": None, "client-id": "a"})
    assert not found.matches({"user": "alice"})
    default = read([Component("user", DEFAULT, None)], is_strict=False)
    assert default.matches({"user": None, "client-id": "a"})
    assert not default.matches({"user": "a"})
    assert not default.matches({"client-id": None})
    assert read([], is_strict=False).matches({"ip": "::1"})
    assert not read([], is_strict=True).matches({"ip": "::1"})


@pytest.mark.parametrize(
    ("components", "code", "text"),
    [
        ([("user", EXACT, None)], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
        ([("", 3, None)], ErrorCode.UNKNOWN_SERVER_ERROR, ""),
        ([("", EXACT, "a")], INVALID, "Unexpected empty filter component entity type"),
        ([("host", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Custom entity type 'host' not supported"),
        ([("user", ANY, None)] * 2, INVALID, "Duplicate user filter component entity type"),
        ([("client-id", ANY, None)] * 2, INVALID, "Duplicate client filter component entity type"),
        ([("ip", ANY, None)] * 2, INVALID, "Duplicate ip filter component entity type"),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            INVALID,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        ),
    ],
)
def test_refusals_in_a_cluster(components: list[tuple[str, int, str | None]], code: ErrorCode, text: str) -> None:
    with pytest.raises(BrokerError) as refused:
        read_filter_in_registry([Component(*each) for each in components], is_strict=False)
    assert (refused.value.code, refused.value.detail) == (code, text)


def test_names_that_a_cluster_ignores() -> None:
    """Kafka 3.9 looks at the name only if it must be equal."""
    found = read_filter_in_registry(
        [Component("user", DEFAULT, "a"), Component("client-id", ANY, "b")], is_strict=False
    )
    assert found.exact == {"user": None}
    assert found.any_name == {"client-id"}
