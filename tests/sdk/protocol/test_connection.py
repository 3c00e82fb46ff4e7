"""Each side receives what the other side sends, and a peer that breaks the rules is reported.

Method: join a client connection and a server connection by hand, and send pipelined requests and responses in every
order; do the version handshake with brokers of every age; send damaged and unexpected frames.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from kafkawire.sdk.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.connection import ClientConnection, Request, Sent, ServerConnection
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange

ALL = {key: api.versions for key, api in APIS.items()}


def frames(parts: list[Buffer]) -> list[bytes]:
    return FrameBuffer().receive(b"".join(parts))


def deliver(server: ServerConnection, sent: Sent) -> Request:
    (frame,) = frames(sent.parts)
    return server.receive(frame)


def supported(**ranges: tuple[int, int]) -> dict[ApiKey, VersionRange]:
    return {ApiKey[name]: VersionRange(*versions) for name, versions in ranges.items()}


def offer(ranges: dict[ApiKey, VersionRange], error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    entries = [ApiVersionsResponse.ApiVersion(key, low, high) for key, (low, high) in ranges.items()]
    return ApiVersionsResponse(error_code=error, api_keys=entries)


@pytest.mark.parametrize("version", range(APIS[ApiKey.HEARTBEAT].versions[1] + 1))
def test_request_and_response(version: int) -> None:
    client, server = ClientConnection("me"), ServerConnection(ALL)
    (frame,) = frames(client.request(HeartbeatRequest("g", 3, "m"), version).parts)
    request = server.receive(frame)
    assert (request.api.name, request.version, request.client_id) == ("Heartbeat", version, "me")
    assert request.size_bytes == len(frame)
    assert request.message == HeartbeatRequest("g", 3, "m")
    (frame,) = frames(server.respond(request, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    received = client.receive(frame)
    assert received.message == HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert (received.version, received.unread_bytes, client.in_flight, server.pending) == (version, 0, 0, 0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_responses_leave_in_request_order(order: tuple[int, ...]) -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    requests = [deliver(server, client.request(HeartbeatRequest("g", i, "m"), 4)) for i in range(3)]
    out: list[bytes] = []
    for i in order:
        out += frames(server.respond(requests[i], HeartbeatResponse(throttle_time_ms=i)))
    assert [client.receive(frame).message for frame in out] == [HeartbeatResponse(throttle_time_ms=i) for i in range(3)]


def test_request_without_response_does_not_hold_back_others() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    silent = deliver(server, client.request(ProduceRequest(acks=0), 3, expect_response=False))
    request = deliver(server, client.request(HeartbeatRequest(), 4))
    assert server.respond(request, HeartbeatResponse()) == []
    (frame,) = frames(server.respond(silent, None))
    assert client.receive(frame).api.key == ApiKey.HEARTBEAT


@pytest.mark.parametrize(
    ("theirs", "asked"),
    [((0, 4), [4]), ((0, 3), [4, 3]), ((0, 0), [4, 0]), ((0, 9), [4])],
    ids=["same", "older", "oldest", "newer"],
)
def test_handshake(theirs: tuple[int, int], asked: list[int]) -> None:
    ours = APIS[ApiKey.API_VERSIONS].versions
    client, server = ClientConnection(), ServerConnection(ALL | {ApiKey.API_VERSIONS: ours & theirs})
    versions, done = [], False
    while not done:
        sent = client.handshake()
        versions.append(sent.version)
        request = deliver(server, sent)
        error = ErrorCode.UNSUPPORTED_VERSION if request.version_error else ErrorCode.NONE
        answer = offer(ALL | {ApiKey.API_VERSIONS: VersionRange(*theirs)}, error)
        (frame,) = frames(server.respond(request, answer))
        response = client.receive(frame).message
        assert isinstance(response, ApiVersionsResponse)
        done = client.negotiate(response)
    assert versions == asked
    assert client.offers(APIS[ApiKey.FETCH])


def test_handshake_with_a_broker_that_lists_nothing_falls_back_to_the_lowest() -> None:
    client = ClientConnection()
    assert client.handshake().version > 0
    assert client.negotiate(offer({}, ErrorCode.UNSUPPORTED_VERSION)) is False
    assert client.handshake().version == 0
    with pytest.raises(RemoteProtocolError, match="error code 35"):
        client.negotiate(offer({}, ErrorCode.UNSUPPORTED_VERSION))


def test_handshake_never_asks_below_the_lowest_version() -> None:
    client = ClientConnection()
    assert client.negotiate(offer(supported(API_VERSIONS=(-1, -1)), ErrorCode.UNSUPPORTED_VERSION)) is False
    assert client.handshake().version == 0


@pytest.mark.parametrize("error", [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_handshake_that_is_refused_for_another_reason(error: ErrorCode) -> None:
    client = ClientConnection()
    with pytest.raises(RemoteProtocolError, match=f"ApiVersions was refused with error code {int(error)}$"):
        client.negotiate(offer(ALL, error))
    assert not client.offers(APIS[ApiKey.FETCH])


def test_handshake_with_a_broker_that_refuses_what_it_lists_goes_down_step_by_step() -> None:
    """A proxy may list versions of the broker behind it and still refuse them; no version is requested twice."""
    client = ClientConnection()
    refusal = offer(supported(API_VERSIONS=(0, 4)), ErrorCode.UNSUPPORTED_VERSION)
    asked = [client.handshake().version]
    while asked[-1] > 0:
        assert client.negotiate(refusal) is False
        asked.append(client.handshake().version)
    assert asked == [4, 3, 2, 1, 0]
    with pytest.raises(RemoteProtocolError, match="error code 35"):
        client.negotiate(refusal)


@pytest.mark.parametrize(
    ("ranges", "version"),
    [
        (supported(HEARTBEAT=(0, 2)), 2),
        (supported(HEARTBEAT=(4, 20)), 4),
        (supported(HEARTBEAT=(5, 6)), "this client supports versions 0-4, the broker 5-6"),
        (supported(FETCH=(4, 6)), "the broker does not support this API"),
    ],
)
def test_version_for(ranges: dict[ApiKey, VersionRange], version: int | str) -> None:
    client = ClientConnection()
    assert client.negotiate(offer(ranges))
    if isinstance(version, int):
        assert client.version_for(APIS[ApiKey.HEARTBEAT]) == version
        assert client.request(HeartbeatRequest()).version == version
    else:
        with pytest.raises(UnsupportedVersion, match=version):
            client.version_for(APIS[ApiKey.HEARTBEAT])


def test_the_level_of_a_feature() -> None:
    client = ClientConnection()
    offered = offer(ALL)
    offered.finalized_features_epoch = 3
    offered.finalized_features = (ApiVersionsResponse.FinalizedFeatureKey("transaction.version", 2, 0),)
    client.negotiate(offered)
    assert client.feature_level("transaction.version") == 2
    assert client.feature_level("another") == 0


def test_an_unstable_version_is_not_chosen() -> None:
    unstable = [api for api in APIS.values() if api.unstable]
    assert unstable
    for api in unstable:
        assert ClientConnection().version_for(api) == api.versions[1] - 1


def test_only_requests_are_sent() -> None:
    with pytest.raises(LocalProtocolError, match="got the response HeartbeatResponse"):
        ClientConnection().request(HeartbeatResponse())


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_a_connection_without_requests_is_refused(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"max_in_flight must be an integer of at least 1, got {wrong!r}"):
        ClientConnection(max_in_flight=wrong)


def test_in_flight_limit() -> None:
    client = ClientConnection(max_in_flight=1)
    client.request(HeartbeatRequest())
    with pytest.raises(LocalProtocolError, match="1 requests are in flight, but at most 1"):
        client.request(HeartbeatRequest())


def test_a_response_nobody_asked_for() -> None:
    with pytest.raises(RemoteProtocolError, match="no request is awaiting"):
        ClientConnection().receive(bytes(10))


@pytest.mark.parametrize("body", [b"", b"\0"])
def test_an_api_versions_response_without_an_error_code(body: bytes) -> None:
    client = ClientConnection()
    client.handshake()
    with pytest.raises(RemoteProtocolError, match="error_code at byte 4"):
        client.receive(bytes(4) + body)


def test_only_an_api_versions_response_may_be_in_another_version() -> None:
    """A response that happens to begin with the code for UNSUPPORTED_VERSION is read in its request's version."""
    client, server = ClientConnection(), ServerConnection(ALL)
    answer = HeartbeatResponse(throttle_time_ms=ErrorCode.UNSUPPORTED_VERSION << 16)
    request = deliver(server, client.request(HeartbeatRequest(), 4))
    (frame,) = frames(server.respond(request, answer))
    received = client.receive(frame)
    assert (received.version, received.message) == (4, answer)


@pytest.mark.parametrize("more", [b"", b"\0", b"later"])
def test_bytes_after_a_response_are_counted(more: bytes) -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    request = deliver(server, client.request(HeartbeatRequest(), 4))
    (frame,) = frames(server.respond(request, HeartbeatResponse()))
    assert client.receive(frame + more).unread_bytes == len(more)


def test_a_response_to_another_request() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    client.request(HeartbeatRequest(), 4)
    second = deliver(server, client.request(HeartbeatRequest(), 4))
    (frame,) = frames(server.respond(second, HeartbeatResponse()))
    with pytest.raises(RemoteProtocolError, match=r"correlation id 1, but 0 \(Heartbeat\) is next"):
        client.receive(frame)


def test_what_is_not_the_response_of_a_request_is_refused() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    request = deliver(server, client.request(HeartbeatRequest(), 4))
    for wrong in (ProduceResponse(), HeartbeatRequest()):
        with pytest.raises(
            LocalProtocolError, match=f"{type(wrong).__name__} is not a response to a Heartbeat request"
        ):
            server.respond(request, wrong)
    server.respond(request, HeartbeatResponse())
    with pytest.raises(LocalProtocolError, match="already answered"):
        server.respond(request, HeartbeatResponse())


def test_every_request_has_a_response_but_produce_without_acks() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    silent = deliver(server, client.request(ProduceRequest(acks=0), 3, expect_response=False))
    asking = [deliver(server, client.request(each, 3)) for each in (ProduceRequest(acks=1), HeartbeatRequest())]
    assert not silent.has_response
    for request in asking:
        assert request.has_response
        with pytest.raises(LocalProtocolError, match=f"a {request.api.name} request needs a response, got None"):
            server.respond(request, None)
    assert server.pending == 3
    server.respond(silent, None)
    for request in asking:
        server.respond(request, request.api.response())
    assert server.pending == 0


def test_every_api_crosses_in_every_version() -> None:
    """Each request and response with default values arrives as it was sent, with its version's header."""
    import importlib

    from kafkawire.sdk.protocol.messages import MODULES

    for key, api in APIS.items():
        module = importlib.import_module(f"kafkawire.sdk.protocol.messages.{MODULES[f'{api.name}Request']}")
        for version in range(api.versions[0], api.versions[1] + 1):
            client, server = ClientConnection(), ServerConnection(ALL)
            message = getattr(module, f"{api.name}Request")()
            request = deliver(server, client.request(message, version))
            assert (request.api.key, request.version, request.message) == (key, version, message)
            answer = getattr(module, f"{api.name}Response")()
            (frame,) = frames(server.respond(request, answer))
            assert client.receive(frame).message == answer


def test_correlation_ids_wrap() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    client._next_id = 2**31 - 2
    ids = [deliver(server, client.request(FindCoordinatorRequest("g"), 0)).correlation_id for _ in range(4)]
    assert ids == [2**31 - 2, 2**31 - 1, 0, 1]


# ------------------------------------------------------------------------------------------- frames beyond 2 GiB


class Region:
    """A part of a file, which has a length but is not in memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


TOO_LONG = r"^the frame has 214748\d{4} bytes, but at most 2147483647 can be sent$"


def test_a_request_that_is_too_long_is_refused_and_not_counted() -> None:
    client = ClientConnection()
    partition = ProduceRequest.PartitionProduceData(index=0, records=Region(2**31 - 1))  # type: ignore[arg-type]  # stands for a buffer that would not fit into memory
    with pytest.raises(LocalProtocolError, match=TOO_LONG):
        client.request(ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[partition])]), 8)
    assert client.in_flight == 0
    assert client.request(HeartbeatRequest(), 4).correlation_id == 0


def test_a_response_that_is_too_long_is_refused_and_can_be_replaced() -> None:
    client, server = ClientConnection(), ServerConnection(ALL)
    request = deliver(server, client.request(FetchRequest(), 11))
    partition = FetchResponse.PartitionData(records=Region(2**31 - 1))  # type: ignore[arg-type]  # as above
    topic = FetchResponse.FetchableTopicResponse("t", partitions=[partition])
    with pytest.raises(LocalProtocolError, match=TOO_LONG):
        server.respond(request, FetchResponse(responses=[topic]))
    (frame,) = frames(server.respond(request, FetchResponse()))
    assert client.receive(frame).message == FetchResponse()
