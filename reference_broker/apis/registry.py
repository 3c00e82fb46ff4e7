"""Which function serves which versions of which API.

Every module of this package registers its handler here when it is imported; `load` imports them all. An API is
advertised if and only if it has a handler.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

if TYPE_CHECKING:
    from kafkawire.reference_broker.core import Core
    from kafkawire.reference_broker.delayed_operations import DelayedOperation

__all__ = ["Call", "Handler", "Served", "load", "serves", "since"]


class Call(NamedTuple):
    """The context of a request.

    Attributes:
        core: the broker.
        version: the version of the request.
        client_id: the client's name for itself, "" if it has none.
        client_host: the client's host as Kafka shows it: `/127.0.0.1`.
        now_ms: the current time.
    """

    core: Core
    version: int
    client_id: str
    client_host: str
    now_ms: int


#: Handles a request: returns its response, a delayed operation, or None if there is no response (acks=0).
Handler = Callable[[Call, Any], "Message | DelayedOperation | None"]


class Served(NamedTuple):
    """A handler and the versions that it serves."""

    versions: VersionRange
    handle: Handler


_SERVED: dict[ApiKey, Served] = {}

H = TypeVar("H", bound=Handler)


def serves(key: ApiKey, versions: VersionRange | None = None) -> Callable[[H], H]:
    """Register the function below as the handler of an API.

    Args:
        key: the API.
        versions: the versions to serve; None for all stable ones.
    """
    api = APIS[key]

    def register(handle: H) -> H:
        _SERVED[key] = Served(versions or api.stable_versions, handle)
        return handle

    return register


def load() -> dict[ApiKey, Served]:
    """Import all handlers and return them in the order of their keys."""
    package = import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return {key: _SERVED[key] for key in sorted(_SERVED)}


def since(message: type[Message], field: str) -> int:
    """Return the first version in which a message has a field."""
    return next(known.versions.first for known in message.FIELDS if known.name == field)
