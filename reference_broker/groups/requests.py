"""What the group coordinator is asked, what bounds it, and where it writes.

The handlers in `apis/` make these from messages of any version, so that the coordinator does not know versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.groups.group import Group, Protocols

__all__ = ["GroupLimits", "GroupStore", "Join", "Sync"]


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Bounds of groups; the names are the broker's options.

    Attributes:
        group_min_session_timeout_ms: a shorter session would make the heartbeats a load.
        group_max_session_timeout_ms: a longer one would leave partitions of dead members unread.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first.
        group_max_size: members of a group; each rebalance costs the leader memory for all of them.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1


class GroupStore(Protocol):
    """Where groups are written so that they outlive the broker."""

    def store_group(self, group: Group, now_ms: int) -> None:
        """Write a group and its members.

        Raises:
            BrokerError: it could not be written.
        """

    def remove_group(self, group_id: str, now_ms: int) -> None:
        """Write that a group is gone."""


class Join(NamedTuple):
    """A request to become or to stay a member.

    Attributes:
        group_id, member_id, instance_id, protocol_type, protocols: as in JoinGroup; `instance_id` None if not static.
        session_timeout_ms: how long the member may be silent.
        rebalance_timeout_ms: how long it may take to join again.
        client_id: what the client calls itself.
        client_host: where it connects from.
        needs_member_id: whether a new member has to come back with the id that it is given (KIP-394).
        may_skip_assignment: whether the client understands `skip_assignment` (KIP-814).
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
    """A request for the assignment of a generation; from the leader, with the assignment for all.

    Attributes:
        group_id, generation_id, member_id, instance_id: as in SyncGroup.
        protocol_type, protocol_name: what the member believes was selected, None if it does not say.
        assignments: by member id; empty unless the leader sends it.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
