"""An admin client of a scripted broker, and the broker's answers to CreateTopics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.versions import VersionRange
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

__all__ = ["REQUEST_TIMEOUT_MS", "administering", "created"]

#: A broker of this release.
NEWEST: Mapping[ApiKey, int] = MappingProxyType({})

#: Not the default.
REQUEST_TIMEOUT_MS = 7_000


def administering(
    test: Callable[[StoringBroker, Admin], Awaitable[None]], last_versions: Mapping[ApiKey, int] = NEWEST
) -> None:
    """Run a test with an admin, against a broker that has topic t.

    Args:
        test: called with the broker and the admin.
        last_versions: the newest version that the broker supports, by API, if older than this release; -1 for none.
    """

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for key, last in last_versions.items():
            first = broker.supported.pop(key).first
            if last >= first:
                broker.supported[key] = VersionRange(first, last)
        async with Admin(
            str(BROKER), network=broker.network, retry_backoff_ms=1, request_timeout_ms=REQUEST_TIMEOUT_MS
        ) as admin:
            await test(broker, admin)
        with pytest.raises(Closed):
            admin.metrics()

    asyncio.run(run())


def created(*codes: int) -> Callable[[Request], CreateTopicsResponse]:
    """Answer CreateTopics, with an error code for each topic."""

    def respond(request: Request) -> CreateTopicsResponse:
        kind = CreateTopicsResponse.CreatableTopicResult
        wanted = zip(request.message.topics, codes, strict=True)
        return CreateTopicsResponse(
            topics=[kind(topic.name, topic_id_of(topic.name), code, "said the broker") for topic, code in wanted]
        )

    return respond
