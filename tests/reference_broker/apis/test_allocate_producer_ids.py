"""AllocateProducerIds hands out consecutive blocks to registered brokers.

Method: call the handlers of the controller's broker, without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.controlling_broker import ControllingBroker


@pytest.fixture
def broker() -> ControllingBroker:
    return ControllingBroker(0, 1)


def request(broker: ControllingBroker, broker_id: int) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id, broker.cluster.brokers[broker_id].epoch)


def test_blocks_follow_each_other(broker: ControllingBroker) -> None:
    answer = broker.begin(request(broker, 1), 0)
    assert isinstance(answer, DelayedOperation), "the request waits for the registry"
    blocks = [broker.read(answer, 0), broker.ask(request(broker, 0), 0)]
    assert [(each.error_code, each.producer_id_start, each.producer_id_len) for each in blocks] == [
        (ErrorCode.NONE, 0, 1000),
        (ErrorCode.NONE, 1000, 1000),
    ]


def test_who_gets_none(broker: ControllingBroker) -> None:
    stale = request(broker, 1)
    stale.broker_epoch -= 1
    assert broker.ask(stale, 0).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert broker.ask(AllocateProducerIdsRequest(7, 1), 0).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    broker.controller.close()
    assert broker.ask(request(broker, 1), 0).error_code == ErrorCode.NOT_CONTROLLER
