"""A router works with any object that keeps its metadata fresh, and tells that object what it needs to know.

Method: use a router whose refresh records its calls and does what the test says.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.errors import AuthenticationFailed, Closed, KafkaWireError
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.metadata import ClusterBroker, Metadata
from kafkawire.sdk.routing.metadata_refresh import MetadataRefresh
from kafkawire.sdk.routing.refresh import Refresh
from kafkawire.sdk.routing.retry import Attempts
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Open
from tests.sdk.routing.routed import PeerOptions, heartbeat
from tests.sdk.simulation import address, backoff


class Recorded:
    """A refresh that the test controls."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.ended_ms = -1
        self.refusal: KafkaWireError | None = None
        self.due: int | None = None
        self.polls: list[int] = []
        self.failures: list[KafkaWireError] = []
        self.waiting: list[Callable[[KafkaWireError | None], None]] = []

    def request(self, on_done: Callable[[KafkaWireError | None], None]) -> None:
        self.waiting.append(on_done)

    def fail(self, error: KafkaWireError) -> None:
        self.failures.append(error)

    def poll(self, now_ms: int) -> int | None:
        self.polls.append(now_ms)
        return self.due

    def due_ms(self) -> int | None:
        return self.due


def test_both_ways_to_know_the_brokers_can_be_used() -> None:
    asks = MetadataRefresh(Metadata(), lambda call, now_ms: None, Attempts(backoff()), PeerOptions(), False)
    both: list[Refresh] = [asks, GivenMetadata()]
    for refresh in both:
        assert Router(PeerOptions(), backoff(), refresh=refresh).metadata is refresh.metadata


def test_a_router_polls_its_refresh_and_reads_its_metadata() -> None:
    refresh = Recorded()
    router = Router(PeerOptions(), backoff(), refresh=refresh)
    refresh.due = 50
    router.submit(heartbeat(Node(1)), 7)
    assert router.poll(7) == []
    assert (refresh.polls, router.due_ms(7)) == ([7], 50)
    refresh.metadata.brokers = {1: ClusterBroker(1, address(1))}
    (action,) = router.poll(50)
    assert isinstance(action, Open)
    assert action.link.address == address(1)


def test_a_refusal_ends_calls_to_unknown_brokers() -> None:
    refresh = Recorded()
    router = Router(PeerOptions(), backoff(), refresh=refresh)
    call = heartbeat(Node(1))
    router.submit(call, 7)
    router.poll(7)
    assert not call.done
    refresh.refusal, refresh.ended_ms = AuthenticationFailed(address(1), "no"), 8
    router.poll(8)
    assert call.error is refresh.refusal


def test_callers_and_the_end_of_the_router_reach_the_refresh() -> None:
    refresh = Recorded()
    router = Router(PeerOptions(), backoff(), refresh=refresh)
    outcomes: list[KafkaWireError | None] = []
    router.refresh(outcomes.append)
    assert refresh.waiting == [outcomes.append]
    error = Closed("over")
    router.close(error, 9)
    assert refresh.failures == [error]
