"""Members of a streams group join, follow assignments and leave; sessions, revocations and first assignments are timed.

Method: send heartbeats to a coordinator with an in-memory log, and let time pass. The requests whose answers are
compared with Apache Kafka's are in tests/kafka/test_streams_group_steps.py; random stories are in
test_streams_stories.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.groups.streams.group import StreamsGroupState, StreamsMemberState, Tasks
from kafkawire.reference_broker.groups.streams.topology import Topology
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse as Response
from kafkawire.sdk.protocol.tables.enums import StreamsGroupStatus
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import REBALANCE_MS, only
from tests.reference_broker.groups.streams.streams_bench import WORD_COUNT, StreamsBench, tasks

SESSION_MS = 45_000


def statuses(response: Response) -> list[int]:
    return [status.status_code for status in response.status or ()]


def refused(outcome: Any) -> tuple[ErrorCode, str]:
    assert isinstance(outcome, BrokerError), outcome
    return outcome.code, outcome.detail


def two_members() -> StreamsBench:
    """Return a stable group of two members of different processes."""
    bench = StreamsBench()
    bench.beat("m")
    bench.beat("n", process_id="q")
    bench.settle()
    assert bench.streams.state is StreamsGroupState.STABLE
    return bench


# Topics.


def test_group_is_not_ready_before_its_topics_exist() -> None:
    bench = StreamsBench(is_complete=False)
    outcome = bench.try_beat("m")
    assert statuses(outcome.response) == [StreamsGroupStatus.MISSING_INTERNAL_TOPICS]
    assert set(outcome.missing) == {"r", "c"}
    assert (bench.streams.state, bench.streams.validated_topology_epoch) == (StreamsGroupState.NOT_READY, -1)
    assert statuses(bench.beat("m", 2)) == [StreamsGroupStatus.MISSING_INTERNAL_TOPICS]
    assert bench.streams.epoch == 2
    for number, name in enumerate("trc"):
        bench.make_topic(name, 2, number)
    response = bench.beat("m", 2)
    assert (statuses(response), response.member_epoch, bench.streams.state) == ([], 3, StreamsGroupState.STABLE)


def test_topics_are_looked_at_only_if_some_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = two_members()
    epoch = bench.streams.epoch
    bench.make_topic("other", 3)
    bench.follow("m")
    assert bench.streams.epoch == epoch
    monkeypatch.setattr("kafkawire.reference_broker.groups.streams.operations.metadata_hash", None)
    bench.follow("m")


def test_extended_source_takes_the_group_out_of_service() -> None:
    bench = two_members()
    bench.make_topic("t", 3, 0)
    response = bench.follow("m")
    assert statuses(response) == [StreamsGroupStatus.INCORRECTLY_PARTITIONED_TOPICS]
    assert bench.streams.state is StreamsGroupState.NOT_READY
    bench.follow("n")
    assert not any(any(member.assigned) for member in bench.streams.members.values())


def test_change_of_topics_is_not_missed_if_it_could_not_be_written() -> None:
    bench = two_members()
    for number, name in enumerate("trc"):
        bench.make_topic(name, 3, number)
    member = bench.member("m")
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "")
    assert refused(bench.try_beat("m", member.epoch, member.assigned))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.error = None
    bench.settle()
    given = [each.assigned.active for each in bench.streams.members.values()]
    assert sorted(number for active in given for number in active.get("0", ())) == [0, 1, 2]


def test_group_is_configured_again_after_loading() -> None:
    bench = two_members()
    again = bench.loaded()
    assert (again.streams, again.streams.configured) == (bench.streams, None)
    epoch = again.streams.epoch
    assert again.follow("m").active_tasks is None
    assert (again.streams.epoch, again.streams.configured) == (epoch, bench.streams.configured)


# Members.


def test_limit_of_members() -> None:
    bench = StreamsBench()
    bench.set_options(max_size=1)
    bench.beat("m")
    text = "The streams group has reached its maximum capacity of 1 members."
    for member_id in "nm":
        assert refused(bench.try_beat(member_id)) == (ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def test_changed_member_raises_the_epoch() -> None:
    bench = two_members()
    epoch = bench.streams.epoch
    bench.beat("m", epoch, client_tags={"zone": "a"}, rack_id="r", user_endpoint=("h", 1))
    member = bench.member("m")
    assert (bench.streams.epoch, member.client_tags, member.rack_id) == (epoch + 1, {"zone": "a"}, "r")
    bench.follow("m")
    assert bench.member("m").user_endpoint == ("h", 1)
    assert bench.streams.epoch == epoch + 1


def test_member_with_a_stale_topology_stays() -> None:
    bench = StreamsBench()
    bench.beat("m", topology=Topology(4, WORD_COUNT.subtopologies))
    response = bench.beat("n", topology=Topology(3, WORD_COUNT.subtopologies[:1]))
    assert statuses(response) == [StreamsGroupStatus.STALE_TOPOLOGY]
    assert bench.streams.topology == Topology(4, WORD_COUNT.subtopologies)
    assert bench.beat("o", topology=Topology(4, WORD_COUNT.subtopologies[::-1])).member_epoch == 4


def test_member_that_joins_again_gets_its_tasks() -> None:
    bench = two_members()
    response = bench.beat("m")
    assert len(response.active_tasks) > 0
    assert bench.member("m").assigned.active


def test_lost_response() -> None:
    bench = StreamsBench()
    bench.beat("m")
    bench.beat("n", process_id="q")
    epoch = bench.member("m").epoch
    bench.beat("m", epoch, None)
    kept = bench.member("m").assigned
    bench.beat("m", epoch, kept)
    assert bench.beat("m", epoch, kept).member_epoch == epoch + 1
    assert refused(bench.try_beat("m", epoch, None))[0] is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused(bench.try_beat("m", epoch, tasks({"0": (0, 1)})))[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_damaged_group_without_topology() -> None:
    bench = two_members()
    bench.streams.topology = None
    assert refused(bench.try_beat("m", bench.member("m").epoch))[0] is ErrorCode.UNKNOWN_SERVER_ERROR


# Leaving and time.


def test_session_ends() -> None:
    bench = two_members()
    bench.beat("m", bench.member("m").epoch, now=SESSION_MS - 1)
    bench.timers.fire(SESSION_MS)
    assert list(bench.streams.members) == ["m"]
    bench.settle(SESSION_MS)
    assert bench.member("m").assigned.active == {"0": {0, 1}, "1": {0, 1}}
    bench.timers.fire(2 * SESSION_MS)
    assert bench.streams.state is StreamsGroupState.EMPTY


def test_group_has_its_own_session_timeout() -> None:
    bench = StreamsBench()
    bench.of_groups["g"] = {"streams.session.timeout.ms": "100", "streams.heartbeat.interval.ms": "10"}
    assert bench.beat("m").heartbeat_interval_ms == 10
    bench.timers.fire(100)
    assert not bench.streams.members


def test_sessions_begin_again_after_loading() -> None:
    bench = two_members().loaded()
    bench.timers.fire(SESSION_MS - 1)
    assert len(bench.streams.members) == 2
    bench.timers.fire(SESSION_MS)
    assert not bench.streams.members


@pytest.mark.parametrize("is_loaded", [False, True])
def test_revocation_takes_too_long(is_loaded: bool) -> None:
    bench = StreamsBench()
    bench.beat("m")
    bench.beat("n", process_id="q")
    epoch = bench.member("m").epoch
    bench.beat("m", epoch)
    assert bench.member("m").state is StreamsMemberState.UNREVOKED_TASKS
    if is_loaded:
        bench = bench.loaded()
    for now in range(0, REBALANCE_MS, SESSION_MS - 1):
        for member_id in "mn":
            bench.beat(member_id, bench.member(member_id).epoch, now=now)
    bench.timers.fire(REBALANCE_MS - 1)
    assert len(bench.streams.members) == 2
    bench.timers.fire(REBALANCE_MS)
    assert list(bench.streams.members) == ["n"]


def test_revocation_in_time() -> None:
    bench = StreamsBench()
    bench.beat("m")
    bench.beat("n", process_id="q")
    bench.beat("m", bench.member("m").epoch)
    bench.settle(1)
    for now in range(0, 3 * REBALANCE_MS, SESSION_MS - 1):
        bench.timers.fire(now)
        bench.settle(now)
    assert len(bench.streams.members) == 2


def test_nobody_is_expected_after_unloading() -> None:
    bench = StreamsBench()
    bench.of_groups["g"] = {"streams.initial.rebalance.delay.ms": "100"}
    bench.beat("m")
    bench.groups.unload()
    bench.timers.fire(10**9)
    assert bench.timers.next_deadline_ms is None


# The first assignment, and the interval between assignments.


def delayed() -> StreamsBench:
    bench = StreamsBench()
    bench.of_groups["g"] = {"streams.initial.rebalance.delay.ms": "100"}
    response = bench.beat("m")
    assert (statuses(response), response.member_epoch) == ([StreamsGroupStatus.ASSIGNMENT_DELAYED], 1)
    assert bench.streams.state is StreamsGroupState.ASSIGNING
    return bench


def test_first_assignment_waits_for_more_members() -> None:
    bench = delayed()
    assert statuses(bench.beat("n", process_id="q", now=50)) == [StreamsGroupStatus.ASSIGNMENT_DELAYED]
    bench.timers.fire(99)
    assert bench.streams.assignment_epoch == 1
    bench.timers.fire(100)
    assert (bench.streams.assignment_epoch, len(bench.streams.target)) == (3, 2)
    bench.settle(100)
    assert bench.streams.state is StreamsGroupState.STABLE


def test_first_assignment_is_left_to_a_heartbeat_if_topics_are_unknown() -> None:
    bench = delayed()
    bench.timers.fire(100)
    assert bench.streams.target == {}
    assert bench.beat("m", 1, now=100).member_epoch == 2


def test_delay_ends_with_the_group() -> None:
    bench = delayed()
    bench.beat("m", -1)
    assert bench.delete() == [ErrorCode.NONE]
    bench.timers.fire(100)
    assert list(bench.groups.streams_groups()) == []
    bench = delayed()
    bench.beat("m", -1)
    bench.timers.fire(100)
    assert bench.streams.target == {}


def test_delay_of_a_deleted_group_does_not_hold_up_the_next_one() -> None:
    bench = delayed()
    bench.beat("m", -1)
    assert bench.delete() == [ErrorCode.NONE]
    bench.of_groups.clear()
    response = bench.beat("n", now=50)
    assert (statuses(response), response.member_epoch) == ([], 2)


def test_changes_are_collected() -> None:
    bench = StreamsBench()
    bench.set_options(assignment_interval_ms=1_000)
    bench.beat("m", now=1)
    response = bench.beat("n", process_id="q", now=1_000)
    assert statuses(response) == [StreamsGroupStatus.ASSIGNMENT_DELAYED]
    assert (bench.streams.state, bench.member("n").epoch) == (StreamsGroupState.ASSIGNING, 2)
    assert statuses(bench.beat("n", 2, now=1_001)) == []
    assert bench.streams.assignment_epoch == 3


def test_changed_standby_replicas_cause_an_assignment() -> None:
    bench = two_members()
    bench.of_groups["g"] = {"streams.num.standby.replicas": "1"}
    bench.settle()
    standby = [member.assigned.standby for member in bench.streams.members.values()]
    assert sorted(number for each in standby for number in each.get("1", ())) == [0, 1]
    assert bench.streams.assignment_configs == {"num.standby.replicas": "1"}


# Shutdown and endpoints.


def test_shutdown_is_forgotten_once_the_group_is_empty() -> None:
    bench = two_members()
    response = bench.beat("m", bench.member("m").epoch, wants_shutdown=True)
    assert statuses(response) == [StreamsGroupStatus.SHUTDOWN_APPLICATION]
    assert "member m encountered" in response.status[0].status_detail
    bench.beat("n", -1, wants_shutdown=True)
    assert "member m encountered" in bench.follow("m").status[0].status_detail
    bench.beat("m", -1)
    assert statuses(bench.beat("o")) == []


def test_endpoints_are_told_until_they_are_known() -> None:
    bench = two_members()
    epoch = bench.streams.epoch
    response = bench.beat("m", epoch, user_endpoint=("h", 1))
    bench.settle()
    assert response.partitions_by_user_endpoint is None
    response = bench.beat("m", user_endpoint=("h", 1))
    assert response.endpoint_information_epoch == 1
    assert [each.user_endpoint.host for each in response.partitions_by_user_endpoint] == ["h"]
    assert len(bench.beat("n", bench.member("n").epoch).partitions_by_user_endpoint) == 1
    assert bench.beat("n", bench.member("n").epoch, endpoint_epoch=1).partitions_by_user_endpoint is None


def test_endpoints_show_what_the_same_heartbeat_gives() -> None:
    bench = StreamsBench()
    response = bench.beat("m", user_endpoint=("h", 1))
    (shown,) = response.partitions_by_user_endpoint
    assert [(each.topic, list(each.partitions)) for each in shown.active_partitions] == [("t", [0, 1]), ("r", [0, 1])]
    (shown,) = bench.beat("m", user_endpoint=("h", 2)).partitions_by_user_endpoint
    assert shown.user_endpoint.port == 2


# Other requests.


def test_empty_group_becomes_a_classic_one() -> None:
    bench = two_members()
    assert only(bench.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for member_id in "mn":
        bench.beat(member_id, -1)
    assert only(bench.join()).generation_id == 1
    assert list(bench.groups.streams_groups()) == []
    assert list(bench.loaded().groups.streams_groups()) == []


def test_offsets_of_an_empty_group_expire() -> None:
    bench = two_members()
    epoch = bench.member("m").epoch
    assert bench.commit(5, epoch, "m") == [ErrorCode.NONE]
    for member_id in "mn":
        bench.beat(member_id, -1)
    assert ("t", 0) in bench.groups.offsets("g")
    bench.timers.fire(8 * 24 * 3_600_000)
    assert bench.groups.offsets("g") == {}
    assert list(bench.groups.streams_groups()) == []


def test_offsets_of_sources_stay_while_there_are_members() -> None:
    bench = two_members()
    bench.commit(5, bench.member("m").epoch, "m")
    bench.commit(5, bench.member("m").epoch, "m", topic="other")
    bench.of_groups["g"] = {"streams.session.timeout.ms": str(10**9)}
    bench.settle()
    bench.timers.fire(8 * 24 * 3_600_000)
    assert set(bench.groups.offsets("g")) == {("t", 0)}


def test_failed_write_changes_nothing() -> None:
    bench = two_members()
    before = bench.loaded().streams
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "")
    assert refused(bench.try_beat("o"))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.error = None
    assert bench.loaded().streams == before
    assert bench.beat("o").member_epoch == before.epoch + 1


def test_owned_tasks_are_only_known_if_all_roles_are_sent() -> None:
    bench = two_members()
    assert bench.beat("m", bench.member("m").epoch, Tasks()).member_epoch == bench.streams.epoch
