"""Every API can be called from its schema alone, in every version, or is listed as unsafe.

Method: write each request of every API and version with the codec, and check the values in the filled requests.
"""

from __future__ import annotations

import pytest

from kafkawire.conformance.requests import READ_ONLY, UNSAFE, Names, requests
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.list_transactions import ListTransactionsRequest
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey


@pytest.mark.parametrize("api", [api for key, api in APIS.items() if key not in UNSAFE], ids=lambda api: api.name)
def test_every_version_can_be_written(api) -> None:  # type: ignore[no-untyped-def]  # a parametrized NamedTuple
    for version in range(api.versions[0], api.versions[1] + 1):
        shapes = dict(requests(api, version, Names()))
        assert set(shapes) == ({"defaults", "filled"} if api.key in READ_ONLY else {"defaults"})
        for message in shapes.values():
            messages = codec(type(message), version)
            assert messages.decode(messages.encode(message))[0] == message


def test_filled_requests_speak_of_the_names() -> None:
    names = Names(topic="t", group="g")
    fetch = dict(requests(APIS[ApiKey.FETCH], 4, names))["filled"]
    assert isinstance(fetch, FetchRequest)
    assert [topic.topic for topic in fetch.topics] == ["t"]
    describe = dict(requests(APIS[ApiKey.DESCRIBE_GROUPS], 0, names))["filled"]
    assert isinstance(describe, DescribeGroupsRequest)
    assert describe.groups == ("g",)


def test_filled_requests_ask_as_a_client_that_does_not_wait() -> None:
    """A replica id would change a follower's state, and a session would stay in the broker's memory."""
    for key, version in ((ApiKey.FETCH, 7), (ApiKey.LIST_OFFSETS, 1), (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3)):
        filled = dict(requests(APIS[key], version, Names()))["filled"]
        assert isinstance(filled, FetchRequest | ListOffsetsRequest | OffsetForLeaderEpochRequest)
        assert filled.replica_id == -1
    fetch = dict(requests(APIS[ApiKey.FETCH], 7, Names()))["filled"]
    assert isinstance(fetch, FetchRequest)
    assert (fetch.max_wait_ms, fetch.session_epoch, fetch.max_bytes) == (0, -1, 1_048_576)
    assert fetch.topics[0].partitions[0].partition_max_bytes == 65_536


def test_every_array_of_a_filled_request_has_an_element() -> None:
    filled = dict(requests(APIS[ApiKey.LIST_TRANSACTIONS], 0, Names()))["filled"]
    assert isinstance(filled, ListTransactionsRequest)
    assert (len(filled.state_filters), filled.producer_id_filters) == (1, (0,))
    filled = dict(requests(APIS[ApiKey.LIST_CONFIG_RESOURCES], 1, Names()))["filled"]
    assert isinstance(filled, ListConfigResourcesRequest)
    assert filled.resource_types == (0,)


def test_an_unsafe_api_is_refused() -> None:
    with pytest.raises(KeyError, match="removes a broker"):
        next(requests(APIS[ApiKey.UNREGISTER_BROKER], 0, Names()))
