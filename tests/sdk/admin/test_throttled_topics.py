"""A topic whose creation or deletion is throttled is created or deleted later, exactly once (KIP-599).

Method: call a scripted in-memory broker with hand-built responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.admin import topics
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.client import operations
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.admin.administering import administering, created
from tests.sdk.scripted_broker import BROKER, StoringBroker

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def asked_of(broker: StoringBroker, api_key: ApiKey) -> list[Any]:
    """Return the requests of one kind that the broker received."""
    return list(broker.asked(api_key))


def test_only_throttled_topics_are_created_again() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(0, THROTTLED, THROTTLED), created(0, THROTTLED), created(0))
        assert list(await admin.create_topics(["a", "b", "c"])) == ["a", "b", "c"]
        asked = [[topic.name for topic in request.topics] for request in asked_of(broker, ApiKey.CREATE_TOPICS)]
        assert asked == [["a", "b", "c"], ["b", "c"], ["c"]]

    administering(test)


def test_an_error_of_one_topic_does_not_keep_throttled_ones_from_being_created() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.TOPIC_ALREADY_EXISTS, THROTTLED), created(0))
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS: create topic a"):
            await admin.create_topics(["a", "b"])
        assert [topic.name for topic in asked_of(broker, ApiKey.CREATE_TOPICS)[-1].topics] == ["b"]

    administering(test)


def test_a_topic_that_may_have_been_created_is_not_created_again() -> None:
    """Java's admin raises TimeoutException here; a retry would report that the topic exists."""

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.REQUEST_TIMED_OUT))
        with pytest.raises(BrokerError, match="REQUEST_TIMED_OUT: create topic a"):
            await admin.create_topics("a")

    administering(test)


def test_a_topic_that_is_named_twice() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        with pytest.raises(LocalProtocolError, match="create topic b: the topic is given twice"):
            await admin.create_topics(["a", "b", "b"])

    administering(test)


def check_given_up(retry_backoff_ms: int) -> None:
    """Create a topic with a controller that always throttles, with a time limit of 30 s."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.responders[ApiKey.CREATE_TOPICS] = created(THROTTLED)
        times: Any = {"api_timeout_ms": 30_000, "retry_backoff_ms": retry_backoff_ms, "retry_backoff_max_ms": 60_000}
        async with Admin(str(BROKER), network=broker.network, **times) as admin:
            with pytest.raises(BrokerError, match="THROTTLING_QUOTA_EXCEEDED: create topic a"):
                await admin.create_topics("a")

    asyncio.run(run())


def test_a_topic_that_is_throttled_for_too_long() -> None:
    check_given_up(60_000)  # the next attempt would come after the deadline, so the client does not wait for it


def test_a_controller_that_throttles_for_ever_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All attempts share one time limit, and the pauses between them grow; the clock skips the pauses."""
    pauses_ms: list[float] = []

    async def sleep_ms(duration_ms: float) -> None:
        pauses_ms.append(duration_ms)
        assert len(pauses_ms) < 100, "the retries did not end"

    for module in (topics, operations):
        monkeypatch.setattr(module, "monotonic_ms", lambda: monotonic_ms() + int(sum(pauses_ms)))
    monkeypatch.setattr(topics, "sleep_ms", sleep_ms)

    check_given_up(100)
    assert len(pauses_ms) > 5
    assert pauses_ms == sorted(pauses_ms)
    assert sum(pauses_ms) < 30_000


def test_only_throttled_topics_are_deleted_again() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        def deleted(*codes: int) -> Callable[[Request], DeleteTopicsResponse]:
            def respond(request: Request) -> DeleteTopicsResponse:
                kind = DeleteTopicsResponse.DeletableTopicResult
                names = [topic.name for topic in request.message.topics]
                return DeleteTopicsResponse(
                    responses=[kind(name, error_code=code) for name, code in zip(names, codes, strict=True)]
                )

            return respond

        broker.script(ApiKey.DELETE_TOPICS, deleted(0, THROTTLED), deleted(0))
        await admin.delete_topics(["a", "b"])
        asked = [[topic.name for topic in request.topics] for request in asked_of(broker, ApiKey.DELETE_TOPICS)]
        assert asked == [["a", "b"], ["b"]]

    administering(test)
