"""The core shared by all clients: a router, machines, and the driver that runs them on either kind of event loop.

A client's methods prepare work and hand it to the core, which returns promises: the asyncio clients await them, and the
blocking clients (`kafkawire.sync`) block on them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from kafkawire.sdk.client.login import credentials, login, tls
from kafkawire.sdk.client.metrics_report import MetricsReport
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.client.telemetry import LAST_PUSH_MS, Telemetry
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.clock import now_ms as wall_ms
from kafkawire.sdk.errors import (
    Closed,
    ConnectFailed,
    KafkaWireError,
    LocalProtocolError,
    NeverAnswered,
    RequestTimedOut,
)
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.request_metrics import TrafficMetrics
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.driver_interface import Machine
from kafkawire.sdk.transport.io_thread import STOP_SECONDS, IoThread
from kafkawire.sdk.transport.promise import Promise, Result
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.wire import Network

__all__ = ["ClientCore"]

logger = logging.getLogger("kafkawire.client")

#: How many times in a row a broker may close the connection at the first request before `start` gives up: a broker that
#: is shutting down does so only once.
_UNANSWERED_MAX = 3


#: How long a client may take to end on its I/O thread: the last push of metrics, plus a few ms. Ending takes longer
#: only if that thread is blocked, for example on a log handler's lock held by the closing thread, which a signal
#: handler has interrupted.
FINISH_MS: Final = LAST_PUSH_MS + 750


class ClientCore:
    """The parts of a client that run between `start` and `close`.

    Args:
        name: the client's name in errors, such as `producer`.
        options: the client's options.
        network: how to connect to the brokers; None for TCP.
        creates_topics: whether requesting an unknown topic may create it, if the brokers allow that.
        apis: the APIs that `operations` and machines can use; `ApiRegistry(APIS, …)` adds custom ones.

    Attributes:
        backoff: the pauses between attempts.
        router: routes the client's calls.
        machines: polled by the driver, in this order; fill it before `start`.
        operations: requests for coroutines on the driver's loop to await.
    """

    def __init__(
        self,
        name: str,
        options: ClientOptions,
        network: Network | None,
        *,
        creates_topics: bool = False,
        apis: ApiRegistry = KAFKA_APIS,
    ) -> None:
        self._name = name
        self._io = options.io
        self._servers_count = len(options.bootstrap_servers)
        self._start_timeout_ms = options.api_timeout_ms
        self._thread: IoThread | None = None
        self._is_started = False
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, random_fraction)
        self.router = Router(options, self.backoff, creates_topics=creates_topics)
        settings = ConnectionSettings(
            options.client_id,
            options.connect_timeout_ms,
            options.request_timeout_ms,
            login=login(options),
            credentials=credentials(options),
            traffic=TrafficMetrics(self.router.metrics),
            apis=apis,
        )
        tcp = TcpNetwork(options.max_frame_bytes, tls(options), keeps_alive=options.socket_keepalive_enable)
        self.machines: list[Machine] = []
        self.driver: Driver[Link, Call] = Driver(self.router, self.machines, network or tcp, settings, name)
        self._telemetry = Telemetry(self.router, options, random_fraction, wall_ms)
        self._has_telemetry = options.enable_metrics_push
        if options.enable_metrics_push:
            self.machines.append(self._telemetry)
        if options.metrics_reporter is not None:
            interval_ms = options.metrics_report_interval_ms
            self.machines.append(MetricsReport(self.router.metrics, options.metrics_reporter, interval_ms))
        self.operations = Operations(self.router, self.backoff, options.api_timeout_ms, self.driver.wake)

    def start(self) -> Promise[None]:
        """Start, and connect to the cluster.

        Returns:
            A promise that is kept once the cluster is known. It fails with `ConnectFailed` if no bootstrap server could
            be reached, with a server's error if it rejects this client, with `NeverAnswered` if the servers seem to
            expect SASL, and with the last error if servers were reached but none answered within `api_timeout_ms`.

        Raises:
            LocalProtocolError: the client has already been started, or it needs a thread but gevent or eventlet has
                replaced threads.
        """
        if self._is_started:
            raise LocalProtocolError(f"the {self._name} was already started")
        self._is_started = True

        def refresh(promise: Promise[None], now_ms: int) -> None:
            deadline_ms, failures, unanswered = now_ms + self._start_timeout_ms, 0, 0

            def refreshed(error: KafkaWireError | None) -> None:
                nonlocal failures, unanswered
                failures += 1
                unanswered = unanswered + 1 if isinstance(error, NeverAnswered) else 0
                if error is None:
                    promise.keep(None)
                    return
                is_final = isinstance(error, ConnectFailed) or not error.retriable  # no server is left to ask
                is_final = is_final or unanswered >= max(_UNANSWERED_MAX, self._servers_count)
                is_late = failures >= self._servers_count and monotonic_ms() >= deadline_ms
                if is_final or is_late:
                    promise.fail(error)
                else:
                    self.router.refresh(refreshed)  # after the backoff of the server with the fewest failures

            self.router.refresh(refreshed)

        if self._io == "thread":
            self._thread = IoThread(f"kafkawire {self._name}")
        # This is requested before the first turn: on a thread, that turn could fail first, and a rejected login would
        # then be repeated.
        started = self.driver.ask(refresh)
        self.driver.start(self._thread.loop if self._thread is not None else None)
        return started

    def perform(self, work: Coroutine[Any, Any, Result]) -> Promise[Result]:
        """Run a coroutine on the driver's loop, where it may await `operations`.

        Raises:
            Closed: the client has ended.
        """
        return self.driver.perform(work)

    async def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id that a broker has given this client for its metrics; can be called on any loop.

        Args:
            timeout_ms: how long to wait for it.

        Raises:
            LocalProtocolError: `enable_metrics_push` is False.
            UnsupportedVersion: the brokers do not want metrics of clients.
            RequestTimedOut: there is no id yet.
            Closed: the client has ended.
        """
        if not self._has_telemetry:
            raise LocalProtocolError("client_instance_id: brokers give an id only with enable_metrics_push=True")
        promise = self.driver.ask(self._telemetry.ask_instance_id)
        if not await promise.within(timeout_ms):
            promise.fail(RequestTimedOut(f"no broker has given the {self._name} an instance id within {timeout_ms} ms"))
        return await promise

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; can be called from any thread."""
        return self.router.metrics.read(monotonic_ms())

    def end(self, error: KafkaWireError | None = None) -> Promise[None]:
        """Fail all unsettled work and disconnect; the I/O thread keeps running (see `finish`).

        If a broker wants metrics, push them first, for at most `LAST_PUSH_MS`.
        """
        reason = error or Closed(f"the {self._name} is not started, or is closed")
        if not self._telemetry.is_subscribed:
            return self.driver.end(reason)
        ended: Promise[None] = Promise()

        def end() -> None:
            self.driver.end(reason).add_done_callback(lambda: ended.keep(None))

        try:
            self.driver.ask(self._telemetry.finish).add_done_callback(end)
        except Closed:  # the client has already ended
            end()
        return ended

    def let_go(self, last: Callable[[], Awaitable[object]] | None = None) -> bool:
        """End a client that was garbage-collected; its finalizer calls this.

        Args:
            last: the client's last piece of work, awaited before the client ends; None if there is none.

        Returns:
            Whether there is anything left to end.
        """

        async def end() -> None:
            try:
                if last is not None:
                    await last()
            except KafkaWireError as error:
                logger.warning("the %s was dropped and did not end properly: %s", self._name, error)
            finally:
                await self.finish(Closed(f"the {self._name} was dropped without being closed"))

        return self.driver.let_go(end)

    async def finish(self, error: KafkaWireError | None = None) -> None:
        """Do what `end` does, and release the I/O thread, even if the caller is cancelled.

        An I/O thread that does not respond for `FINISH_MS` is abandoned.
        """
        ended = self.end(error)
        thread = self._thread
        if thread is None:
            await ended
            return
        is_over = True
        try:
            is_over = await ended.within(FINISH_MS)
        finally:
            thread.stop(STOP_SECONDS if is_over else 0)
