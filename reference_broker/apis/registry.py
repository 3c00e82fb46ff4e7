"""Which APIs are served, in which versions, by which function.

Every module of this package registers its handler here when it is imported; `load` imports them all. An API is
advertised exactly when it has a handler.
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
    from kafkawire.reference_broker.waiting import Waiting

__all__ = ["Call", "Handler", "Served", "load", "serves", "since"]


class Call(NamedTuple):
    """A request on its way through the broker.

    Attributes:
        core: the broker.
        version: of the request.
        client_id: what the client calls itself, "" if it has no name.
        client_host: where it connects from, as Kafka shows it: `/127.0.0.1`.
        now_ms: the time.
    """

    core: Core
    version: int
    client_id: str
    client_host: str
    now_ms: int


#: Answers a request: at once, later, or (Produce with `acks` 0) not at all.
Handler = Callable[[Call, Any], "Message | Waiting | None"]


class Served(NamedTuple):
    """A handler and the versions that it answers."""

    versions: VersionRange
    handle: Handler


_SERVED: dict[ApiKey, Served] = {}

H = TypeVar("H", bound=Handler)


def serves(key: ApiKey, versions: VersionRange | None = None) -> Callable[[H], H]:
    """Register the function below as the handler of an API.

    Args:
        key: of the API.
        versions: that are answered; None for all stable ones.
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
