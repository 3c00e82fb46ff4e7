"""Random sequences of requests to a group whose members use either protocol, for the coordinator alone and alongside
Apache Kafka.

A `Script` chooses each request based on the earlier answers: usually one that a member would send next, sometimes one
that it should not send. All choices are derived from a single seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Asked", "Beat", "Commit", "Heartbeat", "Join", "Known", "Leave", "Script", "Sync"]

#: Partition numbers, keyed by topic name.
Owned = Mapping[str, frozenset[int]]

INSTANCES = ("i", "j")
PROTOCOLS = (("range",), ("range", "cooperative-sticky"), ("cooperative-sticky",), ("odd",))

LEAVE, LEAVE_STATIC = -1, -2


class Beat(NamedTuple):
    """ConsumerGroupHeartbeat; None stands for an absent field."""

    member_id: str
    epoch: int
    instance: str | None = None
    rebalance_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    rack: str | None = None
    owned: Owned | None = None


class Join(NamedTuple):
    """JoinGroup; `needs_id` says whether a new member first has to get an id, as in version 4 and later."""

    member_id: str
    instance: str | None
    protocols: tuple[str, ...]
    topics: tuple[str, ...]
    owned: Owned
    needs_id: bool
    session_ms: int
    rebalance_ms: int


class Sync(NamedTuple):
    """SyncGroup; `assigns` holds the assignments from the leader of a classic group, keyed by member id."""

    member_id: str
    instance: str | None
    generation: int
    protocol: str | None
    assigns: tuple[tuple[str, Owned], ...] = ()


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
    epoch: int


Asked = Beat | Join | Sync | Heartbeat | Leave | Commit


@dataclass
class Known:
    """A client's knowledge of its membership.

    Attributes:
        member_id, instance: its identity.
        is_classic: whether it uses the classic protocol.
        epoch: the last epoch that it received.
        topics, regex: its subscription.
        owned: the partitions that it was assigned and has not revoked.
        protocol: the protocol of its generation.
        leads: the members to which it assigns partitions.
        is_told: whether it has been told to rejoin.
        session_ms, rebalance_ms: its timeouts.
    """

    member_id: str
    instance: str | None = None
    is_classic: bool = False
    epoch: int = 0
    topics: tuple[str, ...] = ()
    regex: str = ""
    owned: Owned = field(default_factory=dict)
    protocol: str | None = None
    leads: tuple[str, ...] = ()
    is_told: bool = False
    session_ms: int = 10_000
    rebalance_ms: int = 10_000
    protocols: tuple[str, ...] = ("range",)


@dataclass
class Script:
    """Chooses the next request.

    Attributes:
        random: the only source of randomness.
        names: topics for subscriptions.
        sizes: the number of partitions of each topic, which leaders need.
        ids: member ids to choose from.
        sessions_ms, rebalances_ms: timeouts to choose from.
        regexes: expressions to choose from.
        known: memberships, oldest first.
    """

    random: Random
    names: tuple[str, ...]
    sizes: dict[str, int]
    ids: tuple[str, ...]
    sessions_ms: tuple[int, ...]
    rebalances_ms: tuple[int, ...]
    regexes: tuple[str, ...] = ()
    known: list[Known] = field(default_factory=list)

    def next(self) -> Asked:
        """Return the next request."""
        kind = self.random.choices(
            ("new beat", "new join", "step", "change", "wrong", "leave", "commit"), (4, 3, 22, 3, 3, 3, 2)
        )[0]
        one = self._somebody()
        if one is None or kind == "new beat":
            return self._new_beat()
        if kind == "new join":
            return self._new_join()
        if kind == "step":
            return self.step(one)
        if kind == "change":
            return self._change(one)
        if kind == "wrong":
            return self._wrong(one)
        if kind == "leave":
            return self._leave(one)
        epoch = one.epoch - self.random.choice((0, 0, 0, 1, 2, -1))
        if self.random.random() < 0.1:
            return Commit("", None, -1)
        return Commit(one.member_id, one.instance, epoch)

    def step(self, one: Known) -> Asked:
        """Return the next request of a well-behaved member."""
        if one.is_classic:
            if one.is_told or one.protocol is None:
                return self.rejoin(one)
            if self.random.random() < 0.3:
                return self.sync(one)
            return Heartbeat(one.member_id, one.instance, one.epoch)
        if not one.epoch:
            return Beat(one.member_id, 0, one.instance, one.rebalance_ms, one.topics, one.regex or None, owned={})
        said = one.owned if self.random.random() < 0.7 else None
        return Beat(one.member_id, one.epoch, one.instance, owned=said)

    def rejoin(self, one: Known) -> Join:
        """Return the request of a classic member that has to rejoin."""
        owned = one.owned if "cooperative-sticky" in one.protocols[:1] else {}
        return Join(
            one.member_id, one.instance, one.protocols, one.topics, owned, True, one.session_ms, one.rebalance_ms
        )

    def sync(self, one: Known) -> Sync:
        """Return the request of a classic member that has just joined."""
        assigns = tuple((name, self._share(place, len(one.leads))) for place, name in enumerate(one.leads))
        return Sync(one.member_id, one.instance, one.epoch, one.protocol, assigns)

    def _share(self, place: int, count: int) -> Owned:
        return {name: frozenset(range(place, self.sizes[name], count)) for name in self.names if name in self.sizes}

    # Odd requests.

    def _new_beat(self) -> Beat:
        regex = self.random.choice(self.regexes) if self.regexes and self.random.random() < 0.3 else None
        return Beat(
            self.random.choice(self.ids),
            0,
            self._instance(),
            self.random.choice(self.rebalances_ms),
            self._topics() if regex is None or self.random.random() < 0.3 else None,
            regex,
            self.random.choice((None, None, None, "range", "uniform")),
            self.random.choice((None, None, "rack")),
            {},
        )

    def _new_join(self) -> Join:
        protocols = self.random.choices(PROTOCOLS, (6, 4, 6, 0.3))[0]
        session_ms, rebalance_ms = self.random.choice(self.sessions_ms), self.random.choice(self.rebalances_ms)
        return Join("", self._instance(), protocols, self._topics(), {}, True, session_ms, rebalance_ms)

    def _change(self, one: Known) -> Asked:
        """Return a request in which a member changes its subscription or another field."""
        if one.is_classic:
            return self.rejoin(replace(one, topics=self._topics()))
        beat = Beat(one.member_id, one.epoch, one.instance, owned=one.owned if self.random.random() < 0.5 else None)
        changes: dict[str, Any] = {}
        if self.random.random() < 0.6:
            changes["topics"] = self._topics()
        if self.random.random() < 0.2:
            changes["assignor"] = self.random.choice(("range", "uniform"))
        if self.random.random() < 0.2:
            changes["rebalance_ms"] = self.random.choice(self.rebalances_ms)
        if self.random.random() < 0.1:
            changes["rack"] = "other"
        if self.regexes and self.random.random() < 0.3:
            changes["regex"] = self.random.choice(("", *self.regexes))
        return beat._replace(**changes)

    def _wrong(self, one: Known) -> Asked:
        """Return a request that a member should not send."""
        kind = self.random.randrange(6)
        if kind == 0:
            return Beat(one.member_id, one.epoch + self.random.choice((-1, 1)), one.instance, owned=one.owned)
        if kind == 1:
            return Heartbeat(one.member_id, one.instance, one.epoch + self.random.choice((-1, 0, 1)))
        if kind == 2:
            return self.sync(replace(one, epoch=one.epoch + self.random.choice((-1, 0, 0))))
        if kind == 3:
            return Beat(one.member_id, one.epoch, self.random.choice(INSTANCES), owned=one.owned)
        if kind == 4:
            owned = {name: frozenset(range(size)) for name, size in self.sizes.items()}
            return Beat(one.member_id, one.epoch, one.instance, owned=owned)
        if self.random.random() < 0.5:
            # This is a client that uses the other protocol with the same id.
            return Beat(one.member_id, one.epoch, one.instance, owned=one.owned)
        return self.rejoin(replace(one, topics=one.topics or self._topics()))

    def _leave(self, one: Known) -> Asked:
        if one.is_classic or self.random.random() < 0.1:
            if one.instance is not None and self.random.random() < 0.3:
                return Leave((("", one.instance),))
            return Leave(((one.member_id, one.instance),))
        if one.instance is not None and self.random.random() < 0.6:
            return Beat(one.member_id, LEAVE_STATIC, one.instance)
        return Beat(one.member_id, LEAVE, one.instance)

    def _topics(self) -> tuple[str, ...]:
        # Most members subscribe to the same topics.
        if self.random.random() < 0.5:
            return self.names[:2]
        return tuple(self.random.sample(self.names, self.random.randrange(len(self.names) + 1)))

    def _instance(self) -> str | None:
        return self.random.choice((None, None, None, *INSTANCES))

    def _somebody(self) -> Known | None:
        return self.random.choice(self.known) if self.known else None

    # Learning.

    def answered(self, asked: Asked, response: Any, assigned: Owned | None = None) -> None:
        """Update the memberships from a response.

        Args:
            asked: the request.
            response: the response to it.
            assigned: the assignment in the response; None if it has none.
        """
        code = getattr(response, "error_code", 0)
        if isinstance(asked, Beat):
            if asked.epoch < 0:
                if not code:
                    self._forget(asked.member_id)
                return
            if code:
                self._refused(asked.member_id)
                return
            self._beat(asked, response, assigned)
        elif isinstance(asked, Join):
            self._joined(asked, response)
        elif isinstance(asked, Leave):
            for member_id, instance in asked.members:
                for known in list(self.known):
                    if known.member_id == member_id or (not member_id and known.instance == instance):
                        self._forget(known.member_id)
        elif isinstance(asked, Sync | Heartbeat):
            for known in self.known:
                if known.member_id == asked.member_id and known.is_classic:
                    known.is_told = bool(code)
                    if not code and assigned is not None:
                        known.owned = assigned

    def _beat(self, asked: Beat, response: Any, assigned: Owned | None) -> None:
        known = self._of(response.member_id)
        known.is_classic, known.epoch = False, response.member_epoch
        known.instance = asked.instance if asked.instance is not None else known.instance
        known.topics = known.topics if asked.topics is None else asked.topics
        known.regex = known.regex if asked.regex is None else asked.regex
        if not asked.epoch:
            known.owned = {}
            known.rebalance_ms = asked.rebalance_ms
        if assigned is not None:
            known.owned = assigned

    def _joined(self, asked: Join, response: Any) -> None:
        if not response.member_id:
            return
        if response.error_code:
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                known = self._of(response.member_id)
                known.is_classic, known.is_told = True, True
                self._note(known, asked)
            elif asked.member_id:
                self._refused(asked.member_id)
            return
        known = self._of(response.member_id)
        known.is_classic, known.is_told, known.epoch = True, False, response.generation_id
        known.protocol = response.protocol_name
        known.leads = tuple(member.member_id for member in response.members)
        self._note(known, asked)

    def _note(self, known: Known, asked: Join) -> None:
        known.instance, known.topics, known.protocols = asked.instance, asked.topics, asked.protocols
        known.session_ms, known.rebalance_ms = asked.session_ms, asked.rebalance_ms

    def _refused(self, member_id: str) -> None:
        """Handle an error: make the member start over, leave, or ignore the error."""
        for known in self.known:
            if known.member_id == member_id:
                if self.random.random() < 0.4:
                    self._forget(member_id)
                elif self.random.random() < 0.8:
                    known.epoch, known.owned, known.is_told = 0, {}, True
                return

    def _of(self, member_id: str) -> Known:
        for known in self.known:
            if known.member_id == member_id:
                return known
        self.known = [*self.known[-5:], Known(member_id)]
        return self.known[-1]

    def _forget(self, member_id: str) -> None:
        self.known = [known for known in self.known if known.member_id != member_id]
