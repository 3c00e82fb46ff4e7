"""Which function serves which versions of which API.

Every module of this package registers its handler here when it is imported; `load` imports them all, and adds those
that the broker is given. An API is advertised if and only if it has a handler.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import Work
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

if TYPE_CHECKING:
    from kafkawire.reference_broker.core import Core

__all__ = ["Answer", "ApiHandler", "Call", "Handler", "ServedApis", "load", "serves", "since"]


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


#: The answer to a request: a response, a delayed operation, or None if there is no response (acks=0).
Answer: TypeAlias = Message | DelayedOperation | None

#: Returns the answer; or a generator that yields where others may have their turn, and returns it.
Handler = Callable[[Call, Any], Answer | Work[Answer]]


class ApiHandler:
    """A function that serves an API.

    Args:
        api: of a generated table: `APIS[ApiKey.GREET]`.
        handle: called with the `Call` and the request, on the broker's event loop, so it must not block. It returns the
            response, or a `DelayedOperation` of its own that will have it. If it may have much to do, it is a generator
            function, and yields after each entry of the request: others have their turn after some of them. A
            `BrokerError` that it raises is answered with its code, a `RemoteProtocolError` closes the connection unless
            it is a `DecodeError`, and anything else, or None, is answered with UNKNOWN_SERVER_ERROR.
        versions: that it serves; None for all stable ones.
        advertised_from: the lowest version that clients are told, if it is not the lowest one served; it may be one
            that does not exist any more, for clients that look for it.

    Raises:
        TypeError: `api` is no `Api`, `handle` no plain function of two arguments, `versions` no `VersionRange`, or
            `advertised_from` no int.
        LocalProtocolError: the API has not all these versions, or `advertised_from` is negative or above them.

    Attributes:
        api: see above.
        handle: see above.
        versions: that it serves.
        advertised: the versions that clients are told.
    """

    __slots__ = ("advertised", "api", "handle", "versions")

    def __init__(
        self, api: Api, handle: Handler, versions: VersionRange | None = None, *, advertised_from: int | None = None
    ) -> None:
        if not isinstance(api, Api):
            raise TypeError(f"{api!r:.60} is no Api: take one from a generated table, such as APIS[ApiKey.…]")
        if reason := _unfit(handle):
            raise TypeError(f"{api.name}: the handler {handle!r:.60} {reason}")
        if versions is not None and not (isinstance(versions, VersionRange) and all(map(_is_int, versions))):
            raise TypeError(f"{api.name}: versions is {versions!r:.60}, a VersionRange is needed")
        if advertised_from is not None and not _is_int(advertised_from):
            raise TypeError(f"{api.name}: advertised_from is {advertised_from!r:.60}, an int is needed")
        served = api.stable_versions if versions is None else versions
        advertised = served if advertised_from is None else VersionRange(advertised_from, served.last)
        if not served or api.versions & served != served:
            raise LocalProtocolError(f"{api.name} ({api.key}): versions {served} are served, {api.versions} exist")
        if not advertised or advertised.first < 0:
            text = f"advertised from {advertised_from}, it can be from 0 to {served.last}"
            raise LocalProtocolError(f"{api.name} ({api.key}): {text}")
        self.api = api
        self.handle = handle
        self.versions = served
        self.advertised = advertised

    def __repr__(self) -> str:
        return f"<handler of {self.api.name} ({self.api.key}) versions {self.versions}>"


def _unfit(handle: object) -> str:
    """Return why something cannot handle requests, empty if nothing is known against it."""
    if not callable(handle):
        return "is no function"
    inner: Any = handle
    while isinstance(inner, partial):
        inner = inner.func
    called = (inner, type(inner).__call__)
    if any(map(iscoroutinefunction, called)):
        return "is a function to be awaited"
    if any(map(isasyncgenfunction, called)):
        return "is a generator to be awaited"
    try:
        signature(handle).bind(None, None)
    except TypeError as error:
        return f"cannot be called with a Call and a request: {error}"
    except ValueError:
        pass  # it is not written in Python, and does not say what it takes
    return ""


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class ServedApis(NamedTuple):
    """What a broker serves.

    Attributes:
        apis: what it knows.
        handlers: by key, in order of their keys.
    """

    apis: ApiRegistry
    handlers: dict[int, ApiHandler]


_SERVED: dict[int, ApiHandler] = {}

H = TypeVar("H", bound=Handler)


def serves(
    key: ApiKey, versions: VersionRange | None = None, *, advertised_from: int | None = None
) -> Callable[[H], H]:
    """Register the function below as the handler of one of Kafka's APIs; see `ApiHandler`."""

    def register(handle: H) -> H:
        _SERVED[key] = ApiHandler(APIS[key], handle, versions, advertised_from=advertised_from)
        return handle

    return register


def load(handlers: Iterable[ApiHandler] = ()) -> ServedApis:
    """Import the handlers of Kafka's APIs, and return them with those of somebody else.

    Args:
        handlers: of other APIs, or of those of Kafka's that have none here.

    Raises:
        TypeError: one of them is no `ApiHandler`.
        LocalProtocolError: two of them serve the same API, or their APIs clash; see `ApiRegistry`.
    """
    package = import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    own = _checked(handlers)
    apis = ApiRegistry(KAFKA_APIS, *({handler.api.key: handler.api} for handler in own)) if own else KAFKA_APIS
    served = dict(_SERVED)
    for handler in own:
        if handler.api.key in served:
            raise LocalProtocolError(f"{handler!r}: {served[handler.api.key]!r} serves it already")
        served[handler.api.key] = handler
    return ServedApis(apis, {key: served[key] for key in sorted(served)})


def _checked(handlers: Iterable[ApiHandler]) -> tuple[ApiHandler, ...]:
    if not isinstance(handlers, Iterable):
        raise TypeError(f"handlers is {handlers!r:.60}, a sequence of ApiHandler is needed")
    own = tuple(handlers)
    for number, handler in enumerate(own):
        if not isinstance(handler, ApiHandler):
            raise TypeError(f"handlers[{number}] is {handler!r:.60}, no ApiHandler")
    return own


def since(message: type[Message], field: str) -> int:
    """Return the first version in which a message has a field."""
    return next(known.versions.first for known in message.FIELDS if known.name == field)
