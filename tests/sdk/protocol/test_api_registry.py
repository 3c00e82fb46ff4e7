"""A registry contains its tables' entries, and refuses entries that would otherwise fail later.

Method: combine the example's table with Kafka's, and change its entries in one place each.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS as OWN
from examples.own_api.tables.apis import ApiKey as OwnKey
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

GREET = OWN[OwnKey.GREET]
PACKAGE, KAFKA = "examples.own_api.messages", "kafkawire.sdk.protocol.messages"


def table(**changes: Any) -> dict[int, Any]:
    """Return the example's table with its entry changed."""
    api = GREET._replace(**changes)
    return {api.key: api}


def test_kafkas_apis_are_there_unless_said_otherwise() -> None:
    assert dict(KAFKA_APIS) == KNOWN_APIS
    assert list(KAFKA_APIS) == sorted(KNOWN_APIS)
    assert KAFKA_APIS.of(FetchRequest) is APIS[ApiKey.FETCH]


def test_every_api_knows_its_messages() -> None:
    for api in (*APIS.values(), GREET):
        for cls, kind in ((api.request, "request"), (api.response, "response")):
            assert (cls.SCHEMA.kind, cls.SCHEMA.key, cls.SCHEMA.versions) == (kind, api.key, api.versions)


def test_own_apis_beside_kafkas_and_alone() -> None:
    both, alone = ApiRegistry(APIS, OWN), ApiRegistry(OWN)
    assert dict(both) == {**APIS, **OWN}
    assert list(alone) == [ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE, OwnKey.GREET]
    for registry in (both, alone):
        assert registry.of(GreetRequest) is registry[OwnKey.GREET] is registry[910]
        assert repr(registry).endswith(f"Greet (910, of {PACKAGE}) beside Kafka's>")
    assert repr(KAFKA_APIS) == f"<registry of {len(KNOWN_APIS)} APIs, none beside Kafka's>"


def test_the_same_api_may_come_twice() -> None:
    assert ApiRegistry(ApiRegistry(OWN), OWN, APIS, KAFKA_APIS) == ApiRegistry(KNOWN_APIS, OWN)
    assert pickle.loads(pickle.dumps(ApiRegistry(APIS, OWN))) == ApiRegistry(APIS, OWN)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"name": "Metadata", "key": 911},
            f"Metadata (911, of {PACKAGE}) and Metadata (3, of {KAFKA}) share the name Metadata",
        ),
        ({"key": 3}, f"Greet (3, of {PACKAGE}) and Metadata (3, of {KAFKA}) share the key 3"),
        ({"key": 18}, f"Greet (18, of {PACKAGE}) and ApiVersions (18, of {KAFKA}) share the key 18"),
        ({"versions": VersionRange(0, 2), "listeners": ()}, "share the key 910"),
    ],
)
def test_clashes(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        ApiRegistry(APIS, OWN, table(**changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"key": 911}, "GreetRequest is a request with the key 910, not its request"),
        ({"package": "examples.nowhere"}, "it has no request: No module named 'examples.nowhere'"),
        (
            {"package": "examples.own_api.tables"},
            "it has no request: module 'examples.own_api.tables' has no attribute",
        ),
        ({"name": "G", "package": __name__}, "GRequest is no generated message, not its request"),
        ({"name": "H", "package": __name__}, "HRequest is a response with the key 910, not its request"),
        ({"name": "I", "package": __name__}, "IResponse is a response with the key 1, not its response"),
        ({"name": "J", "package": __name__}, "JRequest is no generated message, not its request"),
        ({"versions": VersionRange(0, 3)}, "the versions are 0-3, but GreetRequest has 0-2"),
        ({"request_headers": (3, 2)}, "request header 3 does not exist; the known versions are 0-2"),
        ({"response_headers": (0, 9)}, "response header 9 does not exist; the known versions are 0-1"),
    ],
)
def test_what_does_not_fit_its_classes(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"^\w+ \(\d+, of [\w.]+\): ") as caught:
        ApiRegistry(APIS, table(**changes))
    assert text in str(caught.value)


# The classes in the cases above: none, a response, another API's request, and the common base class.
GRequest = int
HRequest = GreetResponse
IRequest, IResponse = GreetRequest, FetchResponse
JRequest = Message


@pytest.mark.parametrize("wrong", [None, [GREET], GREET, [910], "APIS"])
def test_what_is_no_table(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"table 2: expected a generated table `APIS` or an ApiRegistry, got "):
        ApiRegistry(APIS, wrong)


@pytest.mark.parametrize("wrong", [{910: GreetRequest}, {"Greet": None}])
def test_what_is_no_api(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"table 1: expected an Api, got "):
        ApiRegistry(wrong)


def test_requests_that_a_registry_does_not_have() -> None:
    with pytest.raises(LocalProtocolError, match="GreetRequest: no API with the key 910 is in the registry"):
        KAFKA_APIS.of(GreetRequest)
    with pytest.raises(LocalProtocolError, match="expected a request, got the response GreetResponse"):
        ApiRegistry(OWN).of(GreetResponse)
    with pytest.raises(LocalProtocolError, match="FetchRequest: no API with the key 1 "):
        ApiRegistry(OWN).of(FetchRequest)


def test_a_request_of_another_package_is_not_taken_for_the_one_with_its_key() -> None:
    other = GREET._replace(name="Other", package=__name__)
    with pytest.raises(
        LocalProtocolError, match=r"own_api.messages.greet.GreetRequest is not the request of Other \(910"
    ):
        ApiRegistry({910: other}).of(GreetRequest)


class OtherRequest(Message):
    __slots__ = ("unknown_tags",)

    def __init__(self, unknown_tags: Any = ()) -> None:
        self.unknown_tags = unknown_tags


OtherRequest.SCHEMA = GreetRequest.SCHEMA
OtherResponse = GreetResponse


@pytest.mark.parametrize("cls", [int, type(HeartbeatRequest), MetadataRequest.MetadataRequestTopic])
def test_what_is_no_message(cls: Any) -> None:
    with pytest.raises(
        LocalProtocolError, match=rf"^{cls.__qualname__} is not a message; expected an instance of a request"
    ):
        KAFKA_APIS.of(cls)
