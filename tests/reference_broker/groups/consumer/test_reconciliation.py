"""A member revokes before it takes over, moves to the target's epoch when it may, and waits for what others own.

Method: steps from given states.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.consumer.group import ConsumerMember, MemberState
from kafkawire.reference_broker.groups.consumer.reconciliation import reconciled

T = b"t" * 16


def owned(*numbers):
    return {T: frozenset(numbers)} if numbers else {}


def step(member, target, said, taken=(), epoch=5):
    return reconciled(member, epoch, owned(*target), said, lambda topic_id, number: number in taken)


def test_member_that_is_there_stays():
    member = ConsumerMember("m", epoch=5, assigned=owned(1))
    assert step(member, (1, 2), None) is member


def test_new_member_takes_what_is_free():
    moved = step(ConsumerMember("m"), (1, 2), {}, taken={2})
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.UNRELEASED_PARTITIONS, owned(1))
    moved = step(moved, (1, 2), None)
    assert (moved.epoch, moved.previous_epoch, moved.state, moved.assigned) == (5, 0, MemberState.STABLE, owned(1, 2))


def test_member_revokes_first():
    member = ConsumerMember("m", epoch=4, previous_epoch=3, assigned=owned(1, 2))
    revoking = step(member, (2, 3), owned(1, 2))
    assert (revoking.epoch, revoking.previous_epoch, revoking.state) == (4, 3, MemberState.UNREVOKED_PARTITIONS)
    assert (revoking.assigned, revoking.revoking) == (owned(2), owned(1))
    assert step(revoking, (2, 3), None) is revoking, "it has not said that it revoked"
    assert step(revoking, (2, 3), owned(1, 2)) is revoking
    moved = step(revoking, (2, 3), owned(2))
    assert (moved.epoch, moved.previous_epoch, moved.state) == (5, 4, MemberState.STABLE)
    assert (moved.assigned, moved.revoking) == (owned(2, 3), {})


def test_member_that_owns_nothing_any_more_need_not_revoke():
    moved = step(ConsumerMember("m", epoch=4, assigned=owned(1)), (2,), {})
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.STABLE, owned(2))


def test_waiting_member_follows_a_later_target():
    member = ConsumerMember("m", epoch=4, state=MemberState.UNRELEASED_PARTITIONS, assigned=owned(1))
    moved = step(member, (), None)
    assert (moved.epoch, moved.state, moved.revoking) == (4, MemberState.UNREVOKED_PARTITIONS, owned(1))


def test_a_partition_is_had_since_the_epoch_that_gave_it():
    member = step(ConsumerMember("m"), (1, 2), {}, taken={2}, epoch=4)
    assert member.since == {(T, 1): 4}
    member = step(member, (1, 2), None, epoch=5)
    assert member.since == {(T, 1): 4, (T, 2): 5}
    revoking = step(member, (2,), owned(1, 2), epoch=6)
    assert (revoking.state, revoking.since) == (MemberState.UNREVOKED_PARTITIONS, {(T, 1): 4, (T, 2): 5})
    assert step(revoking, (2,), owned(2), epoch=6).since == {(T, 2): 5}
