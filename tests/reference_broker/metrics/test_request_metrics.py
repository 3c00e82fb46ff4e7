"""Requests are counted by API, with their errors and times, and bytes by topic, within limits.

Method: give the observer requests and responses, and read the samples.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metrics.request_metrics import ITEMS_MAX, TOPICS_MAX, RequestMetrics
from kafkawire.reference_broker.requests.request_times import RequestTimes
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.storage.produced_batches import produced

UUID = b"u" * 16


class Counted:
    """The metrics, and the requests that are counted."""

    def __init__(self, bench) -> None:
        self.bench = bench
        bench.create()
        self.metrics = RequestMetrics(lambda: bench.core.metadata.image.topics_by_id)

    def count(self, key: ApiKey, message, response, times: RequestTimes | None = None, throttle_ms: int = 0) -> None:
        request = Request(APIS[key], 9, 0, "console", message, 100)
        call = self.bench.call(request)
        call.throttle_ms = throttle_ms
        self.metrics(request, call, response, times or RequestTimes(0, 0))

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the samples of a metric, keyed by labels; the name ends with that of the metric."""
        for family, samples in self.metrics.measured():
            for suffix in ("", "_sum", "_count"):
                if (family.name + suffix).endswith(name):
                    return {sample.labels: sample.value for sample in samples if sample.suffix == suffix}
        raise AssertionError(name)


@pytest.fixture
def counted(bench) -> Counted:
    return Counted(bench)


def test_times(counted):
    times = RequestTimes(0, 1_000_000_000)
    times.handled_ns, times.answered_ns, times.sent_ns = 3_000_000_000, 6_000_000_000, 10_000_000_000
    counted.count(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse(), times, throttle_ms=500)
    found = {
        name: counted.values(f"request_metrics_{name}_seconds_sum")[("Heartbeat",)]
        for name in ("total_time", "request_queue_time", "local_time", "remote_time", "response_send_time",
                     "throttle_time")
    }  # fmt: skip
    assert list(found.values()) == [10, 1, 2, 3, 4, 0.5]
    assert counted.values("request_metrics_requests") == {("Heartbeat",): 1}
    assert counted.values("request_bytes_sum") == {("Heartbeat",): 100}


def test_errors_in_every_place(counted):
    counted.count(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    counted.count(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse())
    topic = MetadataResponse.MetadataResponseTopic(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t",
        partitions=[
            MetadataResponse.MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, number) for number in range(2)
        ],
    )
    counted.count(ApiKey.METADATA, MetadataRequest(), MetadataResponse(topics=[topic]))
    assert counted.values("errors") == {
        ("Heartbeat", "ILLEGAL_GENERATION"): 1,
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        ("Metadata", "LEADER_NOT_AVAILABLE"): 2,
    }


def test_a_code_without_a_name(counted):
    counted.count(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse(error_code=30_000))
    assert counted.values("errors") == {("Heartbeat", "30000"): 1}


def test_a_large_response_is_examined_in_part(counted):
    partitions = [MetadataResponse.MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE)] * (ITEMS_MAX * 3)
    response = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(0, "t", partitions=partitions)])
    counted.count(ApiKey.METADATA, MetadataRequest(), response)
    (found,) = counted.values("errors").values()
    assert found == ITEMS_MAX - 1  # the topic is an item too


def produce(*names: str, batches=(), topic_id: bytes = ZERO_UUID) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(number, batch) for number, batch in enumerate(batches)]
    return ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name, topic_id, partition_data=data) for name in names]
    )


def answer(*codes: int) -> ProduceResponse:
    found = [ProduceResponse.PartitionProduceResponse(number, code) for number, code in enumerate(codes)]
    return ProduceResponse([ProduceResponse.TopicProduceResponse("t", partition_responses=found)])


BATCH = produced(b"x", b"y", b"z")


@pytest.mark.parametrize(
    ("response", "batches"),
    [
        (answer(0, 0), 2),
        (answer(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), 1),
        (None, 2),
    ],
)
def test_appended_batches(counted, response, batches):
    counted.count(ApiKey.PRODUCE, produce("t", batches=[BATCH, BATCH]), response)
    assert counted.values("bytes_in") == {(): batches * len(BATCH)}
    assert counted.values("bytes_in_by_topic") == {("t",): batches * len(BATCH)}
    assert counted.values("messages_in_by_topic") == {("t",): batches * 3}


@pytest.mark.parametrize("records", [None, b"", b"short"])
def test_batches_that_are_none(counted, records):
    counted.count(ApiKey.PRODUCE, produce("t", batches=[records]), None)
    assert counted.values("messages_in") == {(): 0}


def test_topics_by_id(counted):
    topic = counted.bench.core.metadata.image.topics["t"]
    counted.count(ApiKey.PRODUCE, produce("", batches=[BATCH], topic_id=topic.topic_id), None)
    counted.count(ApiKey.PRODUCE, produce("", batches=[BATCH], topic_id=UUID), None)
    assert counted.values("bytes_in_by_topic") == {("t",): len(BATCH)}
    assert counted.values("bytes_in") == {(): 2 * len(BATCH)}


def fetched(*sizes: int) -> FetchResponse:
    partitions = [FetchResponse.PartitionData(number, records=b"x" * size) for number, size in enumerate(sizes)]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", partitions=partitions)])


def test_consumers_and_followers_are_counted_apart(counted):
    counted.count(ApiKey.FETCH, FetchRequest(), fetched(10, 0, 5))
    counted.count(ApiKey.FETCH, FetchRequest(replica_id=2), fetched(100))
    state = FetchRequest.ReplicaState(3)
    counted.count(ApiKey.FETCH, FetchRequest(replica_state=state), fetched(1_000))
    assert counted.values("topic_metrics_bytes_out") == {(): 15}
    assert counted.values("topic_metrics_bytes_out_by_topic") == {("t",): 15}
    assert counted.values("replication_bytes_out") == {(): 1_100}


def test_the_number_of_topics_is_limited(counted):
    names = [f"t{number}" for number in range(TOPICS_MAX + 10)]
    for name in names:
        counted.count(ApiKey.PRODUCE, produce(name, batches=[BATCH]), None)
    assert len(counted.values("bytes_in_by_topic")) == TOPICS_MAX
    assert counted.values("bytes_in") == {(): len(names) * len(BATCH)}
    counted.metrics.forget_missing({"t1": None})
    assert set(counted.values("bytes_in_by_topic")) == {("t1",)}
    counted.count(ApiKey.PRODUCE, produce("new", batches=[BATCH]), None)
    assert set(counted.values("bytes_in_by_topic")) == {("t1",), ("new",)}
