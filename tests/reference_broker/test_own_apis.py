"""Handlers of a user's own APIs pass through the same chain as the broker's, and cannot stop the broker.

Method: run a broker in a thread; its handler for the example's API calls a function supplied by the test. The client
sends one request at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS as OWN
from examples.own_api.tables.apis import ApiKey as OwnKey
from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.api_handlers import ApiHandler
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.errors import (
    BrokerError,
    DecodeError,
    EncodeError,
    LocalProtocolError,
    RemoteProtocolError,
)
from kafkawire.sdk.protocol.api_registry import ApiRegistry
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.transport.blocking import ConnectionEnded
from kafkawire.testing import Broker
from tests.own_package import own_package
from tests.reference_broker.raw_client import TIMEOUT_SECONDS, Client

GREET = OWN[OwnKey.GREET]
BOTH = ApiRegistry(APIS, OWN)

#: The limit on the size of responses from a user's own APIs, in these tests.
FRAME_BYTES_MAX = 10_000

#: Handler results that are not greetings.
SEVEN: Any = [7]

REQUEST = GreetRequest([GreetRequest.Person("Ann")])


class Outcome(BaseException):
    """An exception like those that test frameworks raise."""


class Greeter:
    """The handler, which calls the test's function."""

    handle: Callable[[Call, GreetRequest], Any]

    def __call__(self, call: Call, request: GreetRequest) -> Any:
        return self.handle(call, request)


@pytest.fixture
def greeter() -> Greeter:
    return Greeter()


@pytest.fixture
def broker(greeter: Greeter) -> Iterator[Broker]:
    handlers = [ApiHandler(GREET, greeter)]
    with Broker(ephemeral=True, handlers=handlers, max_frame_bytes=FRAME_BYTES_MAX) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker, greeter: Greeter) -> Iterator[Client]:
    greeter.handle = lambda call, request: GreetResponse(
        greetings=[GreetResponse.Greeting(person.name, f"hello from {call.version}") for person in request.people]
    )
    with Client(broker.bootstrap, BOTH) as client:
        yield client


def failing(error: BaseException) -> Callable[..., Any]:
    def handle(*_: object) -> Any:
        raise error

    return handle


def later(make: Callable[[], Any]) -> Callable[[Call, Any], DelayedOperation]:
    """Return a handler whose operation is completed by a timer."""

    def handle(call: Call, request: Any) -> DelayedOperation:
        delayed = DelayedOperation()
        call.timers.at(call.now_ms + 1, lambda now_ms: delayed.complete_by(make))
        return delayed

    return handle


def still_serves(client: Client, greeter: Greeter) -> bool:
    """Return whether the broker answers Kafka's APIs and the example's, on the same connection."""
    greeter.handle = lambda call, request: GreetResponse()
    return client.ask(REQUEST, 2, GreetResponse) == GreetResponse() and bool(client.metadata().brokers)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_it_is_served_in_every_version(client: Client, version: int) -> None:
    response = client.ask(REQUEST, version, GreetResponse)
    assert [(each.name, each.text) for each in response.greetings] == [("Ann", f"hello from {version}")]


def test_it_is_advertised_beside_the_others(client: Client) -> None:
    response = client.ask(ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)
    listed = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert listed.pop(OwnKey.GREET) == GREET.versions
    hidden = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}  # shown on request only
    assert listed == {key: each.advertised for key, each in load().handlers.items() if key not in hidden}
    assert list(listed) == sorted(listed)


def test_api_versions_in_an_unknown_version_is_answered_as_ever(broker: Broker) -> None:
    """Apache Kafka's response then has a single entry, for ApiVersions."""
    ours = APIS[ApiKey.API_VERSIONS].versions
    unknown = ours.last + 1
    with Client(broker.bootstrap) as client:
        frame = b"".join(client.protocol.request(ApiVersionsRequest("test", "1"), unknown - 1).parts)
        client.socket.send(frame[:6] + unknown.to_bytes(2, "big") + frame[8:])
        response = client.receive(ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (own,) = response.api_keys
    assert (own.api_key, own.min_version, own.max_version) == (ApiKey.API_VERSIONS, *ours)


def test_a_version_that_is_not_served_closes_the_connection(broker: Broker, client: Client) -> None:
    frame = b"".join(client.protocol.request(REQUEST, 2).parts)
    client.socket.send(frame[:6] + (3).to_bytes(2, "big") + frame[8:])
    with pytest.raises(ConnectionEnded):
        client.receive(GreetResponse)


def test_the_request_log_has_it(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafkawire.broker.requests")
    client.ask(REQUEST, 1, GreetResponse)
    assert caplog.messages[-1].startswith("Greet version 1, client id 'kafkawire', from ")
    assert caplog.messages[-1].endswith(": answered")


def test_an_error_of_the_protocol_is_answered_with_its_code(client: Client, greeter: Greeter) -> None:
    greeter.handle = failing(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you"))
    response = client.ask(REQUEST, 2, GreetResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you")
    assert still_serves(client, greeter)


@pytest.mark.defect
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("zero"),
        BrokerError(ErrorCode.NONE, "none"),
        LocalProtocolError("a wrong call"),
        DecodeError("inner", 0, "what the request carries cannot be read"),
        EncodeError("inner", "what it answers cannot be written"),
        StopIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        Outcome("of a test framework"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_goes_wrong_is_answered_and_logged(
    client: Client, greeter: Greeter, caplog: pytest.LogCaptureFixture, error: BaseException, version: int
) -> None:
    greeter.handle = failing(error)
    assert client.ask(REQUEST, version, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert still_serves(client, greeter)
    assert caplog.messages == [f"Greet version {version} from User:ANONYMOUS at /127.0.0.1 on PLAINTEXT failed"]
    assert type(error).__name__ in caplog.text


@pytest.mark.defect
def test_a_handler_that_exits_is_one_like_any_other(client: Client, greeter: Greeter) -> None:
    greeter.handle = lambda call, request: sys.exit("the end")
    assert client.ask(REQUEST, 2, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert still_serves(client, greeter)


@pytest.mark.defect
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (GreetRequest(), "GreetRequest is not a response to a Greet request"),
        (MetadataResponse(), "MetadataResponse is not a response to a Greet request"),
        (None, "a Greet request needs a response, got None"),
        ({"greetings": []}, "dict is not a response to a Greet request"),
        (GreetResponse(greetings=SEVEN), "greetings[0]"),
        (
            GreetResponse(greetings=[GreetResponse.Greeting("x" * FRAME_BYTES_MAX)]),
            f"at most {FRAME_BYTES_MAX} can be sent",
        ),
    ],
    ids=["request", "other API", "nothing", "no message", "wrong element", "too large"],
)
def test_an_answer_that_cannot_be_sent_is_refused_and_logged(
    client: Client, greeter: Greeter, caplog: pytest.LogCaptureFixture, answer: Any, text: str
) -> None:
    greeter.handle = lambda call, request: answer
    assert client.ask(REQUEST, 2, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert still_serves(client, greeter)
    assert caplog.messages == ["could not write the response to Greet"]
    assert text in caplog.text


@pytest.mark.defect
def test_a_delayed_answer_and_its_failure(client: Client, greeter: Greeter) -> None:
    greeter.handle = later(lambda: GreetResponse(throttle_time_ms=5))
    assert client.ask(REQUEST, 2, GreetResponse) == GreetResponse(throttle_time_ms=5)
    for error in (SystemExit("the end"), asyncio.CancelledError(), Outcome()):
        greeter.handle = later(failing(error))
        assert client.ask(REQUEST, 2, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert still_serves(client, greeter)


@pytest.mark.defect
@pytest.mark.parametrize("is_late", [False, True])
def test_a_delayed_answer_that_is_none(
    client: Client, greeter: Greeter, caplog: pytest.LogCaptureFixture, is_late: bool
) -> None:
    nothing: Any = None

    def handle(call: Call, request: GreetRequest) -> DelayedOperation:
        delayed = DelayedOperation()
        if is_late:
            call.timers.at(call.now_ms + 1, lambda now_ms: delayed.complete(nothing))
        else:
            delayed.complete(nothing)
        return delayed

    greeter.handle = handle
    assert client.ask(REQUEST, 2, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert still_serves(client, greeter)
    assert caplog.messages == ["Greet version 2 from User:ANONYMOUS at /127.0.0.1 on PLAINTEXT failed"]
    assert "a delayed operation must be completed with a response, got None" in caplog.text


@pytest.mark.defect
def test_one_delayed_answer_to_two_requests(
    broker: Broker, client: Client, greeter: Greeter, caplog: pytest.LogCaptureFixture
) -> None:
    delayed = DelayedOperation()

    def handle(call: Call, request: GreetRequest) -> DelayedOperation:
        if delayed.on_error is not None:
            call.timers.at(call.now_ms + 1, lambda now_ms: delayed.complete(GreetResponse(throttle_time_ms=5)))
        return delayed

    greeter.handle = handle
    client.send(REQUEST, 2)
    with Client(broker.bootstrap, BOTH) as other:
        other.metadata()  # the first request has already arrived, because its connection is older
        assert other.ask(REQUEST, 2, GreetResponse).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert client.receive(GreetResponse) == GreetResponse(throttle_time_ms=5)
        assert still_serves(other, greeter)
    assert still_serves(client, greeter)
    assert caplog.messages == ["Greet version 2 from User:ANONYMOUS at /127.0.0.1 on PLAINTEXT failed"]
    assert "was returned for two requests" in caplog.text


@pytest.mark.defect
def test_clients_that_leave_give_their_place_to_others_whatever_the_handler_does_then(
    greeter: Greeter, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = threading.Semaphore(0)

    def fail() -> None:
        cancelled.release()
        raise ZeroDivisionError

    def wait(call: Call, request: GreetRequest) -> DelayedOperation:
        delayed = DelayedOperation()
        delayed.on_cancel = fail
        return delayed

    handlers = [ApiHandler(GREET, greeter)]
    with Broker(ephemeral=True, handlers=handlers, max_connections_per_ip=1) as broker:
        for _ in range(3):
            greeter.handle = wait
            with Client(broker.bootstrap, BOTH) as client:
                client.send(REQUEST, 2)
            assert cancelled.acquire(timeout=TIMEOUT_SECONDS)
        with Client(broker.bootstrap, BOTH) as client:
            assert still_serves(client, greeter)
    assert caplog.messages == ["could not cancel the request from User:ANONYMOUS at /127.0.0.1 on PLAINTEXT"]


@pytest.mark.parametrize("is_late", [False, True])
def test_what_breaks_the_protocol_on_purpose_closes_the_connection(
    client: Client, greeter: Greeter, is_late: bool
) -> None:
    fail = failing(RemoteProtocolError("nobody is greeted like this"))
    greeter.handle = later(fail) if is_late else fail
    client.send(REQUEST, 2)
    with pytest.raises(ConnectionEnded):
        client.receive(GreetResponse)


SILENT = """\
api: Silent
key: 911
listeners: [broker]
request: {versions: 0, fields: []}
response:
  versions: 0
  fields:
    - {name: text, type: string}
"""


@pytest.mark.defect
@pytest.mark.parametrize("is_late", [False, True])
def test_without_a_place_for_an_error_the_connection_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_late: bool
) -> None:
    caplog.set_level(logging.INFO, "kafkawire.broker")
    with own_package(tmp_path, {"silent": SILENT}) as (messages, apis):
        (api,) = apis.APIS.values()
        fail = failing(ZeroDivisionError())
        handlers = [ApiHandler(api, later(fail) if is_late else fail)]
        with (
            Broker(ephemeral=True, handlers=handlers) as broker,
            Client(broker.bootstrap, ApiRegistry(apis.APIS)) as client,
        ):
            client.send(messages.SilentRequest(), 0)
            with pytest.raises(ConnectionEnded):
                client.receive(messages.SilentResponse)
            with Client(broker.bootstrap) as other:
                assert other.metadata().brokers
    failed, closed = caplog.messages
    assert failed.startswith("Silent version 0 from ")
    assert closed.endswith("Silent version 0 failed with UNKNOWN_SERVER_ERROR")


def test_a_quota_mutes_the_connection(client: Client, greeter: Greeter) -> None:
    def throttled(call: Call, request: GreetRequest) -> GreetResponse:
        call.throttle_ms = 1
        return GreetResponse(throttle_time_ms=1)

    greeter.handle = throttled
    assert client.ask(REQUEST, 2, GreetResponse).throttle_time_ms == 1
    assert still_serves(client, greeter)


def test_an_api_of_kafka_that_the_broker_does_not_serve() -> None:
    answer = UpdateRaftVoterResponse(throttle_time_ms=7)
    handler = ApiHandler(APIS[ApiKey.UPDATE_RAFT_VOTER], lambda call, request: answer)
    with Broker(ephemeral=True, handlers=[handler]) as broker, Client(broker.bootstrap) as client:
        assert client.ask(UpdateRaftVoterRequest(), 0, UpdateRaftVoterResponse) == answer


def test_fewer_versions_than_there_are() -> None:
    handler = ApiHandler(GREET, Greeter(), VersionRange(0, 1), advertised_from=1)
    with Broker(ephemeral=True, handlers=[handler]) as broker, Client(broker.bootstrap, BOTH) as client:
        response = client.ask(ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)
        (found,) = (each for each in response.api_keys if each.api_key == OwnKey.GREET)
        assert (found.min_version, found.max_version) == (1, 1)
