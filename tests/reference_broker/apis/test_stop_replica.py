"""StopReplica works in all versions; the response waits for deletions.

Method: call the handlers of a broker in a cluster, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.controlled_apis import ControlledApis, removed_versions
from tests.reference_broker.replicas.controlled_broker import leader_and_isr, state, stop_by_partition

#: The first version that groups partitions by topic, and the first with partition states.
_BY_TOPIC, _BY_STATE = 1, 3


@pytest.mark.parametrize("is_deletion", [False, True])
@pytest.mark.parametrize("version", removed_versions(ApiKey.STOP_REPLICA))
def test_every_version(version: int, is_deletion: bool) -> None:
    apis = ControlledApis()
    apis.ask(leader_and_isr(state(0)), 7)
    if version >= _BY_STATE:
        request = stop_by_partition((0, 3, is_deletion))
    elif version >= _BY_TOPIC:
        topics = [StopReplicaRequest.StopReplicaTopicV1("t", [0])]
        request = StopReplicaRequest(controller_epoch=7, delete_partitions=is_deletion, topics=topics)
    else:
        partitions = [StopReplicaRequest.StopReplicaPartitionV0("t", 0)]
        request = StopReplicaRequest(controller_epoch=7, delete_partitions=is_deletion, ungrouped_partitions=partitions)
    response = apis.ask(request, version)
    Entry = StopReplicaResponse.StopReplicaPartitionError
    assert response == StopReplicaResponse(ErrorCode.NONE, [Entry("t", 0, ErrorCode.NONE)])
    assert apis.broker.role() is (None if is_deletion else Role.STOPPED)


def test_a_response_waits_for_deletions() -> None:
    apis = ControlledApis()
    apis.broker.logs.held = []
    answer = apis.begin(stop_by_partition((0, -2, True)), 4)
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    apis.broker.logs.held[0]()
    assert isinstance(answer.response, StopReplicaResponse)
