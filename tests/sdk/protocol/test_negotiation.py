"""A client finds the highest common version of each API, however old the broker is.

Method: read hand-built responses from brokers of several ages. tests/sdk/protocol/test_connection.py tests the frames.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.negotiation import Negotiation
from kafkawire.sdk.protocol.tables.apis import APIS, REMOVED_APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

LAST = APIS[ApiKey.API_VERSIONS].versions.last


def answer(ranges: dict[str, tuple[int, int]], error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    entries = [ApiVersionsResponse.ApiVersion(ApiKey[name], *versions) for name, versions in ranges.items()]
    return ApiVersionsResponse(error_code=error, api_keys=entries)


def test_before_it_is_known_what_the_broker_speaks() -> None:
    negotiation = Negotiation()
    assert negotiation.request_version == LAST
    assert negotiation.version_for(APIS[ApiKey.FETCH]) == APIS[ApiKey.FETCH].stable_versions.last
    assert not negotiation.offers(APIS[ApiKey.FETCH])


def test_the_highest_of_both() -> None:
    negotiation = Negotiation()
    assert negotiation.receive(answer({"FETCH": (0, 7), "METADATA": (0, 999)}))
    assert negotiation.version_for(APIS[ApiKey.FETCH]) == 7
    assert negotiation.version_for(APIS[ApiKey.METADATA]) == APIS[ApiKey.METADATA].stable_versions.last
    assert negotiation.offers(APIS[ApiKey.FETCH])


def test_a_version_that_is_not_stable_is_not_chosen() -> None:
    api = APIS[ApiKey.INIT_PRODUCER_ID]
    assert api.versions.last > api.stable_versions.last
    negotiation = Negotiation()
    assert negotiation.version_for(api) == api.stable_versions.last
    negotiation.receive(answer({"INIT_PRODUCER_ID": (0, 999)}))
    assert negotiation.version_for(api) == api.stable_versions.last


@pytest.mark.parametrize(("epoch", "level"), [(7, 2), (-1, None)])
def test_finalized_features_count_once_the_broker_knows_them(epoch: int, level: int | None) -> None:
    negotiation = Negotiation()
    response = answer({"FETCH": (0, 7)})
    response.finalized_features_epoch = epoch
    response.finalized_features = (ApiVersionsResponse.FinalizedFeatureKey("transaction.version", 2, 1),)
    negotiation.receive(response)
    assert negotiation.features.get("transaction.version") == level


@pytest.mark.parametrize(
    ("ranges", "text"),
    [({}, "Fetch: the broker does not support this API"), ({"FETCH": (900, 901)}, "the broker 900-901")],
)
def test_none_in_common(ranges: dict[str, tuple[int, int]], text: str) -> None:
    negotiation = Negotiation()
    negotiation.receive(answer(ranges))
    with pytest.raises(UnsupportedVersion, match=text):
        negotiation.version_for(APIS[ApiKey.FETCH])
    assert not negotiation.offers(APIS[ApiKey.FETCH])


@pytest.mark.parametrize(
    ("ranges", "following"), [({"API_VERSIONS": (0, 2)}, 2), ({}, 0), ({"API_VERSIONS": (0, LAST)}, LAST - 1)]
)
def test_an_older_broker_is_asked_again(ranges: dict[str, tuple[int, int]], following: int) -> None:
    negotiation = Negotiation()
    assert not negotiation.receive(answer(ranges, ErrorCode.UNSUPPORTED_VERSION))
    assert negotiation.request_version == following


def test_a_broker_that_refuses_every_version() -> None:
    negotiation = Negotiation()
    negotiation.receive(answer({}, ErrorCode.UNSUPPORTED_VERSION))
    with pytest.raises(RemoteProtocolError, match="error code 35"):
        negotiation.receive(answer({}, ErrorCode.UNSUPPORTED_VERSION))


def test_the_request_says_who_asks() -> None:
    assert Negotiation().request().client_software_name == "kafkawire"


def test_an_api_without_a_living_version_has_none_to_choose() -> None:
    with pytest.raises(UnsupportedVersion, match=r"StopReplica: release 4\.0 removed its last version"):
        Negotiation().version_for(REMOVED_APIS[ApiKey.STOP_REPLICA])
