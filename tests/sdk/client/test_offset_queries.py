"""Offset queries are sent to the leaders, are retried if that may help, and end by their deadline.

Method: query simulated brokers with logs, on a simulated clock.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, RemoteProtocolError, RequestTimedOut, UnsupportedVersion
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.simulated_logs import Cluster
from tests.sdk.consumer.user_side import T0, T1, T2
from tests.sdk.simulation import SILENT

Answer = Promise[dict[TopicPartition, OffsetAndTimestamp]]


def asked(cluster: Cluster, *partitions: TopicPartition, time_ms: int = OffsetTimestamp.LATEST) -> Answer:
    """Ask for an offset in each partition."""
    answer: Answer = Promise()
    cluster.queries.ask(dict.fromkeys(partitions, time_ms), answer, cluster.simulation.now_ms)
    return answer


def test_one_request_for_each_leader() -> None:
    cluster = Cluster({"t": [1, 2, 1]})
    cluster.logs[T1].append(b"a", b"b")
    answer = asked(cluster, T0, T1, T2)
    cluster.run(1_000)
    assert {each: place.offset for each, place in answer.wait(0).items()} == {T0: 0, T1: 2, T2: 0}
    assert len(cluster.simulation.requests(ListOffsetsRequest)) == 2


@pytest.mark.parametrize("version", [8, 9])
def test_epochs_of_old_metadata_are_not_sent(version: int) -> None:
    cluster = Cluster({"t": [1]})
    cluster.simulation.newest[ApiKey.METADATA] = version
    answer = asked(cluster, T0)
    cluster.run(1_000)
    assert answer.wait(0)[T0].offset == 0
    (request,) = cluster.simulation.requests(ListOffsetsRequest)
    assert request.topics[0].partitions[0].current_leader_epoch == (-1 if version < 9 else 1)


@pytest.mark.parametrize(
    ("time", "needed"),
    [
        (OffsetTimestamp.MAX_TIMESTAMP, 7),
        (OffsetTimestamp.EARLIEST_LOCAL, 8),
        (OffsetTimestamp.LATEST_TIERED, 9),
        (OffsetTimestamp.EARLIEST_PENDING_UPLOAD, 11),
    ],
)
def test_a_broker_that_does_not_know_a_special_timestamp_is_not_asked(time: OffsetTimestamp, needed: int) -> None:
    """Such a broker would look for a record with that timestamp, and answer that none exists."""
    cluster = Cluster({"t": [1]})
    cluster.simulation.newest[ApiKey.LIST_OFFSETS] = needed - 1
    answer = asked(cluster, T0, time_ms=time)
    cluster.run(1_000)
    with pytest.raises(
        UnsupportedVersion,
        match=f"{time.name}.*ListOffsets version {needed}.*node 1 supports only versions up to {needed - 1}",
    ):
        answer.wait(0)
    assert not cluster.simulation.requests(ListOffsetsRequest)
    cluster = Cluster({"t": [1]})
    cluster.simulation.newest[ApiKey.LIST_OFFSETS] = needed
    answer = asked(cluster, T0, time_ms=time)
    cluster.run(1_000)
    assert answer.wait(0)[T0].offset == 0


def test_no_record_is_that_recent() -> None:
    cluster = Cluster({"t": [1]})
    cluster.logs[T0].listed = -1
    answer = asked(cluster, T0, time_ms=77)
    cluster.run(1_000)
    assert answer.wait(0)[T0].offset == -1


def test_a_leader_that_is_missing_for_a_while() -> None:
    cluster = Cluster({"t": [None]})
    answer = asked(cluster, T0)
    cluster.run(3_000)
    assert not answer.done
    cluster.logs[T0].leader = 2
    cluster.run(3_000)
    assert answer.wait(0)[T0].offset == 0


def test_an_error_that_passes_and_one_that_lasts() -> None:
    cluster = Cluster({"t": [1]})
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    def refuse(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        data = ListOffsetsResponse.ListOffsetsPartitionResponse(0, codes.pop(0))
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", [data])])

    cluster.simulation.handlers[ListOffsetsRequest] = refuse
    answer = asked(cluster, T0)
    cluster.run(5_000)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: offset of t-0"):
        answer.wait(0)
    assert codes == []
    kinds = [type(each) for _, _, each, _ in cluster.simulation.sent]
    first, second = (at for at, kind in enumerate(kinds) if kind is ListOffsetsRequest)
    assert MetadataRequest in kinds[first:second], "the leader may have moved"


@pytest.mark.parametrize("is_last", [True, False])
def test_an_error_that_lasts_counts_for_more_than_one_that_passes(is_last: bool) -> None:
    cluster = Cluster({"t": [1, 1]})
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    def refuse(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        kind = ListOffsetsResponse.ListOffsetsPartitionResponse
        data = [kind(number, code) for number, code in enumerate(codes if is_last else reversed(codes))]
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", data)])

    cluster.simulation.handlers[ListOffsetsRequest] = refuse
    answer = asked(cluster, T0, T1)
    cluster.run(1_000)
    with pytest.raises(BrokerError, match=f"TOPIC_AUTHORIZATION_FAILED: offset of t-{int(is_last)}"):
        answer.wait(0)
    assert len(cluster.simulation.requests(ListOffsetsRequest)) == 1


@pytest.mark.parametrize("partition", [TopicPartition("x", 0), TopicPartition("t", 9)])
def test_metadata_of_a_partition_that_does_not_exist_are_not_asked_for_forever(
    partition: TopicPartition, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line says immediately what the call is waiting for."""
    cluster = Cluster({"t": [1]}, api_timeout_ms=5_000)
    answer = asked(cluster, partition)
    cluster.run(3_500)
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert re.match(rf"offsets are looked up again for up to \d+ ms: UNKNOWN_TOPIC.*: partition {partition}", line)
    assert not answer.done
    cluster.run(2_500)
    with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_OR_PARTITION: partition {partition}") as caught:
        answer.wait(0)
    assert str(caught.value).endswith("t-9: topic t has partitions 0 to 0" if partition.topic == "t" else "x-0")
    asked_before = cluster.metadata_asked
    assert asked_before < 15
    cluster.run(60_000)
    assert cluster.metadata_asked == asked_before


def test_nothing_is_known_at_once() -> None:
    answer = asked(Cluster({"t": [1]}))
    assert answer.wait(0) == {}


def test_a_leader_in_trouble_does_not_spoil_what_another_has_answered() -> None:
    cluster = Cluster({"t": [1, 2]})
    cluster.simulation.down.add(2)
    answer = asked(cluster, T0, T1)
    cluster.run(3_000)
    assert not answer.done
    cluster.simulation.down.clear()
    cluster.run(3_000)
    assert set(answer.wait(0)) == {T0, T1}
    names = [
        [each.partition_index for each in request.topics[0].partitions]
        for request in cluster.simulation.requests(ListOffsetsRequest)
    ]
    assert sorted(names) == [[0], [1]]


def test_the_error_of_the_last_attempt_outlives_the_deadline() -> None:
    cluster = Cluster({"t": [1]}, api_timeout_ms=2_000)
    answer = asked(cluster, TopicPartition("x", 0))
    cluster.run(1_000)
    cluster.simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    cluster.run(2_000)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: partition x-0") as caught:
        answer.wait(0)
    assert isinstance(caught.value.__cause__, RequestTimedOut)


def test_a_response_that_lacks_a_partition() -> None:
    cluster = Cluster({"t": [1]}, api_timeout_ms=2_000)
    cluster.simulation.handlers[ListOffsetsRequest] = lambda request, version: ListOffsetsResponse()
    answer = asked(cluster, T0)
    cluster.run(3_000)
    with pytest.raises(RemoteProtocolError, match="the responses to ListOffsets lack t-0"):
        answer.wait(0)


def test_the_end_of_the_client() -> None:
    cluster = Cluster({"t": [None]})
    answer = asked(cluster, T0)
    cluster.run(100)
    cluster.simulation.close()
    with pytest.raises(Closed):
        answer.wait(0)
