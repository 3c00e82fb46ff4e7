"""In all versions, UpdateMetadata changes the answers that clients get.

Method: call the handlers of a broker in a cluster, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.controlled_apis import ControlledApis, removed_versions
from tests.reference_broker.replicas.controlled_broker import alive

#: The first version that groups partitions by topic.
_BY_TOPIC = 5


@pytest.mark.parametrize("version", removed_versions(ApiKey.UPDATE_METADATA))
def test_every_version(version: int) -> None:
    apis = ControlledApis()
    request = alive(1, 2, topics=["a"])
    if version < _BY_TOPIC:
        partition = UpdateMetadataRequest.UpdateMetadataPartitionState("a", 0, leader=2, replicas=[2])
        request.ungrouped_partition_states, request.topic_states = [partition], []
    assert apis.ask(request, version) == UpdateMetadataResponse(ErrorCode.NONE)
    image = apis.broker.cluster.metadata.image
    assert (list(image.brokers), image.controller_id) == ([1, 2], 9)
    assert [partition.leader for partition in image.topics["a"].partitions] == [2]


def test_an_earlier_controller_is_refused() -> None:
    apis = ControlledApis()
    apis.ask(alive(1, controller_epoch=8), 8)
    assert apis.ask(alive(2, controller_epoch=7), 8).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert list(apis.broker.cluster.metadata.image.brokers) == [1]
