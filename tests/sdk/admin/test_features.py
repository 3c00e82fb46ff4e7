"""Features are read from a broker at the time of the call, either from any broker or from the one that was named.

Method: call two scripted in-memory brokers, then the reference broker, which finalizes features.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import FeatureMetadata
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.testing import Broker
from tests.sdk.admin.administering import Pair
from tests.sdk.scripted_broker import Responder


def with_features(usual: Responder, last: int, epoch: int) -> Responder:
    """Answer ApiVersions as usual, with a feature added."""

    def respond(request: Request) -> ApiVersionsResponse:
        response = usual(request)
        assert isinstance(response, ApiVersionsResponse)
        response.supported_features = [ApiVersionsResponse.SupportedFeatureKey("x.version", 1, last)]
        response.finalized_features_epoch = epoch
        response.finalized_features = [ApiVersionsResponse.FinalizedFeatureKey("x.version", 2, 1)]
        return response

    return respond


@pytest.mark.parametrize(
    ("epoch", "finalized"), [(7, ({"x.version": 2}, 7)), (-1, ({}, None))], ids=["known", "unknown"]
)
def test_the_broker_that_was_named_is_asked(epoch: int, finalized: tuple[dict[str, int], int | None]) -> None:
    pair = Pair()

    async def test(admin: Admin) -> None:
        for node_id, broker in pair.brokers.items():  # the admin's connections do not know the features
            broker.responders[ApiKey.API_VERSIONS] = with_features(
                broker.responders[ApiKey.API_VERSIONS], 2 + node_id, epoch
            )
        for node_id in (2, 1, 2):
            supported = {"x.version": VersionRange(1, 2 + node_id)}
            assert await admin.describe_features(node_id) == FeatureMetadata(supported, *finalized)

    pair.administering(test)


def test_the_reference_broker_has_features() -> None:
    async def run(servers: str) -> None:
        async with Admin(servers) as admin:
            found = await admin.describe_features()
            assert found.finalized_epoch is not None
            assert found.finalized
            assert all(level in found.supported[name] for name, level in found.finalized.items())

    with Broker() as broker:
        asyncio.run(run(broker.bootstrap))
