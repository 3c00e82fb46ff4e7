"""Offsets are asked of leaders and coordinators, partition by partition, until all are there.

Method: the scripted broker in memory, whose responses fail once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.group_member import Generation
from kafkawire.sdk.client.offsets import commit_offsets, fetch_committed, list_offsets
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def asking(test: Callable[[StoringBroker, Cluster], Awaitable[None]]) -> None:
    """Run a test with a broker that has three records in t-0 and a cluster."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.fill("t", b"a", b"b", b"c")
        options = read_options(AdminOptions, str(BROKER), {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5})
        cluster = Cluster(options, broker.network)
        await test(broker, cluster)
        await cluster.close()

    asyncio.run(run())


def test_list_offsets() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        found = await list_offsets(cluster, {T0: OffsetTimestamp.LATEST, T1: OffsetTimestamp.EARLIEST})
        assert found == {T0: OffsetAndTimestamp(3, -1), T1: OffsetAndTimestamp(0, -1)}

    asking(test)


def test_only_what_failed_is_asked_again() -> None:
    def half(request: Request) -> ListOffsetsResponse:
        kind = ListOffsetsResponse.ListOffsetsPartitionResponse
        partitions = [kind(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), kind(1, offset=7)]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", partitions)])

    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        broker.script(ApiKey.LIST_OFFSETS, half)
        found = await list_offsets(cluster, {T0: OffsetTimestamp.LATEST, T1: OffsetTimestamp.LATEST})
        assert {partition: place.offset for partition, place in found.items()} == {T0: 3, T1: 7}
        last = broker.asked(ApiKey.LIST_OFFSETS)[-1]
        assert isinstance(last, ListOffsetsRequest)
        assert [each.partition_index for each in last.topics[0].partitions] == [0]

    asking(test)


def test_an_error_that_stays() -> None:
    def refused(request: Request) -> ListOffsetsResponse:
        partitions = [ListOffsetsResponse.ListOffsetsPartitionResponse(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", partitions)])

    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        broker.script(ApiKey.LIST_OFFSETS, refused)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: offsets of t-0"):
            await list_offsets(cluster, {T0: 5})

    asking(test)


def test_commit_and_fetch() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        generation = Generation(4, "m1", None)
        await commit_offsets(cluster, "g", {T0: OffsetAndMetadata(2, "note", 6)}, generation)
        (request,) = broker.asked(ApiKey.OFFSET_COMMIT)
        assert isinstance(request, OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (4, "m1")
        (entry,) = request.topics[0].partitions
        assert (entry.committed_offset, entry.committed_metadata, entry.committed_leader_epoch) == (2, "note", 6)
        assert await fetch_committed(cluster, "g", [T0, T1]) == {T0: OffsetAndMetadata(2)}
        assert await fetch_committed(cluster, "other", [T0]) == {}

    asking(test)


def test_nothing_to_commit_asks_nobody() -> None:
    async def test(broker: StoringBroker, cluster: Cluster) -> None:
        await commit_offsets(cluster, "g", {})
        assert broker.requests == []

    asking(test)
