"""Produce requests carry one batch per partition, and every batch gets its result.

Method: send hand-built batches, and read responses from brokers of different versions.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import BatchRefused, BrokerError, RemoteProtocolError
from kafkawire.sdk.producer.partition_queue import PartitionQueue, ProducerBatch
from kafkawire.sdk.producer.requests import produce_request, results, timed_out
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import PRODUCE_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.records import BatchBuilder, RecordBatch
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from tests.sdk.simulation import Connection, address, cluster, topic_id

Part = ProduceResponse.PartitionProduceResponse


def batch(topic: str, number: int) -> ProducerBatch:
    builder = BatchBuilder()
    builder.append(1, None, b"v")
    attempts = Attempts(Backoff(1, 1, lambda: 0.5), 100)
    return ProducerBatch(PartitionQueue(TopicPartition(topic, number)), (1,), builder, attempts, 1000, 0)


def known() -> Metadata:
    metadata = Metadata()
    metadata.update(cluster([1], {"t": [1, 1]})(MetadataRequest(None), 12), 0)  # type: ignore[arg-type]  # it is one
    return metadata


@pytest.mark.parametrize(("newest", "expected"), [({}, 13), ({ApiKey.PRODUCE: 9}, 9)])
def test_request(newest: dict[ApiKey, int], expected: int) -> None:
    request, version = produce_request([batch("t", 0), batch("t", 1)], known(), -1, 50, Connection(newest))
    assert version == expected
    (topic,) = request.topic_data
    assert (topic.name, topic.topic_id, [data.index for data in topic.partition_data]) == ("t", topic_id("t"), [0, 1])
    assert [RecordBatch(bytes(data.records or b"")).records_count for data in topic.partition_data] == [1, 1]
    assert (request.acks, request.timeout_ms) == (-1, 50)


def test_a_topic_without_an_id_goes_by_name() -> None:
    request, version = produce_request([batch("t", 0), batch("other", 0)], known(), -1, 50, Connection({}))
    assert isinstance(request, ProduceRequest)
    assert version == 12


@pytest.mark.parametrize(("level", "expected"), [(1, PRODUCE_LAST_BEFORE_TV_2), (2, 13)])
def test_a_request_of_a_transaction(level: int, expected: int) -> None:
    partitions = TransactionPartitions("x")
    partitions.begin(level)
    request, version = produce_request([batch("t", 0)], known(), -1, 50, Connection({}), partitions)
    assert (request.transactional_id, version) == ("x", expected)
    _, version = produce_request([batch("t", 0)], known(), -1, 50, Connection({ApiKey.PRODUCE: 9}), partitions)
    assert version == 9


@pytest.mark.parametrize(
    ("cause", "lack", "reason"),
    [
        (None, "", ""),
        (None, "it has no leader", "; it has no leader"),
        (BrokerError(ErrorCode.INVALID_RECORD), "", "; INVALID_RECORD"),
        (BrokerError(ErrorCode.INVALID_RECORD), "it has no leader", "; INVALID_RECORD"),
    ],
)
def test_timed_out(cause: BrokerError | None, lack: str, reason: str) -> None:
    error = timed_out(batch("t", 0), 700, cause, lack=lack)
    assert str(error) == f"1 record for t-0: not acknowledged within delivery_timeout_ms=700{reason}"
    assert error.__cause__ is cause


NAMES = {topic_id("t"): "t"}


def answered(*partitions: Any, by_name: bool = False, **more: Any) -> ProduceResponse:
    name, number = ("t", ZERO_UUID) if by_name else ("", topic_id("t"))
    return ProduceResponse([ProduceResponse.TopicProduceResponse(name, number, list(partitions))], **more)


@pytest.mark.parametrize("by_name", [True, False])
def test_results(by_name: bool) -> None:
    good, bad, lost = batch("t", 0), batch("t", 1), batch("t", 2)
    reasons = [ProduceResponse.BatchIndexAndErrorMessage(0, "no key")]
    response = answered(
        Part(0, 0, 40, 500),
        Part(1, ErrorCode.INVALID_RECORD, error_message="bad", record_errors=reasons, log_start_offset=3),
        by_name=by_name,
    )
    first, second, third = results(response, [good, bad, lost], NAMES, known())
    assert (first.batch, first.error, first.base_offset, first.log_append_time_ms) == (good, None, 40, 500)
    assert isinstance(second.error, BrokerError)
    assert str(second.error) == "INVALID_RECORD: 1 record for t-1: record 0: no key"
    assert second.log_start_offset == 3
    assert isinstance(third.error, RemoteProtocolError)


Named = ProduceResponse.BatchIndexAndErrorMessage


@pytest.mark.parametrize(
    ("named", "said", "refused", "others"),
    [
        ([], "bad", {}, None),
        (
            [Named(1, "no key")],
            "One or more: no key",
            {1: "record for t-0: no key"},
            "1 of 3 in its batch: record 1: no key",
        ),
        ([Named(1, None)], "said once", {1: "record for t-0: said once"}, "1 of 3 in its batch: record 1: said once"),
        ([Named(1, None)], None, {1: "record for t-0"}, "1 of 3 in its batch: record 1"),
        (
            [Named(2, "b"), Named(0, "a"), Named(2, "doubled")],
            None,
            {0: "record for t-0: a", 2: "record for t-0: b"},
            "2 of 3 in its batch: record 0: a; record 2: b",
        ),
        ([Named(3, "beyond"), Named(-1, "before"), Named(-(2**31), "far")], "bad", {}, None),
        ([Named(2**31 - 1, "far"), Named(0, "a")], None, {0: "record for t-0: a"}, "1 of 3 in its batch: record 0: a"),
    ],
)
def test_records_that_were_refused_have_errors_of_their_own(
    named: list[Any], said: str | None, refused: dict[int, str], others: str | None
) -> None:
    sent = batch("t", 0)
    for _ in range(2):
        sent.builder.append(5, None, b"v")
    part = Part(0, ErrorCode.INVALID_RECORD, error_message=said, record_errors=named)
    (result,) = results(answered(part), [sent], NAMES, known())
    assert isinstance(result.error, BrokerError)
    assert not result.error.retriable
    assert {index: str(error) for index, error in result.record_errors.items()} == {
        index: f"INVALID_RECORD: {text}" for index, text in refused.items()
    }
    if others is None:
        assert result.others is None
        assert str(result.error) == "INVALID_RECORD: 3 records for t-0: bad"
    else:
        assert isinstance(result.others, BatchRefused)
        assert result.others.retriable
        assert str(result.others) == (
            f"INVALID_RECORD: record for t-0: not stored, because the broker rejected {others}"
        )


@pytest.mark.parametrize("leader", [1, 7])
def test_the_new_leader_and_its_address_are_learned(leader: int) -> None:
    metadata = known()
    moved = Part(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    moved.current_leader = ProduceResponse.LeaderIdAndEpoch(leader, 5)
    response = answered(moved, node_endpoints=[ProduceResponse.NodeEndpoint(leader, *address(9))])
    (result,) = results(response, [batch("t", 0)], NAMES, metadata)
    assert result.leader_moved
    assert metadata.leader(TopicPartition("t", 0)) == leader
    assert metadata.brokers[leader].address == address(9)
    (again,) = results(response, [batch("t", 0)], NAMES, metadata)
    assert not again.leader_moved
