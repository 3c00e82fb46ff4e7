"""AlterPartition works in all versions, with topic names or ids; the response waits until the ISR is stored.

Method: call the handlers of the controller's broker, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.controlled_apis import removed_versions
from tests.reference_broker.apis.controlling_broker import ControllingBroker

#: The first version with topic ids, and the first with the epochs of the brokers in the ISR.
_BY_ID, _WITH_EPOCHS = 2, 3


def request(broker: ControllingBroker, isr: list[int], version: int) -> AlterPartitionRequest:
    wanted = broker.cluster.alter_request("t", isr)
    (topic,) = wanted.topics
    (partition,) = topic.partitions
    if version < _BY_ID:
        topic.topic_name, topic.topic_id = "t", ZERO_UUID
    if version < _WITH_EPOCHS:
        partition.new_isr, partition.new_isr_with_epochs = isr, ()
    return wanted


@pytest.fixture
def broker() -> ControllingBroker:
    broker = ControllingBroker(0, 1)
    broker.cluster.create("t", (1, 0))
    return broker


@pytest.mark.parametrize("version", removed_versions(ApiKey.ALTER_PARTITION))
def test_every_version(broker: ControllingBroker, version: int) -> None:
    answer = broker.begin(request(broker, [1], version), version)
    assert isinstance(answer, DelayedOperation), "the request waits for the registry"
    response = broker.read(answer, version)
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.topics
    assert topic.topic_id == (ZERO_UUID if version < _BY_ID else broker.cluster.assignment("t").topic_id)
    assert topic.topic_name == ("t" if version < _BY_ID else "")
    (partition,) = topic.partitions
    found = (partition.error_code, partition.leader_id, list(partition.isr), partition.partition_epoch)
    assert found == (ErrorCode.NONE, 1, [1], 1)
    assert broker.cluster.state("t").isr == (1,)


@pytest.mark.parametrize("version", removed_versions(ApiKey.ALTER_PARTITION))
def test_a_broker_that_is_not_the_controller(broker: ControllingBroker, version: int) -> None:
    wanted = request(broker, [1], version)
    broker.controller.close()
    response = broker.ask(wanted, version)
    assert (response.error_code, response.topics) == (ErrorCode.NOT_CONTROLLER, ())


def test_a_broker_that_has_registered_again(broker: ControllingBroker) -> None:
    wanted = request(broker, [1], _WITH_EPOCHS)
    wanted.broker_epoch -= 1
    assert broker.ask(wanted, _WITH_EPOCHS).error_code == ErrorCode.STALE_BROKER_EPOCH
