"""Which function serves which versions of which API.

Every module of this package registers its handler here when it is imported; `load` imports them all. An API is
advertised if and only if it has a handler.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kafkawire.reference_broker.network.peer import Peer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

if TYPE_CHECKING:
    from kafkawire.reference_broker.core import Core
    from kafkawire.reference_broker.delayed_operations import DelayedOperation

__all__ = ["Answer", "Call", "Handler", "Served", "load", "serves", "since"]


class Call:
    """The context of a request.

    Attributes:
        core: the broker.
        api: what is asked.
        version: the version of the request.
        client_id: the client's name for itself, "" if it has none.
        peer: the client and the listener that it came through.
        now_ms: the current time.
        throttle_ms: how long the connection is muted after the response (KIP-219); set where a quota is enforced.
    """

    __slots__ = ("api", "client_id", "core", "now_ms", "peer", "throttle_ms", "version")

    def __init__(self, core: Core, request: Request, peer: Peer, now_ms: int) -> None:
        self.core = core
        self.api = request.api
        self.version = request.version
        self.client_id = request.client_id or ""
        self.peer = peer
        self.now_ms = now_ms
        self.throttle_ms = 0

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it: `/127.0.0.1`."""
        return self.peer.host


#: What a handler returns: a response, a delayed operation, or None if there is no response (acks=0).
Answer: TypeAlias = "Message | DelayedOperation | None"

Handler = Callable[[Call, Any], Answer]


class Served(NamedTuple):
    """A handler.

    Attributes:
        versions: the versions that it serves.
        advertised: the versions that clients are told.
        handle: the handler.
    """

    versions: VersionRange
    advertised: VersionRange
    handle: Handler


_SERVED: dict[ApiKey, Served] = {}

H = TypeVar("H", bound=Handler)


def serves(
    key: ApiKey, versions: VersionRange | None = None, *, advertised_from: int | None = None
) -> Callable[[H], H]:
    """Register the function below as the handler of an API.

    Args:
        key: the API.
        versions: the versions to serve; None for all stable ones.
        advertised_from: the lowest version that clients are told, if it is not the lowest one served.
    """
    served = versions or APIS[key].stable_versions
    advertised = served if advertised_from is None else VersionRange(advertised_from, served.last)

    def register(handle: H) -> H:
        _SERVED[key] = Served(served, advertised, handle)
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
