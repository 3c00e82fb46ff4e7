"""A session answers each request once and in order, and behaves like a new one after any trouble.

Goal: a request is handled once the previous one has been answered, but not while the client leaves responses unread or
a quota mutes it. Reading is paused for exactly as long as a request has to wait. Slow requests, quotas, slow clients
and errors leave no trace.

Method: run stories of requests (which the test's handler answers immediately, later, in steps or never), deferred
calls, passing time, and connections that end. Then end the trouble, and let the session run one more story alongside a
new one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.session import TURN_MS, Session
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.reference_broker.work.round_robin import RoundRobin
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.requests.recording_wire import Wire
from tests.sdk.stories import Kinds, Step, run_stories, steps

THROTTLE_MS = 500

KINDS = ["now", "slow", "late", "pieces", "throttled", "silent", "silent late"]
REQUESTS: Kinds = {
    "send": (st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),),
    "complete": (),
    "turn": (),
    "turns": (),
    "pass": (st.sampled_from([1, THROTTLE_MS]),),
}
TROUBLE: Kinds = {
    "block": (),
    "unblock": (),
    "jump": (st.sampled_from([-10_000, 10_000]),),
}
ENDS: Kinds = {
    "break": (),
    "fail": (),
    "lose": (),
    "stop": (),
}


class Scene:
    """A session, its client, and a handler that answers a request according to its kind.

    Attributes:
        answered: the numbers of the requests whose responses the client has received, in order.
        paused: the session's calls, in order, that pause (True) and resume (False) reading.
    """

    def __init__(self, bench: BrokerBench, now_ms: int) -> None:
        self.now_ms = now_ms
        self.timers = Timers()
        dispatcher: Any = SimpleNamespace(
            served=bench.core.requests.served,
            apis=bench.core.requests.apis,
            frame_bytes_max=bench.core.requests.frame_bytes_max,
            services=bench.core.requests.services._replace(timers=self.timers, turns=RoundRobin()),
            handle=self.handle,
            throttling=None,
        )
        self.wire = Wire()
        self.deferred: list[Any] = []
        self.paused: list[bool] = []
        self.session = Session(dispatcher, self.wire, bench.peer, lambda: self.now_ms, self.deferred.append)
        self.session.on_pause = self.paused.append
        self.protocol = ClientConnection(max_in_flight=1_000)
        self.is_blocked = self.is_muted = self.is_lost = self.is_stopped = False
        self.muted_until_ms = now_ms
        self.sent: list[str] = []
        self.sizes: list[int] = []
        self.handled: list[int] = []
        self.answered: list[int] = []
        self.delayed: dict[int, DelayedOperation] = {}

    def handle(self, call: Call, message: Message | None) -> Message | DelayedOperation | None:
        number = self._number_of(message)
        kind = self.sent[number]
        assert number == len(self.handled), "each request is handled once, in order"
        assert not any(self._is_unanswered(earlier) for earlier in self.handled)
        assert not self.is_blocked
        assert not self.is_muted
        assert self.wire.is_open
        self.handled.append(number)
        if kind == "break":
            raise RemoteProtocolError("a request was not answered")
        if kind in ("now", "slow", "throttled", "silent"):
            self.now_ms += TURN_MS if kind == "slow" else 0
            if kind == "throttled":
                call.throttle_ms = THROTTLE_MS
                self.is_muted, self.muted_until_ms = True, self.now_ms + THROTTLE_MS
            return None if kind == "silent" else self._response(number)
        delayed = self.delayed[number] = DelayedOperation()
        delayed.answers(self._no_answer)
        if kind == "silent late":
            delayed.check_unsent = lambda response: None
        if kind == "pieces":
            delayed.steps = self._pieces(number)
        return delayed

    def _is_unanswered(self, number: int) -> bool:
        delayed = self.delayed.get(number)
        return delayed is not None and delayed.response is None

    def _pieces(self, number: int) -> Work[Message]:
        for _ in range(3):
            assert not self.is_lost
            self.now_ms += TURN_MS
            yield
        return self._response(number)

    def _no_answer(self, error: BaseException) -> Work[Message]:
        raise RemoteProtocolError(str(error))

    def _number_of(self, message: Message | None) -> int:
        if isinstance(message, ProduceRequest):
            return message.timeout_ms
        assert isinstance(message, HeartbeatRequest)
        return message.generation_id

    def _response(self, number: int) -> Message:
        if self.sent[number].startswith("silent"):
            return ProduceResponse()
        return HeartbeatResponse(throttle_time_ms=number)

    # Steps.

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, f"_{name}")(*arguments)
        self._read()
        self._check()

    def _send(self, kinds: list[str]) -> None:
        frames = []
        for kind in kinds:
            number = len(self.sent)
            self.sent.append(kind)
            is_silent = kind.startswith("silent")
            message = ProduceRequest(acks=0, timeout_ms=number) if is_silent else HeartbeatRequest("g", number)
            parts = self.protocol.request(message, expect_response=not is_silent).parts
            frames.append(b"".join(parts)[LENGTH_BYTES:])
            self.sizes.append(len(frames[-1]))
        self.session.receive_frames(frames)

    def _break(self) -> None:
        self._send(["break"])

    def _complete(self) -> None:
        for number, delayed in self._waiting():
            delayed.complete(self._response(number))

    def _fail(self) -> None:
        def fail() -> Message:
            raise RuntimeError("a defect")

        for _, delayed in self._waiting():
            delayed.complete_by(fail)

    def _waiting(self) -> list[tuple[int, DelayedOperation]]:
        """Return the requests that wait for completion; there is at most one."""
        return [entry for entry in self.delayed.items() if self._is_unanswered(entry[0]) and entry[1].steps is None]

    def _turn(self) -> None:
        if self.deferred:
            self.deferred.pop(0)()

    def _turns(self) -> None:
        while self.deferred:
            self._turn()
        waits = [number for number in self.handled if self._is_unanswered(number)]
        if self.wire.is_open and not self.is_stopped and not self.is_lost:
            queued = len(self.sent) > len(self.handled)
            assert (self.paused[-1:] == [True]) == (self.is_blocked or self.is_muted or queued)
            assert not queued or self.is_blocked or self.is_muted or waits, "nothing holds up queued requests"
            assert self.session.is_waiting == (self.is_muted or bool(waits))
            held = [number for number in range(len(self.sent)) if number in waits or number not in self.handled]
            assert self.session.held_bytes == sum(self.sizes[number] for number in held)

    def _block(self) -> None:
        self.is_blocked = True
        self.session.writing_blocked(True)
        self.session.receive_frames(())

    def _unblock(self) -> None:
        self.is_blocked = False
        self.session.writing_blocked(False)

    def _pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.is_muted &= self.now_ms < self.muted_until_ms
        self.timers.fire(self.now_ms)

    def _jump(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.muted_until_ms += milliseconds
        self.timers.shift(milliseconds)

    def _lose(self) -> None:
        self.wire.close()
        self.session.connection_lost(None)
        self.is_lost = True
        assert all(each.is_cancelled or each.response or each.failure for each in self.delayed.values())
        assert self.session.held_bytes == 0
        assert not self.session.is_unanswered

    def _stop(self) -> None:
        self.is_stopped = True
        self.session.begin_end()

    def _read(self) -> None:
        data = b"".join(part for part in self.wire.parts if not isinstance(part, FileSlice))
        self.wire.parts = []
        while data:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            message = self.protocol.receive(data[LENGTH_BYTES:end]).message
            assert isinstance(message, HeartbeatResponse)
            self.answered.append(message.throttle_time_ms)
            data = data[end:]

    def _check(self) -> None:
        expected = [number for number in self.handled if not self.sent[number].startswith("silent")]
        assert self.answered == expected[: len(self.answered)]

    def end_of_trouble(self) -> None:
        """Let the client read, let time pass, and complete waiting requests."""
        self._unblock()
        self._turns()
        while len(self.handled) < len(self.sent) or any(map(self._is_unanswered, self.handled)):
            for step in ("complete",), ("turns",), ("pass", THROTTLE_MS), ("turns",):
                self.act(step)
        self.act(("pass", THROTTLE_MS))
        self.act(("turns",))
        assert self.answered == [number for number, kind in enumerate(self.sent) if not kind.startswith("silent")]


@pytest.fixture(scope="module")
def bench() -> BrokerBench:
    return BrokerBench(MemoryDisk())


def seen(scene: Scene, sent: int, paused: int) -> object:
    return (
        [number - sent for number in scene.answered if number >= sent],
        scene.paused[paused:],
        scene.session.held_bytes,
    )


@run_stories(100)
@given(steps(REQUESTS | TROUBLE, longest=25), steps(REQUESTS, longest=8))
def test_a_session_that_has_recovered_behaves_like_a_new_one(
    bench: BrokerBench, story: list[Step], epilogue: list[Step]
) -> None:
    old = Scene(bench, 0)
    for step in story:
        old.act(step)
    old.end_of_trouble()
    new, sent, paused = Scene(bench, old.now_ms), len(old.sent), len(old.paused)
    for step in [*epilogue, ("turns",)]:
        old.act(step)
        new.act(step)
        assert seen(old, sent, paused) == seen(new, 0, 0), step


@run_stories(60)
@given(steps(REQUESTS | TROUBLE | ENDS, longest=25))
def test_a_session_answers_nothing_after_its_connection_has_ended(bench: BrokerBench, story: list[Step]) -> None:
    scene = Scene(bench, 0)
    for step in story:
        scene.act(step)
    scene.act(("lose",))
    answered, handled = len(scene.answered), len(scene.handled)
    for step in ("send", ["now"]), ("pass", THROTTLE_MS), ("turns",):
        scene.act(step)
    assert (len(scene.answered), len(scene.handled)) == (answered, handled)
