"""A client in virtual time: scripts that send requests one after another, through the clients' router.

    def script(self) -> Script:
        response = yield Ask(Node(1), MetadataRequest())
        yield Pause(100)

A script is sent the response, or an error in its place. An error from the cluster never ends a script.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.simulation.driver import RouterDriver
from kafkawire.reference_broker.simulation.error_codes import error_codes
from kafkawire.reference_broker.simulation.network import Network
from kafkawire.reference_broker.simulation.scheduler import Clock, Host, Scheduler
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Target
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.wire import Address

__all__ = ["Ask", "Client", "Pause", "Script", "ask"]

_BACKOFF_MS: Final = (20, 200)
_TIMEOUT_MS: Final = 1_500

M = TypeVar("M", bound=Message)


class Ask(NamedTuple):
    """A request; the script is sent the response or a `KafkaWireError`.

    Attributes:
        target: the broker that should answer.
        request: the request.
        version: the version of the request; None for the highest that both sides know.
        timeout_ms: how long the script waits for the response.
    """

    target: Target
    request: Message
    version: int | None = None
    timeout_ms: int = _TIMEOUT_MS


class Pause(NamedTuple):
    """A pause in milliseconds."""

    duration_ms: int


Script = Generator[Ask | Pause, Any, None]


def ask(request: Ask, response: type[M]) -> Generator[Ask | Pause, Any, M | None]:
    """Send a request, and return the response; None if there is none."""
    answer = yield request
    return answer if isinstance(answer, response) else None


@dataclass(frozen=True)
class _Options:
    """See `RoutingOptions`."""

    bootstrap_servers: tuple[Address, ...]
    KIND: ClassVar[str] = "producer"
    api_timeout_ms: int = _TIMEOUT_MS
    retry_backoff_max_ms: int = _BACKOFF_MS[1]
    metadata_max_age_ms: int = 5_000
    connections_max_idle_ms: int = 2**40


class _Surroundings(Protocol):
    """What a client needs from the simulation."""

    scheduler: Scheduler
    network: Network


class Client:
    """A client on its own host.

    Args:
        surroundings: provides the scheduler and the network.
        name: the name of the client and of its host.
        bootstrap_servers: the addresses of the brokers.
        topics: the topics whose partition leaders the client has to know.

    Attributes:
        name: see above.
        host: see `Host`.
        metadata: what the client knows about the cluster.
        chance: makes the random choices of its scripts.
        is_over: whether the scripts should end, which they check themselves.
        running: how many scripts are still running.
    """

    def __init__(
        self, surroundings: _Surroundings, name: str, bootstrap_servers: tuple[Address, ...], topics: set[str]
    ) -> None:
        scheduler = surroundings.scheduler
        self.name = name
        self.chance = scheduler.chance(f"client {name}")
        self.host = Host(scheduler, name, Clock(scheduler), self.chance)
        router = self._router = Router(_Options(bootstrap_servers), Backoff(*_BACKOFF_MS, self.chance.random))
        self.metadata = router.metadata
        self.metadata.wanted = topics
        self._driver = RouterDriver(self.host, surroundings.network, router, name, _TIMEOUT_MS)
        self._driver.wake()
        self._network = surroundings.network
        self.is_over = False
        self.running = 0

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader of a partition; if the leader is unknown, request it and return None."""
        leader = self.metadata.leader(partition)
        if leader is None:
            self.outdated()
        return leader

    def outdated(self) -> None:
        """Refresh the known leaders."""
        self.metadata.invalidate()
        self._driver.wake()

    def run(self, script: Script, done: Callable[[], None] = lambda: None) -> None:
        """Run a script to its end."""

        def go_on(answer: object) -> None:
            try:
                step = script.send(answer)
            except StopIteration:
                self.running -= 1
                done()
                return
            if isinstance(step, Pause):
                self.host.later_us(step.duration_ms * 1_000, lambda: go_on(None))
            else:
                self._ask(step, go_on)

        self.running += 1
        self.host.post(lambda: go_on(None))

    def _ask(self, step: Ask, done: Callable[[object], None]) -> None:
        now_ms = self.host.clock()

        def ended(call: Call, now_ms: int) -> None:
            outcome = call.error if call.result is None else call.result
            self.host.post(lambda: done(outcome))

        call: Call = Call(
            step.target,
            lambda versions: (step.request, step.version),
            KAFKA_APIS.of(type(step.request)).response,
            now_ms + step.timeout_ms,
            ended,
            check=_moved if isinstance(step.target, Coordinator) else None,
            retries=False,
            timeout_ms=step.timeout_ms,
        )
        try:
            self._router.submit(call, now_ms)
        except KafkaWireError as error:
            self.host.post(partial(done, error))
            return
        self._driver.wake()

    def kill(self) -> None:
        """End immediately."""
        self.host.end()
        self._network.vanish(self.host, is_silent=False)

    def close(self) -> None:
        """End the client, and close its connections."""
        self._driver.end(Closed("the client was closed"))


def _moved(response: Message) -> BrokerError | None:
    """Return the error from a broker that is no longer, or not yet, the coordinator."""
    codes = error_codes(response) & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    return BrokerError(min(codes)) if codes else None
