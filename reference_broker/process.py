"""Run the broker in a separate process until a signal stops it, with tuned interpreter settings."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from kafkawire.reference_broker.config.cluster_options import split_options
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import split_listener_options
from kafkawire.reference_broker.network.event_loop import loop_factory
from kafkawire.reference_broker.network.service_notices import READY, STOPPING, notify
from kafkawire.reference_broker.server import Broker, Data
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.transport.wire import Address

__all__ = ["serve"]

#: How long background work may hold the interpreter before it must yield to requests; each request waits for that a few
#: times. With Python's default of 5 ms, a produce request took up to 10 ms during compaction; with this value, it takes
#: 2 ms.
_SWITCH_SECONDS = 0.0005

#: Signals that end `serve`. SIGHUP arrives when the terminal is closed, and is ignored if the broker was started with
#: nohup.
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(
    listen: Address,
    data: Data,
    options: Mapping[str, object],
    started: Callable[[Broker], None] | None = None,
) -> None:
    """Run a broker until SIGINT, SIGTERM or SIGHUP arrives, which also aborts startup.

    A second signal ends the process immediately, even while the event loop is busy. If SIGHUP was ignored at startup,
    it stays ignored.

    Args:
        listen: the address to listen on.
        data: see `Broker`.
        options: see `BrokerOptions`.
        started: called once clients can connect.

    Raises:
        ConfigurationError: an option is invalid, or the data directory belongs to another broker.
        OSError: the address is in use, or the directory cannot be written.
    """
    # Every partition keeps files open, and every client needs a socket, so the usual soft limit of 1,024 is soon
    # reached.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # not allowed everywhere; connections leave room for files anyway
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    read_options(
        split_options(split_listener_options(options)[0])[0]
    )  # this comes first, because `port` and `handlers` are arguments of the broker rather than options
    broker = Broker(data, listen.host, listen.port, handlers=(), wall_ms=now_ms, registry=None, **options)
    collects = gc.isenabled()
    signals = _stop_signals()

    async def run() -> None:
        stopped = asyncio.Event()
        _set_on_signal(stopped, signals)
        if not await _start(broker, stopped):
            return
        # Objects created so far live until the end, so garbage collection does not have to check them.
        gc.freeze()
        if collects:
            gc.enable()
        try:
            if started is not None:
                started(broker)
            notify(READY)
            await stopped.wait()
        finally:
            notify(STOPPING)
            await broker.stop()
            _end_if_stuck(broker)

    before, interval = [signal.getsignal(number) for number in signals], sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    # With 10,000 partitions, garbage collection took a quarter of the startup time, and a later full collection took
    # 370 ms.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop_factory(broker.options.event_loop)) as runner:
            runner.run(run())
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collects:
            gc.enable()
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _set_on_signal(stopped: asyncio.Event, signals: Sequence[signal.Signals]) -> None:
    """Set an event on the first signal; the next signal ends the process."""
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_DFL)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(stopped.set)

    for number in signals:
        signal.signal(number, stop)  # the loop's own handlers would wait for a callback to end


async def _start(broker: Broker, stopped: asyncio.Event) -> bool:
    """Start a broker unless an event is set first; return whether it was started."""
    start, stop = asyncio.ensure_future(broker.start()), asyncio.ensure_future(stopped.wait())
    await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        await asyncio.wait((start,))
        if start.cancelled():
            return False
    await start
    return True


def _end_if_stuck(broker: Broker) -> None:
    if broker.is_stuck:
        os._exit(1)  # any other way to exit would wait for threads that are waiting for the disk


def _stop_signals() -> list[signal.Signals]:
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in _STOP_SIGNALS if not (number is signal.SIGHUP and is_hangup_ignored)]
