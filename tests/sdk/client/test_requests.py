"""Requests whose shape changed are built for each version, and responses of all shapes read alike.

Method: each request is encoded in every version that exists; responses are hand-made in the old and the new shape.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.client.requests import (
    by_topic,
    carries,
    check,
    committed_offsets,
    coordinator,
    find_coordinator,
    leave_group,
    offset_fetch,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

PARTITIONS = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]


def versions(request: type[Message]) -> range:
    """Return all versions of a message."""
    low, high = request.SCHEMA.versions
    return range(low, high + 1)


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
def test_find_coordinator(version: int) -> None:
    data = codec(FindCoordinatorRequest, version).encode(find_coordinator("group", version))
    assert b"group" in data


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
def test_leave_group(version: int) -> None:
    data = codec(LeaveGroupRequest, version).encode(leave_group("group", "member", None, "reason", version))
    assert b"group" in data
    assert b"member" in data


@pytest.mark.parametrize("version", [v for v in versions(OffsetFetchRequest) if v < versions(OffsetFetchRequest)[-1]])
def test_offset_fetch(version: int) -> None:
    data = codec(OffsetFetchRequest, version).encode(offset_fetch("group", PARTITIONS, version))
    assert data.count(b"b") == 1


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_offset_fetch_of_everything(version: int) -> None:
    request = offset_fetch("group", None, version)
    assert (request.groups[0] if request.groups else request).topics is None
    codec(OffsetFetchRequest, version).encode(request)


COORDINATORS = [
    FindCoordinatorResponse(node_id=3, host="h", port=9),
    FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator("group", 3, "h", 9)]),
]


@pytest.mark.parametrize("response", COORDINATORS)
def test_coordinator(response: FindCoordinatorResponse) -> None:
    assert coordinator(response, "group") == (3, "h", 9)


def test_no_coordinator() -> None:
    response = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(BrokerError, match="coordinator of group g") as caught:
        coordinator(response, "coordinator of group g")
    assert caught.value.retriable


def old(error: int = 0, partition_error: int = 0) -> OffsetFetchResponse:
    """Return a response for one group."""
    kind = OffsetFetchResponse.OffsetFetchResponsePartition
    partitions = [kind(0, 7, 2, "note", partition_error), kind(1, -1), kind(2, 0, -1, None)]
    return OffsetFetchResponse(topics=[OffsetFetchResponse.OffsetFetchResponseTopic("t", partitions)], error_code=error)


def new(error: int = 0, partition_error: int = 0) -> OffsetFetchResponse:
    """Return the same response in the shape for several groups."""
    kind = OffsetFetchResponse.OffsetFetchResponsePartitions
    partitions = [kind(0, 7, 2, "note", partition_error), kind(1, -1), kind(2, 0, -1, None)]
    topics = [OffsetFetchResponse.OffsetFetchResponseTopics("t", partitions=partitions)]
    return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", topics, error)])


@pytest.mark.parametrize("shape", [old, new])
def test_committed_offsets(shape: type[OffsetFetchResponse]) -> None:
    assert committed_offsets(shape(), "g") == {
        TopicPartition("t", 0): OffsetAndMetadata(7, "note", 2),
        TopicPartition("t", 2): OffsetAndMetadata(0),
    }


@pytest.mark.parametrize("errors", [(ErrorCode.NOT_COORDINATOR, 0), (0, ErrorCode.UNSTABLE_OFFSET_COMMIT)])
def test_committed_offsets_with_an_error(errors: tuple[int, int]) -> None:
    for response in (old(*errors), new(*errors)):
        with pytest.raises(BrokerError, match="group g"):
            committed_offsets(response, "g")


def test_carries() -> None:
    assert not carries(FindCoordinatorRequest, "coordinator_keys", 3)
    assert carries(FindCoordinatorRequest, "coordinator_keys", 4)


def test_by_topic() -> None:
    assert by_topic(PARTITIONS) == {"b": [1, 0], "a": [0]}


def test_check() -> None:
    check(ErrorCode.NONE, "all well")
    with pytest.raises(BrokerError, match="NOT_CONTROLLER: what was asked"):
        check(ErrorCode.NOT_CONTROLLER, "what was asked")
