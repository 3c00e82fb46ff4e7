"""Reassignments and elections are requested from the controller, and each partition has its own result.

Method: call a scripted in-memory broker with hand-built responses. test_moved_controllers.py covers a controller that
moves, and test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import PartitionReassignment
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import REQUEST_TIMEOUT_MS, administering
from tests.sdk.scripted_broker import Later, StoringBroker

Reassigned = messages.AlterPartitionReassignmentsResponse
Elected = messages.ElectLeadersResponse
Listed = messages.ListPartitionReassignmentsResponse

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def reassigned(codes: Iterable[int]) -> Reassigned:
    """Return a response with an error code for each partition of the topic t."""
    partitions = [Reassigned.ReassignablePartitionResponse(number, code, "no") for number, code in enumerate(codes)]
    return Reassigned(responses=[Reassigned.ReassignableTopicResponse("t", partitions)])


def elected(codes: Iterable[int]) -> Elected:
    """Return a response with an error code for each partition of the topic t."""
    partitions = [Elected.PartitionResult(number, code, "no") for number, code in enumerate(codes)]
    return Elected(replica_election_results=[Elected.ReplicaElectionResult("t", partitions)])


def test_reassignments_are_started_and_cancelled() -> None:
    codes = (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = lambda request: reassigned(codes)
        results = await admin.alter_partition_reassignments({T0: [2, 1], T1: (), T2: None})
        assert results.values == {T0: None}
        assert {partition: str(error) for partition, error in results.errors.items()} == {
            T1: "INVALID_REPLICA_ASSIGNMENT: reassignment of t-1: no",
            T2: "NO_REASSIGNMENT_IN_PROGRESS: reassignment of t-2: no",
        }
        (request,) = broker.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        assert isinstance(request, messages.AlterPartitionReassignmentsRequest)
        (topic,) = request.topics
        assert [None if each.replicas is None else list(each.replicas) for each in topic.partitions] == [
            [2, 1],
            [],
            None,
        ]
        assert (request.timeout_ms, request.allow_replication_factor_change) == (REQUEST_TIMEOUT_MS, True)

    administering(test)


@pytest.mark.parametrize("allow", [True, False])
def test_the_replication_factor_may_be_guarded(allow: bool) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = lambda request: reassigned([0])
        await admin.alter_partition_reassignments({T0: [1]}, allow_replication_factor_change=allow)
        (request,) = broker.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        assert isinstance(request, messages.AlterPartitionReassignmentsRequest)
        assert request.allow_replication_factor_change is allow

    administering(test)


def test_a_broker_before_the_guard_reassigns() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = lambda request: reassigned([0])
        assert (await admin.alter_partition_reassignments({T0: [1]})).all() == {T0: None}

    administering(test, {ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0})


@pytest.mark.parametrize("wanted", [None, [T0, T1, T0], []])
def test_reassignments_are_listed(wanted: list[TopicPartition] | None) -> None:
    found = Listed.OngoingPartitionReassignment(0, [2, 3, 1], [2, 3], [1])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda request: Listed(
            topics=[Listed.OngoingTopicReassignment("t", [found])]
        )
        listed = await (
            admin.list_partition_reassignments() if wanted is None else admin.list_partition_reassignments(wanted)
        )
        assert listed == {T0: PartitionReassignment((2, 3, 1), (2, 3), (1,))}
        (request,) = broker.asked(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        assert isinstance(request, messages.ListPartitionReassignmentsRequest)
        asked = [(topic.name, list(topic.partition_indexes)) for topic in request.topics or ()]
        assert (request.topics is None, asked) == (wanted is None, [("t", [0, 1])] if wanted else [])
        assert request.timeout_ms == REQUEST_TIMEOUT_MS

    administering(test)


def test_some_leaders_are_elected() -> None:
    codes = (0, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ELECT_LEADERS] = lambda request: elected(codes)
        results = await admin.elect_leaders(ElectionType.PREFERRED, T0, T1, T2)
        assert results.values == {T0: True, T1: False}
        assert [str(error) for error in results.errors.values()] == [
            "PREFERRED_LEADER_NOT_AVAILABLE: election of a leader of t-2: no"
        ]
        (request,) = broker.asked(ApiKey.ELECT_LEADERS)
        assert isinstance(request, messages.ElectLeadersRequest)
        assert [(each.topic, list(each.partitions)) for each in request.topic_partitions or ()] == [("t", [0, 1, 2])]
        assert (request.election_type, request.timeout_ms) == (ElectionType.PREFERRED, REQUEST_TIMEOUT_MS)

    administering(test)


def test_all_leaders_are_elected() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ELECT_LEADERS] = lambda request: elected([0])
        assert (await admin.elect_leaders(ElectionType.UNCLEAN, all_partitions=True)).all() == {T0: True}
        (request,) = broker.asked(ApiKey.ELECT_LEADERS)
        assert isinstance(request, messages.ElectLeadersRequest)
        assert (request.election_type, request.topic_partitions) == (ElectionType.UNCLEAN, None)

    administering(test)


def test_an_old_broker_elects_preferred_leaders() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ELECT_LEADERS] = lambda request: elected([0])
        assert (await admin.elect_leaders(ElectionType.PREFERRED, [T0])).all() == {T0: True}

    administering(test, {ApiKey.ELECT_LEADERS: 0})


ACTIONS: dict[ApiKey, tuple[Callable[[Admin], Awaitable[object]], Callable[[int], Message], str]] = {
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        lambda admin: admin.alter_partition_reassignments({T0: [1]}),
        lambda code: Reassigned(error_code=code, error_message="no"),
        "reassignment of partitions: no",
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        lambda admin: admin.list_partition_reassignments(),
        lambda code: Listed(error_code=code, error_message="no"),
        "reassignments in progress: no",
    ),
    ApiKey.ELECT_LEADERS: (
        lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, T0),
        lambda code: Elected(error_code=code),
        "unclean election of leaders",
    ),
}


@pytest.mark.parametrize("key", ACTIONS, ids=lambda key: key.name.lower())
def test_a_request_that_is_refused_as_a_whole(key: ApiKey) -> None:
    action, response, text = ACTIONS[key]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = lambda request: response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match=f"^CLUSTER_AUTHORIZATION_FAILED: {text}$"):
            await action(admin)
        assert len(broker.asked(key)) == 1

    administering(test)


@pytest.mark.parametrize("key", [ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ELECT_LEADERS], ids=lambda key: key.name)
def test_a_change_that_may_have_been_made_is_not_repeated(key: ApiKey) -> None:
    action, response, _ = ACTIONS[key]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = lambda request: response(ErrorCode.REQUEST_TIMED_OUT)
        with pytest.raises(BrokerError, match="REQUEST_TIMED_OUT"):
            await action(admin)
        assert len(broker.asked(key)) == 1

    administering(test)


@pytest.mark.parametrize("key", [ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ELECT_LEADERS], ids=lambda key: key.name)
def test_a_response_that_lacks_a_partition(key: ApiKey) -> None:
    action, response, _ = ACTIONS[key]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = lambda request: response(ErrorCode.NONE)
        with pytest.raises(RemoteProtocolError, match="lacks partition t-0"):
            await action(admin)

    administering(test)


@pytest.mark.parametrize(
    ("key", "response"),
    [(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassigned([0])), (ApiKey.ELECT_LEADERS, elected([0]))],
    ids=["reassignment", "election"],
)
def test_the_metadata_follows_a_change(key: ApiKey, response: Message) -> None:
    action, _, _ = ACTIONS[key]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        usual, asked = broker.responders[ApiKey.METADATA], asyncio.Event()

        def answer(request: Request) -> Message | Later | None:
            asked.set()
            return usual(request)

        broker.responders[key] = lambda request: response
        broker.responders[ApiKey.METADATA] = answer
        await action(admin)
        async with asyncio.timeout(5):
            await asked.wait()

    administering(test)
