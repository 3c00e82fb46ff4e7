"""Assignment changes are applied in order, each event is acknowledged once, and a loss takes precedence over all else.

Method: change one member's assignment, with a reader that records its calls and commits that end when told to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges
from kafkawire.sdk.groups.commit_outcome import Committed, OnDone, Rebalanced
from kafkawire.sdk.groups.protocol import Assigned, Event, Lost, Revoking
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.readers import MemoryReader

P, Q, R = (TopicPartition("t", number) for number in range(3))
LOST = BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)


class ManualCommits:
    """Commits that end when told to; see `Commits`.

    Args:
        check_time: a function called with each time that the assignment changes pass on.
    """

    def __init__(self, check_time: Callable[[int], None]) -> None:
        self._check_time = check_time
        self.waiting: list[tuple[Mapping[TopicPartition, OffsetAndMetadata], int, OnDone]] = []
        self.released: list[tuple[Any, KafkaWireError | None]] = []

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        self._check_time(now_ms)
        self.waiting.append((offsets, deadline_ms, on_done))

    def release(self, partitions: Any, now_ms: int, cause: KafkaWireError | None = None) -> None:
        self._check_time(now_ms)
        self.released.append((partitions, cause))


class Scene:
    def __init__(self, auto_commit: bool = True) -> None:
        self.now_ms = 0
        self.reader = MemoryReader()
        self.commits = ManualCommits(self.check_time)
        self.events: list[Event] = []
        self.done: list[str] = []
        self.changes = AssignmentChanges(
            "g",
            self.reader,
            self.commits,
            self.notify,
            auto_commit=auto_commit,
        )

    def check_time(self, now_ms: int) -> None:
        assert now_ms == self.now_ms

    def notify(self, event: Event, now_ms: int) -> None:
        self.check_time(now_ms)
        self.events.append(event)

    def step(self, name: str) -> Any:
        def done(now_ms: int) -> None:
            self.check_time(now_ms)
            self.done.append(name)

        return done

    def own(self, *partitions: TopicPartition) -> None:
        self.changes.assign(partitions, 1, self.now_ms, self.step("assigned"))
        self.changes.acknowledge(self.events[-1], self.now_ms)
        self.reader.read()
        self.events.clear()
        self.done.clear()


def test_an_assignment_is_handed_out_once_the_listener_has_handled_it() -> None:
    scene = Scene()
    scene.own(P)
    scene.changes.assign([P, Q], 2, 0, scene.step("assigned"))
    (event,) = scene.events
    assert (type(event), event.partitions, event.generation) == (Assigned, {Q}, 2)
    assert scene.reader.handed_out == {P}
    assert (scene.changes.busy, scene.done) == (True, [])
    scene.changes.acknowledge(event, 0)
    assert scene.reader.handed_out == {P, Q}
    assert (scene.changes.busy, scene.done) == (False, ["assigned"])
    scene.changes.acknowledge(event, 0)
    assert scene.done == ["assigned"]


def test_one_operation_at_a_time() -> None:
    scene = Scene()
    scene.changes.assign([P], 1, 0, scene.step("assigned"))
    with pytest.raises(LocalProtocolError, match="group g: Assigned"):
        scene.changes.assign([P, Q], 2, 0, scene.step("again"))
    with pytest.raises(LocalProtocolError, match="is still running; only one event may run at a time"):
        scene.changes.revoke([P], 2, 0, 0, scene.step("revoked"))
    assert (len(scene.events), scene.done) == (1, [])


def test_a_revocation_stops_commits_tells_and_lets_go_in_this_order() -> None:
    scene = Scene()
    scene.own(P, Q)
    scene.changes.revoke([P, R], 2, 777, 0, scene.step("revoked"))
    assert scene.reader.handed_out == {Q}
    ((offsets, deadline_ms, saved),) = scene.commits.waiting
    assert (offsets.keys(), deadline_ms, scene.events) == ({P}, 777, [])
    saved(Committed(offsets), 0)
    (event,) = scene.events
    assert (type(event), event.partitions) == (Revoking, {P})
    assert scene.reader.assigned == {P, Q}, "the listener must be able to commit"
    assert scene.commits.released == []
    scene.changes.acknowledge(event, 0)
    assert scene.reader.assigned == {Q}
    assert scene.commits.released == [({P}, None)]
    assert scene.done == ["revoked"]


@pytest.mark.parametrize(("listener_ms", "limit_ms"), [(300, 7_777), (7_000, 12_000)])
def test_what_is_finished_while_the_listener_runs_is_committed_before_the_partitions_go(
    listener_ms: int, limit_ms: int
) -> None:
    scene = Scene()
    scene.own(P, Q)
    scene.changes.revoke([P, Q], 2, 7_777, 0, scene.step("revoked"))
    first = scene.commits.waiting.pop()
    first[2](RequestTimedOut("late"), 0)
    (event,) = scene.events
    scene.reader.positions[Q] += 4  # the listener waits for the program to finish its current records
    scene.now_ms = listener_ms
    scene.changes.acknowledge(event, listener_ms)
    ((offsets, deadline_ms, saved),) = scene.commits.waiting
    assert (dict(offsets), deadline_ms) == ({Q: OffsetAndMetadata(5, leader_epoch=1)}, limit_ms), (
        "a failed commit must not be tried again"
    )
    scene.changes.acknowledge(event, listener_ms)
    assert (len(scene.commits.waiting), scene.reader.assigned, scene.done) == (1, {P, Q}, [])
    saved(Committed(offsets), listener_ms)
    assert (scene.reader.assigned, scene.commits.released, scene.done) == (frozenset(), [({P, Q}, None)], ["revoked"])
    scene.own(R)
    assert scene.reader.handed_out == {R}, "the next event must be acknowledged too"


def test_a_loss_while_the_last_commit_runs_is_reported_after_it() -> None:
    scene = Scene()
    scene.own(P, Q)
    scene.reader.committed(scene.reader.to_commit())
    scene.changes.revoke([P], 2, 7_777, 0, scene.step("revoked"))
    scene.reader.positions[P] += 1
    scene.changes.acknowledge(scene.events[0], 0)
    ((offsets, _, saved),) = scene.commits.waiting
    released = scene.commits.release

    def release(partitions: Any, now_ms: int, cause: KafkaWireError | None = None) -> None:
        released(partitions, now_ms, cause)
        saved(Rebalanced({}, frozenset(offsets)), now_ms)

    scene.commits.release = release  # type: ignore[method-assign]  # as `Offsets` does
    scene.changes.lose(2, LOST, 0, scene.step("lost"))
    assert (scene.done, [type(event) for event in scene.events]) == ([], [Revoking, Lost])
    scene.changes.acknowledge(scene.events[1], 0)
    assert scene.done == ["lost"]


def test_a_commit_that_fails_does_not_keep_the_partitions() -> None:
    scene = Scene()
    scene.own(P)
    scene.changes.revoke([P], 2, 777, 0, scene.step("revoked"))
    scene.commits.waiting[0][2](RequestTimedOut("late"), 0)
    scene.changes.acknowledge(scene.events[0], 0)
    assert (scene.reader.assigned, scene.done) == (frozenset(), ["revoked"])


@pytest.mark.parametrize("auto_commit", [True, False])
def test_nothing_is_committed_if_nothing_is_finished_or_nobody_wants_it(auto_commit: bool) -> None:
    scene = Scene(auto_commit)
    scene.own(P)
    if auto_commit:
        scene.reader.committed(scene.reader.to_commit())
    scene.changes.revoke([P], 2, 777, 0, scene.step("revoked"))
    assert scene.commits.waiting == []
    assert isinstance(scene.events[0], Revoking)


def test_nothing_to_hand_over_is_done_at_once() -> None:
    scene = Scene()
    scene.changes.revoke([P], 1, 777, 0, scene.step("revoked"))
    scene.changes.assign([], 1, 0, scene.step("assigned"))
    scene.changes.lose(1, LOST, 0, scene.step("lost"))
    scene.changes.after(scene.step("after"), 0)
    assert scene.done == ["revoked", "assigned", "lost", "after"]
    assert scene.events == []


def test_a_loss_lets_go_at_once_and_tells() -> None:
    scene = Scene()
    scene.own(P, Q)
    scene.changes.lose(3, LOST, 0, scene.step("lost"))
    assert scene.reader.assigned == frozenset()
    assert scene.commits.released[-1] == (None, LOST)
    (event,) = scene.events
    assert (type(event), event.partitions, event.generation, scene.done) == (Lost, {P, Q}, 3, [])
    scene.changes.acknowledge(event, 0)
    assert scene.done == ["lost"]


def test_a_loss_while_a_commit_runs_is_reported_in_place_of_the_revocation() -> None:
    scene = Scene()
    scene.own(P, Q)
    scene.changes.revoke([P], 2, 777, 0, scene.step("revoked"))
    scene.changes.lose(2, LOST, 0, scene.step("lost"))
    scene.commits.waiting[0][2](RequestTimedOut("late"), 0)
    (event,) = scene.events
    assert (type(event), event.partitions) == (Lost, {P, Q})
    scene.changes.acknowledge(event, 0)
    assert scene.done == ["lost"]


def test_a_loss_while_the_listener_is_busy_is_reported_afterwards() -> None:
    scene = Scene(auto_commit=False)
    scene.own(P, Q)
    scene.changes.revoke([P], 2, 777, 0, scene.step("revoked"))
    scene.changes.lose(2, LOST, 0, scene.step("lost"))
    revoking = scene.events[0]
    assert scene.events == [revoking]
    scene.changes.acknowledge(revoking, 0)
    assert [(type(event), event.partitions) for event in scene.events[1:]] == [(Lost, {Q})]
    assert scene.reader.assigned == frozenset()
    scene.changes.acknowledge(scene.events[1], 0)
    assert scene.done == ["lost"]


def test_what_was_assigned_and_lost_before_the_listener_was_done_is_reported_as_lost() -> None:
    scene = Scene()
    scene.changes.assign([P], 1, 0, scene.step("assigned"))
    scene.changes.lose(1, LOST, 0, scene.step("lost"))
    scene.changes.acknowledge(scene.events[0], 0)
    assert [type(event) for event in scene.events] == [Assigned, Lost]
    assert scene.reader.assigned == frozenset()


def test_a_step_can_take_the_place_of_what_was_to_follow() -> None:
    scene = Scene()
    scene.changes.assign([P], 1, 0, scene.step("assigned"))
    scene.changes.after(scene.step("after"), 0)
    assert scene.done == []
    scene.changes.acknowledge(scene.events[0], 0)
    assert scene.done == ["after"]


def test_what_is_abandoned_is_let_go_and_its_event_no_longer_matters() -> None:
    scene = Scene(auto_commit=False)
    scene.own(P)
    scene.changes.revoke([P], 2, 777, 0, scene.step("revoked"))
    scene.changes.abandon(0)
    assert (scene.reader.assigned, scene.changes.busy) == (frozenset(), False)
    assert scene.commits.released == [(None, None)]
    scene.changes.acknowledge(scene.events[0], 0)
    assert scene.done == []


def test_former_topics_are_not_handed_out() -> None:
    scene = Scene()
    other = TopicPartition("u", 0)
    scene.own(P, other)
    scene.changes.keep_to({"u"})
    assert scene.reader.handed_out == {other}
    assert scene.reader.assigned == {P, other}


@pytest.mark.parametrize("topics", [{"t", "u"}, None])
def test_former_topics_are_handed_out_again_once_they_are_wanted_again(topics: set[str] | None) -> None:
    scene = Scene()
    other = TopicPartition("u", 0)
    scene.own(P, other)
    scene.changes.keep_to({"u"})
    scene.changes.keep_to(topics)
    assert scene.reader.handed_out == {P, other}


def test_what_an_operation_withholds_is_not_handed_out_because_it_is_wanted_again() -> None:
    scene = Scene(auto_commit=False)
    other = TopicPartition("u", 0)
    scene.own(P, Q, other)
    scene.changes.keep_to({"u"})
    scene.changes.revoke([P], 1, 0, 0, lambda now_ms: scene.changes.keep_to({"t", "u"}))
    scene.changes.keep_to({"t", "u"})
    assert scene.reader.handed_out == {other}
    scene.changes.acknowledge(scene.events[-1], 0)
    assert scene.reader.handed_out == {Q, other}


def test_what_is_forgotten_stays_as_it_is() -> None:
    scene = Scene()
    scene.changes.assign([P], 1, 0, scene.step("assigned"))
    scene.changes.forget()
    scene.changes.acknowledge(scene.events[0], 0)
    assert (scene.reader.assigned, scene.done, scene.commits.released) == ({P}, [], [])


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 partition: t-0"),
        (2, "2 partitions: t-0, t-1"),
        (20, f"20 partitions: {', '.join(f't-{number}' for number in range(20))}"),
        (21, f"21 partitions: {', '.join(f't-{number}' for number in range(20))}, …"),
    ],
)
def test_the_log_names_some_partitions(count: int, text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkawire.group")
    scene = Scene(auto_commit=False)
    partitions = [TopicPartition("t", number) for number in range(count)]
    scene.own(*partitions)
    scene.changes.revoke(partitions, 1, 0, 0, scene.step("revoked"))
    assert caplog.messages == [f"group g, generation 1: {what} {text}" for what in ("assigned", "revoking")]
