"""Whatever happens to two replicas, in any order, a follower has the leader's batches and the state they imply.

Method: let hypothesis, or a seed for longer histories, choose appends (idempotent, transactional, compressed, markers),
fetches that are cut off anywhere, elections after which logs diverge, deleted records, rolls, stops, kills and power
cuts. Compare the follower with the leader, and with a log built only from the follower's batches.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.reference_broker.storage.producers.markers import Marker
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.record_formats import Compression
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import Replica, batches_of, fetched, rebuilt, state_of
from tests.thorough import sampled

PRODUCERS = st.integers(0, 2)


class Replication(RuleBasedStateMachine):
    """Two replicas, one of which leads."""

    @initialize()
    def begin(self) -> None:
        self.replicas = [Replica(), Replica()]
        self.leader = 0
        self.epoch = 0
        self.number = 0
        self.is_trimmed = self.has_moved_back = False
        self.replicas[0].log.lead(0)

    @property
    def leading(self) -> Replica:
        return self.replicas[self.leader]

    @property
    def following(self) -> Replica:
        return self.replicas[1 - self.leader]

    # Events on the leader.

    def append(self, data: bytearray, *, is_transactional: bool = False) -> None:
        log, batch = self.leading.log, parse_header(data)
        verification = None
        if is_transactional:
            verification = log.producers.begin_verification(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, NOW_MS, has_epoch_per_transaction=False
            )
        results: list[Appended | BrokerError] = []
        log.append(data, batch, NOW_MS, results.append, verification=verification)
        assert isinstance(results[0], Appended), results[0]

    def values(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%d" % number * 3 for number in range(self.number - count, self.number)]

    @rule(
        kinds=st.lists(
            st.tuples(st.sampled_from(["plain", "idempotent", "end"]), PRODUCERS, st.booleans(), st.booleans()),
            min_size=1,
            max_size=12,
        ),
        count=st.integers(1, 3),
        compression=st.sampled_from([Compression.NONE, Compression.GZIP]),
    )
    def append_some(self, kinds: list[tuple[str, int, bool, bool]], count: int, compression: Compression) -> None:
        for kind, producer, first, second in kinds:
            if kind == "plain":
                self.append_plain(count, compression)
            elif kind == "idempotent":
                self.append_idempotent(producer, count, first, second)
            else:
                self.end_transaction(producer, first)

    def append_plain(self, count: int, compression: Compression) -> None:
        at_ms = NOW_MS + self.number * 7 % 40
        self.append(produced(*self.values(count), compression=compression, timestamps=(at_ms,) * count))

    def append_idempotent(self, producer: int, count: int, is_transactional: bool, is_new: bool) -> None:
        known = self.leading.log.producers.get(producer)
        epoch, sequence = (0, 0) if known is None else (max(known.epoch, 0), known.last_sequence + 1)
        if known is not None and known.transaction_start is not None:
            is_transactional, is_new = True, False
        if is_new and known is not None:
            epoch, sequence = epoch + 1, 0
        data = produced(
            *self.values(count),
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self.append(data, is_transactional=is_transactional)

    def end_transaction(self, producer: int, is_commit: bool) -> None:
        known = self.leading.log.producers.get(producer)
        if known is not None:
            results: list[Appended | BrokerError] = []
            marker = Marker(producer, known.epoch, is_commit, max(known.coordinator_epoch, 0))
            self.leading.log.append_marker(marker, 0, NOW_MS, results.append)
            assert isinstance(results[0], Appended), results[0]

    @rule()
    def roll(self) -> None:
        if self.leading.log.segments.last.size_bytes:
            self.leading.log.roll(lambda: None)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        log = self.leading.log
        offset = log.log_start_offset + int(share * (log.high_watermark - log.log_start_offset))
        if offset > log.log_start_offset:
            self.is_trimmed = True
            log.begin_at(offset)
            self.leading.checkpoint()

    # Events between the two.

    @rule(sizes=st.lists(st.tuples(st.integers(1, 2000), st.sampled_from([0, 0, 0, 1, 40])), min_size=1, max_size=5))
    def fetch_some(self, sizes: list[tuple[int, int]]) -> None:
        for max_bytes, left_out in sizes:
            self.fetch(max_bytes, left_out)

    def fetch(self, max_bytes: int, left_out: int) -> None:
        leader, follower = self.leading.log, self.following.log
        if follower.next_offset < leader.log_start_offset:
            self.following.start_at(leader.log_start_offset)
        data = fetched(leader, follower.next_offset, max_bytes)
        leader.commit_to(min(follower.next_offset, leader.next_offset))
        self.following.follow(data[: max(len(data) - left_out, 0)], self.epoch)
        self.has_moved_back |= leader.high_watermark < follower.high_watermark
        follower.set_high_watermark(leader.high_watermark)
        follower.begin_at(min(leader.log_start_offset, follower.high_watermark))

    @rule(is_swapped=st.booleans(), has_caught_up=st.booleans())
    def elect(self, is_swapped: bool, has_caught_up: bool = False) -> None:
        """Make one replica lead in a new epoch, and the other follow."""
        while has_caught_up and self.following.log.next_offset < self.leading.log.next_offset:
            self.fetch(2000, 0)
        self.leader ^= is_swapped
        self.epoch += 1
        self.leading.log.lead(self.epoch)
        self.following.reconcile(self.leading.log)

    # Events on either replica.

    @rule(number=st.integers(0, 1))
    def checkpoint(self, number: int) -> None:
        self.replicas[number].checkpoint()

    @rule(number=st.integers(0, 1))
    def sync(self, number: int) -> None:
        self.replicas[number].log.sync()

    @rule(number=st.integers(0, 1))
    def stop(self, number: int) -> None:
        self.replicas[number].stop()
        self.elect(False)

    @rule(number=st.integers(0, 1), seed=st.none() | st.integers(0, 2**16))
    def crash(self, number: int, seed: int | None) -> None:
        self.replicas[number].crash(seed)
        self.elect(False)

    # The invariants.

    @invariant()
    def common_batches_are_equal(self) -> None:
        leader, follower = batches_of(self.leading.log), batches_of(self.following.log)
        first = max(replica.log.segments.first.base_offset for replica in self.replicas)
        end = min(replica.log.next_offset for replica in self.replicas)
        assert self.following.log.next_offset <= self.leading.log.next_offset
        assert [each for each in follower.items() if first <= each[0] < end] == [
            each for each in leader.items() if first <= each[0] < end
        ]

    @invariant()
    def follower_knows_what_its_batches_say(self) -> None:
        known, expected = state_of(self.following.log), state_of(rebuilt(self.following))
        if self.has_moved_back:  # decided transactions may have become undecided again
            del known["ends"], expected["ends"]
        if self.is_trimmed:
            for key in ("producers", "aborted", "epochs", "segments", "timestamps", "ends"):
                known.pop(key, None)
                expected.pop(key, None)
        assert known == expected

    @invariant()
    def ends_are_in_order(self) -> None:
        for replica in self.replicas:
            log = replica.log
            assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.next_offset


Replication.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
TestReplication = Replication.TestCase


def chosen(chance: Random) -> Callable[[Replication], None]:
    """Return the next event."""
    kinds = ["plain", "plain", "idempotent", "idempotent", "end"]
    some = [
        (chance.choice(kinds), chance.randrange(3), chance.random() < 0.7, chance.random() < 0.1)
        for _ in range(chance.randint(1, 6))
    ]
    sizes = [(chance.choice([1, 200, 500, 2000]), chance.choice([0, 0, 0, 1, 40])) for _ in range(2)]
    count, compression = chance.randint(1, 3), chance.choice([Compression.NONE, Compression.GZIP])
    number, seed = chance.randrange(2), chance.choice([None, chance.randrange(2**16)])
    share, flags = chance.random(), (chance.random() < 0.5, chance.random() < 0.6)
    actions: dict[Callable[[Replication], None], float] = {
        lambda logs: logs.append_some(some, count, compression): 8,
        lambda logs: logs.fetch_some(sizes): 10,
        lambda logs: logs.elect(*flags): 1.5,
        lambda logs: logs.roll(): 0.5,
        lambda logs: logs.delete_records(share): 0.1,
        lambda logs: logs.checkpoint(number): 1,
        lambda logs: logs.sync(number): 0.5,
        lambda logs: logs.stop(number): 0.3,
        lambda logs: logs.crash(number, seed): 0.6,
    }
    return chance.choices(list(actions), list(actions.values()))[0]


@pytest.mark.parametrize("seed", sampled(range(12), 3))
def test_long_histories(seed: int) -> None:
    chance, logs = Random(seed), Replication()
    logs.begin()
    for number in range(120):
        chosen(chance)(logs)
        logs.ends_are_in_order()
        if number % 4 == 0:
            logs.common_batches_are_equal()
            logs.follower_knows_what_its_batches_say()
