"""Apache Kafka and the reference broker answer histories of fetch sessions as specified in one table."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest

from kafkawire import Admin, NewTopic
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import FINAL_FETCH_SESSION_EPOCH, Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.produced import FETCH_VERSION, LATEST, TIMEOUT_MS, call
from tests.reference_broker.replicas.fetch_histories import HISTORIES, PARTITIONS, Player


def create(bootstrap: str) -> dict[str, tuple[str, bytes]]:
    """Create the topics of a history; return the name and id of each, keyed by its letter."""
    suffix = uuid.uuid4().hex

    async def work() -> dict[str, tuple[str, bytes]]:
        async with Admin(bootstrap) as admin:
            created = await admin.create_topics(
                NewTopic(f"{letter}-{suffix}", count) for letter, count in PARTITIONS.items()
            )
            return {name[0]: (name, topic.topic_id) for name, topic in created.items()}

    return asyncio.run(work())


def await_partitions(socket: FrameSocket, names: dict[str, tuple[str, bytes]]) -> None:
    """Wait until the broker leads all partitions."""
    wanted = [
        FetchRequest.FetchTopic(names[letter][0], partitions=[FetchRequest.FetchPartition(number)])
        for letter, count in PARTITIONS.items()
        for number in range(count)
    ]
    request = FetchRequest(max_wait_ms=0, session_epoch=FINAL_FETCH_SESSION_EPOCH, topics=wanted)
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while True:
        response = call(socket, request, FETCH_VERSION)
        assert isinstance(response, FetchResponse)
        codes = {partition.error_code for topic in response.responses for partition in topic.partitions}
        if codes == {ErrorCode.NONE}:
            return
        assert time.monotonic() < deadline, codes


@pytest.mark.parametrize("broker_name", ["kafka", "broker"])
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history(broker_name: str, name: str, request: pytest.FixtureRequest) -> None:
    bootstrap = request.getfixturevalue(broker_name).bootstrap
    steps, answers = zip(*HISTORIES[name], strict=True)
    host, port = bootstrap.rsplit(":", 1)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        topics = create(bootstrap)
        await_partitions(socket, topics)

        def append(topic: str, partition: int, batch: bytes) -> None:
            data = ProduceRequest.PartitionProduceData(partition, batch)
            produced = ProduceRequest.TopicProduceData(topic, partition_data=[data])
            response = call(socket, ProduceRequest(None, Acks.ALL, TIMEOUT_MS, [produced]), LATEST)
            assert isinstance(response, ProduceResponse)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

        player = Player(lambda message, version: call(socket, message, version), append, topics)
        assert player.play(steps) == list(answers)
