"""A member revokes partitions before it takes over others, moves to the target epoch when allowed, and waits for
partitions that others own.

Method: take steps from given states.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest

from kafkawire.reference_broker.groups.consumer.group import MEMBER_EDGES, ConsumerMember, MemberState
from kafkawire.reference_broker.groups.consumer.reconciliation import reconciled
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

T = b"t" * 16


def owned(*numbers):
    return {T: frozenset(numbers)} if numbers else {}


def step(member, target, said, taken=(), epoch=5, topic_ids=(T,), *, has_changed=False):
    def is_owned(topic_id, number):
        return number in taken

    return reconciled(member, epoch, owned(*target), said, is_owned, topic_ids, has_changed=has_changed)


def test_member_that_is_there_stays():
    member = ConsumerMember("m", epoch=5, assigned=owned(1))
    assert step(member, (1, 2), None) is member


def test_new_member_takes_what_is_free():
    moved = step(ConsumerMember("m"), (1, 2), {}, taken={2})
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.UNRELEASED_PARTITIONS, owned(1))
    moved = step(moved, (1, 2), None)
    assert (moved.epoch, moved.previous_epoch, moved.state, moved.assigned) == (5, 5, MemberState.STABLE, owned(1, 2))


def test_member_revokes_first():
    member = ConsumerMember("m", epoch=4, previous_epoch=3, assigned=owned(1, 2))
    revoking = step(member, (2, 3), owned(1, 2))
    assert (revoking.epoch, revoking.previous_epoch, revoking.state) == (4, 4, MemberState.UNREVOKED_PARTITIONS)
    assert (revoking.assigned, revoking.revoking) == (owned(2), owned(1))
    assert step(revoking, (2, 3), None) is revoking, "the member has not confirmed the revocation"
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


def test_what_a_member_has_just_revoked_is_free():
    member = ConsumerMember("m", epoch=4, state=MemberState.UNREVOKED_PARTITIONS, assigned=owned(1), revoking=owned(2))
    moved = step(member, (1, 2), owned(1), taken={1, 2})
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.STABLE, owned(1, 2))


def test_member_gives_up_what_it_is_not_subscribed_to_before_there_is_a_new_target():
    member = ConsumerMember("m", epoch=5, assigned=owned(1))
    assert step(member, (1,), owned(1), has_changed=True) is member
    revoking = step(member, (1,), owned(1), topic_ids=(), has_changed=True)
    assert (revoking.epoch, revoking.state, revoking.assigned) == (5, MemberState.UNREVOKED_PARTITIONS, {})
    assert step(revoking, (1,), owned(1), topic_ids=(), has_changed=True) is revoking
    gone = step(member, (1,), {}, topic_ids=(), has_changed=True)
    assert (gone.epoch, gone.state, gone.assigned, gone.revoking) == (5, MemberState.STABLE, {}, {})
    moved = step(revoking, (1,), {}, topic_ids=())
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.STABLE, {}), (
        "the state is the same, whatever the target is"
    )


def test_member_of_an_unknown_state_begins_anew():
    member = ConsumerMember("m", epoch=4, state=MemberState.UNKNOWN, assigned=owned(1, 3))
    for said in (None, owned(1)):
        with pytest.raises(BrokerError, match="unknown state") as raised:
            step(member, (1, 2), said)
        assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    moved = step(member, (1, 2), {})
    assert (moved.epoch, moved.state, moved.assigned) == (5, MemberState.STABLE, owned(1, 2))
    moved = step(member, (1, 2), {}, taken=(2,))
    assert (moved.epoch, moved.state) == (5, MemberState.UNRELEASED_PARTITIONS)


@pytest.mark.parametrize("before", MemberState)
def test_every_edge(before):
    """A member owns 1 and is revoking 2; its target is different, and other members own some or none of the target."""
    revoking = owned(2) if before is MemberState.UNREVOKED_PARTITIONS else {}
    member = ConsumerMember("m", epoch=4, state=before, assigned=owned(1), revoking=revoking)
    found = set()
    for target, said, taken in product([(1,), (3,), (1, 3)], [{}, owned(1), owned(1, 2)], [(), (3,)]):
        with suppress(BrokerError):
            moved = step(member, target, said, taken)
            found.add((before, moved.state))
    assert found == {edge for edge in MEMBER_EDGES if edge[0] is before}
