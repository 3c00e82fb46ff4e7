"""A response is complete once all parts have arrived; it keeps their order, and answers repeated names up to a limit.

Method: add parts directly; then send requests with repeated names to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.long_requests import AT_A_TIME
from kafkawire.reference_broker.requests.merged_response import (
    AwaitedParts,
    Repetitions,
    collect_with_repetitions,
    size_of,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_parts_come_in_any_order():
    found = []
    parts = AwaitedParts[str](3, found.append)
    parts.put(2, "c")
    parts.put(0, "a")
    assert not found
    parts.put(1, "b")
    assert found == [["a", "b", "c"]]


def test_nothing_to_wait_for():
    found = []
    AwaitedParts[str](0, found.append)
    assert found == [[]]


REPEATED = ["one", "two", "one", "one"]


@pytest.mark.parametrize(
    "repeating",
    [
        ConsumerGroupDescribeRequest(REPEATED),
        DescribeGroupsRequest(REPEATED),
        DescribeTransactionsRequest(REPEATED),
        FindCoordinatorRequest(coordinator_keys=REPEATED),
        OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(name) for name in REPEATED]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_is_named_again_is_answered_again(bench, repeating):
    (parts,) = (value for value in vars_of(bench.ask(repeating)) if isinstance(value, list | tuple) and value)
    assert [parts[number] == parts[0] for number in range(4)] == [True, False, True, True]


def vars_of(message):
    return [getattr(message, field.name) for field in message.FIELDS]


def test_what_is_named_again_is_asked_about_once(bench, monkeypatch):
    bench.offsets_topic()
    asked = []
    describe = bench.core.groups.describe

    def noted(group_id, *arguments):
        asked.append(group_id)
        describe(group_id, *arguments)

    monkeypatch.setattr(bench.core.groups, "describe", noted)
    assert len(bench.ask(DescribeGroupsRequest(REPEATED)).groups) == 4
    assert asked == ["one", "two"]


def test_part_that_comes_late_completes_the_response(bench, monkeypatch):
    bench.offsets_topic()
    late = []
    monkeypatch.setattr(bench.core.groups, "describe", lambda group_id, done, now_ms: late.append(done))
    waiting = bench.ask(DescribeGroupsRequest(REPEATED), 5)
    for done in late:
        assert waiting.response is None
        done(BrokerError(ErrorCode.NOT_COORDINATOR))
    assert isinstance(waiting.response, DescribeGroupsResponse)
    assert [group.group_id for group in waiting.response.groups] == REPEATED


def commit(bench, metadata=""):
    """Commit ten offsets of the group `g`."""
    bench.create(partitions=10)
    bench.offsets_topic()
    Partition = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [Partition(number, 7, committed_metadata=metadata) for number in range(10)]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=partitions)]
    bench.ask(OffsetCommitRequest("g", topics=topics), 8)


Group = OffsetFetchRequest.OffsetFetchRequestGroup
Topics = OffsetFetchRequest.OffsetFetchRequestTopics

#: Constants that let each request name ten times as many entries as are allowed.
METADATA = "m" * 4_000
TOO_MANY = 16 * 1024 * 1024 // len(METADATA) + 1


@pytest.mark.parametrize(
    ("repeating", "version"),
    [
        (OffsetFetchRequest(groups=[Group("g", topics=None)] * (TOO_MANY // 10 + 2)), 8),
        (OffsetFetchRequest(groups=[Group("g", topics=[Topics("t", partition_indexes=[0] * TOO_MANY)])]), 8),
        (OffsetFetchRequest("g", [OffsetFetchRequest.OffsetFetchRequestTopic("t", [0] * TOO_MANY)]), 7),
    ],
)
def test_what_may_be_repeated_is_limited(bench, repeating, version):
    commit(bench, METADATA)
    response = bench.ask(repeating, version)
    codes = {group.error_code for group in response.groups} or {response.error_code}
    assert codes == {ErrorCode.POLICY_VIOLATION}
    assert len(response.groups) == len(repeating.groups)


def test_repeated_descriptions_are_limited(bench):
    bench.create("own")
    resource = DescribeConfigsRequest.DescribeConfigsResource(ConfigResourceType.TOPIC, "own")
    response = bench.ask(DescribeConfigsRequest([resource] * 10_000, include_documentation=True))
    assert {result.error_code for result in response.results} == {ErrorCode.POLICY_VIOLATION}
    few = bench.ask(DescribeConfigsRequest([resource] * 10, include_documentation=True))
    assert {result.error_code for result in few.results} == {ErrorCode.NONE}


def call_to(bench):
    request = Request(APIS[ApiKey.DESCRIBE_GROUPS], 5, 0, "client", DescribeGroupsRequest(), 1)
    return bench.call(request)


def test_repetitions_take_half_of_the_memory_of_all_connections(bench):
    repetitions = Repetitions(call_to(bench))
    limit = bench.core.options.queued_max_request_bytes // 2
    repetitions.add(limit)
    with pytest.raises(BrokerError, match=f"Repeated items would take more than {limit} bytes"):
        repetitions.add(1)


def test_first_of_each_is_no_repetition(bench, monkeypatch):
    sizes = []
    monkeypatch.setattr(Repetitions, "add", lambda repetitions, size_bytes: sizes.append(size_bytes))
    one = bench.ask(DescribeGroupsRequest(REPEATED)).groups[0]
    assert sizes == [2 * size_of(one)]


def test_each_entry_gives_way_whenever_it_is_looked_at(bench):
    """A turn may end while entries are counted, handled, counted as repetitions, or filled into the response."""

    def respond(parts: list[HeartbeatResponse]) -> Message:
        return parts[-1]

    work = collect_with_repetitions(call_to(bench), range(50), lambda one, put: put(HeartbeatResponse(one)), respond)
    assert len(list(work)) == 4 * 50


def test_all_offsets_of_a_group_are_found_once(bench):
    commit(bench)
    first, second = bench.ask(OffsetFetchRequest(groups=[Group("g", topics=None)] * 2), 8).groups
    assert first == second
    assert len(first.topics[0].partitions) == 10


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        (7, 4),
        ("abc", 7),
        (b"abc", 7),
        ([1], 8),
        ([1, 2], 12),
        (["a"], 9),
        (["a", "b"], 14),
        ((), 4),
        (None, 4),
        (HeartbeatResponse(1, 2), 8),
    ],
)
def test_sizes(value, size_bytes):
    assert size_of(value) == size_bytes


def test_client_that_has_gone_is_not_worked_for(bench, monkeypatch):
    many = DescribeGroupsRequest([f"name{number}" for number in range(2 * AT_A_TIME)])
    api = APIS[ApiKey.DESCRIBE_GROUPS]
    request = Request(api, 5, 0, "client", many, 1)
    waiting = bench.core.requests.handle(bench.call(request), many)
    waiting.cancel()
    assert waiting.steps is None
