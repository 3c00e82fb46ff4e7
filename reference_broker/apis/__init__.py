"""The request handlers: one file per API. Each module registers its handler when it is imported."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

from kafkawire.reference_broker.requests.api_handlers import REGISTERED, ApiHandler, Scope, ServedApis
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry

__all__ = ["load"]


def load(handlers: Iterable[ApiHandler] = (), scope: Scope = Scope.ALONE) -> ServedApis:
    """Import the handlers of Kafka's APIs, and return them along with the given ones.

    Args:
        handlers: additional handlers, for other APIs or for Kafka's APIs that have no handler here.
        scope: whether the broker runs alone or belongs to a cluster; handlers for the other case are left out.

    Raises:
        TypeError: a handler is not an `ApiHandler`.
        LocalProtocolError: two handlers serve the same API, or their APIs clash; see `ApiRegistry`.
    """
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    own = _checked(handlers)
    apis = ApiRegistry(KAFKA_APIS, *({handler.api.key: handler.api} for handler in own)) if own else KAFKA_APIS
    served = {key: each for (key, kind), each in REGISTERED.items() if kind in (scope, Scope.BOTH)}
    for handler in own:
        if handler.scope not in (scope, Scope.BOTH):
            continue
        if handler.api.key in served:
            raise LocalProtocolError(
                f"cannot add {handler!r}: its API already has the handler {served[handler.api.key]!r}"
            )
        served[handler.api.key] = handler
    return ServedApis(apis, {key: served[key] for key in sorted(served)})


def _checked(handlers: Iterable[ApiHandler]) -> tuple[ApiHandler, ...]:
    if not isinstance(handlers, Iterable):
        raise TypeError(f"handlers must be a sequence of ApiHandler, got {handlers!r:.60}")
    own = tuple(handlers)
    for number, handler in enumerate(own):
        if not isinstance(handler, ApiHandler):
            raise TypeError(f"handlers[{number}] must be an ApiHandler, got {handler!r:.60}")
    return own
