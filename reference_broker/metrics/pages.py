"""The pages that a broker serves over HTTP: its metrics and its health.

    GET /metrics    all metrics, as OpenMetrics or Prometheus text
    GET /healthz    200 while the event loop runs
    GET /readyz     200 while clients can use the broker, otherwise 503 and the reason

They are served before the logs are opened, so a long recovery shows as alive and not ready.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from kafkawire.reference_broker.metrics.broker_metrics import BrokerMetrics, Observed
from kafkawire.reference_broker.metrics.exposition import format_for, lines
from kafkawire.reference_broker.metrics.histogram import Histogram
from kafkawire.reference_broker.metrics.request_metrics import RequestMetrics
from kafkawire.reference_broker.network.http_requests import HttpError, HttpRequest, HttpResponse
from kafkawire.reference_broker.work.pieces import Work

__all__ = ["Pages"]

_TEXT: Final = "text/plain; charset=utf-8"


class Pages:
    """The pages of one broker.

    Args:
        broker: see `Observed`.
        requests: counts the broker's requests.

    Attributes:
        loop_delay: how late the event loop runs timers.
    """

    def __init__(self, broker: Observed, requests: RequestMetrics) -> None:
        self._broker = broker
        self.loop_delay = Histogram()
        self._metrics = BrokerMetrics(broker, requests, self.loop_delay)

    def answer(self, request: HttpRequest) -> Work[HttpResponse]:
        """Return the response to a request; yield now and then.

        Raises:
            HttpError: there is no such page.
        """
        if request.path == "/metrics":
            form, text = format_for(request.accept), []
            found = yield from self._metrics.collect()
            for piece in lines(found, form):
                text.append(piece)
                yield
            return HttpResponse(HTTPStatus.OK, form.value, "".join(text).encode())
        if request.path == "/healthz":
            return HttpResponse(HTTPStatus.OK, _TEXT, b"alive\n")
        if request.path == "/readyz":
            reason = self._broker.unready_reason or (yield from self._disk_problem())
            if reason:
                return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"not ready: {reason}\n".encode())
            return HttpResponse(HTTPStatus.OK, _TEXT, b"ready\n")
        raise HttpError(HTTPStatus.NOT_FOUND, "There are only /metrics, /healthz and /readyz.")

    def _disk_problem(self) -> Work[str]:
        """Return why the disk keeps clients from some partitions; empty if it does not."""
        core, failed = self._broker.running_core, 0
        for _, replica in [] if core is None else list(core.replicas.all()):
            failed += replica.log.is_offline
            yield
        return f"the logs of {failed} partitions have failed; see the broker's log" if failed else ""
