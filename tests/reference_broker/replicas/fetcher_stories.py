"""Stories of a follower, with changing leaders, late, lost or damaged answers, failing disks and power cuts.

A story is a sequence of steps chosen by hypothesis or a seed. It knows everything that any leader has ever written; the
follower's log must always be a prefix of one of these histories, and once everything has settled, it must equal the
leader's log.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from kafkawire.reference_broker.replicas.fetcher import Fetcher, Planned
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.storage.disk.memory import fail_at
from kafkawire.sdk.errors import BrokerError, ConnectionLost
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.following import ID, OPTIONS, SYNCED, T0, FollowingReplica
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker, ScriptedLog
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.replicated_logs import SMALL, Replica, batches_of

__all__ = ["DAMAGES", "Story"]

#: The ways in which the next answer for the partition may differ from a correct one.
DAMAGES: Final = ("error", "fenced", "range", "flip", "cut", "divergence", "no watermark", "elsewhere", "later")

#: More requests than any story needs to settle.
_REQUESTS_MAX: Final = 60


class Story:
    """One partition, its leaders and its follower.

    Args:
        is_synced: whether the follower's log syncs each append, in which case no record before its fetch offset may be
            lost.
    """

    def __init__(self, *, is_synced: bool) -> None:
        self.now_ms = 1_000
        self.number = 0
        self.is_synced = is_synced
        self.broker = ScriptedBroker({"t": ID})
        self.broker.change = self._change
        self.leader = self.broker.logs[T0] = ScriptedLog()
        #: All records that each leader has ever had, and its log as it was when its leadership ended.
        self.histories: list[tuple[ScriptedLog, list[tuple[int, int, int, bytes]]]] = [(self.leader, [])]
        self.told_epoch = 0
        self.damage: str | None = None
        self.in_flight: tuple[Planned, Message | None] | None = None
        #: The offset up to which the follower has claimed to a leader that it has the records, and the number of
        #: truncations at that time.
        self.claimed = 0, 0
        self.work = HeldWork()
        self.stored = Replica(SYNCED if is_synced else SMALL, None, self.work)
        self._begin()

    def _begin(self) -> None:
        self.fetcher = Fetcher(1, OPTIONS, lambda: 77, lambda: None, ReplicationQuota(11, 1_000))
        self.replica = FollowingReplica(self.stored.log, self._moved)
        self.claimed = self.stored.log.next_offset if self.is_synced else 0, self.stored.log.truncations
        self.in_flight = None
        self.fetcher.add(T0, self.replica, self.told_epoch)

    def _moved(self) -> None:
        self.fetcher.moved(T0)

    @property
    def state(self) -> FollowedState:
        return self.fetcher.partitions[T0].state

    # Leaders.

    def append(self, count: int, size_bytes: int, *, is_committed: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.leader.append(b"%d" % self.number + b"." * size_bytes, is_committed=is_committed)
            self.histories[-1][1].append(self.leader.batches[-1])

    def commit(self) -> None:
        self.leader.high_watermark = self.leader.next_offset

    def delete_records(self, share: float) -> None:
        log = self.leader
        offset = log.start_offset + int(share * (log.high_watermark - log.start_offset))
        if offset > log.start_offset:
            log.begin_at(offset)

    def elect(self, back: int, share: float, *, is_told: bool) -> None:
        """Make another broker the leader, with a prefix of a former leader's log."""
        log, history = self.histories[-1 - back % len(self.histories)]
        ends = [end for _, end, _, _ in log.batches if end >= log.start_offset]
        upto = ends[min(int(share * len(ends)), len(ends) - 1)] if ends else log.next_offset
        self.leader = self.broker.logs[T0] = ScriptedLog(self.leader.epoch + 1, log, upto)
        self.histories.append((self.leader, [each for each in history if each[1] <= upto]))
        if is_told:
            self.tell()

    def forget_sessions(self) -> None:
        self.broker.forget_sessions()

    # The controller.

    def tell(self) -> None:
        """Tell the follower which broker leads."""
        self.told_epoch = self.leader.epoch
        self.stored.log.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.fetcher.add(T0, self.replica, self.told_epoch)

    # Requests and answers.

    def ask(self) -> None:
        """Send the request that is due."""
        if self.in_flight is None and (planned := self.fetcher.plan(self.now_ms)) is not None:
            self.in_flight = planned, None
            if isinstance(planned.request, FetchRequest):
                self._claim(planned.request)

    def _claim(self, request: FetchRequest) -> None:
        log = self.stored.log
        for topic in request.topics:
            for wanted in topic.partitions:
                assert wanted.fetch_offset == log.next_offset <= log.acknowledged_to
                self.claimed = wanted.fetch_offset, log.truncations

    def serve(self) -> None:
        """Let the leader answer; the answer is then in transit."""
        if self.in_flight is not None and self.in_flight[1] is None:
            planned = self.in_flight[0]
            self.in_flight = planned, self.broker.answer(planned)

    def deliver(self) -> None:
        """Let the answer in transit arrive."""
        if self.in_flight is not None and self.in_flight[1] is not None:
            answer, self.in_flight = self.in_flight[1], None
            self.fetcher.answered(answer, self.now_ms)

    def exchange(self) -> None:
        self.ask()
        self.serve()
        self.deliver()

    def lose(self) -> None:
        """Lose the connection, before or after the leader answers."""
        if self.in_flight is not None:
            self.in_flight = None
            self.fetcher.answered(ConnectionLost("planned"), self.now_ms)

    def _change(self, data: FetchResponse.PartitionData) -> None:
        damage, self.damage = self.damage, None
        records = bytearray(data.records or b"")
        if damage == "error":
            data.error_code, data.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        elif damage == "fenced":
            data.error_code, data.records = ErrorCode.FENCED_LEADER_EPOCH, b""
        elif damage == "range":
            data.error_code, data.records = ErrorCode.OFFSET_OUT_OF_RANGE, b""
        elif damage == "divergence":
            if not data.error_code and data.diverging_epoch.epoch < 0:
                data.diverging_epoch = FetchResponse.EpochEndOffset(self.leader.epoch, self.leader.next_offset)
        elif damage == "no watermark":
            data.high_watermark = -1
        elif damage and records:
            if damage == "flip":
                records[-1] ^= 1
            elif damage == "cut":
                del records[len(records) // 2 + 1 :]
            elif damage == "elsewhere":
                records[:8] = (2**40).to_bytes(8, "big")
                records[12:16] = (2**31 - 1).to_bytes(4, "big")
            else:
                records[12:16] = (2**31 - 1).to_bytes(4, "big")
            data.records = bytes(records)

    # The follower.

    def run(self, count: int | None) -> None:
        """Perform some of its background work."""
        self.work.run(count)

    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    def trim(self) -> None:
        """Remove records on the follower alone, as retention does."""
        log = self.stored.log
        if log.error is None and not log.is_unsettled and log.high_watermark > log.log_start_offset + 3:
            log.begin_at(log.log_start_offset + 1)
            self._moved()

    def fail_disk(self, calls: int) -> None:
        """Make a later disk call fail."""
        self.stored.disk.plan = fail_at(self.stored.disk.calls + calls)

    def crash(self, seed: int | None) -> None:
        """Kill the process or cut the power, and restart."""
        claimed, truncations = self.claimed
        is_cut = self.stored.log.truncations != truncations or self.stored.log.is_unsettled
        self.work.pending.clear()
        self.stored.crash(seed)
        assert not self.is_synced or is_cut or self.stored.log.next_offset >= claimed, "acknowledged records were lost"
        self._begin()

    def stop(self) -> None:
        """Stop and restart the follower."""
        self.stored.disk.plan = None
        self.work.run()
        if self.stored.log.error is None:
            self.stored.stop()
            self._begin()
        else:
            self.crash(None)

    # The invariants.

    def check(self) -> None:
        """Check that the follower has a prefix of one leader's history, except for records that a leader deleted."""
        log = self.stored.log
        # Otherwise, a crash would restore records whose epochs have been forgotten.
        self.stored.log_start_offset = max(self.stored.log_start_offset, log.log_start_offset)
        if log.error is not None or log.is_unsettled:  # its files are changing
            return
        assert log.log_start_offset <= log.high_watermark <= log.next_offset
        start = max(log.log_start_offset, *(each.start_offset for each, _ in self.histories), 0)
        own = {base: data for base, data in self._own_batches().items() if base >= start}
        if own:
            first = min(own)
            beginnings = (
                {base: data for base, end, _, data in history if base >= first and end <= log.next_offset}
                for _, history in self.histories
            )
            assert own in beginnings, "no leader has ever had these records"

    def _own_batches(self) -> dict[int, bytes]:
        """Return the batches of the follower; a planned disk failure does not affect this read."""
        disk = self.stored.disk
        plan, calls, disk.plan = disk.plan, disk.calls, None
        found = batches_of(self.stored.log)
        disk.plan, disk.calls = plan, calls
        return found

    def settle(self) -> None:
        """Let everything in progress finish; then the follower's log must equal its leader's."""
        self.damage = self.stored.disk.plan = None
        self.run(None)
        if self.stored.log.error is not None:
            self.crash(None)
        if self.told_epoch != self.leader.epoch:
            self.tell()
        for _ in range(_REQUESTS_MAX):
            if self.state in (FollowedState.FENCED, FollowedState.FAILED):
                self.tell()
            if self.in_flight is None:
                due_ms = self.fetcher.due_ms(self.now_ms)
                assert due_ms is not None or self.work.pending, "nothing will happen"
                self.now_ms = max(due_ms or 0, self.now_ms)
            self.exchange()
            self.run(None)
            self.check()
            if self._is_equal():
                break
        assert self._is_equal(), (self.state, self.fetcher.partitions[T0].reason)
        self._compare_with_a_new_fetcher()

    def _is_equal(self) -> bool:
        log, leader = self.stored.log, self.leader
        start = max(log.log_start_offset, leader.start_offset)
        own = {base: data for base, data in self._own_batches().items() if base >= start}
        known = [(epoch, offset) for epoch, offset in log.epochs.entries() if offset > start]
        return (
            self.state is FollowedState.FETCHING
            and self.in_flight is None
            and log.next_offset == leader.next_offset
            and log.high_watermark == max(leader.high_watermark, log.log_start_offset)
            and log.log_start_offset >= min(leader.start_offset, log.high_watermark)
            and own == {base: data for base, _, _, data in leader.batches if base >= start}
            and known == [(epoch, offset) for epoch, offset in _record_epochs(self.histories[-1][1]) if offset > start]
        )

    def _compare_with_a_new_fetcher(self) -> None:
        """Check that the fetcher sends the same request as a new fetcher would."""
        for _ in range(3):  # after that, it has a session, whatever happened to the old one
            self.wait(OPTIONS.backoff_ms)
            self.exchange()
        self.forget_sessions()
        self.exchange()
        self.ask()
        fresh = Fetcher(1, OPTIONS, lambda: 77, lambda: None, ReplicationQuota(11, 1_000))
        fresh.add(T0, self.replica, self.told_epoch)
        expected = fresh.plan(self.now_ms)
        assert expected is not None
        assert self.in_flight is not None
        assert _without_session(self.in_flight[0].request) == _without_session(expected.request)
        self.serve()
        self.deliver()
        self.check()

    def step(self, chance: Random) -> None:
        """Take a random step."""
        flags = chance.random() < 0.5, chance.random() < 0.7
        steps: list[tuple[float, Any]] = [
            (5, lambda: self.append(chance.randint(1, 4), chance.choice([1, 60, 150]), is_committed=flags[0])),
            (1, self.commit),
            (0.3, lambda: self.delete_records(chance.random())),
            (1, lambda: self.elect(chance.choice([0, 0, 0, 1, 2]), chance.random() * 1.3, is_told=flags[1])),
            (0.3, self.forget_sessions),
            (0.5, self.tell),
            (6, self.exchange),
            (2, self.ask),
            (2, self.serve),
            (2, self.deliver),
            (0.5, self.lose),
            (1, lambda: setattr(self, "damage", chance.choice(DAMAGES))),
            (4, lambda: self.run(chance.choice([1, 2, None]))),
            (2, lambda: self.wait(chance.choice([1, 20, 1_000]))),
            (0.2, self.trim),
            (0.2, lambda: self.fail_disk(chance.randint(1, 30))),
            (0.3, lambda: self.crash(chance.choice([None, chance.randrange(2**16)]))),
            (0.2, self.stop),
            (0.5, self.settle),
        ]
        chance.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()
        self.check()


def _record_epochs(history: list[tuple[int, int, int, bytes]]) -> list[tuple[int, int]]:
    starts: dict[int, int] = {}
    for base, _, epoch, _ in history:
        starts.setdefault(epoch, base)
    return list(starts.items())


def _without_session(request: Any) -> object:
    assert isinstance(request, FetchRequest)
    request.session_id = 0
    return request
