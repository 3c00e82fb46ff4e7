"""In all versions, ControlledShutdown moves leadership and informs the remaining brokers.

Method: call the handlers of the controller's broker, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.controlled_apis import removed_versions
from tests.reference_broker.apis.controlling_broker import ControllingBroker

VERSIONS = removed_versions(ApiKey.CONTROLLED_SHUTDOWN)

#: The first version with the broker's epoch.
_WITH_EPOCH = 2


@pytest.fixture
def broker() -> ControllingBroker:
    """The controller on broker 0; broker 1 leads t-0, t-1 (no other in-sync replica), and t-2 (no other replica)."""
    broker = ControllingBroker(0, 1)
    broker.cluster.create("t", (1, 0), (1, 0), (1,))
    broker.cluster.alter("t", [1], 1)
    return broker


def request(broker: ControllingBroker, version: int) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(1, broker.cluster.brokers[1].epoch if version >= _WITH_EPOCH else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(broker: ControllingBroker, version: int) -> None:
    answer = broker.begin(request(broker, version), version)
    assert isinstance(answer, DelayedOperation), "the request waits for the registry"
    response = broker.read(answer, version)
    remaining = [(each.topic_name, each.partition_index) for each in response.remaining_partitions]
    assert (response.error_code, remaining) == (ErrorCode.NONE, [("t", 1)])
    assert [broker.cluster.state("t", number).leader for number in range(3)] == [0, 1, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_is_not_the_controller(broker: ControllingBroker, version: int) -> None:
    broker.controller.close()
    response = broker.ask(request(broker, version), version)
    assert (response.error_code, response.remaining_partitions) == (ErrorCode.STALE_CONTROLLER_EPOCH, ())


def test_brokers_that_cannot_shut_down(broker: ControllingBroker) -> None:
    version = VERSIONS[-1]
    stale = request(broker, version)
    stale.broker_epoch -= 1
    assert broker.ask(stale, version).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert broker.ask(ControlledShutdownRequest(7, -1), version).error_code == ErrorCode.BROKER_NOT_AVAILABLE
