"""A request passes through the elements of the path in order; a failure in a handler is answered, and logged once.

Method: use a broker without sockets, with replaced handlers or elements.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.request_path import ELEMENTS, chain, only_on_controller
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

REQUEST = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")])


@dataclass
class Asked:
    """A broker that handles every request with a function supplied by the test."""

    bench: BrokerBench

    def with_handler(self, handler, elements=ELEMENTS):
        request = Request(APIS[ApiKey.METADATA], 12, 0, "console", REQUEST, 10)
        call = self.bench.call(request)
        return chain(elements, handler)(call, REQUEST)


@pytest.fixture
def asked(bench) -> Asked:
    return Asked(bench)


def failing(error):
    def handler(call, message):
        raise error

    return handler


def test_elements_come_in_order_and_see_the_answer(asked):
    seen = []

    def element(name):
        def pass_on(following, call, message):
            seen.append(name)
            answer = following(call, message)
            seen.append(f"after {name}")
            return answer

        return pass_on

    def handler(call, message):
        seen.append(call.api.name)
        return MetadataResponse()

    assert asked.with_handler(handler, [element("a"), element("b")]) == MetadataResponse()
    assert seen == ["a", "b", "Metadata", "after b", "after a"]


def test_element_may_answer_by_itself(asked):
    def refuse(following, call, message):
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    response = asked.with_handler(failing(AssertionError("not reached")), [*ELEMENTS, refuse])
    assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.defect
def test_defect_is_answered_and_logged_once(asked, caplog):
    for _ in range(1_000):
        response = asked.with_handler(failing(KeyError("a defect")))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.UNKNOWN_SERVER_ERROR)]
    (record,) = caplog.records
    assert record.message == "Metadata version 12 from User:ANONYMOUS at /host on PLAINTEXT failed"
    assert "KeyError: 'a defect'" in caplog.text
    asked.bench.advance(10_000)
    asked.with_handler(failing(KeyError("a defect")))
    assert caplog.messages[-1].endswith("failed (and 999 more like it)")


@pytest.mark.defect
def test_defect_of_a_delayed_operation_is_answered_too(asked, caplog):
    delayed = DelayedOperation()
    assert asked.with_handler(lambda call, message: delayed) is delayed
    delayed.complete_by(lambda: failing(OSError("the file is gone"))(None, None))
    assert isinstance(delayed.response, MetadataResponse)
    assert delayed.response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "the file is gone" in caplog.text


def test_what_breaks_the_protocol_closes_the_connection(asked):
    with pytest.raises(RemoteProtocolError, match="nonsense"):
        asked.with_handler(failing(RemoteProtocolError("nonsense")))


def test_only_the_controller_passes_on_requests_of_some_apis(asked):
    is_controller = False
    element = partial(only_on_controller, lambda: is_controller)
    response = asked.with_handler(lambda call, message: MetadataResponse(), [*ELEMENTS, element])
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.NOT_CONTROLLER)]
    is_controller = True
    assert asked.with_handler(lambda call, message: MetadataResponse(), [*ELEMENTS, element]) == MetadataResponse()


def test_request_log(asked, caplog):
    asked.with_handler(lambda call, message: MetadataResponse())
    assert not caplog.records
    caplog.set_level(logging.DEBUG, "kafkawire.broker.requests")
    asked.bench.ask(ApiVersionsRequest("kafkawire", "1.0"), 3)
    asked.with_handler(lambda call, message: MetadataResponse())
    asked.with_handler(lambda call, message: DelayedOperation())
    asked.with_handler(lambda call, message: None)
    line = "Metadata version 12, client id 'console', from User:ANONYMOUS at /host (kafkawire 1.0) on PLAINTEXT: "
    assert caplog.messages[1:] == [line + outcome for outcome in ("answered", "delayed", "no response")]
