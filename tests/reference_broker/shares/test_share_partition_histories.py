"""Whatever members, the persister and the clock do, no record is delivered to two members, lost, or delivered forever.

Method: let hypothesis choose fetches, acknowledgements, answers and refusals of the persister, deleted records, passing
time and restarts. A table of single offsets says what may be delivered; in the end, a member accepts everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.reference_broker.shares.delivery import COMPLETE
from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch
from kafkawire.reference_broker.shares.share_state import ShareState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import LOCK_MS, SharePartitionBench
from tests.thorough import sampled

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType

MEMBERS = st.sampled_from("mno")

CONFIGS = {"share.delivery.count.limit": "3", "share.partition.max.record.locks": "12"}
COUNT_MAX = 3

REFUSED = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


@dataclass
class Held:
    """A record that a member has acquired."""

    member_id: str
    deadline_ms: int
    #: What the member has said about it, while the persister has not answered.
    kind: AcknowledgeType | None = None


class Deliveries(RuleBasedStateMachine):
    """A share partition, and a table of what its members know."""

    @initialize()
    def begin(self) -> None:
        self.bench = SharePartitionBench(configs=CONFIGS)
        self.log: list[tuple[int, int]] = []
        self.log_start = 0
        self.held: dict[int, Held] = {}
        self.counts: dict[int, int] = {}
        #: Offsets that must not be delivered again, and those of them about which a member got an answer.
        self.done: set[int] = set()
        self.promised: set[int] = set()
        self.asked: list[tuple[list[int], list[ErrorCode | None]]] = []
        self.start = 0

    @property
    def log_end(self) -> int:
        return self.log[-1][1] + 1 if self.log else 0

    # The log.

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
    def produce(self, sizes: list[int]) -> None:
        for size in sizes:
            self.log.append((self.log_end, self.log_end + size - 1))

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.log_start = max(self.log_start, int(part * self.log_end))
        self.bench.share.begin_at(self.log_start)

    @rule(count=st.integers(0, 9))
    def delete_some(self, count: int) -> None:
        self.log_start = max(self.log_start, min(self.start + count, self.log_end))
        self.bench.share.begin_at(self.log_start)

    # Members.

    def fetched(self, count: int) -> tuple[int, list[FetchedBatch]] | None:
        """Return what a fetch reads, or None if there is nothing to fetch."""
        share = self.bench.share
        if not share.can_acquire:
            return None
        offset = share.next_fetch_offset()
        if offset < self.log_start:
            share.begin_at(self.log_start)
            offset = share.next_fetch_offset()
            assert offset >= self.log_start, "the log cannot be read there"
        return offset, [FetchedBatch(*batch) for batch in self.log if batch[1] >= offset][:count]

    @rule(
        member_id=MEMBERS,
        count=st.integers(1, 5),
        records_max=st.integers(1, 8),
        is_limited=st.booleans(),
        batch_size=st.integers(1, 8),
    )
    def fetch(self, member_id: str, count: int, records_max: int, is_limited: bool, batch_size: int) -> None:
        found = self.fetched(count)
        if found is None:
            return
        offset, batches = found
        ranges = self.bench.acquire(
            *batches,
            member_id=member_id,
            offset=offset,
            records_max=records_max,
            is_limited=is_limited,
            batch_size=batch_size,
        )
        if is_limited:
            assert sum(last - first + 1 for first, last, _ in ranges) <= records_max
        for first, last, delivery_count in ranges:
            for at in range(first, last + 1):
                assert at not in self.held, f"{at} has a member"
                assert at not in self.done, f"{at} is complete"
                assert at >= self.start
                self.counts[at] = self.counts.get(at, 0) + 1
                assert self.counts[at] == delivery_count <= COUNT_MAX
                self.held[at] = Held(member_id, self.bench.now_ms + LOCK_MS)

    @rule(
        member_id=MEMBERS,
        part=st.tuples(st.floats(0, 1), st.integers(1, 6)),
        kinds=st.lists(st.sampled_from([ACCEPT, ACCEPT, RELEASE, REJECT]), min_size=6, max_size=6),
        is_one_kind=st.booleans(),
    )
    def acknowledge(
        self, member_id: str, part: tuple[float, int], kinds: list[AcknowledgeType], is_one_kind: bool
    ) -> None:
        own = self.offsets_of(member_id)
        if not own:
            return
        begin = own[int(part[0] * (len(own) - 1))]
        offsets = [begin]
        while len(offsets) < part[1] and offsets[-1] + 1 in own:
            offsets.append(offsets[-1] + 1)
        given = [kinds[0]] if is_one_kind else kinds[: len(offsets)]
        outcomes = self.bench.acknowledge((begin, offsets[-1], given), member_id=member_id)
        self.ask(offsets, [kinds[0]] * 6 if is_one_kind else kinds, outcomes)

    @rule(member_id=MEMBERS)
    def renew(self, member_id: str) -> None:
        own = self.offsets_of(member_id)
        if own:
            assert self.bench.acknowledge((own[0], own[0], RENEW), member_id=member_id) == [None]
            self.held[own[0]].deadline_ms = self.bench.now_ms + LOCK_MS

    @rule(member_id=MEMBERS, offset=st.integers(0, 30))
    def steal(self, member_id: str, offset: int) -> None:
        if offset not in self.offsets_of(member_id) and offset >= self.start:
            assert self.bench.acknowledge((offset, offset, ACCEPT), member_id=member_id) != [None]

    @rule(member_id=MEMBERS)
    def leave(self, member_id: str) -> None:
        own = self.offsets_of(member_id)
        outcomes: list[ErrorCode | None] = []
        self.bench.share.release(
            member_id, lambda error: outcomes.append(None if error is None else error.code), self.bench.now_ms
        )
        self.ask(own, [RELEASE] * len(own), outcomes)

    def offsets_of(self, member_id: str) -> list[int]:
        """Return what a member can acknowledge."""
        return [
            at
            for at, held in sorted(self.held.items())
            if held.member_id == member_id and held.kind is None and at >= self.start
        ]

    # The persister.

    def ask(self, offsets: list[int], kinds: list[AcknowledgeType], outcomes: list[ErrorCode | None]) -> None:
        for at, kind in zip(offsets, kinds, strict=False):
            self.held[at].kind = kind
        self.asked.append((offsets, outcomes))
        self.note_answers()

    def note_answers(self) -> None:
        """Take over what has been answered."""
        for offsets, outcomes in [entry for entry in self.asked if entry[1]]:
            self.asked.remove((offsets, outcomes))
            for at in offsets:
                self.end(at, is_stored=outcomes == [None])

    def end(self, at: int, *, is_stored: bool) -> None:
        held = self.held[at]
        if is_stored:
            del self.held[at]
            if held.kind is not RELEASE or self.counts[at] >= COUNT_MAX:
                self.done.add(at)
                self.promised.add(at)
        else:
            held.kind = None
            self.expire(at)

    def expire(self, at: int) -> None:
        held = self.held[at]
        if held.deadline_ms <= self.bench.now_ms and held.kind is None:
            del self.held[at]
            if self.counts[at] >= COUNT_MAX:
                self.done.add(at)

    @rule(is_holding=st.booleans(), is_refusing=st.booleans())
    def change_persister(self, is_holding: bool, is_refusing: bool) -> None:
        self.bench.persister.is_holding = is_holding
        self.bench.persister.refusal = REFUSED if is_refusing else None
        if not is_holding:
            self.answer(99)

    @rule(count=st.integers(1, 3))
    def answer(self, count: int) -> None:
        held = self.bench.persister.held
        while held and count:
            self.bench.persister.answer()
            count -= 1
        self.note_answers()

    @rule(milliseconds=st.sampled_from([1, LOCK_MS // 2, LOCK_MS]))
    def advance(self, milliseconds: int) -> None:
        self.bench.advance(milliseconds)
        for at in list(self.held):
            self.expire(at)

    @rule()
    def restart(self) -> None:
        self.change_persister(False, False)
        before = self.bench
        state = before.persister.state
        assert isinstance(state, ShareState)
        before.share.fence()
        self.bench = SharePartitionBench(configs=CONFIGS, persister=before.persister)
        self.bench.now_ms = before.now_ms
        assert self.bench.loaded == [None]
        self.held.clear()
        self.counts = {at: part.delivery_count for part in state.batches for at in offsets_in(part)}
        self.done = {at for part in state.batches if part.delivery_state in COMPLETE for at in offsets_in(part)}
        self.done.update(range(state.start_offset))
        assert self.promised <= self.done
        self.start = self.bench.share.flight.start_offset

    # What always holds.

    @invariant()
    def the_state_is_consistent(self) -> None:
        flight = self.bench.share.flight
        assert flight.start_offset >= self.start
        self.start = flight.start_offset
        end, complete = -1, 0
        for batch in flight.batches:
            assert end < batch.first_offset <= batch.last_offset
            end = batch.last_offset
            deliveries = (
                batch.each.items()
                if batch.whole is None
                else [(at, batch.whole) for at in range(batch.first_offset, end + 1)]
            )
            complete += sum(at >= self.start and delivery.state in COMPLETE for at, delivery in deliveries)
        assert flight.complete_count == complete
        if flight.batches:
            assert flight.end_offset >= end

    def teardown(self) -> None:
        """Let a member accept everything that is left."""
        if not hasattr(self, "bench"):
            return
        self.change_persister(False, False)
        self.advance(LOCK_MS)
        for _ in range(1_000):
            found = self.fetched(9)
            if found is None or not found[1]:
                break
            ranges = self.bench.acquire(*found[1], offset=found[0])
            assert ranges, "there was something to acquire"
            for first, last, _ in ranges:
                assert self.done.isdisjoint(range(first, last + 1))
            assert self.bench.acknowledge(*[(first, last, ACCEPT) for first, last, _ in ranges]) == [None]
        assert self.bench.share.flight.start_offset == max(self.log_end, self.log_start)


def offsets_in(part):
    return range(part.first_offset, part.last_offset + 1)


def chosen(chance: Random) -> Callable[[Deliveries], None]:
    """Return a step of a long history."""
    member_id, other = chance.choice("mno"), chance.choice("mno")
    sizes = [chance.randint(1, 4) for _ in range(chance.randint(1, 4))]
    kinds = [chance.choice([ACCEPT, ACCEPT, RELEASE, REJECT]) for _ in range(6)]
    counts = chance.randint(1, 5), chance.randint(1, 8), chance.random() < 0.5, chance.randint(1, 8)
    part, size, flags = chance.random(), chance.randint(1, 6), (chance.random() < 0.4, chance.random() < 0.4)
    milliseconds = chance.choice([1, LOCK_MS // 2, LOCK_MS])
    actions: dict[Callable[[Deliveries], None], float] = {
        lambda all_: all_.produce(sizes): 2,
        lambda all_: all_.fetch(member_id, *counts): 6,
        lambda all_: all_.acknowledge(member_id, (part, size), kinds, flags[0]): 8,
        lambda all_: all_.renew(member_id): 0.5,
        lambda all_: all_.steal(member_id, size): 0.5,
        lambda all_: all_.leave(other): 0.3,
        lambda all_: all_.change_persister(*flags): 1,
        lambda all_: all_.answer(size): 2,
        lambda all_: all_.advance(milliseconds): 1,
        lambda all_: all_.delete_records(part): 0.05,
        lambda all_: all_.delete_some(size): 0.5,
        lambda all_: all_.restart(): 0.5,
    }
    return chance.choices(list(actions), list(actions.values()))[0]


@pytest.mark.parametrize("seed", sampled(range(30), 3))
def test_long_histories(seed: int) -> None:
    chance, deliveries = Random(seed), Deliveries()
    deliveries.begin()
    for _ in range(300):
        chosen(chance)(deliveries)
        deliveries.the_state_is_consistent()
    deliveries.teardown()


Deliveries.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)
TestDeliveries = Deliveries.TestCase
