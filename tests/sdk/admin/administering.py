"""Run tests with an admin client and one or two scripted brokers; answer CreateTopics as a broker does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.transport.wire import Address
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

__all__ = ["REQUEST_TIMEOUT_MS", "Pair", "administering", "created"]

#: For a broker of this release, whose versions are all the newest.
NEWEST: Mapping[ApiKey, int] = MappingProxyType({})

#: Not the default.
REQUEST_TIMEOUT_MS = 7_000


def administering(
    test: Callable[[StoringBroker, Admin], Awaitable[None]], last_versions: Mapping[ApiKey, int] = NEWEST
) -> None:
    """Run a test with an admin against a broker that has topic t.

    Args:
        test: called with the broker and the admin.
        last_versions: the newest version that the broker supports, keyed by API, if it is older than this release's; -1
            for none.
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


class Pair:
    """A cluster of two scripted brokers on one network, with the node ids 1 and 2.

    Attributes:
        ADDRESSES: the addresses by node id.
        brokers: the brokers by node id.
        controller_id: the node that Metadata names as the controller.
    """

    ADDRESSES: Mapping[int, Address] = MappingProxyType({1: BROKER, 2: Address("second", 9092)})

    def __init__(self) -> None:
        self.brokers = {node_id: StoringBroker() for node_id in self.ADDRESSES}
        self.controller_id = 1
        network = self.brokers[1].network
        network.servers[self.ADDRESSES[2]] = self.brokers[2].network.servers[BROKER]
        for broker in self.brokers.values():
            broker.responders[ApiKey.METADATA] = self._metadata

    def administering(self, test: Callable[[Admin], Awaitable[None]], **options: Any) -> None:
        """Run a test with an admin for the cluster."""

        async def run() -> None:
            async with Admin(str(BROKER), network=self.brokers[1].network, retry_backoff_ms=1, **options) as admin:
                await test(admin)

        asyncio.run(run())

    def _metadata(self, request: Request) -> MetadataResponse:
        kind = MetadataResponse.MetadataResponseBroker
        brokers = [kind(node_id, *address, f"rack-{node_id}") for node_id, address in self.ADDRESSES.items()]
        return MetadataResponse(brokers=brokers, cluster_id="pair", controller_id=self.controller_id)


def created(*codes: int) -> Callable[[Request], CreateTopicsResponse]:
    """Answer CreateTopics, with an error code for each topic."""

    def respond(request: Request) -> CreateTopicsResponse:
        kind = CreateTopicsResponse.CreatableTopicResult
        wanted = zip(request.message.topics, codes, strict=True)
        return CreateTopicsResponse(
            topics=[kind(topic.name, topic_id_of(topic.name), code, "said the broker") for topic, code in wanted]
        )

    return respond
