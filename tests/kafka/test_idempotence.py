"""Apache Kafka and the reference broker give the same answers to idempotent producers, and write the same snapshots.

Method: send batches with chosen producer ids, epochs and sequence numbers to both, and compare their files.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kafkawire import Producer
from kafkawire.reference_broker.storage.batches import Window
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.producers.producer_snapshots import encode_snapshot, producer_state_entries
from kafkawire.reference_broker.storage.producers.producer_state import note_stored
from kafkawire.reference_broker.storage.producers.producers import Producers
from kafkawire.reference_broker.storage.segments.transaction_index import TransactionIndex
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import LATEST, TIMEOUT_MS, Answer, call, create, produce
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.produced_cases import changed
from tests.reference_broker.storage.producer_cases import CASES, Sent

#: The smallest segments that Kafka allows, and batches so large that no two of them fit.
CONFIG = {"segment.bytes": str(1024 * 1024)}
LARGE = b"v" * 600_000

#: Producers that share buckets of a hash table; one id exceeds 32 bits, and one has used up its sequence numbers.
PRODUCERS = [
    Sent(0, 3, producer=33),
    Sent(5, 1, producer=17, epoch=2),
    Sent(2**31 - 2, 4, producer=1001),
    Sent(0, 2, producer=2**32 + 1),
    Sent(3, 2, producer=33),
    Sent(0, 1, producer=70000, epoch=1),
]


def connected(bootstrap: str) -> FrameSocket:
    host, port = bootstrap.rsplit(":", 1)
    return FrameSocket(host, int(port), TIMEOUT_MS / 1000)


def send(socket: FrameSocket, topic: str, sent: Sent, value: bytes = b"v") -> Answer:
    batch = bytes(produced(*[value] * sent.records))
    fields = {"producer_id": sent.producer, "producer_epoch": sent.epoch, "base_sequence": sent.sequence}
    return produce(socket, topic, changed(batch, **fields), LATEST)


def identified(socket: FrameSocket, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    """Request a producer id."""
    answer = call(socket, request, version)
    assert isinstance(answer, InitProducerIdResponse)
    return answer


@pytest.mark.parametrize("name", ["kafka", "broker"])
def test_answers(name: str, request: pytest.FixtureRequest) -> None:
    bootstrap = request.getfixturevalue(name).bootstrap
    topic = create(bootstrap, CONFIG)
    for number, (before, last, expected) in enumerate(CASES):
        with connected(bootstrap) as socket:
            # All cases share one log but have their own producers; offsets are relative to each case's first offset.
            shift = 10 * (number + 1)
            start = send(socket, topic, Sent(-1, 1, producer=-1, epoch=-1)).base_offset + 1
            for sent in before:
                assert send(socket, topic, sent.shifted(shift)).code == ErrorCode.NONE
            answer = send(socket, topic, last.shifted(shift))
        found = answer.code if answer.code != ErrorCode.NONE else answer.base_offset - start
        assert found == expected, (before, last)


@pytest.mark.parametrize("name", ["kafka", "broker"])
def test_a_duplicate_has_the_timestamp_of_its_batch(name: str, request: pytest.FixtureRequest) -> None:
    bootstrap = request.getfixturevalue(name).bootstrap
    topic = create(bootstrap, CONFIG)
    batch = bytes(produced(b"a", b"b", producer_id=5, producer_epoch=0, base_sequence=0))
    with connected(bootstrap) as socket:
        answers = [produce(socket, topic, batch, LATEST) for _ in range(2)]
    assert [answer.base_offset for answer in answers] == [0, 0]
    assert [answer.log_append_time_ms for answer in answers] == [-1, 1_700_000_000_001]


@pytest.mark.parametrize("name", ["kafka", "broker"])
def test_ids(name: str, request: pytest.FixtureRequest) -> None:
    bootstrap = request.getfixturevalue(name).bootstrap
    given = []
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    for version in APIS[ApiKey.INIT_PRODUCER_ID].stable_versions.numbers():
        with connected(bootstrap) as socket:
            answer = identified(socket, InitProducerIdRequest(None), version)
            # When the first request arrives, Kafka has no producer ids yet.
            while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
                answer = identified(socket, InitProducerIdRequest(None), version)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
        given.append(answer.producer_id)
    assert len(set(given)) == len(given)
    for request_ in (InitProducerIdRequest(""), InitProducerIdRequest(None, producer_id=7)):
        with connected(bootstrap) as socket:
            answer = identified(socket, request_, 4)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_snapshots(kafka: ApacheKafka, tmp_path: Path) -> None:
    def snapshots(bootstrap: str, data_dir: Path) -> dict[str, bytes]:
        topic = create(bootstrap, CONFIG)
        with connected(bootstrap) as socket:
            for sent in PRODUCERS:
                assert send(socket, topic, sent).code == ErrorCode.NONE
            for sequence in range(3):
                assert send(socket, topic, Sent(sequence, 1, producer=99), LARGE).code == ErrorCode.NONE
        return {path.name: path.read_bytes() for path in (data_dir / f"{topic}-0").glob("*.snapshot")}

    with Broker(tmp_path) as broker:
        ours = snapshots(broker.bootstrap, tmp_path)
    assert len(ours) == 2
    assert ours == snapshots(kafka.bootstrap, kafka.data_dir)


def test_what_kafka_writes_about_transactions(kafka: ApacheKafka) -> None:
    """From Kafka's log, the reference broker builds the same snapshot and transaction index."""
    topic = create(kafka.bootstrap, CONFIG)

    async def transact() -> None:
        names = [f"{topic}-{number}" for number in range(3)]
        producers = [Producer(kafka.bootstrap, transactional_id=name) for name in names]
        async with producers[0], producers[1], producers[2]:
            for turn in range(4):
                for producer in producers:
                    await producer.begin_transaction()
                    await producer.send(topic, b"%d" % turn, partition=0)
                for number, producer in enumerate(producers):
                    if (turn + number) % 2:
                        await producer.commit_transaction()
                    else:
                        await producer.abort_transaction()

    asyncio.run(transact())
    with connected(kafka.bootstrap) as socket:
        for sequence in range(2):
            assert send(socket, topic, Sent(sequence, 1, producer=99999), LARGE).code == ErrorCode.NONE
    folder = kafka.data_dir / f"{topic}-0"
    (snapshot,) = folder.glob("*.snapshot")
    log = MachineDisk(folder).open(f"{0:020}.log")
    producers, disk = Producers(), MemoryDisk()
    index = TransactionIndex(disk, "index", 0)
    window, position = Window(log), 0
    while position < log.size_bytes:
        header = window.header(position)
        position += header.size_bytes
        for ended in note_stored(producers, log, header):
            if ended.is_aborted:
                index.append(ended)
    index.store()
    assert encode_snapshot(producer_state_entries(producers)) == snapshot.read_bytes()
    assert len(index) == 6
    assert read_file(disk, "index") == (folder / f"{0:020}.txnindex").read_bytes()
