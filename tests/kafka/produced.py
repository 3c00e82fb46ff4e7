"""Send batches to a running broker, one per request, and collect the answers and the stored batches."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire import NewTopic
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka import topics
from tests.reference_broker.storage.produced_cases import LATEST, Case, Stored

__all__ = ["LATEST", "TIMEOUT_MS", "Answer", "ask", "call", "create", "produce", "stored_batch"]

TIMEOUT_MS = 30_000
MAX_BYTES = 2**22

#: The controller knows a new topic before the broker does.
_NOT_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}

#: The last version that has topic names instead of ids.
FETCH_VERSION = 12


class Answer(NamedTuple):
    """A broker's answer, and the batch that it stored."""

    code: ErrorCode
    bad: tuple[int, ...]
    message: str | None
    base_offset: int
    log_append_time_ms: int
    stored: Stored | None = None


def ask(bootstrap: str, cases: Iterable[Case]) -> Iterator[tuple[Case, Answer]]:
    """Yield each case with the broker's answer; a topic is created for each configuration."""
    host, port = bootstrap.rsplit(":", 1)
    topics: dict[tuple[tuple[str, str], ...], str] = {}
    for case in cases:
        config = tuple(sorted(case.config.items()))
        if config not in topics:
            topics[config] = create(bootstrap, case.config)
        topic = topics[config]
        with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
            answer = produce(socket, topic, case.records, case.version)
            if answer.code == ErrorCode.NONE and case.stored is not None:
                answer = answer._replace(stored=_stored(socket, topic, answer.base_offset))
        yield case, answer


def _stored(socket: FrameSocket, topic: str, base_offset: int) -> Stored:
    batch = stored_batch(socket, topic, base_offset)
    records = tuple((record.offset - base_offset, record.timestamp_ms) for record in batch.records())
    return batch.max_timestamp, batch.timestamp_type, records


def create(bootstrap: str, config: dict[str, str]) -> str:
    """Create a one-partition topic that keeps old records."""
    topic = f"produced-{uuid.uuid4().hex}"

    asyncio.run(topics.create(bootstrap, NewTopic(topic, 1, 1, configs={"retention.ms": "-1"} | config)))
    return topic


def produce(
    socket: FrameSocket, topic: str, records: bytes | None, version: int, transactional_id: str | None = None
) -> Answer:
    """Produce one batch to partition 0, once the broker has the new topic."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while (answer := _answer(socket, topic, records, version, transactional_id)).code in _NOT_YET:
        assert time.monotonic() < deadline, answer
    return answer


def _answer(
    socket: FrameSocket, topic: str, records: bytes | None, version: int, transactional_id: str | None
) -> Answer:
    partition = ProduceRequest.PartitionProduceData(0, records)
    request = ProduceRequest(
        transactional_id, Acks.ALL, TIMEOUT_MS, [ProduceRequest.TopicProduceData(topic, partition_data=[partition])]
    )
    response = call(socket, request, version)
    assert isinstance(response, ProduceResponse)
    ((answer,),) = (found.partition_responses for found in response.responses)
    bad = tuple(entry.batch_index for entry in answer.record_errors)
    return Answer(
        ErrorCode(answer.error_code), bad, answer.error_message, answer.base_offset, answer.log_append_time_ms
    )


def stored_batch(socket: FrameSocket, topic: str, offset: int) -> RecordBatch:
    """Fetch the batch that begins at an offset of partition 0."""
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=MAX_BYTES)
    request = FetchRequest(
        max_wait_ms=TIMEOUT_MS, min_bytes=1, topics=[FetchRequest.FetchTopic(topic, partitions=[partition])]
    )
    response = call(socket, request, FETCH_VERSION)
    assert isinstance(response, FetchResponse)
    ((answer,),) = (found.partitions for found in response.responses)
    assert answer.error_code == ErrorCode.NONE
    return RecordBatch(bytes(answer.records or b""))


def call(socket: FrameSocket, request: Message, version: int) -> Message:
    """Send a request and return the response."""
    connection = ClientConnection("kafkawire-tests")
    socket.send(*connection.request(request, version).parts)
    return connection.receive(socket.receive()).message
