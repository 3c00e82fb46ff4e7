"""A departing member gives up its partitions, leaves, and ends by its deadline, whichever request goes unanswered.

Method: run a departure with its own assignment changes on a simulated client, whose coordinator may or may not answer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges
from kafkawire.sdk.groups.departure import Departure
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import Event
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.routing.call import ANY_BROKER, Call
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import SILENT, Silent, Simulation, backoff, cluster, options

P = TopicPartition("t", 0)


class Scene:
    """A member that leaves within 800 ms by sending a heartbeat; any commit before that goes unanswered."""

    def __init__(self, *, answers: bool = True, leaves: bool = True, commits: bool = False) -> None:
        self.router = Router(options(), backoff())
        self.reader = MemoryReader()
        self.reader.assign([P])
        self.reader.positions[P] = 10
        self.events: list[tuple[int, Event]] = []
        self.offsets = Offsets(self.router, backoff(), "g", self.reader, None, 1_000)
        self.changes = AssignmentChanges(
            "g",
            self.reader,
            self.offsets,
            lambda event, now_ms: self.events.append((now_ms, event)),
            auto_commit=commits,
        )
        self.simulation = Simulation(self.router)
        self.simulation.handlers[MetadataRequest] = cluster([1], {})
        self.simulation.handlers[FindCoordinatorRequest] = lambda request, version: SILENT
        self.simulation.handlers[HeartbeatRequest] = self.answer
        self.answers = answers
        self.asked = 0
        self.leaves = leaves
        self.promise: Promise[None] = Promise()
        now_ms = self.simulation.now_ms
        self.departure = Departure(
            self.router, self.changes, self.reader, self.leave, now_ms + 800, self.promise, now_ms
        )
        self.departure.begin(1, now_ms)

    def answer(self, request: HeartbeatRequest, version: int) -> HeartbeatResponse | Silent:
        self.asked += 1
        return HeartbeatResponse() if self.answers else SILENT

    def leave(self, deadline_ms: int, on_done: Callable[[Call, int], None]) -> Call | None:
        assert not self.reader.assigned, "the partitions must be given up first"
        if not self.leaves:
            return None
        return Call(ANY_BROKER, lambda _: (HeartbeatRequest("g"), None), HeartbeatResponse, deadline_ms, on_done)

    def acknowledge(self) -> None:
        self.changes.acknowledge(self.events[-1][1], self.simulation.now_ms)

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms):
            self.simulation.run(1)
            self.offsets.poll(self.simulation.now_ms)
            if not self.departure.is_over:
                self.departure.poll(self.simulation.now_ms)


def test_it_is_over_when_the_coordinator_has_answered() -> None:
    scene = Scene()
    scene.run(50)
    assert not scene.departure.is_leaving
    scene.acknowledge()
    assert scene.departure.is_leaving
    assert scene.reader.assigned == frozenset()
    assert not scene.departure.is_over
    scene.run(50)
    assert scene.departure.is_over
    assert scene.departure.due_ms() is None


def test_it_is_over_at_once_if_there_is_nothing_to_leave() -> None:
    scene = Scene(leaves=False)
    scene.acknowledge()
    assert scene.departure.is_over


def test_a_listener_that_takes_too_long_is_not_waited_for() -> None:
    scene = Scene()
    assert scene.departure.due_ms() == 1_700
    scene.run(699)
    assert not scene.departure.is_leaving
    scene.run(20)
    assert scene.departure.is_over
    assert scene.asked == 1, "the member must leave nevertheless"
    assert scene.reader.assigned == frozenset()


def test_a_commit_that_takes_too_long_leaves_the_listener_its_time() -> None:
    scene = Scene(commits=True)
    scene.run(599)
    assert not scene.events
    scene.run(1)
    assert [at_ms for at_ms, _ in scene.events] == [1_600]
    scene.acknowledge()
    assert scene.departure.is_leaving


def test_a_coordinator_that_does_not_answer_is_not_waited_for() -> None:
    scene = Scene(answers=False)
    scene.acknowledge()
    assert scene.departure.due_ms() is None
    scene.run(799)
    assert not scene.departure.is_over
    scene.run(1)
    assert scene.departure.is_over


def test_a_second_promise_is_kept_with_the_first() -> None:
    scene = Scene()
    second: Promise[None] = Promise()
    scene.departure.followed_by(second)
    scene.acknowledge()
    assert not second.done
    scene.run(50)
    assert second.done


@pytest.mark.parametrize("acknowledges", [False, True])
def test_it_is_over_with_its_client(acknowledges: bool) -> None:
    scene = Scene()
    scene.router.close(Closed("closed"), scene.simulation.now_ms)
    if acknowledges:
        scene.acknowledge()
    else:
        scene.departure.cancel()
    assert scene.departure.is_over
