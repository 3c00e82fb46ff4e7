"""Coroutines send requests, describe topics and find leaders; a check may fail, and a request may be cancelled.

Method: run a client core against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC
from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER
from tests.sdk.scripted_broker import BROKER, ScriptedBroker


def operating(test: Callable[[ScriptedBroker, ClientCore], Awaitable[None]]) -> None:
    """Run a test on the driver's event loop, which is the caller's."""

    async def run() -> None:
        broker = ScriptedBroker({"t": 2, "u": 1})
        # No test waits for a timeout; a short one could fail the test on a busy machine.
        options = read_options(ClientOptions, str(BROKER), {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5})
        core = ClientCore("reader", options, broker.network)
        await core.start()
        try:
            await test(broker, core)
        finally:
            await core.end()

    asyncio.run(run())


def test_a_check_that_raises_what_is_retriable_has_the_request_sent_again() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3

        def check(response: MetadataResponse) -> None:
            if codes:
                raise BrokerError(codes.pop())

        answer = await core.operations.request(ANY_BROKER, MetadataRequest([]), MetadataResponse, check)
        assert answer.cluster_id == "scripted"
        assert not codes

    operating(test)


def test_whoever_is_woken_finds_the_request() -> None:
    """On an event loop nested in the caller's, the driver may run immediately."""

    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        calls: list[str] = []
        submit, wake = core.router.submit, core.operations.wake
        core.router.submit = lambda *call: calls.append("submit") or submit(*call)  # type: ignore[method-assign, func-returns-value]  # noted
        core.operations.wake = lambda: calls.append("wake") or wake()  # type: ignore[method-assign, func-returns-value]  # noted
        await core.operations.request(ANY_BROKER, MetadataRequest([]), MetadataResponse)
        assert calls[:2] == ["submit", "wake"]

    operating(test)


def test_a_check_that_raises_what_is_final_ends_it() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        count = 0

        def check(response: MetadataResponse) -> None:
            nonlocal count
            count += 1
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await core.operations.request(ANY_BROKER, MetadataRequest([]), MetadataResponse, check)
        assert count == 1

    operating(test)


def test_the_driver_is_woken_once_there_is_something_to_send() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        unsettled, wake = core.router._unsettled, core.operations.wake
        before, counts = len(unsettled), list[int]()

        def note() -> None:
            counts.append(len(unsettled))
            wake()

        core.operations.wake = note
        await core.operations.request(ANY_BROKER, MetadataRequest([]), MetadataResponse, lambda response: None)
        assert counts == [before + 1]

    operating(test)


def test_describing_topics() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        operations = core.operations
        assert len((await operations.describe(["t"]))["t"].partitions) == 2
        assert set(await operations.describe(None)) == {"t", "u"}
        assert await operations.describe(()) == {}
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic gone"):
            await operations.describe(["t", "gone"], final=NO_SUCH_TOPIC)

    operating(test)


def test_a_topic_that_is_just_being_created_is_asked_for_again() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        def create(request: Request) -> Message:
            answer = broker._metadata(request)
            broker.topics["new"] = 3
            return answer

        broker.script(ApiKey.METADATA, create)
        assert len((await core.operations.describe(["new"]))["new"].partitions) == 3

    operating(test)


def test_a_response_that_leaves_out_a_topic() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        assert set(await core.operations.describe(["t"])) == {"t"}  # now the topic is known
        without = MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)])
        broker.script(ApiKey.METADATA, lambda request: without)
        with pytest.raises(RemoteProtocolError, match="the response to Metadata lacks topic t"):
            await core.operations.describe(["t"])

    operating(test)


@pytest.mark.parametrize("part", ["request", "check"])
def test_a_mistake_of_who_asks_ends_one_request_alone(part: str) -> None:
    def mistaken(given: object) -> tuple[Message, int]:
        raise KeyError("what is not there")

    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        request, check = (mistaken, None) if part == "request" else (MetadataRequest([]), mistaken)
        with pytest.raises(KeyError, match="what is not there"):
            await core.operations.request(ANY_BROKER, request, MetadataResponse, check)
        assert set(await core.operations.describe(None)) == {"t", "u"}

    operating(test)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED])
def test_a_response_that_describes_no_cluster_is_asked_for_again(code: ErrorCode) -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        declining = [lambda request: MetadataResponse(error_code=code)] * 2
        broker.script(ApiKey.METADATA, *declining)
        assert set(await core.operations.describe(None)) == {"t", "u"}

    operating(test)


def test_a_cancelled_request_is_not_sent_again() -> None:
    async def test(broker: ScriptedBroker, core: ClientCore) -> None:
        asked = asyncio.Event()
        broker.script(ApiKey.METADATA, lambda request: asked.set())
        work = asyncio.ensure_future(core.operations.request(ANY_BROKER, MetadataRequest([]), MetadataResponse))
        await asked.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert not core.router._unsettled

    operating(test)
