"""A broker's connection reads every request, whatever earlier headers said, and refuses malformed ones.

Method: receive requests from clients with different names, in different versions, and bytes that are not requests.
test_connection.py tests pipelined requests and responses.
"""

from __future__ import annotations

from array import array

import pytest

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS as OWN
from examples.own_api.tables.apis import ApiKey as OwnKey
from kafkawire.sdk.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.api_registry import ApiRegistry
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, FrameBuffer
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.observation import read_request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.server_connection import ServerConnection
from kafkawire.sdk.protocol.tables.apis import APIS, REMOVED_APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

ALL = {key: api.versions for key, api in APIS.items()}

OWN_VERSIONS = {key: api.versions for key, api in OWN.items()}

HEARTBEAT = HeartbeatRequest("g", 1, "m")


def frame(client_id: str | None, message: Message = HEARTBEAT, version: int = 4) -> bytes:
    return b"".join(ClientConnection(client_id).request(message, version).parts)[LENGTH_BYTES:]


def test_each_request_has_the_client_id_of_its_header() -> None:
    server = ServerConnection(ALL)
    for client_id in ("a", "a", "ab", "b", None, None, "", "a"):
        for version in (4, 3, 4):  # flexible, with a header that ends differently, and not flexible
            for data in (frame(client_id, version=version), memoryview(bytearray(frame(client_id, version=version)))):
                request = server.receive(data)
                assert (request.client_id, request.version, request.message) == (client_id, version, HEARTBEAT)


def test_a_header_that_is_cut_off_is_not_that_of_the_request_before() -> None:
    server = ServerConnection(ALL)
    whole = frame("client")
    assert server.receive(whole).client_id == "client"
    for end in range(8, 17):
        with pytest.raises(DecodeError):
            server.receive(whole[:end])
    assert server.receive(whole).client_id == "client"


def test_tags_of_a_header_are_passed_over_every_time() -> None:
    server = ServerConnection(ALL)
    plain = frame("c")
    header_end = 8 + 2 + 1
    tagged = plain[:header_end] + b"\1\5\3abc" + plain[header_end + 1 :]
    for data in (tagged, tagged, plain, tagged):
        assert server.receive(data).message == HEARTBEAT


def test_an_unknown_version_of_api_versions_is_answered_between_others() -> None:
    server = ServerConnection(ALL | {ApiKey.API_VERSIONS: VersionRange(0, 2)})
    server.receive(frame("c"))
    request = server.receive(frame("c", ApiVersionsRequest("a", "1"), 3))
    assert (request.version_error, request.version, request.client_id) == (True, 0, None)
    assert server.receive(frame("c")).client_id == "c"
    assert server.pending == 3


@pytest.mark.parametrize(
    ("served", "text"),
    [
        ({910: VersionRange(0, 1)}, "API key 910: versions 0-1 are served, but the registry has none"),
        ({ApiKey.HEARTBEAT: VersionRange(0, 5)}, "API key 12: versions 0-5 are served, but the registry has 0-4"),
    ],
)
def test_what_the_registry_does_not_have_is_not_served(served: dict[int, VersionRange], text: str) -> None:
    for _ in range(2):  # a refused header is not remembered as valid
        with pytest.raises(LocalProtocolError, match=text):
            ServerConnection(served)


@pytest.mark.parametrize("registry", [ApiRegistry(APIS, OWN), ApiRegistry(OWN)], ids=["both", "alone"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_own_api_crosses(registry: ApiRegistry, version: int) -> None:
    client, server = ClientConnection("c", apis=registry), ServerConnection(OWN_VERSIONS, registry)
    asked = GreetRequest([GreetRequest.Person("Ann")])
    (frame,) = FrameBuffer().receive(b"".join(client.request(asked, version).parts))
    request = server.receive(frame)
    assert (request.api.name, request.version, request.client_id, request.message) == ("Greet", version, "c", asked)
    answer = GreetResponse(greetings=[GreetResponse.Greeting("Ann", "hello")])
    (frame,) = FrameBuffer().receive(b"".join(server.respond(request, answer)))
    received = client.receive(frame)
    assert (received.api, received.message, received.unread_bytes) == (request.api, answer, 0)


def test_an_unknown_version_of_an_own_api_closes_the_connection() -> None:
    registry = ApiRegistry(OWN)
    (frame,) = FrameBuffer().receive(b"".join(ClientConnection(apis=registry).request(GreetRequest(), 2).parts))
    with pytest.raises(RemoteProtocolError, match="Greet version 2 is not served here; supported versions: 0-1"):
        ServerConnection({OwnKey.GREET: VersionRange(0, 1)}, registry).receive(frame)


def test_responses_are_let_out_in_order() -> None:
    server = ServerConnection(ALL)
    first, second = server.receive(frame("c")), server.receive(frame("c"))
    assert server.respond(second, HeartbeatResponse()) == []
    assert len(server.respond(first, HeartbeatResponse())) == 2
    assert server.pending == 0


@pytest.mark.parametrize("version", [0, 1, 3])
def test_removed_versions_are_served_where_somebody_asks_for_them(version: int) -> None:
    """Older clusters need removed versions; version 0 of the ControlledShutdown request has its own header."""
    api = REMOVED_APIS[ApiKey.CONTROLLED_SHUTDOWN]
    client, server = ClientConnection("node"), ServerConnection({ApiKey(api.key): api.known_versions})
    sent = client.request(ControlledShutdownRequest(broker_id=3), version)
    request = server.receive(b"".join(sent.parts)[LENGTH_BYTES:])
    assert (request.message, request.client_id) == (ControlledShutdownRequest(3), "" if version == 0 else "node")
    partition = ControlledShutdownResponse.RemainingPartition("t", 1)
    answer = ControlledShutdownResponse(remaining_partitions=[partition])
    assert client.receive(b"".join(server.respond(request, answer))[LENGTH_BYTES:]).message == answer


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "the request has 0 bytes"),
        (b"\x00\x01\x00", "the request has 3 bytes"),
        (b"\x03\xe7\x00\x00\x00\x00\x00\x00", "API key 999 is not served"),
        (
            b"\x00\x0c\x00\x63\x00\x00\x00\x00\xff\xff",
            "Heartbeat version 99 is not served here; supported versions: 0-4",
        ),
        # These messages have codecs, but none of their versions is current.
        (b"\x00\x00\x00\x02\x00\x00\x00\x00\xff\xff", "Produce version 2 is not served here; supported versions: 3-13"),
        (b"\x00\x07\x00\x00\x00\x00\x00\x00", "API key 7 is not served"),
        (b"\x00\x0c\x00\x00\x00\x00\x00\x00\xff\xff\x00", "group_id"),
    ],
)
def test_a_broken_request(frame: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        ServerConnection(ALL).receive(frame)


def test_a_request_is_answered_by_the_connection_that_received_it() -> None:
    """Another connection, or one that only reads, must not accept the response."""
    server, other = ServerConnection(ALL), ServerConnection(ALL)
    request = server.receive(frame("c"))
    for foreign in (request, read_request(frame("c"))):
        with pytest.raises(LocalProtocolError, match=r"^Heartbeat request 0 was not received by this connection$"):
            other.respond(foreign, HeartbeatResponse())
    assert server.pending == 1
    assert server.respond(request, HeartbeatResponse())
    assert server.pending == 0


def test_a_frame_in_any_buffer() -> None:
    data = frame("client" + "x" * (-len(frame("client")) % 4))
    spread = bytearray(2 * len(data))
    spread[::2] = data
    server = ServerConnection(ALL)
    for view in (memoryview(array("i", data)), memoryview(spread)[::2]):
        request = server.receive(view)
        assert (request.message, request.size_bytes) == (HEARTBEAT, len(data))
