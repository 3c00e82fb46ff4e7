"""A simulated group coordinator, which gets a random sequence of requests; its log is slow, fails and is reloaded.

    python -m tests.reference_broker.groups.simulation SEQUENCES [SEED]

At every step, it checks that the group is consistent, generations only increase, each generation has one leader, which
receives exactly the list of members, and assignments are those that the leader sent. At the end, it checks that each
request has been answered once, silent clients are removed in a limited number of steps, and the next member becomes the
leader.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups import sequences
from tests.reference_broker.groups.group_bench import GroupBench, only
from tests.reference_broker.groups.sequences import Asked, Script
from tests.reference_broker.seeds import run_seeds

__all__ = ["Simulation", "run"]

#: The timeouts of honest and of malicious clients.
SESSIONS_MS = (0, 1, 1_000, 10_000, 1_800_000)
REBALANCES_MS = (-1, 0, 1, 500, 10_000, 60_000, 2**31 - 1)

#: The steps by which time advances: none, a little, about a session, more than the longest wait.
TIMES_MS = (0, 0, 0, 1, 99, 1_000, 10_001, 300_000)

HONEST_SESSIONS_MS = (10_000, 1_800_000)
HONEST_REBALANCES_MS = (10_000, 60_000)
HONEST_TIMES_MS = (0, 1, 99, 3_000, 5_000)

_STEPS = 40

#: The maximum number of timers that may fire until a group without clients is empty: while one member is silent for
#: half an hour, the others are checked every second.
_QUIET_STEPS = 20_000


class Simulation:
    """One sequence.

    Args:
        seed: the seed for every choice.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        #: Half of the sequences have honest clients in a hurry; the other half have malicious ones.
        is_honest = self.random.random() < 0.5
        self.times_ms = HONEST_TIMES_MS if is_honest else TIMES_MS
        self.script = Script(
            self.random,
            HONEST_SESSIONS_MS if is_honest else SESSIONS_MS,
            HONEST_REBALANCES_MS if is_honest else REBALANCES_MS,
        )
        delay_ms = self.random.choice((0, 0, 100, 3_000))
        size_max = self.random.choice((2, 3, 2**31 - 1))
        self.bench = GroupBench(
            group_min_session_timeout_ms=0, group_initial_rebalance_delay_ms=delay_ms, group_max_size=size_max
        )
        self.now = 0
        self.answers: list[list[Any]] = []
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.assigned: dict[tuple[int, str], set[bytes]] = {}
        self.failures: list[AssertionError] = []
        self.group: ClassicGroup | None = None

    def run(self) -> None:
        """Run to the end."""
        for _ in range(_STEPS):
            self.step()
            self.check()
        self.settle()

    # Steps.

    def step(self) -> None:
        """Do something at random."""
        log = self.bench.log
        kind = self.random.choices(
            ("ask", "time", "log", "fail", "reload", "round"), (20, 6, 3, 0.3, 0.3 if log.held is None else 0, 3)
        )[0]
        if kind == "ask":
            self.ask(self.script.next())
        elif kind == "time":
            self.advance(self.random.choice(self.times_ms))
        elif kind == "log":
            self.move_log()
        elif kind == "fail":
            log.error = BrokerError(self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)))
            self.ask(self.script.next())
            self.release()
            log.error = None
        elif kind == "reload":
            self.reload()
        else:
            self.round()

    def round(self) -> None:
        """Let every member rejoin and send SyncGroup."""
        for known in list(self.script.known):
            self.ask(self.script.rejoin(known))
        self.advance(self.random.choice(self.times_ms))
        for known in list(self.script.known):
            self.ask(self.script.sync(known))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at each deadline."""
        end = self.now + milliseconds
        for _ in range(_QUIET_STEPS):
            deadline = self.bench.timers.next_deadline_ms
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.bench.timers.fire(self.now)
        self.now = end

    def move_log(self) -> None:
        """Hold back or resume appends or replication."""
        log = self.bench.log
        if log.held is not None:
            self.release()
        elif self.random.random() < 0.5:
            log.held = []
        if log.is_committed and self.random.random() < 0.5:
            log.is_committed = False
        else:
            log.is_committed = True
            log.commit(log.next_offset)

    def release(self) -> None:
        """Finish the held appends."""
        log = self.bench.log
        while log.held:
            log.release()
        log.held = None

    def reload(self) -> None:
        """Unload the coordinator and load it from its log; waiting requests are answered."""
        self.bench.groups.unload()
        waiting = [answers for answers in self.answers if not answers]
        assert not waiting, f"unloading left {len(waiting)} requests unanswered"
        self.load()

    def load(self) -> None:
        """Load the log."""
        self.bench.log.is_committed = True
        self.bench.log.commit(self.bench.log.next_offset)
        self.bench.elect(self.now)
        while self.bench.groups.is_loading:
            self.bench.timers.fire(self.now)
        self.forget()

    def forget(self) -> None:
        """Reset the checks: the log may lack what clients learned in a generation that never had an assignment."""
        self.group, self.generation = None, 0
        self.leaders.clear()

    # Requests.

    def ask(self, asked: Asked) -> None:
        """Send a request, and check its response when it arrives."""
        bench, now = self.bench, self.now
        answers: list[Any]
        if isinstance(asked, sequences.Join):
            answers = Checked(self, asked)
            bench.join(
                asked.member_id,
                now,
                instance=asked.instance,
                protocols=asked.protocols,
                needs_id=asked.needs_id,
                answers=answers,
                session_timeout_ms=asked.session_ms,
                rebalance_timeout_ms=asked.rebalance_ms,
            )
        elif isinstance(asked, sequences.Sync):
            answers = Checked(self, asked)
            assignments = {member: f"{len(self.answers)}:{member}".encode() for member in asked.assigns}
            for member, data in assignments.items():
                self.assigned.setdefault((asked.generation, member), set()).add(data)
            names = {"instance_id": asked.instance, "protocol_name": asked.protocol}
            bench.sync(asked.member_id, asked.generation, assignments, now, answers=answers, **names)
        elif isinstance(asked, sequences.Heartbeat):
            answers = []
            bench.groups.heartbeat("g", asked.generation, asked.member_id, asked.instance, answers.append, now)
        elif isinstance(asked, sequences.Leave):
            answers = []
            bench.groups.leave("g", asked.members, answers.append, now)
        elif isinstance(asked, sequences.Commit):
            answers = bench.commit(1, asked.generation, asked.member_id, asked.instance, now)
        elif isinstance(asked, sequences.Describe):
            answers = []
            bench.groups.describe("g", answers.append, now)
        else:
            answers = bench.delete("g", now)
        self.answers.append(answers)

    def joined(self, asked: sequences.Join, response: Any) -> None:
        """Check a response of JoinGroup."""
        self.script.answered(asked, response)
        if response.error_code:
            return
        group, generation = self.current(), response.generation_id
        assert group is not None
        assert generation == group.generation_id
        assert response.member_id in group.members
        if not response.skip_assignment and response.leader not in self.leaders.get(generation, response.leader):
            assert self.leaders[generation] not in group.members, "a generation has two leaders"
        if response.leader in group.members:
            self.leaders[generation] = response.leader
        if response.members:
            assert response.leader == response.member_id
            assert {member.member_id for member in response.members} == set(group.members)
            names = [{name for name, _ in member.protocols} for member in group.members.values()]
            assert all(response.protocol_name in known for known in names)

    def synced(self, asked: sequences.Sync, response: Any) -> None:
        """Check a response of SyncGroup."""
        if response.error_code:
            return
        group = self.current()
        assert group is not None
        assert group.state is GroupState.STABLE
        assert asked.generation == group.generation_id
        if response.assignment and asked.instance is None:
            # A static member may have received its assignment under an earlier member id.
            assert response.assignment in self.assigned[asked.generation, asked.member_id]

    # Invariants.

    def current(self) -> ClassicGroup | None:
        """Return the group, or None if there is none."""
        return next((group for group in self.bench.groups.classic_groups() if group.group_id == "g"), None)

    def check(self) -> None:
        """Check the invariants."""
        if self.failures:
            raise self.failures[0]
        assert all(len(answers) <= 1 for answers in self.answers), "a request was answered twice"
        group = self.current()
        if group is not self.group:
            self.forget()
            self.group = group
        if group is None:
            return
        assert group.generation_id >= self.generation, "the generation has decreased"
        self.generation = group.generation_id
        members = group.members
        # While an append is held back, so is the effect of timers.
        is_held = self.bench.log.held is not None
        assert all(member.member_id == member_id for member_id, member in members.items())
        assert group.static_members == {
            member.instance_id: member_id for member_id, member in members.items() if member.instance_id is not None
        }
        assert group.pending_sync <= set(members)
        assert not set(group.pending_members) & set(members)
        assert (group.leader_id in members) == bool(members)
        assert not members or group.state is not GroupState.EMPTY
        # A group that has lost all its members during a join keeps waiting for pending member ids.
        assert members or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        for member in members.values():
            assert member.session_timer is not None
            assert member.session_timer.is_pending or is_held
            if member.awaiting_join:
                assert group.state is GroupState.PREPARING_REBALANCE or member.instance_id is not None
            if member.awaiting_sync:
                assert group.state is GroupState.COMPLETING_REBALANCE
        if group.state is GroupState.PREPARING_REBALANCE:
            assert members or group.pending_members or group.is_first_rebalance, "nothing would ever end the rebalance"
        if (group.joined_count and group.state is GroupState.PREPARING_REBALANCE) or group.pending_sync:
            assert group.rebalance_timer is not None
            assert group.rebalance_timer.is_pending or is_held, f"nothing would ever end {group.state}"

    def settle(self) -> None:
        """Let all clients fall silent, and check that a new client then gets all partitions."""
        bench = self.bench
        self.release()
        bench.log.is_committed = True
        bench.log.commit(bench.log.next_offset)
        group = self.current()
        for _ in range(_QUIET_STEPS):
            group = self.current()
            if group is None or (group.state is GroupState.EMPTY and not group.pending_members):
                break
            deadline = bench.timers.next_deadline_ms
            assert deadline is not None
            self.now = max(self.now, deadline)
            bench.timers.fire(self.now)
            self.check()
        assert group is None or group.state is GroupState.EMPTY, f"the group is {group.state} but has no members"
        assert all(len(answers) == 1 for answers in self.answers), "a request was not answered"
        self.agree()
        joined = bench.join(now=self.now)
        while not joined:
            deadline = bench.timers.next_deadline_ms
            assert deadline is not None
            self.now = max(self.now, deadline)
            bench.timers.fire(self.now)
        leader = only(joined)
        assert (leader.error_code, leader.leader) == (ErrorCode.NONE, leader.member_id)
        synced = only(bench.sync(leader.member_id, leader.generation_id, {leader.member_id: b"all"}, self.now))
        assert synced.assignment == b"all"
        self.agree()

    def agree(self) -> None:
        """Check that the log agrees with the coordinator."""
        again = self.bench.loaded()
        for group in self.bench.groups.classic_groups():
            same = {other.group_id: other for other in again.groups.classic_groups()}.get(group.group_id)
            if group.state is GroupState.STABLE:
                assert same is not None
                assert (same.generation_id, same.leader_id) == (group.generation_id, group.leader_id)
                assert {name: member.assignment for name, member in same.members.items()} == {
                    name: member.assignment for name, member in group.members.items()
                }
        assert again.groups.offsets("g") == self.bench.groups.offsets("g")


class Checked(list[Any]):
    """The answers to a request, each checked when it arrives."""

    def __init__(self, simulation: Simulation, asked: sequences.Join | sequences.Sync) -> None:
        super().__init__()
        self._simulation = simulation
        self._asked = asked

    def append(self, response: Any) -> None:
        super().append(response)
        try:
            if isinstance(self._asked, sequences.Join):
                self._simulation.joined(self._asked, response)
            else:
                self._simulation.synced(self._asked, response)
        except AssertionError as error:
            # The coordinator would treat the failure as its own defect, and answer with an error.
            self._simulation.failures.append(error)


def run(seed: int) -> None:
    """Run one sequence; a failure names its seed."""
    try:
        Simulation(seed).run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


if __name__ == "__main__":
    run_seeds(run)
