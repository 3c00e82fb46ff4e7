"""Features are read from a broker at the time of the call, either from any broker or from the one that was named.

The controller changes features, all of them together or, if it is older, each one separately.

Method: call scripted in-memory brokers, then the reference broker, which finalizes features.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import FeatureMetadata, ItemResults
from kafkawire.sdk.admin.feature_updates import FeatureUpdate
from kafkawire.sdk.errors import KafkaWireError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.testing import Broker
from tests.sdk.admin.administering import REQUEST_TIMEOUT_MS, Pair, administering
from tests.sdk.scripted_broker import Responder, StoringBroker


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


Update = messages.UpdateFeaturesRequest
Updated = messages.UpdateFeaturesResponse


def updating(response: Updated, version: int | None = None) -> tuple[list[Any], list[Any]]:
    """Return what an admin sends, and what it makes of a response."""
    results: list[Any] = []
    asked: list[Any] = []

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.UPDATE_FEATURES] = lambda request: response
        updates = {"a": 1, "b": FeatureUpdate(0, FeatureUpgradeType.UNSAFE_DOWNGRADE)}
        try:
            results.append(await admin.update_features(updates))
        except KafkaWireError as error:
            results.append(error)
        asked.extend(broker.asked(ApiKey.UPDATE_FEATURES))

    administering(test, {} if version is None else {ApiKey.UPDATE_FEATURES: version})
    return asked, results


def test_all_features_are_changed_together() -> None:
    asked, results = updating(Updated())
    assert results == [ItemResults({"a": None, "b": None}, {})]
    assert asked == [
        Update(REQUEST_TIMEOUT_MS, [Update.FeatureUpdateKey("a", 1), Update.FeatureUpdateKey("b", 0, upgrade_type=3)])
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_an_older_broker_changes_each_feature(version: int) -> None:
    Result = Updated.UpdatableFeatureResult
    response = Updated(results=[Result("a"), Result("b", ErrorCode.INVALID_REQUEST, "no")])
    asked, [results] = updating(response, version)
    assert results.values == {"a": None}
    assert str(results.errors["b"]) == "INVALID_REQUEST: update feature b: no"
    (request,) = asked
    first, second = request.feature_updates
    assert (first.allow_downgrade, second.allow_downgrade) == ((False, True) if version == 0 else (False, False))
    assert (first.upgrade_type, second.upgrade_type) == ((1, 1) if version == 0 else (1, 3))


def test_a_refused_change() -> None:
    _, [error] = updating(Updated(0, ErrorCode.INVALID_UPDATE_VERSION, "all failed"))
    assert str(error) == "INVALID_UPDATE_VERSION: update features: all failed"


def test_a_response_that_leaves_out_a_feature() -> None:
    _, [error] = updating(Updated(results=[Updated.UpdatableFeatureResult("a")]), 1)
    assert isinstance(error, RemoteProtocolError)
    assert "feature b" in str(error)


def test_a_check_only() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.UPDATE_FEATURES] = lambda request: Updated()
        await admin.update_features({"a": 1}, validate_only=True)
        (request,) = broker.asked(ApiKey.UPDATE_FEATURES)
        assert isinstance(request, Update)
        assert request.validate_only

    administering(test)
