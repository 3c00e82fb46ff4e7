"""If the controller has moved, requests that only a controller can handle are sent to the new one.

Method: use two scripted brokers; the first refuses because the second has become the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import Pair


class Case(NamedTuple):
    """An operation, and a function that returns a controller's response to it with an error code."""

    key: ApiKey
    action: Callable[[Admin], Awaitable[object]]
    response: Callable[[ErrorCode], Message]


T0 = TopicPartition("t", 0)

Reassigned = messages.AlterPartitionReassignmentsResponse
Elected = messages.ElectLeadersResponse


def reassigned(code: ErrorCode) -> Message:
    """Return a response with a request-level error; like Kafka, it leaves out the partitions."""
    if code:
        return Reassigned(error_code=code)
    return Reassigned(
        responses=[Reassigned.ReassignableTopicResponse("t", [Reassigned.ReassignablePartitionResponse(0)])]
    )


def elected(code: ErrorCode) -> Message:
    """Return a response with a partition-level error, as in version 0."""
    return Elected(replica_election_results=[Elected.ReplicaElectionResult("t", [Elected.PartitionResult(0, code)])])


CASES = [
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda admin: admin.alter_partition_reassignments({T0: [2, 1]}),
        reassigned,
    ),
    Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        lambda admin: admin.list_partition_reassignments(),
        lambda code: messages.ListPartitionReassignmentsResponse(error_code=code),
    ),
    Case(ApiKey.ELECT_LEADERS, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, T0), elected),
    Case(
        ApiKey.CREATE_PARTITIONS,
        lambda admin: admin.create_partitions({"t": 3}),
        lambda code: messages.CreatePartitionsResponse(
            results=[messages.CreatePartitionsResponse.CreatePartitionsTopicResult("t", code)]
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key.name.lower())
def test_the_new_controller_is_asked(case: Case) -> None:
    pair = Pair()

    def refuse(request: Request) -> Message:
        pair.controller_id = 2
        return case.response(ErrorCode.NOT_CONTROLLER)

    pair.brokers[1].responders[case.key] = refuse
    pair.brokers[2].responders[case.key] = lambda request: case.response(ErrorCode.NONE)

    async def test(admin: Admin) -> None:
        await case.action(admin)

    pair.administering(test)
    assert pair.brokers[1].asked(case.key)
    assert len(pair.brokers[2].asked(case.key)) == 1
