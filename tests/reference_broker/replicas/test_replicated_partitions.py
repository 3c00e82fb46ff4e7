"""Whatever happens to a partition on three brokers, no acknowledged record is lost, and leaders agree.

Method: let hypothesis, or a seed for longer histories, choose fetches, lost responses, terms that brokers learn late,
answers to AlterPartition with each code, deaths and the passing of time. Acknowledged records must be in the log of
every broker that the controller considers in sync, and a leader must behave like one rebuilt from the same records.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.replicated_partition import BROKERS, LAG_MAX_MS, ReplicatedPartition
from tests.thorough import sampled

FOLLOWERS = st.sampled_from([2, 3])
ANY = st.sampled_from(BROKERS)

#: Errors for a partition or a whole request that the scripted controller never returns on its own.
CODES = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_ID,
]
WHOLE = [None, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


class Cluster(RuleBasedStateMachine):
    """The partition, and the events that may affect it."""

    @initialize(min_insync_replicas=st.integers(1, 2))
    def begin(self, min_insync_replicas: int) -> None:
        self.partition = ReplicatedPartition(min_insync_replicas)

    @rule(acks=st.sampled_from([Acks.ALL, Acks.ALL, Acks.LEADER]))
    def produce(self, acks: Acks) -> None:
        self.partition.produce(acks)

    @rule(broker_id=FOLLOWERS, max_bytes=st.sampled_from([1, 200, 2**20]), is_lost=st.booleans())
    def fetch(self, broker_id: int, max_bytes: int, is_lost: bool) -> None:
        self.partition.fetch(broker_id, max_bytes, is_lost=is_lost)

    @rule(broker_id=FOLLOWERS)
    def catch_up(self, broker_id: int) -> None:
        for _ in range(3):
            self.partition.fetch(broker_id, 2**20, is_lost=False)

    @rule(milliseconds=st.sampled_from([1, LAG_MAX_MS // 2, LAG_MAX_MS + 1]))
    def pass_time(self, milliseconds: int) -> None:
        self.partition.pass_time(milliseconds)

    @rule(error=st.sampled_from([None, None, None, *CODES]))
    def take_request(self, error: ErrorCode | None) -> None:
        self.partition.take_request(error)

    @rule(error=st.sampled_from(WHOLE))
    def lose_request(self, error: ErrorCode | None) -> None:
        self.partition.lose_request(error)

    @rule(is_lost=st.booleans())
    def deliver(self, is_lost: bool) -> None:
        self.partition.deliver(is_lost=is_lost)

    @rule()
    def end_pause(self) -> None:
        self.partition.end_pause()

    @rule(broker_id=ANY)
    def tell(self, broker_id: int) -> None:
        self.partition.tell(broker_id)

    @rule()
    def tell_again(self) -> None:
        self.partition.tell_again()

    @rule(broker_id=ANY)
    def elect(self, broker_id: int) -> None:
        self.partition.elect(broker_id)

    @rule(broker_id=ANY)
    def copy(self, broker_id: int) -> None:
        self.partition.copy(broker_id)

    @rule()
    def append_elsewhere(self) -> None:
        self.partition.append_elsewhere()

    @rule(broker_id=ANY)
    def change_elsewhere(self, broker_id: int) -> None:
        self.partition.change_elsewhere(broker_id)

    @rule(broker_id=ANY, kept=st.integers(0, 3))
    def kill(self, broker_id: int, kept: int) -> None:
        self.partition.kill(broker_id, kept)

    @rule(broker_id=ANY)
    def revive(self, broker_id: int) -> None:
        self.partition.revive(broker_id)

    @invariant()
    def holds(self) -> None:
        self.partition.check()

    def teardown(self) -> None:
        if hasattr(self, "partition"):
            recovers(self.partition)


def recovers(partition: ReplicatedPartition) -> None:
    """Check that the partition recovers once the faults end."""
    partition.settle()
    partition.check()
    assert set(partition.isr) == set(BROKERS)
    assert len({tuple(partition.records_of(each)) for each in BROKERS}) == 1
    assert partition.leads
    assert partition.replica.log.high_watermark == partition.replica.log.next_offset


Cluster.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
TestCluster = pytest.mark.thorough(Cluster.TestCase)


class Chance:
    """Random events: each history has its own weights, so every rare event is frequent in some history.

    Args:
        seed: determines all choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.partition = ReplicatedPartition(self._random.choice([1, 2]))
        self._weights = [
            weight * self._random.choice([0.2, 1, 1, 4])
            for weight in (8, 5, 5, 3, 3, 5, 0.3, 2, 3, 3, 0.2, 3, 0.5, 0.5, 0.1, 2, 1, 0.5, 0.5)
        ]

    def step(self) -> None:
        """Make one event happen."""
        chance, partition = self._random, self.partition
        broker_id, is_lost = chance.choice(BROKERS), chance.random() < 0.2
        max_bytes = chance.choice([1, 200, 2**20])
        actions: list[Callable[[], None]] = [
            lambda: partition.produce(chance.choice([Acks.ALL, Acks.ALL, Acks.LEADER])),
            lambda: partition.fetch(2, max_bytes, is_lost=is_lost),
            lambda: partition.fetch(3, max_bytes, is_lost=is_lost),
            lambda: partition.pass_time(chance.choice([1, 100, LAG_MAX_MS // 2])),
            lambda: partition.pass_time(LAG_MAX_MS + 1),
            lambda: partition.take_request(chance.choice([None, None, None, None, *CODES])),
            lambda: partition.lose_request(chance.choice(WHOLE)),
            lambda: partition.deliver(is_lost=is_lost),
            partition.end_pause,
            lambda: partition.tell(broker_id),
            lambda: partition.elect(chance.choice([broker_id, 1])),
            lambda: partition.copy(broker_id),
            partition.append_elsewhere,
            lambda: partition.change_elsewhere(broker_id),
            lambda: partition.kill(broker_id, chance.randrange(4)),
            lambda: partition.revive(broker_id),
            lambda: partition.lose_answer(chance.choice([None, *CODES])),
            lambda: partition.restart(chance.randrange(4)),
            partition.tell_again,
        ]
        chance.choices(actions, self._weights)[0]()


@pytest.mark.parametrize("seed", sampled(range(60), 60))
def test_long_histories(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(400):
        chance.step()
        chance.partition.check()
    recovers(chance.partition)
