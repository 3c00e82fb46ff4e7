"""The deadlines of ended calls keep nothing in memory, and the time of the next check reflects what `poll` finds.

Method: proceed as in `test_router.py`.
"""

from __future__ import annotations

import gc
from weakref import ref

from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import SILENT, Simulation, backoff, cluster, options


class Watched(Call):
    """A call that supports weak references, so that a test can see whether it is still in memory."""

    __slots__ = ("__weakref__",)


def heartbeat(node_id: int, deadline_ms: int) -> Watched:
    """Return a call to a node."""
    ended = lambda call, now_ms: None  # noqa: E731  # it must not refer to the call
    return Watched(Node(node_id), lambda _: (HeartbeatRequest("g"), None), HeartbeatResponse, deadline_ms, ended)


def simulated() -> Simulation:
    """Return a simulated cluster with two connected nodes."""
    simulation = Simulation(Router(options(), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    simulation.run(100)
    for node_id in (1, 2):
        simulation.router.submit(heartbeat(node_id, 5_000), simulation.now_ms)
    simulation.run(100)
    return simulation


def test_an_ended_call_is_not_kept_while_an_earlier_deadline_waits() -> None:
    simulation = simulated()
    simulation.handlers[HeartbeatRequest] = lambda request, version: SILENT
    simulation.router.submit(heartbeat(1, 20_000), simulation.now_ms)
    simulation.run(10)
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()

    def ended_call() -> ref[Watched]:
        call = heartbeat(2, 30_000)
        simulation.router.submit(call, simulation.now_ms)
        simulation.run(1)
        assert call.done
        return ref(call)

    ended = [ended_call() for _ in range(1_000)]
    gc.collect()
    assert not any(each() for each in ended)
    assert len(simulation.router._deadlines) < 200


def test_a_deadline_that_has_passed_is_the_last_of_those_of_ended_calls() -> None:
    simulation = simulated()
    for deadline_ms in range(10_000, 10_050):
        simulation.router.submit(heartbeat(2, deadline_ms), simulation.now_ms)
        simulation.run(1)
    assert len(simulation.router._deadlines) >= 50
    simulation.router.poll(10_000)
    assert not simulation.router._deadlines


def test_a_node_that_is_not_listed_brings_the_next_refresh_forward() -> None:
    simulation = simulated()
    router = simulation.router
    router.poll(simulation.now_ms)
    later_ms = router.due_ms(simulation.now_ms)
    router.submit(heartbeat(9, 30_000), simulation.now_ms)
    router.poll(simulation.now_ms)
    due_ms = router.due_ms(simulation.now_ms)
    assert due_ms is not None
    assert later_ms is not None
    assert due_ms <= simulation.now_ms + 1_000 < later_ms
