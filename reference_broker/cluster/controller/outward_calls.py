"""Calls to code outside the controller; their exceptions are logged and do not propagate into the controller.

Such code answers clients, connects to brokers and runs timers. Its errors must neither leave an event unfinished nor
make a healthy controller resign.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from kafkawire.reference_broker.cluster.controller.broker_requests import Channels, ControlRequest, Timer
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.work.timers import Later
from kafkawire.sdk.protocol.schema import Message

__all__ = ["GuardedChannels", "call_out", "guarded_timer"]

T = TypeVar("T")

_log = logging.getLogger("kafkawire.broker")


def call_out(what: str, call: Callable[[], T]) -> T | None:
    """Call something outside the controller.

    Args:
        what: names the call in the log.
        call: the call.

    Returns:
        The result of the call; None if it raises.
    """
    try:
        return call()
    except Exception as error:
        _log.error("%s failed: %s", what, error, exc_info=error)
        return None


def guarded_timer(later: Later) -> Timer:
    """Return a timer that never raises, and whose cancel functions never raise."""

    def guarded(delay_ms: int, action: Callable[[], None]) -> Callable[[], None] | None:
        cancel = call_out("setting a controller timer", lambda: later(delay_ms, action))
        return None if cancel is None else lambda: call_out("cancelling a controller timer", cancel)

    return guarded


class GuardedChannels:
    """Channels that never raise; a request that cannot be sent is treated as one that got no response.

    Args:
        channels: the connections.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def connect(self, broker: LiveBroker) -> None:
        """See `Channels.connect`."""
        call_out(f"the connection to broker {broker.broker_id}", lambda: self._channels.connect(broker))

    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        """See `Channels.send`; calls back before returning if the request cannot be sent."""
        try:
            self._channels.send(broker_id, request, done)
        except Exception as error:
            _log.error("a request to broker %d was not sent: %s", broker_id, error, exc_info=error)
            done(error)

    def disconnect(self, broker_id: int) -> None:
        """See `Channels.disconnect`."""
        call_out(f"the disconnection of broker {broker_id}", lambda: self._channels.disconnect(broker_id))
