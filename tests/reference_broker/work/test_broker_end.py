"""No exception from a handler ends the broker, except for `BrokerEnd`, which no code that catches errors stops.

Method: raise `BrokerEnd` in every place that calls a handler's code.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, finished
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.requests.request_path import ELEMENTS, chain
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.storage.disk.memory import PowerCut
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.connection import ClientConnection, Request
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from tests.reference_broker.broker_bench import BrokerBench


def end(*arguments):
    raise BrokerEnd


def steps() -> Work[Any]:
    yield end()


def answered(error: BaseException) -> Work[Message]:
    yield
    return HeartbeatResponse()


def waiting() -> DelayedOperation:
    delayed = DelayedOperation()
    delayed.on_error = answered
    delayed.on_cancel = end
    delayed.steps = steps()
    return delayed


def in_handler(bench: BrokerBench) -> None:
    chain(ELEMENTS, end)(None, None)  # type: ignore[arg-type]  # not reached


def in_timer(bench: BrokerBench) -> None:
    timers = Timers()
    timers.at(0, end)
    timers.fire(0)


def in_gathering(bench: BrokerBench) -> None:
    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, HeartbeatRequest(), 10)
    finished(collect_with_repetitions(bench.call(request), [1], end, end))


def in_late_work(bench: BrokerBench) -> None:
    request = Request(APIS[ApiKey.HEARTBEAT], 4, 0, None, HeartbeatRequest(), 10)
    complete_by_work(bench.call(request), waiting(), steps())


def session_of(bench: BrokerBench, answer) -> Session:
    """Return a session whose request gets an answer."""
    wire: Any = SimpleNamespace(is_open=True)  # nothing is written
    session = Session(bench.core.requests, wire, bench.peer, lambda: bench.now_ms, lambda action: None)
    bench.core.requests.handle = answer
    session.receive_frame(b"".join(ClientConnection().request(HeartbeatRequest(), 4).parts)[LENGTH_BYTES:])
    return session


def in_session(bench: BrokerBench) -> None:
    session_of(bench, end)


def in_cancel(bench: BrokerBench) -> None:
    delayed = waiting()
    delayed.steps = None
    session_of(bench, lambda call, message: delayed).connection_lost(None)


@pytest.mark.parametrize(
    "call",
    [
        in_handler,
        in_timer,
        in_gathering,
        in_late_work,
        in_session,
        in_cancel,
        lambda bench: waiting().step(),
        lambda bench: waiting().complete_by(end),
    ],
)
def test_it_passes(bench, call):
    with pytest.raises(BrokerEnd):
        call(bench)


def test_what_ends_the_broker():
    assert issubclass(PowerCut, BrokerEnd)
    assert not issubclass(BrokerEnd, Exception)
