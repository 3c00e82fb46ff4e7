"""The coordinator's requests, limits and store.

The handlers in `apis/` build these from messages of any version, so that the coordinator need not know about versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.groups.group import Group, Protocols

__all__ = ["GroupLimits", "GroupStore", "Join", "Sync"]


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Limits of groups, named after the broker's options.

    Attributes:
        group_min_session_timeout_ms: shortest session timeout; shorter ones would make heartbeats a load.
        group_max_session_timeout_ms: longest session timeout; beyond it, partitions of dead members stay unread.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first.
        group_max_size: most members of a group; each rebalance costs the leader memory for all of them.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1


class GroupStore(Protocol):
    """Where groups are persisted."""

    def store_group(self, group: Group, now_ms: int) -> None:
        """Persist a group and its members.

        Raises:
            BrokerError: it could not be written.
        """

    def remove_group(self, group_id: str, now_ms: int) -> None:
        """Persist that a group is deleted."""


class Join(NamedTuple):
    """A request to join or rejoin a group.

    Attributes:
        group_id, member_id, instance_id, protocol_type, protocols: as in JoinGroup; `instance_id` None if not static.
        session_timeout_ms: how long the member may go without a heartbeat.
        rebalance_timeout_ms: how long it may take to rejoin.
        client_id: the client's name for itself.
        client_host: the host it connects from.
        needs_member_id: whether a new member must come back with the id that it is given (KIP-394).
        may_skip_assignment: whether the client knows `skip_assignment` (KIP-814).
    """

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    needs_member_id: bool
    may_skip_assignment: bool


class Sync(NamedTuple):
    """A request for a member's assignment; the leader's carries the assignments of all members.

    Attributes:
        group_id, generation_id, member_id, instance_id: as in SyncGroup.
        protocol_type, protocol_name: what the member expects to be selected, None if the version does not carry it.
        assignments: by member id; empty unless the leader sends it.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
