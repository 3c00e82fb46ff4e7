"""Handlers of APIs, and how they are registered.

A handler is a function that takes a `Call` and a request. It names the parts of the broker that it needs, for example
`groups` or `topics`, as keyword arguments, which are bound when the broker starts. So the signature shows what the
handler can access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, Final, NamedTuple, TypeVar

from kafkawire.reference_broker.requests.delayed_operations import Answer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.api_registry import ApiRegistry
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["CLUSTER_PARTS", "PARTS", "REGISTERED", "ApiHandler", "Handler", "Scope", "ServedApis", "serves", "since"]

#: The parts of a broker that a handler may name.
PARTS: Final = frozenset(
    {
        "advertised",
        "authorizer",
        "broker_configs",
        "client_metrics",
        "configs",
        "directory",
        "dynamic_configs",
        "entity_configs",
        "features",
        "fetch_sessions",
        "groups",
        "metadata",
        "options",
        "producer_ids",
        "replicas",
        "tokens",
        "throttling",
        "share_groups",
        "shares",
        "streams_topics",
        "topics",
        "transactions",
        "verifier",
    }
)

#: Parts that only brokers in a cluster have; only handlers with the scope CLUSTER may name them.
CLUSTER_PARTS: Final = frozenset({"control_requests", "controller", "image_waits"})

#: Called with a `Call`, a request, and the parts that it names. It either returns the answer, or is a generator that
#: yields wherever other connections may have a turn, and finally returns the answer.
Handler = Callable[..., Answer | Work[Answer]]


class Scope(Enum):
    """The brokers that serve an API.

    ALONE: standalone brokers, which have the APIs of Apache Kafka 4. CLUSTER: brokers in a cluster with ZooKeeper,
    which have the APIs of Apache Kafka 3. BOTH: all brokers.
    """

    BOTH = "both"
    ALONE = "alone"
    CLUSTER = "cluster"


class ApiHandler:
    """A function that serves an API.

    Args:
        api: from a generated table: `APIS[ApiKey.GREET]`.
        handle: called with the `Call` and the request, on the broker's event loop, so it must not block. It gets the
            parts that it names as keyword-only parameters (see `PARTS`). It returns the response, or a new
            `DelayedOperation` that will receive it. A handler that may have a lot of work is a generator function that
            yields after each entry in the request; other connections get a turn after some of the yields. If it raises
            a `BrokerError`, the response has that error's code; a `RemoteProtocolError` closes the connection unless it
            is a `DecodeError`; for any other exception, or None, the response is UNKNOWN_SERVER_ERROR.
        versions: the versions to serve, which may include removed ones; None for all stable ones.
        advertised_from: the lowest version advertised to clients, if it differs from the lowest one served; it may be
            one that no longer exists but that some clients look for.
        scope: the brokers that serve the API.
        only_on_controller: whether a broker that is not the controller answers NOT_CONTROLLER instead.

    Raises:
        TypeError: `api` is not an `Api`, `handle` is not a plain function that takes two arguments and parts of a
            broker, `versions` is not a `VersionRange`, `advertised_from` is not an int, or `scope` is not a `Scope`.
        LocalProtocolError: some of the versions do not exist, or `advertised_from` is negative or higher than all of
            them.

    Attributes:
        api: see above.
        handle: see above.
        only_on_controller: see above.
        scope: see above.
        versions: the versions served.
        advertised: the versions advertised to clients.
    """

    __slots__ = ("_parts", "advertised", "api", "handle", "only_on_controller", "scope", "versions")

    def __init__(
        self,
        api: Api,
        handle: Handler,
        versions: VersionRange | None = None,
        *,
        advertised_from: int | None = None,
        scope: Scope = Scope.BOTH,
        only_on_controller: bool = False,
    ) -> None:
        if not isinstance(api, Api):
            raise TypeError(f"api must be an Api from a generated table, such as APIS[ApiKey.…], got {api!r:.60}")
        if reason := _unfit(handle, PARTS | CLUSTER_PARTS if scope is Scope.CLUSTER else PARTS):
            raise TypeError(f"{api.name}: the handler {handle!r:.60} {reason}")
        if versions is not None and not (isinstance(versions, VersionRange) and all(map(_is_int, versions))):
            raise TypeError(f"{api.name}: versions must be a VersionRange, got {versions!r:.60}")
        if advertised_from is not None and not _is_int(advertised_from):
            raise TypeError(f"{api.name}: advertised_from must be an int, got {advertised_from!r:.60}")
        if not isinstance(scope, Scope):
            raise TypeError(f"{api.name}: scope must be a Scope, got {scope!r:.60}")
        served, known = (api.stable_versions, api.versions) if versions is None else (versions, api.known_versions)
        advertised = served if advertised_from is None else VersionRange(advertised_from, served.last)
        if not served or known & served != served:
            raise LocalProtocolError(f"{api.name} ({api.key}): versions must be within {known}, got {served}")
        if not advertised or advertised.first < 0:
            text = f"advertised_from must be from 0 to {served.last}, got {advertised_from}"
            raise LocalProtocolError(f"{api.name} ({api.key}): {text}")
        self.api = api
        self.handle = handle
        self.only_on_controller = only_on_controller
        self.scope = scope
        self.versions = served
        self.advertised = advertised
        self._parts = _parts_of(handle)

    def with_parts(self, parts: Mapping[str, Any]) -> Handler:
        """Return `handle` with its parts bound; the result takes just a `Call` and a request.

        Args:
            parts: the parts of a broker: all of `PARTS`, and in a cluster all of `CLUSTER_PARTS`.
        """
        return partial(self.handle, **{name: parts[name] for name in self._parts}) if self._parts else self.handle

    def __repr__(self) -> str:
        return f"<handler of {self.api.name} ({self.api.key}) versions {self.versions}>"


def _unfit(handle: object, parts: frozenset[str]) -> str:
    """Return why a function cannot handle requests, given a broker's parts, or "" if no reason is found."""
    if not callable(handle):
        return "is not a function"
    inner: Any = handle
    while isinstance(inner, partial):
        inner = inner.func
    called = (inner, type(inner).__call__)
    if any(map(iscoroutinefunction, called)):
        return "is a coroutine function"
    if any(map(isasyncgenfunction, called)):
        return "is an async generator function"
    wanted = _parts_of(handle)
    if unknown := wanted - parts:
        return f"takes unknown parameters {', '.join(sorted(unknown))}; available parts: {', '.join(sorted(parts))}"
    try:
        signature(handle).bind(None, None, **dict.fromkeys(wanted))
    except TypeError as error:
        return f"cannot be called with a Call and a request: {error}"
    except ValueError:
        pass  # the function is not written in Python, and has no signature
    return ""


def _parts_of(handle: Callable[..., Any]) -> set[str]:
    """Return the names of the parts of a broker that a handler takes."""
    try:
        parameters = signature(handle).parameters.values()
    except ValueError:
        return set()
    return {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class ServedApis(NamedTuple):
    """The APIs that a broker serves.

    Attributes:
        apis: all known APIs.
        handlers: the handlers, keyed by API key, in ascending order.
    """

    apis: ApiRegistry
    handlers: dict[int, ApiHandler]


#: The handlers, keyed by API key and scope; every module in `apis/` adds its own when it is imported.
REGISTERED: Final[dict[tuple[int, Scope], ApiHandler]] = {}

H = TypeVar("H", bound=Handler)


def serves(
    key: ApiKey,
    versions: VersionRange | None = None,
    *,
    advertised_from: int | None = None,
    scope: Scope = Scope.BOTH,
    only_on_controller: bool = False,
) -> Callable[[H], H]:
    """Register the function below as the handler of one of Kafka's APIs; see `ApiHandler`."""

    def register(handle: H) -> H:
        REGISTERED[key, scope] = ApiHandler(
            KNOWN_APIS[key],
            handle,
            versions,
            advertised_from=advertised_from,
            scope=scope,
            only_on_controller=only_on_controller,
        )
        return handle

    return register


def since(message: type[Message], field: str) -> int:
    """Return the first version of a message that has a field."""
    return next(known.versions.first for known in message.FIELDS if known.name == field)
