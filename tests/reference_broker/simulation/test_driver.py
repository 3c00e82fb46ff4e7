"""With the driver in virtual time, a request gets a response, or an error in its place, in time.

Method: use a router with one call to a server that answers, is silent, or hangs up.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.links import LinkOptions
from kafkawire.reference_broker.simulation.driver import RouterDriver
from kafkawire.reference_broker.simulation.network import Network, SimulatedWire
from kafkawire.reference_broker.simulation.scheduler import Clock, Host, Scheduler
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.protocol.connection import ServerConnection
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.metadata import ClusterBroker
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.wire import Address

THERE = Address("server", 9092)
SERVED = {key: APIS[key].stable_versions for key in (ApiKey.API_VERSIONS, ApiKey.METADATA)}


class Server:
    """Reports its versions, and then behaves as requested."""

    def __init__(self, wire: SimulatedWire, behaviour: str) -> None:
        self._wire = wire
        self._behaviour = behaviour
        self._protocol = ServerConnection(SERVED)

    def receive_frame(self, frame: Buffer) -> None:
        request = self._protocol.receive(frame)
        if request.api.key == ApiKey.API_VERSIONS:
            keys = [
                ApiVersionsResponse.ApiVersion(key, versions.first, versions.last) for key, versions in SERVED.items()
            ]
            self._wire.write(self._protocol.respond(request, ApiVersionsResponse(api_keys=keys)))
        elif self._behaviour == "answers":
            self._wire.write(self._protocol.respond(request, MetadataResponse(cluster_id="c")))
        elif self._behaviour == "hangs up":
            self._wire.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Do nothing."""


class Bench:
    """A client's router and driver, and a server."""

    def __init__(self, behaviour: str) -> None:
        self.scheduler = Scheduler(1)
        network = Network(self.scheduler.chance("network"))
        here, there = (
            Host(self.scheduler, name, Clock(self.scheduler), self.scheduler.chance(name)) for name in ("a", "b")
        )
        self.given = GivenMetadata()
        self.router = Router(LinkOptions(), Backoff(10, 100, lambda: 0.5), refresh=self.given)
        self.driver = RouterDriver(here, network, self.router, "client", 500)
        self.clock = here.clock
        if behaviour != "is not there":
            network.listen(THERE, there, lambda wire: Server(wire, behaviour))
        self.given.set([ClusterBroker(1, THERE)], None, self.clock())
        self.outcomes: list[object] = []

    def ask(self) -> None:
        call: Call = Call(
            Node(1),
            lambda versions: (MetadataRequest(), None),
            MetadataResponse,
            self.clock() + 2_000,
            lambda call, now_ms: self.outcomes.append(call.error or call.result),
            retries=False,
        )
        self.router.submit(call, self.clock())
        self.driver.wake()

    def run(self) -> None:
        self.scheduler.run_to(self.scheduler.now_us + 5_000_000)


def test_a_request_gets_its_response() -> None:
    bench = Bench("answers")
    bench.ask()
    bench.run()
    (outcome,) = bench.outcomes
    assert isinstance(outcome, MetadataResponse)
    assert outcome.cluster_id == "c"


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [("is silent", "did not respond to Metadata"), ("hangs up", "was lost"), ("is not there", "nothing listens")],
)
def test_a_request_without_a_response_fails(behaviour: str, text: str) -> None:
    bench = Bench(behaviour)
    bench.ask()
    bench.run()
    (outcome,) = bench.outcomes
    assert isinstance(outcome, KafkaWireError)
    assert text in str(outcome)


def test_the_end_of_a_driver_fails_what_waits() -> None:
    bench = Bench("is silent")
    bench.ask()
    bench.driver.end(Closed("over"))
    bench.run()
    assert [str(outcome) for outcome in bench.outcomes] == ["over"]
