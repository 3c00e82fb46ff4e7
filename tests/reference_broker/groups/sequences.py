"""Random sequences of group requests, for the coordinator alone and alongside Apache Kafka.

A `Script` chooses each request based on the earlier answers: usually one that a member would send next, sometimes one
that it should not send. All choices are derived from a single seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

__all__ = ["Asked", "Commit", "Delete", "Describe", "Heartbeat", "Join", "Known", "Leave", "Script", "Sync"]

INSTANCES = ("i", "j")
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("odd",))


class Join(NamedTuple):
    """JoinGroup; `needs_id` says whether a new member first has to get an id, as in version 4 and later."""

    member_id: str
    instance: str | None
    protocols: tuple[str, ...]
    needs_id: bool
    session_ms: int
    rebalance_ms: int


class Sync(NamedTuple):
    """SyncGroup; `assigns` lists the members for which it carries assignments."""

    member_id: str
    instance: str | None
    generation: int
    assigns: tuple[str, ...]
    protocol: str | None


class Heartbeat(NamedTuple):
    """Heartbeat."""

    member_id: str
    instance: str | None
    generation: int


class Leave(NamedTuple):
    """LeaveGroup."""

    members: tuple[tuple[str, str | None], ...]


class Commit(NamedTuple):
    """OffsetCommit."""

    member_id: str
    instance: str | None
    generation: int


class Describe(NamedTuple):
    """DescribeGroups."""


class Delete(NamedTuple):
    """DeleteGroups."""


Asked = Join | Sync | Heartbeat | Leave | Commit | Describe | Delete


@dataclass
class Known:
    """A client's knowledge of its membership."""

    member_id: str
    instance: str | None = None
    generation: int = -1
    leads: Sequence[str] = ()
    protocol: str | None = None


@dataclass
class Script:
    """Chooses the next request.

    Attributes:
        random: the only source of randomness.
        sessions_ms, rebalances_ms: the timeouts that members choose from.
        known: the memberships learned from answers, oldest first.
    """

    random: Random
    sessions_ms: tuple[int, ...]
    rebalances_ms: tuple[int, ...]
    known: list[Known] = field(default_factory=list)

    def next(self) -> Asked:
        """Return the next request."""
        one = self._somebody()
        kind = self.random.choices(
            ("new", "rejoin", "sync", "heartbeat", "leave", "commit", "describe", "delete"), (5, 6, 8, 3, 2, 2, 1, 0.5)
        )[0]
        if kind == "new":
            instance = self.random.choice((None, None, *INSTANCES))
            return self._join("", instance, needs_id=self.random.random() < 0.5)
        if kind == "rejoin":
            return self._join(one.member_id, one.instance, needs_id=True)
        if kind == "sync":
            assigns = tuple(one.leads) if self.random.random() < 0.9 else ()
            protocol = one.protocol if self.random.random() < 0.9 else "odd"
            return Sync(one.member_id, one.instance, one.generation, assigns, protocol)
        if kind == "heartbeat":
            return Heartbeat(one.member_id, one.instance, one.generation)
        if kind == "leave":
            others = [self._somebody() for _ in range(self.random.choice((0, 0, 1)))]
            leaving = {(entry.member_id, entry.instance): None for entry in (one, *others)}
            if self.random.random() < 0.1:
                leaving = {("", self.random.choice(INSTANCES)): None}
            return Leave(tuple(leaving))
        if kind == "commit":
            if self.random.random() < 0.3:
                return Commit("", None, -1)
            return Commit(one.member_id, one.instance, one.generation)
        return Describe() if kind == "describe" else Delete()

    def rejoin(self, known: Known) -> Join:
        """Return the request of a member in a rebalance."""
        return self._join(known.member_id, known.instance, needs_id=True)

    def sync(self, known: Known) -> Sync:
        """Return the request of a member that has just joined."""
        return Sync(known.member_id, known.instance, known.generation, tuple(known.leads), known.protocol)

    def answered(self, asked: Asked, response: Any) -> None:
        """Update the memberships from the response to a join."""
        if not isinstance(asked, Join) or not response.member_id:
            return
        leads = [member.member_id for member in response.members]
        self.known = [known for known in self.known if known.member_id != response.member_id][-5:]
        known = Known(response.member_id, asked.instance, response.generation_id, leads, response.protocol_name)
        self.known.append(known)

    def _join(self, member_id: str, instance: str | None, *, needs_id: bool) -> Join:
        protocols = self.random.choices(PROTOCOLS, (6, 6, 2, 1, 0.2))[0]
        session_ms, rebalance_ms = self.random.choice(self.sessions_ms), self.random.choice(self.rebalances_ms)
        return Join(member_id, instance, protocols, needs_id, session_ms, rebalance_ms)

    def _somebody(self) -> Known:
        """Return a membership, or sometimes one that never existed, or an old generation of one."""
        if not self.known or self.random.random() < 0.05:
            return Known("nobody", self.random.choice((None, None, "i")), self.random.randrange(3))
        # The most recent memberships are preferred, since they can still make valid requests.
        weights = [2**number for number in range(len(self.known))]
        one = self.random.choices(self.known, weights)[0]
        if self.random.random() < 0.05:
            return Known(one.member_id, one.instance, one.generation - 1, one.leads, one.protocol)
        return one
