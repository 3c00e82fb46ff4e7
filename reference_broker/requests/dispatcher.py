"""Dispatch of requests to the handler for each API, through the elements that surround every handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import GeneratorType
from typing import Any

from kafkawire.reference_broker.requests.api_handlers import Handler, ServedApis
from kafkawire.reference_broker.requests.call import Call, RequestServices
from kafkawire.reference_broker.requests.delayed_operations import Answer
from kafkawire.reference_broker.requests.long_requests import begin
from kafkawire.reference_broker.requests.request_path import ELEMENTS, chain, only_on_controller
from kafkawire.reference_broker.requests.throttling import Throttling

__all__ = ["Dispatcher"]


class Dispatcher:
    """The handlers of a broker.

    Args:
        served: the APIs to serve.
        parts: the parts that handlers may name: all of `PARTS`.
        services: the services shared by all requests.
        frame_bytes_max: the maximum size of a request.
        is_controller: returns whether this broker is the controller.
        throttling: applies the quotas; None for a broker without quotas.

    Attributes:
        apis: all known APIs.
        frame_bytes_max: see above.
        served: the versions of each API that are served.
        services: see above.
        throttling: see above.
    """

    def __init__(
        self,
        served: ServedApis,
        parts: Mapping[str, Any],
        services: RequestServices,
        frame_bytes_max: int,
        is_controller: Callable[[], bool] = lambda: True,
        throttling: Throttling | None = None,
    ) -> None:
        self.apis = served.apis
        self.frame_bytes_max = frame_bytes_max
        self.served = {key: each.versions for key, each in served.handlers.items()}
        self.services = services
        self.throttling = throttling
        self._handlers: dict[int, Handler] = {key: each.with_parts(parts) for key, each in served.handlers.items()}
        for key, each in served.handlers.items():
            if each.only_on_controller:
                self._handlers[key] = partial(only_on_controller, is_controller, self._handlers[key])
        self._answer = chain(ELEMENTS, self._dispatch)

    def handle(self, call: Call, message: Any) -> Answer:
        """Handle a request.

        Args:
            call: the request's context; its API and version are in `served`.
            message: the request; None for ApiVersions in an unknown version.

        Returns:
            The response, a delayed operation, or None for a request without a response (acks=0).

        Raises:
            RemoteProtocolError: the request cannot be answered, so the connection must be closed.
        """
        return self._answer(call, message)

    def _dispatch(self, call: Call, message: Any) -> Answer:
        outcome: Any = self._handlers[call.api.key](call, message)
        answer: Answer = begin(outcome) if isinstance(outcome, GeneratorType) else outcome
        return answer
