"""The controller's requests reach each broker once, in the right version; those to its own broker do not use a link.

Method: use channels over links to simulated brokers, which record what they receive, and may die, move, or not answer.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.broker_channels import BrokerChannels
from kafkawire.reference_broker.cluster.controller.broker_requests import Channels, ControlRequest
from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint, LiveBroker
from kafkawire.reference_broker.cluster.links import Done
from kafkawire.sdk.errors import ConnectionLost, RequestTimedOut
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from tests.reference_broker.cluster.linked import Bench, Outcomes
from tests.sdk.simulation import SILENT, address

OWN = 9
TIMEOUT_MS = 30_000
LONG_MS = 100_000

RESPONSES: dict[type[Message], type[Message]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    StopReplicaRequest: StopReplicaResponse,
}


class Channeled:
    """The channels of a controller on broker 9, and other brokers."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.simulation = self.bench.simulation
        for request, response in RESPONSES.items():
            self.simulation.handlers[request] = lambda _, version, answer=response: answer()
        self.own: list[tuple[ControlRequest, Done]] = []
        self.channels = BrokerChannels(
            OWN,
            "CONTROL",
            self.bench.links,
            lambda request, done: self.own.append((request, done)),
            self.bench.post,
            TIMEOUT_MS,
        )

    def connect(self, node: int, at: int | None = None) -> None:
        self.channels.connect(live(node, at))

    def send(self, node: int, request: Message | None = None, version: int = 4) -> Outcomes:
        outcomes = Outcomes()
        self.channels.send(node, ControlRequest(request or LeaderAndIsrRequest(controller_id=OWN), version), outcomes)
        assert outcomes.all == []
        return outcomes


def live(node: int, at: int | None = None) -> LiveBroker:
    """Return a broker with two listeners; the control plane listener has the address of a simulated broker."""
    place = address(at or node)
    return LiveBroker(node, 1, (Endpoint("PLAINTEXT", "data", 1, 0), Endpoint("CONTROL", *place, 0)))


@pytest.fixture
def channeled() -> Channeled:
    return Channeled()


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for kind in RESPONSES for version in kind.SCHEMA.known_versions],
)
def test_every_version_is_sent_as_named(channeled: Channeled, kind: type[Message], version: int) -> None:
    channels: Channels = channeled.channels
    channels.connect(live(1))
    outcomes = channeled.send(1, kind(), version)
    channeled.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, RESPONSES[kind])
    assert [(node, type(each), sent) for _, node, each, sent in channeled.simulation.sent] == [(1, kind, version)]


def test_requests_to_the_own_broker_stay_in_the_process(channeled: Channeled) -> None:
    channeled.connect(OWN)
    outcomes = channeled.send(OWN)
    assert channeled.own == [], "the callback runs in a later turn of the loop"
    channeled.simulation.run(10)
    ((request, done),) = channeled.own
    assert (type(request.message), request.version) == (LeaderAndIsrRequest, 4)
    done(LeaderAndIsrResponse())
    assert isinstance(outcomes.one, LeaderAndIsrResponse)
    channeled.channels.disconnect(OWN)
    assert channeled.simulation.opened == []


def test_a_broker_without_the_listener_is_not_reached(channeled: Channeled, caplog: pytest.LogCaptureFixture) -> None:
    channeled.connect(1)
    channeled.channels.connect(LiveBroker(1, 2, (Endpoint("PLAINTEXT", "data", 1, 0),)))
    outcomes = channeled.send(1)
    channeled.simulation.run(10)
    assert isinstance(outcomes.one, ConnectionLost)
    assert "broker 1 has no listener CONTROL" in caplog.text
    assert channeled.simulation.opened == []


def test_a_broker_that_dies_is_not_asked_twice(channeled: Channeled) -> None:
    """The controller itself resends requests, after checking whether they still make sense."""
    channeled.simulation.handlers[LeaderAndIsrRequest] = lambda request, version: SILENT
    channeled.connect(1)
    outcomes = channeled.send(1)
    channeled.simulation.run(100)
    channeled.simulation.break_connections(1)
    channeled.simulation.run(LONG_MS)
    assert isinstance(outcomes.one, ConnectionLost)
    assert channeled.bench.nodes() == [1]


def test_a_paused_broker_costs_the_timeout(channeled: Channeled) -> None:
    channeled.simulation.handlers[1, LeaderAndIsrRequest] = lambda request, version: SILENT
    channeled.connect(1)
    channeled.connect(2)
    outcomes, other = channeled.send(1), channeled.send(2)
    channeled.simulation.run(TIMEOUT_MS - 1)
    assert (len(outcomes.all), len(other.all)) == (0, 1)
    channeled.simulation.run(1)
    assert isinstance(outcomes.one, RequestTimedOut)


def test_a_disconnected_broker_leaves_no_request_and_no_connection(channeled: Channeled) -> None:
    channeled.simulation.handlers[LeaderAndIsrRequest] = lambda request, version: SILENT
    channeled.connect(1)
    outcomes = channeled.send(1)
    channeled.simulation.run(100)
    assert channeled.simulation.open_links() == 1
    channeled.channels.disconnect(1)
    channeled.channels.disconnect(1)
    channeled.simulation.run(LONG_MS)
    assert (outcomes.all, channeled.simulation.open_links()) == ([], 0)


@pytest.mark.parametrize("place", [1, 11], ids=["same address", "another address"])
def test_a_broker_that_registers_again_gets_a_new_connection(channeled: Channeled, place: int) -> None:
    channeled.connect(1)
    channeled.send(1)
    channeled.simulation.run(100)
    channeled.channels.disconnect(1)
    channeled.connect(1, place)
    outcomes = channeled.send(1)
    channeled.simulation.run(100)
    assert isinstance(outcomes.one, LeaderAndIsrResponse)
    assert channeled.bench.nodes() == [1, place]
    assert [node for _, node in channeled.simulation.opened] == [1, place]
