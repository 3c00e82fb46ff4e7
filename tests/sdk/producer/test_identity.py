"""A producer asks for an id once, and raises its epoch; its options decide whether it continues without an id.

Method: run the identity alone, on a router with simulated brokers.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConfigurationError,
    KafkaWireError,
    ProducerFenced,
    RemoteProtocolError,
    UnsupportedVersion,
)
from kafkawire.sdk.producer.identity import MAX_EPOCH, ProducerId, ProducerIdentity
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import Simulation, address, backoff, cluster, options


class Machine:
    """A machine that polls the identity."""

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity

    def poll(self, now_ms: int) -> None:
        self.identity.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        return self.identity.due_ms(now_ms)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.identity.fail(error)


def asking(
    wanted: bool | None, *codes: int | Exception, transactional_id: str | None = None, newest: int = 99
) -> tuple[ProducerIdentity, Simulation]:
    """Return an identity that has run for a minute.

    Args:
        wanted, transactional_id: arguments for the identity.
        codes: the codes with which its first requests are rejected, or the errors with which their connections end.
        newest: the newest version of InitProducerId that the brokers support.
    """
    router = Router(options(), backoff())
    identity = ProducerIdentity(router, backoff(), 60_000, wanted, transactional_id, 5_000)
    simulation = Simulation(router, Machine(identity))
    left = list(codes)

    def answer(request: Any, version: int) -> InitProducerIdResponse | Exception:
        code = left.pop(0) if left else None
        if isinstance(code, Exception):
            return code
        return InitProducerIdResponse(0, 0, 9, 4) if code is None else InitProducerIdResponse(0, code)

    simulation.newest[ApiKey.INIT_PRODUCER_ID] = newest

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


#: Clusters that give no ids: their error codes, and the newest version of the request that they support.
RULED_OUT = [((ErrorCode.CLUSTER_AUTHORIZATION_FAILED,), 99), ((ErrorCode.UNSUPPORTED_VERSION,), 99), ((), -1)]


@pytest.mark.parametrize(("codes", "newest"), RULED_OUT[1:])
def test_refused(codes: tuple[int, ...], newest: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafkawire.producer"):
        identity, simulation = asking(None, *codes, newest=newest)
    assert not identity.enabled
    assert identity.error is identity.trouble is None
    assert identity.ready.done
    assert not identity.is_lacking
    assert caplog.text.count("sending without idempotence") == 1
    assert len(simulation.requests(InitProducerIdRequest)) == len(codes)


def test_a_producer_that_is_denied_an_id_does_without_until_one_is_granted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkawire.producer")
    identity, simulation = asking(None, *[ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 7)
    assert identity.ready.done
    assert (identity.enabled, identity.is_lacking, identity.current) == (False, False, None)
    assert identity.error is identity.trouble is None
    assert len(simulation.requests(InitProducerIdRequest)) == 6  # after about 0, 1, 3, 7, 15 and 31 s
    (line,) = caplog.messages
    assert line.startswith("sending without idempotence until a producer id is granted")
    assert line.endswith("an id requires an ACL for WRITE on any topic, or for IDEMPOTENT_WRITE on the cluster")
    simulation.run(60_000)
    assert (identity.enabled, identity.current) == (True, ProducerId(9, 4))
    assert caplog.messages[1:] == ["sending with idempotence from now on"]


def test_other_errors_do_not_end_the_wait_for_a_grant() -> None:
    identity, simulation = asking(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (identity.enabled, identity.current) == (True, ProducerId(9, 4))
    assert len(simulation.requests(InitProducerIdRequest)) == 3


def test_a_producer_that_requires_ids_waits_if_the_next_one_is_denied() -> None:
    """Only the start of a producer fails at once."""
    identity, simulation = asking(True)
    denied = InitProducerIdResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    simulation.handlers[InitProducerIdRequest] = lambda request, version: denied
    identity.current = None  # the last epoch was used up
    simulation.run(10_000)
    assert (identity.enabled, identity.error, identity.is_lacking) == (True, None, True)
    assert str(identity.trouble).startswith("CLUSTER_AUTHORIZATION_FAILED: producer id: ")
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(0, 0, 9, 5)
    simulation.run(10_000)
    assert identity.current == ProducerId(9, 5)


@pytest.mark.parametrize(("codes", "newest"), RULED_OUT)
def test_refused_and_insisted_on(codes: tuple[int, ...], newest: int) -> None:
    identity, _ = asking(True, *codes, newest=newest)
    assert identity.enabled
    kind = KafkaWireError if codes else UnsupportedVersion
    with pytest.raises(kind, match=r"^enable_idempotence=True: the cluster issues no producer id: ") as caught:
        identity.ready.wait(0)
    assert type(caught.value) is kind


@pytest.mark.parametrize("wanted", [None, True])
def test_what_may_pass_is_asked_for_again_after_pauses(wanted: bool | None, caplog: pytest.LogCaptureFixture) -> None:
    identity, simulation = asking(wanted)
    caplog.set_level(logging.WARNING, "kafkawire.producer")
    failing = True
    simulation.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        0, ErrorCode.UNKNOWN_SERVER_ERROR if failing else 0, 9, 5
    )
    identity.current = None  # the last epoch was used up
    before = len(simulation.requests(InitProducerIdRequest))
    simulation.run(60_000)
    assert (identity.enabled, identity.error, identity.is_lacking) == (True, None, True)
    assert str(identity.trouble) == "UNKNOWN_SERVER_ERROR: producer id"
    assert 55 <= len(simulation.requests(InitProducerIdRequest)) - before <= 70, "the pauses must grow to a second"
    assert len(caplog.messages) <= 7
    assert caplog.messages[0] == "there is no producer id yet; asking again: UNKNOWN_SERVER_ERROR: producer id"
    failing = False
    simulation.run(2_000)
    assert identity.current == ProducerId(9, 5)
    assert identity.trouble is None
    identity.current, failing = None, True
    begun_ms = simulation.now_ms
    simulation.run(200)
    times = [at for at, _, request, _ in simulation.sent if isinstance(request, InitProducerIdRequest)]
    assert [at for at in times if at >= begun_ms] == [begun_ms, begun_ms + 101], "the pauses must start over"


@pytest.mark.parametrize(
    "error",
    [AuthenticationFailed("b:9092", "no"), RemoteProtocolError("noise"), ErrorCode.UNKNOWN_SERVER_ERROR],
    ids=["login", "noise", "code"],
)
def test_a_start_that_insists_fails_with_whatever_is_not_repeated(error: int | Exception) -> None:
    identity, _ = asking(True, error)
    kind = type(error) if isinstance(error, Exception) else BrokerError
    with pytest.raises(kind):
        identity.ready.wait(0)


@pytest.mark.parametrize("wanted", [None, True])
@pytest.mark.parametrize(
    "refusal",
    [AuthenticationFailed("b:9092", "no"), ConfigurationError("ssl_keystore_location", "k.pem", "gone")],
    ids=["login", "certificate"],
)
def test_a_refused_login_is_not_repeated_more_often_for_an_id_which_is_asked_for_after_the_next_one(
    wanted: bool | None, refusal: Any
) -> None:
    identity, simulation = asking(wanted)
    simulation.down, simulation.refusal = {1}, lambda address, reason: refusal
    simulation.break_connections(1)
    simulation.run(1)
    identity.current = None  # the last epoch was used up
    simulation.opened.clear()
    simulation.run(100_000)
    assert (identity.enabled, identity.error, identity.is_lacking) == (True, None, True)
    assert identity.trouble is refusal
    assert len(simulation.opened) <= 8
    simulation.down = set()
    simulation.run(31_000)
    assert identity.current == ProducerId(9, 4)


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
