"""The APIs that a connection knows: Kafka's own and those from custom schemas.

A connection looks up each API and version only once, so a registry adds no cost per request. Conflicts, and tables that
do not match their classes, are detected when a registry is created rather than on the first request. `kafkawire codegen
check` compares Kafka's own table with its schemas, so that table is not checked again here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.schema import Api, Message, Schema
from kafkawire.sdk.protocol.tables.apis import APIS, KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["KAFKA_APIS", "ApiRegistry", "Key"]

#: A member of a generated `ApiKey` enumeration, or a plain number.
Key = TypeVar("Key", bound=int)

_KAFKA: Final[Mapping[int, Api]] = {api.key: api for api in KNOWN_APIS.values()}

#: Every connection opens with these APIs, so every registry contains them.
_OPENING: Final = tuple(APIS[key] for key in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE))


class ApiRegistry(Mapping[int, Api]):
    """A mapping from API keys to APIs, in the order of the keys.

    ApiVersions, SaslHandshake and SaslAuthenticate are always included, because connections open with them.

    Args:
        tables: generated `APIS` tables or registries; the same API may occur in more than one.

    Raises:
        TypeError: an argument is not a table of APIs.
        LocalProtocolError: two APIs share a key or a name; an API's classes are not the generated request and response
            for its key, or lack one of its versions; or a header lacks the version that the API names.
    """

    def __init__(self, *tables: Mapping[Any, Api]) -> None:
        found: dict[int, Api] = {api.key: api for api in _OPENING}
        names = {api.name: api for api in _OPENING}
        for api in _all_of(tables):
            for other in (found.setdefault(api.key, api), names.setdefault(api.name, api)):
                if other != api:
                    shared = f"the key {api.key}" if other.key == api.key else f"the name {api.name}"
                    raise LocalProtocolError(f"{_shown(api)} and {_shown(other)} share {shared}")
            if _KAFKA.get(api.key) != api:
                _check(api)
        self._apis = dict(sorted(found.items()))
        self._checked: object = None

    def __getitem__(self, key: int) -> Api:
        return self._apis[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._apis)

    def __len__(self) -> int:
        return len(self._apis)

    def __repr__(self) -> str:
        own = [_shown(api) for key, api in self._apis.items() if _KAFKA.get(key) != api]
        return f"<registry of {len(self)} APIs, {', '.join(own) or 'none'} beside Kafka's>"

    def of(self, request: type[Message]) -> Api:
        """Return the API of a request.

        Args:
            request: the class of the request.

        Raises:
            LocalProtocolError: the class is not a request, or its API is not in this registry.
        """
        schema: Schema | None = getattr(request, "SCHEMA", None)
        if schema is None:
            raise LocalProtocolError(f"{request.__qualname__} is not a message; expected an instance of a request")
        if schema.kind != "request" or schema.key is None:
            raise LocalProtocolError(f"expected a request, got the {schema.kind} {schema.name}")
        api = self._apis.get(schema.key)
        if api is None:
            raise LocalProtocolError(
                f"{schema.name}: no API with the key {schema.key} is in the registry of this connection; pass "
                f"apis=ApiRegistry(…) with the table that contains it"
            )
        if api.request is not request:
            raise LocalProtocolError(f"{request.__module__}.{schema.name} is not the request of {_shown(api)}")
        return api

    def check_served(self, versions: Mapping[Key, VersionRange]) -> None:
        """Raise an error unless a mapping of served versions fits this registry.

        The same mapping is checked only once, because all connections of a broker share it.

        Args:
            versions: the versions served, keyed by API key.

        Raises:
            LocalProtocolError: an API is not in this registry, or lacks some of these versions.
        """
        if versions is self._checked:
            return
        for key, served in versions.items():
            known = self._apis[key].known_versions if key in self._apis else VersionRange(0, -1)
            if known & served != served:
                raise LocalProtocolError(f"API key {key}: versions {served} are served, but the registry has {known}")
        self._checked = versions


def _all_of(tables: Iterable[Mapping[Any, Api]]) -> Iterator[Api]:
    for number, table in enumerate(tables, start=1):
        if not isinstance(table, Mapping):
            raise TypeError(f"table {number}: expected a generated table `APIS` or an ApiRegistry, got {quoted(table)}")
        for api in table.values():
            if not isinstance(api, Api):
                raise TypeError(f"table {number}: expected an Api, got {quoted(api)}")
            yield api


def _shown(api: Api) -> str:
    return f"{api.name} ({api.key}, of {api.package})"


def _check(api: Api) -> None:
    """Raise `LocalProtocolError` unless an API matches its classes and the headers."""
    first = () if api.first_request_header is None else (api.first_request_header,)
    for kind, headers, header in (
        ("request", (*api.request_headers, *first), RequestHeader),
        ("response", api.response_headers, ResponseHeader),
    ):
        schema = _schema(api, kind)
        if schema is None or (schema.kind, schema.key) != (kind, api.key):
            what = "no generated message" if schema is None else f"a {schema.kind} with the key {schema.key}"
            raise LocalProtocolError(f"{_shown(api)}: {api.name}{kind.title()} is {what}, not its {kind}")
        ours, theirs = api.known_versions, schema.known_versions
        if ours & theirs != ours:
            raise LocalProtocolError(f"{_shown(api)}: the versions are {ours}, but {schema.name} has {theirs}")
        for version in headers:
            if version not in header.SCHEMA.known_versions:
                raise LocalProtocolError(
                    f"{_shown(api)}: {kind} header {version} does not exist; "
                    f"the known versions are {header.SCHEMA.known_versions}"
                )


def _schema(api: Api, kind: str) -> Schema | None:
    """Return the schema of a message class of an API; None if the class is not a message."""
    try:
        cls: object = api.request if kind == "request" else api.response
    except (ImportError, AttributeError) as error:
        raise LocalProtocolError(f"{_shown(api)}: it has no {kind}: {error}") from error
    return getattr(cls, "SCHEMA", None) if isinstance(cls, type) and issubclass(cls, Message) else None


#: Kafka's own APIs, including removed ones: the default of every connection.
KAFKA_APIS: Final = ApiRegistry(KNOWN_APIS)
