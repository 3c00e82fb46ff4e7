"""An offset belongs to the topic from which it was read, whichever topic has that name later.

Method: run the state machine for commits on a simulated client whose cluster deletes the topic.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
)
from kafkawire.sdk.groups.commit_outcome import Committed
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.sdk.groups.committing import T0, T1, Client, sent
from tests.sdk.groups.members import refusal
from tests.sdk.simulation import cluster, topic_id


def recreate(client: Client) -> bytes:
    """Delete the topic, create it again, and return its new id."""
    former = client.simulation.handlers[MetadataRequest]

    def answer(request: Any, version: int) -> Any:
        response: Any = former(request, version)
        for topic in response.topics:
            topic.topic_id = b"another topic t."
        return response

    client.simulation.handlers[MetadataRequest] = answer
    return b"another topic t."


@pytest.mark.parametrize("newest", [9, 10])
def test_an_offset_is_not_committed_in_a_later_topic_of_the_same_name(newest: int) -> None:
    client = Client()
    client.simulation.newest[ApiKey.OFFSET_COMMIT] = newest
    client.simulation.run(100)
    client.signer.signature = None  # the member is joining
    former = client.commit({T0: 3})
    later_id = recreate(client)
    client.router.metadata.invalidate()
    client.simulation.run(1_000)
    assert client.router.metadata.topic_id("t") == later_id
    later = client.commit({T1: 1})
    client.signer.signature = GroupMetadata("g", 6, "m")
    client.simulation.run(1_000)
    assert isinstance(former[0], BrokerError)
    assert former[0].code is ErrorCode.UNKNOWN_TOPIC_ID
    assert "commit of t-0 in group g: the topic was deleted and created again" in str(former[0])
    assert isinstance(later[0], Committed)
    assert [sent(request) for request in client.requests] == [{1: 1}]
    assert client.requests[0].topics[0].topic_id == (later_id if newest == 10 else ZERO_UUID)


def test_an_offset_that_is_committed_while_its_topic_is_missing_belongs_to_no_later_one() -> None:
    client = Client()
    client.simulation.run(100)
    usual = client.simulation.handlers[MetadataRequest]
    client.simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    client.router.metadata.invalidate()
    client.simulation.run(100)
    assert "t" not in client.router.metadata.topics
    client.answer = lambda request: refusal(request, ErrorCode.UNKNOWN_TOPIC_ID)
    outcomes = client.commit({T0: 3})
    client.simulation.handlers[MetadataRequest] = usual
    client.simulation.run(1_000)
    assert isinstance(outcomes[0], BrokerError)
    assert client.requests[0].topics[0].topic_id == topic_id("t")


@pytest.mark.parametrize("is_created_again", [True, False])
def test_the_commit_of_a_deleted_topic_ends_once_that_is_known(is_created_again: bool) -> None:
    """A rebalance waits for the commit, but must not wait until the commit's deadline."""
    client = Client()
    client.simulation.run(100)
    client.answer = lambda request: refusal(request, ErrorCode.UNKNOWN_TOPIC_ID)
    outcomes = client.commit({T0: 3}, timeout_ms=60_000)
    if is_created_again:
        recreate(client)
    else:
        client.simulation.handlers[MetadataRequest] = cluster([1, 2], {})
    client.simulation.run(2_000)
    assert isinstance(outcomes[0], BrokerError)
    assert outcomes[0].code is ErrorCode.UNKNOWN_TOPIC_ID
    assert {request.topics[0].topic_id for request in client.requests} == {topic_id("t")}
