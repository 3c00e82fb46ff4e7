"""Checks and errors that all types of groups have in common, in Kafka's words.

Source: `GroupMetadataManager`, `GroupCoordinatorService` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kafkawire.reference_broker.config.config_values import trimmed
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "check_in_transaction",
    "full_group",
    "is_blank",
    "known_member",
    "missing_group",
    "other_type",
    "wrong_epoch",
]

#: The epoch of a producer that commits offsets without data about a member.
_NO_EPOCH: Final = -1

M = TypeVar("M")


def is_blank(text: str | None) -> bool:
    """Return whether a field of a request is given but blank by Java's definition."""
    return text is not None and not trimmed(text)


def missing_group(group_id: str, kind: str = "Group") -> BrokerError:
    """Return the error for a group that does not exist.

    Args:
        group_id: the group's id.
        kind: what was looked for: `Share group`.
    """
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")


def other_type(group_id: str, kind: str) -> BrokerError:
    """Return the error for a group of another type.

    Args:
        group_id: the group's id.
        kind: the type that was looked for: `share`.
    """
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")


def full_group(kind: str, size_max: int) -> BrokerError:
    """Return the error for a group that has as many members as it may have."""
    text = f"The {kind} group has reached its maximum capacity of {size_max} members."
    return BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def known_member(group_id: str, members: Mapping[str, M], member_id: str) -> M:
    """Return a member.

    Raises:
        BrokerError: UNKNOWN_MEMBER_ID.
    """
    member = members.get(member_id)
    if member is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
    return member


def check_in_transaction(commit: Commit, check: Callable[[], None]) -> None:
    """Check an offset commit in a transaction, from a member or from a producer without member data.

    Args:
        commit: the committer.
        check: checks the commit of a member.

    Raises:
        BrokerError: that of `check`; for a wrong epoch ILLEGAL_GENERATION, the only code for it that producers know.
    """
    if commit.generation_id == _NO_EPOCH and not commit.member_id and commit.instance_id is None:
        return
    try:
        check()
    except BrokerError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
            raise
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION, error.detail) from None


def wrong_epoch(kind: str, epoch: int, known_epoch: int, detail: str = "") -> BrokerError:
    """Return the error for a heartbeat with the wrong epoch.

    Args:
        kind: the type of the group.
        epoch: the epoch in the heartbeat.
        known_epoch: the member's epoch.
        detail: what else is wrong, beginning with the comma.
    """
    size = "greater" if epoch > known_epoch else "smaller"
    text = (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known_epoch}){detail}. The member must abandon all its partitions and rejoin."
    )
    return BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, text)
