"""Offsets by time from every leader, committed offsets from the coordinator, in old and new shapes.

Method: a client core over the scripted broker that stores batches and commits; see tests/sdk/admin/test_actions.py for
leaders that move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.offset_queries import fetch_committed, list_offsets
from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.errors import BrokerError, RequestTimedOut
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.versions import VersionRange
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def querying(
    test: Callable[[StoringBroker, ClientCore], Awaitable[None]], api_timeout_ms: int = 60_000, **newest: int
) -> None:
    """Run a test with a broker that speaks up to these versions of OffsetFetch and the like."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for name, version in newest.items():
            key = ApiKey[name.upper()]
            broker.supported[key] = VersionRange(broker.supported[key].first, version)
        options = read_options(ClientOptions, str(BROKER), {"api_timeout_ms": api_timeout_ms})
        core = ClientCore("reader", options, broker.network)
        await core.start()
        try:
            await core.operations.describe(["t"])
            await test(broker, core)
        finally:
            await core.end()

    asyncio.run(run())


def test_offsets_by_time() -> None:
    async def test(broker: StoringBroker, core: ClientCore) -> None:
        broker.fill("t", b"a", b"b")
        found = await list_offsets(core.operations, {T0: OffsetTimestamp.LATEST, T1: OffsetTimestamp.EARLIEST})
        assert found == {T0: OffsetAndTimestamp(2, -1), T1: OffsetAndTimestamp(0, -1)}
        assert await list_offsets(core.operations, {}) == {}
        assert len(broker.asked(ApiKey.LIST_OFFSETS)) == 1, "one request for each leader"

    querying(test)


def test_the_error_of_the_last_attempt_outlives_the_deadline() -> None:
    async def test(broker: StoringBroker, core: ClientCore) -> None:
        broker.responders[ApiKey.METADATA] = lambda request: None
        with pytest.raises(BrokerError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*t-9") as caught:
            await list_offsets(core.operations, {TopicPartition("t", 9): OffsetTimestamp.LATEST})
        assert isinstance(caught.value.__cause__, RequestTimedOut)

    querying(test, api_timeout_ms=300)


@pytest.mark.parametrize("newest", [5, 7, 8, 9])
def test_committed_offsets(newest: int) -> None:
    async def test(broker: StoringBroker, core: ClientCore) -> None:
        broker.commits["g", "t", 0] = 5
        assert await fetch_committed(core.operations, "g", [T0]) == {T0: OffsetAndMetadata(5)}
        assert await fetch_committed(core.operations, "g") == {T0: OffsetAndMetadata(5)}
        assert await fetch_committed(core.operations, "other", [T0]) == {}

    querying(test, offset_fetch=newest)
