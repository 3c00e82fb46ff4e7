"""Offsets expire with their group or are deleted with their topic, in small steps.

Method: use a coordinator with an in-memory log; a second one reads the log.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkawire.reference_broker.groups import expiry
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit, TransactionalCommit
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.group_bench import TOPIC_ID, GroupBench, only

CHECK_MS = 600_000
RETENTION_MS = 7 * 24 * 3_600_000
PARTITION = ("t", 0)


def groups_of(bench):
    return {group.group_id: group.state for group in bench.groups.classic_groups()}


def test_offsets_of_an_empty_group_expire_with_the_group():
    bench = GroupBench()
    bench.commit(now=0)
    bench.commit(now=RETENTION_MS - CHECK_MS, group_id="later")
    for now in range(CHECK_MS, RETENTION_MS, CHECK_MS):
        bench.timers.fire(now)
    assert set(groups_of(bench)) == {"g", "later"}
    bench.timers.fire(RETENTION_MS)
    for known in (bench, bench.loaded()):
        assert set(groups_of(known)) == {"later"}
        assert not known.groups.offsets("g")


def test_empty_group_without_offsets_goes_at_the_next_check():
    bench = GroupBench()
    bench.leave(only(bench.join()).member_id)
    assert groups_of(bench) == {"g": GroupState.EMPTY}
    bench.timers.fire(CHECK_MS)
    assert (groups_of(bench), groups_of(bench.loaded())) == ({}, {})


def test_group_that_somebody_is_about_to_join_stays():
    bench = GroupBench()
    bench.leave(only(bench.join()).member_id)
    told = only(bench.join(needs_id=True, now=CHECK_MS - 1)).member_id
    bench.timers.fire(CHECK_MS)
    assert only(bench.join(told, now=CHECK_MS)).generation_id == 3


def test_group_with_nothing_but_a_pending_offset_stays():
    bench = GroupBench()
    bench.sync(only(bench.join()).member_id, 1, {})
    bench.leave(next(iter(bench.group.members)))
    told = []
    entry = Committed(7, 3, "meta", 0, TOPIC_ID, -1)
    transaction = TransactionalCommit("x", 9, 0, 2)
    bench.groups.commit_in_transaction(Commit("g", -1, "", None), transaction, {PARTITION: entry}, told.append, 0)
    bench.timers.fire(CHECK_MS)
    assert groups_of(bench) == {"g": GroupState.EMPTY}
    bench.groups.complete_transaction(0, Marker(9, 0, True, 0), 2, told.append, CHECK_MS)
    assert told == [None, None]
    assert bench.groups.offsets("g")[PARTITION].offset == 7
    assert groups_of(bench.loaded()) == {"g": GroupState.EMPTY}


def test_checks_are_sliced(monkeypatch):
    monkeypatch.setattr(expiry, "_STEP_OFFSETS", 4)
    bench = GroupBench(offsets_retention_ms=1)
    for number in range(10):
        bench.commit(group_id=f"g{number}")
    before = len(bench.log.batches)
    bench.timers.fire(CHECK_MS)
    while groups_of(bench):
        bench.timers.fire(CHECK_MS)
    sizes = [len(batch.records) for batch in bench.log.batches[before:]]
    assert sizes == [4] * 5, "each step covers two groups, since both a group and its offset are counted"
    bench.timers.fire(CHECK_MS)
    bench.commit(now=CHECK_MS)
    bench.timers.fire(2 * CHECK_MS)
    assert not groups_of(bench)


def test_shards_take_turns():
    bench = GroupBench(logs=[MemoryLog() for _ in range(4)], offsets_retention_ms=1)
    for number in range(40):
        bench.commit(group_id=f"g{number}")
    left = []
    while groups_of(bench):
        bench.timers.fire(CHECK_MS)
        left.append(len(groups_of(bench)))
    assert len(left) == 4
    assert all(after < before for before, after in pairwise([40, *left]))


def test_shards_take_turns_to_forget_a_topic():
    bench = GroupBench(logs=[MemoryLog() for _ in range(4)])
    for number in range(40):
        bench.commit(group_id=f"g{number}")
    told = []
    bench.groups.forget_topic("t", TOPIC_ID, lambda: told.append(None), 0)
    left = []
    while not told:
        left.append(sum(bool(bench.groups.offsets(f"g{number}")) for number in range(40)))
        bench.timers.fire(0)
    assert len(left) == 3
    assert all(after < before for before, after in pairwise([40, *left, 0]))


@pytest.mark.parametrize("fault", ["held", "loading", "new epoch"])
def test_topic_is_forgotten_although_a_shard_cannot_do_it_yet(fault):
    bench = GroupBench()
    bench.commit()
    if fault == "new epoch":
        bench.log.error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif fault == "held":
        bench.log.held = []
        bench.commit(topic="u")
    else:
        bench.groups.unload()
        bench.elect()
    told = []
    bench.groups.forget_topic("t", TOPIC_ID, lambda: told.append(None), 0)
    for now_ms in (5_000, 5_100, 10_200) if fault == "held" else (0, 0):
        bench.timers.fire(now_ms)
    assert told == []
    if fault == "held":
        bench.log.release()
        bench.log.held = None
    bench.log.error = None
    while bench.groups.is_loading or not told:
        bench.timers.fire(bench.timers.next_deadline_ms or 0)
    assert "t" not in {topic for topic, _ in bench.groups.offsets("g")}


@pytest.mark.parametrize("step", [2, 1_000])
def test_offsets_of_a_deleted_topic_go(monkeypatch, step):
    monkeypatch.setattr(expiry, "_STEP_OFFSETS", step)
    bench = GroupBench()
    for number in range(5):
        bench.commit(group_id=f"g{number}")
        bench.commit(group_id=f"g{number}", topic="u")
    before = len(bench.log.batches)
    told = []
    bench.groups.forget_topic("t", TOPIC_ID, lambda: told.append(len(bench.log.batches)), 0)
    bench.timers.fire(0)
    bench.timers.fire(0)
    assert told == [len(bench.log.batches)]
    assert [len(batch.records) for batch in bench.log.batches[before:]] == ([2, 2, 1] if step == 2 else [5])
    for known in (bench, bench.loaded()):
        assert {partition for n in range(5) for partition in known.groups.offsets(f"g{n}")} == {("u", 0)}


def test_offsets_of_a_later_topic_of_the_name_stay():
    bench = GroupBench()
    bench.commit()
    bench.groups.forget_topic("t", b"x" * 16, lambda: None, 0)
    assert set(bench.groups.offsets("g")) == {PARTITION}


@pytest.mark.defect
def test_a_group_that_cannot_be_checked_keeps_no_other_from_expiring(monkeypatch):
    bench = GroupBench()
    bench.commit(now=0, group_id="damaged")
    bench.commit(now=0)

    def expired(group, *others, known=expiry.expired):
        if group.group_id == "damaged":
            raise RuntimeError("a defect")
        return known(group, *others)

    monkeypatch.setattr(expiry, "expired", expired)
    for _ in range(3):
        bench.timers.fire(RETENTION_MS)
    assert set(groups_of(bench)) == {"damaged"}
    assert bench.timers.next_deadline_ms == RETENTION_MS + CHECK_MS
