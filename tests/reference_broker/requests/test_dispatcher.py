"""A request is passed to the handler of its API, along with the parts of the broker that the handler asks for.

Method: serve the example's API with the test's own handlers.
"""

from typing import Any

import pytest

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS as OWN
from examples.own_api.tables.apis import ApiKey as OwnKey
from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.api_handlers import ApiHandler
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.long_requests import AT_A_TIME
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, all_steps

GREET = OWN[OwnKey.GREET]


def ask(bench: BrokerBench, handle):
    """Return the answer to a greeting."""
    before = bench.core.requests
    dispatcher = Dispatcher(load([ApiHandler(GREET, handle)]), bench.core.parts, before.services, 1_000)
    request = GreetRequest()
    return dispatcher.handle(bench.call(Request(GREET, GREET.versions.last, 0, "c", request, 10)), request)


def test_parts_are_given(bench):
    bench.create("t")

    def handle(call, request, *, directory):
        return GreetResponse(throttle_time_ms=len(directory.topic_names()))

    assert ask(bench, handle) == GreetResponse(throttle_time_ms=1)


@pytest.mark.parametrize("entries", [0, AT_A_TIME - 1, AT_A_TIME, 5 * AT_A_TIME])
def test_what_takes_long_is_done_in_pieces(bench, entries):
    def handle(call, request):
        for _ in range(entries):
            yield
        return GreetResponse(throttle_time_ms=entries)

    answer = ask(bench, handle)
    assert isinstance(answer, DelayedOperation) is (entries >= AT_A_TIME)
    if isinstance(answer, DelayedOperation):
        all_steps(answer)
        answer = answer.response
    assert answer == GreetResponse(throttle_time_ms=entries)


def test_some_apis_are_the_controllers(bench):
    """The broker may become the controller, or cease to be, at any time; other APIs do not check this."""
    asked = []

    def is_controller():
        asked.append(None)
        return len(asked) % 2 == 0

    dispatcher = Dispatcher(load(), bench.core.parts, bench.core.requests.services, 1_000, is_controller)

    def answer(api: Api, request: Message) -> Any:
        return dispatcher.handle(bench.call(Request(api, api.versions.last, 0, "c", request, 10)), request)

    topics = [DeleteTopicsRequest.DeleteTopicState("t"), DeleteTopicsRequest.DeleteTopicState("u")]
    for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        response = answer(APIS[ApiKey.DELETE_TOPICS], DeleteTopicsRequest(topics))
        assert [(each.name, each.error_code) for each in response.responses] == [("t", code), ("u", code)]
    assert answer(APIS[ApiKey.API_VERSIONS], ApiVersionsRequest("c", "1")).error_code == ErrorCode.NONE
    assert len(asked) == 2


def test_what_is_served_is_known(bench):
    dispatcher = Dispatcher(load(), bench.core.parts, bench.core.requests.services, 1_000)
    assert dispatcher.served == {key: each.versions for key, each in load().handlers.items()}
    assert dispatcher.frame_bytes_max == 1_000
