"""A producer id is asked for once, its epoch is raised, and without one a producer goes on or gives up, as it was told.

Method: the identity alone on a router, beside simulated brokers.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.sdk.client.router import Router
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, ProducerFenced
from kafkawire.sdk.producer.batch import ProducerId
from kafkawire.sdk.producer.identity import MAX_EPOCH, ProducerIdentity
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.client.simulation import Simulation, address, backoff, cluster, options


class Machine:
    """Polls the identity."""

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity

    def poll(self, now_ms: int) -> None:
        self.identity.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        return None

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.identity.fail(error)


def asking(
    wanted: bool | None, *codes: int, transactional_id: str | None = None
) -> tuple[ProducerIdentity, Simulation]:
    """Return an identity after a minute; its requests are refused with these codes first."""
    router = Router(options(), backoff())
    identity = ProducerIdentity(router, 60_000, wanted, transactional_id, 5_000)
    simulation = Simulation(router, Machine(identity))
    left = list(codes)

    def answer(request: Any, version: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(0, left.pop(0)) if left else InitProducerIdResponse(0, 0, 9, 4)

    simulation.handlers[MetadataRequest] = cluster([1], {})
    simulation.handlers[InitProducerIdRequest] = answer
    simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
        coordinators=[FindCoordinatorResponse.Coordinator(request.coordinator_keys[0], 1, *address(1))]
    )
    simulation.features["transaction.version"] = 2
    simulation.run(60_000)
    return identity, simulation


def test_asked_for_once() -> None:
    identity, simulation = asking(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert identity.current == ProducerId(9, 4)
    assert identity.ready.done
    assert len(simulation.requests(InitProducerIdRequest)) == 2


def test_not_wanted() -> None:
    identity, simulation = asking(False)
    assert identity.ready.done
    assert not simulation.requests(InitProducerIdRequest)
    assert identity.transaction_version == 0


def test_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafkawire.producer"):
        identity, _ = asking(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert not identity.enabled
    assert identity.error is None
    assert identity.ready.done
    assert caplog.text.count("sending without idempotence") == 1


def test_refused_and_insisted_on() -> None:
    identity, _ = asking(True, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert identity.enabled
    with pytest.raises(KafkaWireError, match="gives no producer id: CLUSTER_AUTHORIZATION_FAILED"):
        identity.ready.wait(0)


def test_epochs_rise_and_a_new_id_follows_the_last() -> None:
    identity, simulation = asking(None)
    identity.raise_epoch()
    assert identity.current == ProducerId(9, 5)
    identity.current = ProducerId(9, MAX_EPOCH)
    identity.raise_epoch()
    assert identity.current is None
    simulation.run(1_000)
    assert identity.current == ProducerId(9, 4)


def test_the_coordinator_of_transactions_is_asked_and_alone_raises_the_epoch() -> None:
    identity, simulation = asking(True, ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id="x")
    assert identity.current == ProducerId(9, 4, True)
    assert identity.transaction_version == 2
    (looked_up,) = simulation.requests(FindCoordinatorRequest)
    assert (looked_up.key_type, looked_up.coordinator_keys) == (CoordinatorType.TRANSACTION, ("x",))
    assert not identity.raise_epoch()
    assert identity.current == ProducerId(9, 4, True)
    identity.renew()
    assert identity.current is None
    simulation.run(1_000)
    assert identity.current == ProducerId(9, 4, True)
    asked = simulation.requests(InitProducerIdRequest)
    assert [(each.transactional_id, each.transaction_timeout_ms) for each in asked] == [("x", 5_000)] * 3
    assert [(each.producer_id, each.producer_epoch) for each in asked] == [(-1, -1), (-1, -1), (9, 4)]


def test_a_producer_with_transactions_does_not_wait_for_ever_to_start() -> None:
    identity, _ = asking(True, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 1_000, transactional_id="x")
    assert isinstance(identity.error, BrokerError)
    assert identity.error.retriable
    with pytest.raises(BrokerError, match="producer id for transactional id x"):
        identity.ready.wait(0)


def test_the_epoch_is_asked_for_until_it_is_there() -> None:
    identity, simulation = asking(True, transactional_id="x")
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    identity.renew()
    simulation.run(100_000)
    assert identity.error is None
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(0, 0, 9, 5)
    simulation.run(2_000)
    assert identity.current == ProducerId(9, 5, True)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_a_refused_transactional_id(code: int, kind: type[Exception]) -> None:
    identity, _ = asking(True, code, transactional_id="x")
    assert type(identity.error) is kind


def test_the_end() -> None:
    identity, simulation = asking(None)
    simulation.close()
    assert isinstance(identity.error, Closed)
