"""The errors of groups have Kafka's codes and texts.

Method: compare each with the text of Apache Kafka 4.3.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.refusals import (
    full_group,
    is_blank,
    known_member,
    missing_group,
    other_type,
    wrong_epoch,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

ERRORS = [
    (missing_group("g"), ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    (missing_group("g", "Share group"), ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found."),
    (other_type("g", "streams"), ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group."),
    (
        full_group("share", 7),
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The share group has reached its maximum capacity of 7 members.",
    ),
    (
        wrong_epoch("consumer", 3, 2),
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin.",
    ),
    (
        wrong_epoch("share", 1, 2, ", and it is old"),
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (2), and "
        "it is old. The member must abandon all its partitions and rejoin.",
    ),
]


@pytest.mark.parametrize(("error", "code", "text"), ERRORS)
def test_codes_and_texts(error: BrokerError, code: ErrorCode, text: str) -> None:
    assert (error.code, error.detail) == (code, text)


@pytest.mark.parametrize(
    ("text", "blank"), [(None, False), ("", True), (" \t\0\x1f", True), ("\u00a0", False), (" a ", False)]
)
def test_blank_fields(text: str | None, blank: bool) -> None:
    assert is_blank(text) is blank


def test_a_member() -> None:
    assert known_member("g", {"m": 1}, "m") == 1
    with pytest.raises(BrokerError, match=r"UNKNOWN_MEMBER_ID: Member n is not a member of group g\."):
        known_member("g", {"m": 1}, "n")
