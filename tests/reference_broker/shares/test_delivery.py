"""The delivery of a record takes every step of its table, and a pending step can be undone.

Method: bring a delivery into each state, then cause each step that the table has.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.delivery import DELIVERY_EDGES, NO_MEMBER, Batch, Delivery, Lock
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.tables.enums import DeliveryState
from kafkawire.sdk.states import RefusedEdge

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState

COUNT_MAX = 5


def lock(timers=None):
    return Lock((timers or Timers()).at(30_000, lambda now_ms: None))


def acquired(count=1, lock=None):
    return Delivery(ACQUIRED, count, "m", lock)


def refused(state, count=1, *, has_expired=False):
    """Return a delivery that the persister has refused to leave the acquired state, and which may have expired."""
    held = lock()
    delivery = acquired(count, held)
    assert delivery.begin(state, COUNT_MAX)
    held.has_expired = has_expired
    return delivery


def end(delivery):
    delivery.end(is_stored=False)
    return delivery


def released(state, count=1):
    delivery = acquired(count)
    assert delivery.release(state, COUNT_MAX)
    return delivery


def delivered():
    delivery = Delivery(AVAILABLE, 1)
    delivery.acquire("m")
    return delivery


def archived(delivery):
    delivery.archive()
    return delivery


#: How each step comes about.
STEPS = {
    (AVAILABLE, ACQUIRED): delivered,
    (AVAILABLE, ARCHIVED): lambda: archived(Delivery(AVAILABLE, 1)),
    (ACQUIRED, AVAILABLE): lambda: released(AVAILABLE),
    (ACQUIRED, ACKNOWLEDGED): lambda: released(ACKNOWLEDGED),
    (ACQUIRED, ARCHIVED): lambda: released(ARCHIVED),
    (ACKNOWLEDGED, ACQUIRED): lambda: end(refused(ACKNOWLEDGED)),
    (ACKNOWLEDGED, AVAILABLE): lambda: end(refused(ACKNOWLEDGED, has_expired=True)),
    (ACKNOWLEDGED, ARCHIVED): lambda: end(refused(ACKNOWLEDGED, COUNT_MAX, has_expired=True)),
    (ARCHIVED, ACQUIRED): lambda: end(refused(ARCHIVED)),
    (ARCHIVED, AVAILABLE): lambda: end(refused(ARCHIVED, has_expired=True)),
}


@pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before, follows in DELIVERY_EDGES.edges.items() for after in follows]
)
def test_every_step(before, after):
    delivery = STEPS[before, after]()
    assert delivery.state is after
    assert (delivery.member_id == "m") is (after is ACQUIRED)
    assert not delivery.is_pending


def test_no_other_step_is_taken():
    with pytest.raises(RefusedEdge):
        Delivery(AVAILABLE, 1).release(ACKNOWLEDGED, COUNT_MAX)


def test_deliveries_are_counted_and_limited():
    delivery = Delivery(AVAILABLE, COUNT_MAX - 1)
    delivery.acquire("m")
    assert delivery.count == COUNT_MAX
    delivery.release(AVAILABLE, COUNT_MAX)
    assert (delivery.state, delivery.is_complete) == (ARCHIVED, True)


@pytest.mark.parametrize("state", [AVAILABLE, ACKNOWLEDGED, ARCHIVED])
def test_a_pending_step_shuts_out_all_others(state):
    delivery = refused(state)
    assert (delivery.state, delivery.is_pending) == (state, True)
    assert (delivery.is_available, delivery.is_complete) == (False, False)
    assert not delivery.release(AVAILABLE, COUNT_MAX)
    assert not delivery.begin(ACKNOWLEDGED, COUNT_MAX)
    delivery.end(is_stored=True)
    assert (delivery.state, delivery.lock, delivery.is_pending) == (state, None, False)
    delivery.end(is_stored=False)
    assert delivery.state is state, "nothing is pending"


@pytest.mark.parametrize("state", [AVAILABLE, ACKNOWLEDGED])
def test_what_was_archived_meanwhile_stays_so(state):
    delivery = refused(AVAILABLE)
    delivery.archive()
    delivery.end(is_stored=False)
    assert (delivery.state, delivery.lock) == (ARCHIVED, None)


def test_a_refusal_leaves_the_lock():
    held = lock()
    delivery = acquired(lock=held)
    delivery.begin(AVAILABLE, COUNT_MAX)
    delivery.end(is_stored=False)
    assert delivery.lock is held
    delivery.unlock()
    delivery.unlock()
    assert not held.timer.is_pending


def test_a_batch_is_split():
    timers = Timers()
    batch = Batch(3, 5, acquired(2, lock(timers)))
    assert len(batch) == 3
    locked = []

    def set_lock(member_id, first_offset, last_offset, deadline_ms):
        locked.append((member_id, first_offset, last_offset, deadline_ms))
        return lock(timers)

    batch.split(set_lock, 4)
    assert batch.whole is None
    assert locked == [("m", 3, 3, 30_000), ("m", 4, 4, 30_000)]
    states = [(offset, each.state, each.count, each.member_id) for offset, each in batch.each.items()]
    assert states == [(3, ACQUIRED, 2, "m"), (4, ACQUIRED, 2, "m"), (5, AVAILABLE, 1, NO_MEMBER)]
    batch.split(set_lock)
    assert len(locked) == 2
    available = Batch(0, 1, Delivery(AVAILABLE, 1))
    available.split(set_lock)
    assert [each.lock for each in available.each.values()] == [None, None]
