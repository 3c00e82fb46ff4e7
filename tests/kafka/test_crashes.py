"""The state after a crash is the same as on Apache Kafka, or better.

Method: send the same requests to both before and after a SIGKILL, on nodes that no other test uses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.produced import LATEST, TIMEOUT_MS, Answer, call, create, produce
from tests.kafka.servers import BROKER_OPTIONS, Server
from tests.reference_broker.storage.produced_batches import produced

#: The smallest segments that Kafka allows, and batches so large that no two of them fit.
CONFIG = {"segment.bytes": str(1024 * 1024)}
LARGE = b"v" * 600_000


@pytest.fixture(scope="module", params=[ApacheKafka, Broker])
def node(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A node to be killed."""
    with ApacheKafka() if request.param is ApacheKafka else Broker(**BROKER_OPTIONS) as node:
        yield node


def send(node: Server, topic: str, sequence: int, value: bytes = b"v", producer_id: int = 7) -> Answer:
    host, port = node.bootstrap.rsplit(":", 1)
    now_ms = int(time.time() * 1000)  # at startup, Kafka drops producers with old timestamps
    batch = produced(value, timestamps=(now_ms,), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        return produce(socket, topic, bytes(batch), LATEST)


@pytest.mark.parametrize("rolls", ["once", "at each batch"])
def test_batches_sent_again_after_a_roll(node: Server, rolls: str) -> None:
    """Kafka remembers only the last batch; its client would bump the epoch and write the other batches twice."""
    topic = create(node.bootstrap, CONFIG)
    value = LARGE if rolls == "at each batch" else b"v"
    offsets = [send(node, topic, sequence, value).base_offset for sequence in range(5)]
    if rolls == "once":
        for sequence in range(2):
            assert send(node, topic, sequence, LARGE, producer_id=8).code == ErrorCode.NONE
    node.kill()
    node.start()
    again = [send(node, topic, sequence, value) for sequence in range(5)]
    if isinstance(node, ApacheKafka):
        refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [answer.code for answer in again] == [refused] * 4 + [ErrorCode.NONE]
        assert again[-1].base_offset == offsets[-1]
    else:
        assert [answer.base_offset for answer in again] == offsets
    assert send(node, topic, 5, value).code == ErrorCode.NONE


def ask(node: Server, request: Message, key: ApiKey) -> Message:
    host, port = node.bootstrap.rsplit(":", 1)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        return call(socket, request, APIS[key].stable_versions.last)


def offset_at(node: Server, topic: str, timestamp: int) -> tuple[int, int]:
    """Return the ListOffsets response: an offset and its leader epoch."""
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])
    response = ask(node, request, ApiKey.LIST_OFFSETS)
    assert isinstance(response, ListOffsetsResponse)
    (answer,) = response.topics[0].partitions
    assert answer.error_code == ErrorCode.NONE
    return answer.offset, answer.leader_epoch


def end_of(node: Server, topic: str, epoch: int, current: int = -1) -> tuple[int, int, int]:
    """Return the OffsetForLeaderEpoch response: an error, an epoch and its end offset."""
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, [partition])])
    response = ask(node, request, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    assert isinstance(response, OffsetForLeaderEpochResponse)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_epochs_after_crashes(node: Server) -> None:
    """The epoch numbers differ because Kafka uses two for each startup; the responses are otherwise the same."""
    topic = create(node.bootstrap, {})
    epochs = []
    for turn in range(3):
        if turn:
            node.kill()
            node.start()
        for number in range(2):
            assert send(node, topic, 2 * turn + number).code == ErrorCode.NONE
        until(lambda: end_of(node, topic, 0)[0] == ErrorCode.NONE, "the partition has no leader")
        end_offset, epoch = offset_at(node, topic, OffsetTimestamp.LATEST)
        assert end_offset == 2 * turn + 2
        epochs.append(epoch)
    first, second, third = epochs
    assert first == 0 < second < third
    assert offset_at(node, topic, OffsetTimestamp.EARLIEST) == (0, first)
    assert offset_at(node, topic, OffsetTimestamp.MAX_TIMESTAMP)[1] == third

    def ends() -> list[tuple[int, int]]:
        return [end_of(node, topic, epoch)[1:] for epoch in (-2, -1, first, second, third - 1, third, third + 1)]

    unknown = (-1, -1)
    assert ends() == [(-2, 0), unknown, (first, 2), (second, 4), (second, 4), (third, 6), unknown]
    for current, code in (
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (third - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (third + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert end_of(node, topic, first, current) == (code, -1, -1)
    assert end_of(node, topic, first, third) == (ErrorCode.NONE, first, 2)
    # Deleting records removes the first epochs; the last epoch is always known.
    delete(node, topic, 3)
    assert offset_at(node, topic, OffsetTimestamp.EARLIEST) == (3, second)
    assert ends() == [(-2, 3), unknown, (first, 3), (second, 4), (second, 4), (third, 6), unknown]
    delete(node, topic, 4)
    assert offset_at(node, topic, OffsetTimestamp.EARLIEST) == (4, third)
    assert ends() == [(-2, 4), unknown, (first, 4), (second, 4), (third - 1, 4), (third, 6), unknown]
    delete(node, topic, 6)
    assert offset_at(node, topic, OffsetTimestamp.EARLIEST) == (6, third)
    assert ends() == [(-2, 6), unknown, (first, 6), (second, 6), (third - 1, 6), (third, 6), unknown]


def delete(node: Server, topic: str, offset: int) -> None:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(0, offset)
    request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [partition])], TIMEOUT_MS)
    ask(node, request, ApiKey.DELETE_RECORDS)
    until(lambda: offset_at(node, topic, OffsetTimestamp.EARLIEST)[0] == offset, "nothing was deleted")
