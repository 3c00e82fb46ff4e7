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
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.wire import Address
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

__all__ = ["REQUEST_TIMEOUT_MS", "Pair", "administering", "created", "following"]

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
        leaders: the node that leads each partition; a list has an entry for each Metadata response, the last of which
            stays. Metadata reports topics without a partition here as unknown.
        coordinators: the node that coordinates each group or transactional id, or the error of its lookup; a list has
            an entry for each lookup, the last of which stays. Others are coordinated by node 1.
    """

    ADDRESSES: Mapping[int, Address] = MappingProxyType({1: BROKER, 2: Address("second", 9092)})

    def __init__(self) -> None:
        self.brokers = {node_id: StoringBroker() for node_id in self.ADDRESSES}
        self.controller_id = 1
        self.leaders: dict[TopicPartition, int | list[int]] = {}
        self.coordinators: dict[str, int | ErrorCode | list[int | ErrorCode]] = {}
        network = self.brokers[1].network
        network.servers[self.ADDRESSES[2]] = self.brokers[2].network.servers[BROKER]
        for broker in self.brokers.values():
            broker.responders[ApiKey.METADATA] = self._metadata
            broker.responders[ApiKey.FIND_COORDINATOR] = self._coordinators

    def administering(self, test: Callable[[Admin], Awaitable[None]], **options: Any) -> None:
        """Run a test with an admin for the cluster."""

        async def run() -> None:
            async with Admin(str(BROKER), network=self.brokers[1].network, retry_backoff_ms=1, **options) as admin:
                await test(admin)

        asyncio.run(run())

    def _metadata(self, request: Request) -> MetadataResponse:
        kind = MetadataResponse.MetadataResponseBroker
        brokers = [kind(node_id, *address, f"rack-{node_id}") for node_id, address in self.ADDRESSES.items()]
        topics = [self._topic(topic.name) for topic in request.message.topics or ()]
        return MetadataResponse(brokers=brokers, cluster_id="pair", controller_id=self.controller_id, topics=topics)

    def _topic(self, name: str) -> MetadataResponse.MetadataResponseTopic:
        led = {partition.partition: leader for partition, leader in self.leaders.items() if partition.topic == name}
        if not led:
            return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        partitions = [
            MetadataResponse.MetadataResponsePartition(0, number, following(leader), 0, [1, 2], [1, 2])
            for number, leader in led.items()
        ]
        return MetadataResponse.MetadataResponseTopic(0, name, topic_id_of(name), partitions=partitions)

    def _coordinators(self, request: Request) -> FindCoordinatorResponse:
        message = request.message
        found = [self._coordinator(key) for key in message.coordinator_keys or [message.key]]
        if message.coordinator_keys:
            return FindCoordinatorResponse(coordinators=found)
        (one,) = found
        return FindCoordinatorResponse(0, one.error_code, None, one.node_id, one.host, one.port)

    def _coordinator(self, key: str) -> FindCoordinatorResponse.Coordinator:
        found = following(self.coordinators.get(key, 1))
        if isinstance(found, ErrorCode):
            return FindCoordinatorResponse.Coordinator(key, -1, "", -1, found, None)
        return FindCoordinatorResponse.Coordinator(key, found, *self.ADDRESSES[found])

    def asked(self, api_key: ApiKey) -> dict[int, list[Any]]:
        """Return the requests of an API that each broker has received, keyed by node id."""
        return {node_id: list(broker.asked(api_key)) for node_id, broker in self.brokers.items()}

    def answer(self, api_key: ApiKey, responder: Callable[[int, Any], Message]) -> None:
        """Have both brokers answer an API.

        Args:
            api_key: the API.
            responder: returns the response to a request, given the node id.
        """
        for node_id, broker in self.brokers.items():
            broker.responders[api_key] = lambda request, node_id=node_id: responder(node_id, request.message)


def following(script: Any) -> Any:
    """Return the next entry of a list, the last of which stays; return anything else unchanged."""
    return (script.pop(0) if len(script) > 1 else script[0]) if isinstance(script, list) else script


def created(*codes: int) -> Callable[[Request], CreateTopicsResponse]:
    """Answer CreateTopics, with an error code for each topic."""

    def respond(request: Request) -> CreateTopicsResponse:
        kind = CreateTopicsResponse.CreatableTopicResult
        wanted = zip(request.message.topics, codes, strict=True)
        return CreateTopicsResponse(
            topics=[kind(topic.name, topic_id_of(topic.name), code, "said the broker") for topic, code in wanted]
        )

    return respond
