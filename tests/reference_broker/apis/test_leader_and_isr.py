"""LeaderAndIsr works in all versions: the response waits for logs, and a request that does not fit into the queue
closes the connection.

Method: call the handlers of a broker in a cluster, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.replicas.control_requests import QUEUED_MAX
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.controlled_apis import ControlledApis, removed_versions
from tests.reference_broker.replicas.controlled_broker import ID, leader_and_isr, state

#: The first version that groups partitions by topic, and the first with topic ids.
_BY_TOPIC, _BY_ID = 2, 5


@pytest.mark.parametrize("version", removed_versions(ApiKey.LEADER_AND_ISR))
def test_every_version(version: int) -> None:
    apis = ControlledApis()
    states = [state(0), state(1, replicas=[2])]
    request = leader_and_isr(*states)
    if version < _BY_TOPIC:
        request = LeaderAndIsrRequest(controller_epoch=7, ungrouped_partition_states=states)
    response = apis.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    if version < _BY_ID:
        found = [(each.topic_name, each.partition_index, each.error_code) for each in response.partition_errors]
        name: object = "t"
    else:
        (topic,) = response.topics
        found = [(topic.topic_id, each.partition_index, each.error_code) for each in topic.partition_errors]
        name = ID
    assert found == [(name, 0, ErrorCode.NONE), (name, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert apis.broker.role(0) is Role.LEADER


def test_a_response_waits_for_the_logs() -> None:
    apis = ControlledApis()
    apis.broker.logs.held = []
    answer = apis.begin(leader_and_isr(state(0)), 7)
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    apis.broker.logs.held[0]()
    assert isinstance(answer.response, LeaderAndIsrResponse)


def test_a_request_that_has_no_place_closes_the_connection() -> None:
    apis = ControlledApis()
    apis.broker.logs.held = []
    for _ in range(QUEUED_MAX):
        apis.begin(leader_and_isr(state(0)), 7)
    with pytest.raises(RemoteProtocolError, match="more than 100 requests from controllers are waiting"):
        apis.begin(leader_and_isr(state(0)), 7)


@pytest.mark.parametrize("key", [ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA])
def test_a_broker_that_is_alone_has_no_controller_to_listen_to(key: ApiKey) -> None:
    assert key not in load().handlers
