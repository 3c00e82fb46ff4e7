"""Members of share groups join, get partitions with a state, miss their sessions and leave; other groups are refused.

Method: send heartbeats to a coordinator with a log in memory; after each test, another coordinator reads the log.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.reference_broker.groups.share.group import ShareGroupState
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.groups.group_bench import code_of, only
from tests.reference_broker.groups.share.share_group_bench import ShareGroupBench, T, U

SESSION_MS = 45_000

ENTRY = Committed(1, -1, "", 0, ZERO_UUID)


@pytest.fixture
def bench():
    bench = ShareGroupBench()
    yield bench
    check_replay(bench)


def check_replay(bench):
    """Check that another coordinator restores the groups from the log."""
    found = [
        {
            group.group_id: replace(
                group,
                looked_at=(0, 0),
                states=group.states._replace(
                    initializing={key: value._replace(noted_ms=0) for key, value in group.states.initializing.items()},
                    initialized={key: value._replace(noted_ms=0) for key, value in group.states.initialized.items()},
                ),
            )
            for group in each.groups.share_groups()
        }
        for each in (bench, bench.loaded())
    ]
    assert found[0] == found[1]


def parts(told):
    if told.assignment is None:
        return None
    return {part.topic_id: list(part.partitions) for part in told.assignment.topic_partitions}


def numbers(told):
    """Return the partitions of the topic t in an assignment that has no other."""
    (topic,) = told.assignment.topic_partitions
    assert topic.topic_id == T
    return list(topic.partitions)


def test_a_member_gets_partitions_once_they_have_a_state(bench):
    bench.persister.is_holding = True
    told = bench.share_beat("m", 0, ["t"])
    assert (told.member_epoch, parts(told), told.heartbeat_interval_ms) == (2, {}, 5_000)
    assert [(name, key.partition, epoch, start) for name, key, epoch, start in bench.persister.asked] == [
        ("initialize", number, 2, -1) for number in range(4)
    ]
    bench.advance(1_000)
    assert parts(bench.share_beat("m", 2)) is None
    assert len(bench.persister.asked) == 4, "the answer is awaited"
    for answer in bench.persister.held:
        answer()
    bench.advance()
    told = bench.share_beat("m", 2)
    assert (told.member_epoch, parts(told)) == (3, {T: [0, 1, 2, 3]})
    assert parts(bench.share_beat("m", 3)) is None


def test_states_that_could_not_be_begun_are_asked_for_again(bench):
    bench.persister.outcomes = [None, BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, ""), None, None]
    bench.share_beat("m", 0, ["t"])
    assert (bench.share.states.initializing, bench.share.states.initialized) == ({}, {})
    bench.advance(1_000)
    bench.share_beat("m", 2)
    assert len(bench.persister.asked) == 8
    assert bench.share.states.assignable == {T: {0, 1, 2, 3}}


def test_states_whose_beginning_could_not_be_written_are_asked_for_again() -> None:
    bench = ShareGroupBench()
    bench.persister.is_holding = True
    bench.share_beat("m", 0, ["t"])
    bench.log.held = []
    for answer in bench.persister.held:
        answer()
    bench.advance()
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "")
    bench.log.release()
    bench.log.error = None
    bench.log.release()
    bench.log.held = None
    assert (bench.share.states.initializing, bench.share.states.initialized) == ({}, {})
    bench.advance(1_000)
    bench.share_beat("m", 2)
    assert len(bench.persister.asked) == 8
    check_replay(bench)


def test_members_share_partitions(bench):
    bench.share_join("m")
    bench.share_join("n")
    bench.advance(1_000)
    found = [numbers(bench.share_beat(name, 0, ["t"])) for name in "mn"]
    assert [len(each) for each in found] == [2, 2]
    assert sorted(number for each in found for number in each) == [0, 1, 2, 3]
    bench.share_beat("n", -1)
    bench.advance(1_000)
    assert parts(bench.share_beat("m", 0, ["t"])) == {T: [0, 1, 2, 3]}


def test_changes_are_collected(bench):
    bench.share_join("m")
    epoch = bench.share.assignment_epoch
    bench.share_beat("n", 0, ["t"])
    assert (bench.share.assignment_epoch, bench.share.epoch) == (epoch, epoch + 1)
    bench.advance(1_000)
    bench.share_beat("n", 0, ["t"])
    assert bench.share.assignment_epoch == epoch + 1


def test_a_topic_comes_and_grows(bench):
    bench.share_join("m", "t", "u")
    bench.add_topic("u", U, 1)
    bench.share_beat("m", bench.share.members["m"].epoch)
    bench.advance(1_000)
    told = bench.share_beat("m", bench.share.members["m"].epoch)
    assert parts(told) == {T: [0, 1, 2, 3], U: [0]}
    bench.add_topic("u", U, 2)
    bench.share_beat("m", told.member_epoch)
    bench.advance(1_000)
    assert parts(bench.share_beat("m", bench.share.members["m"].epoch)) == {T: [0, 1, 2, 3], U: [0, 1]}


def test_a_member_changes_its_subscription(bench):
    bench.add_topic("u", U, 1)
    epoch = bench.share_join("m")
    bench.share_beat("m", epoch, ["u"])
    bench.advance(1_000)
    told = bench.share_beat("m", bench.share.members["m"].epoch)
    assert parts(told) == {U: [0]}


def test_a_member_gives_up_a_topic_before_the_next_assignment(bench: ShareGroupBench) -> None:
    bench.add_topic("u", U, 1)
    epoch = bench.share_join("m", "t", "u")
    assert parts(bench.share_beat("m", epoch, ["u"])) == {U: [0]}
    assert bench.share.assignment_epoch == epoch


def test_a_topic_is_given_up_even_if_its_deletion_could_not_be_written_at_first(bench: ShareGroupBench) -> None:
    bench.add_topic("u", U, 1)
    epoch = bench.share_join("m", "t", "u")
    del bench.topics["u"]
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "")
    assert bench.share_beat("m", epoch).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.error = None
    bench.advance(1_000)
    assert parts(bench.share_beat("m", epoch)) == {T: [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (3, None),
        (2, None),
        (0, None),
        (4, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_epochs(bench, epoch, code):
    assert bench.share_join("m") == 3
    told = bench.share_beat("m", epoch, ["t"])
    assert (told.code if isinstance(told, BrokerError) else None) == code


def test_a_session_ends(bench):
    bench.share_join("m")
    bench.advance(SESSION_MS - 1)
    bench.share_beat("m", 3)
    bench.advance(SESSION_MS - 1)
    assert bench.share.state is ShareGroupState.STABLE
    bench.advance(1)
    assert bench.share.state is ShareGroupState.EMPTY
    assert bench.share_beat("m", 3).code is ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(10 * SESSION_MS)


def test_a_coordinator_that_takes_over_expects_its_members():
    bench = ShareGroupBench()
    bench.share_join("m")
    again = bench.loaded()
    again.advance(SESSION_MS - 1)
    assert again.share.state is ShareGroupState.STABLE
    again.advance(1)
    assert again.share.state is ShareGroupState.EMPTY


def test_a_group_has_only_so_many_members(bench):
    for number in range(200):
        bench.share_beat(f"m{number}", 0, ["t"])
    assert bench.share_beat("one too many", 0, ["t"]).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not isinstance(bench.share_beat("m0", 0, ["t"]), BrokerError)


# Other requests and other groups.


def asked(bench):
    """Return the answers to the requests of other protocols."""
    answers = []
    bench.groups.leave("g", [("m", None)], answers.append, 0)
    for epoch in (0, 1, -1):
        answers.append(bench.beat("m", epoch))
    bench.groups.delete_offsets("g", [("t", 0)], lambda outcome: answers.append(code_of(outcome)), 0)
    for ask in (bench.groups.describe, bench.groups.describe_consumer):
        ask("g", lambda outcome: answers.append((outcome.code, outcome.detail)), 0)
    return [
        only(bench.sync("m", 1)).error_code,
        bench.heartbeat("m", 1),
        *answers,
        *bench.delete(),
        only(bench.join("m")).error_code,
        only(bench.join()).error_code,
    ]


def test_a_group_with_members_is_of_another_type(bench):
    bench.share_join()
    assert asked(bench) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        [ErrorCode.UNKNOWN_MEMBER_ID],
        *[ErrorCode.GROUP_ID_NOT_FOUND] * 3,
        ErrorCode.GROUP_ID_NOT_FOUND,
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
    bench.share_beat("m", -1)
    assert only(bench.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("commit", [(-1, "", True), (2, "m", True), (2, "m", False)])
def test_a_group_commits_no_offsets(bench, commit):
    bench.share_join()
    epoch, member_id, knows_epochs = commit
    codes = []
    bench.groups.commit(
        Commit("g", epoch, member_id, None, knows_epochs),
        {("t", 0): ENTRY},
        lambda outcome: codes.append(code_of(outcome)),
        0,
    )
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert bench.commit_in_transaction(-1, "", None) == [ErrorCode.GROUP_ID_NOT_FOUND]
    fetched = []
    bench.groups.fetch("g", fetched.append, 0, None, -1)
    assert len(only(fetched).offsets) == 0


def test_a_group_of_another_type_is_no_share_group(bench):
    only(bench.join())
    for epoch in (0, 1, -1):
        told = bench.share_beat("m", epoch, ["t"])
        assert (told.code, told.detail) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a share group.")


def test_an_empty_group_is_deleted(bench):
    bench.share_join()
    bench.share_beat("m", -1)
    assert bench.delete() == [ErrorCode.NONE]
    assert list(bench.groups.share_groups()) == []
    last = {key: value for batch in bench.log.batches for key, value in batch.records}
    assert set(last.values()) == {None}
    assert only(bench.join()).generation_id == 1, "the id is free"
