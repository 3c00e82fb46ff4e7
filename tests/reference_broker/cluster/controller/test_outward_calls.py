"""Exceptions raised by outside code are logged, and a request that cannot be sent is treated as unanswered.

Method: use callables and channels that raise errors.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.cluster.controller.outward_calls import GuardedChannels, call_out, guarded_timer
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message

pytestmark = pytest.mark.defect

REQUEST = ControlRequest(UpdateMetadataRequest(), 8)


def fail() -> None:
    raise OSError("broken")


class BrokenChannels:
    def connect(self, broker: LiveBroker) -> None:
        fail()

    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        fail()

    def disconnect(self, broker_id: int) -> None:
        fail()


class GoodChannels(BrokenChannels):
    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        done(UpdateMetadataResponse())


def test_a_call_returns_its_result_or_none(caplog: pytest.LogCaptureFixture) -> None:
    assert call_out("a sum", lambda: 1 + 1) == 2
    assert not caplog.records
    assert call_out("a failure", fail) is None
    assert [each.getMessage() for each in caplog.records] == ["a failure failed: broken"]


def test_a_timer_that_cannot_be_set() -> None:
    def broken(delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        raise OSError("broken")

    assert guarded_timer(broken)(1, fail) is None


def test_a_timer_that_cannot_be_cancelled() -> None:
    cancel = guarded_timer(lambda _, __: fail)(1, fail)
    assert cancel is not None
    cancel()


@pytest.mark.parametrize(
    ("channels", "expected"), [(GoodChannels(), "UpdateMetadataResponse"), (BrokenChannels(), "OSError")]
)
def test_channels(channels: BrokenChannels, expected: str) -> None:
    guarded = GuardedChannels(channels)
    responses: list[Message | Exception] = []
    guarded.connect(LiveBroker(1, 1, ()))
    guarded.send(1, REQUEST, responses.append)
    guarded.disconnect(1)
    assert [type(each).__name__ for each in responses] == [expected]
