"""A scripted workload on a broker, and a check of its data after the disk has failed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.produced_batches import produced, values_in

__all__ = ["SYNCED", "Ledger", "Sent", "run"]

#: A configuration that rolls after every fourth batch.
_ROLLING = {"index.interval.bytes": "0", "segment.index.bytes": "36"}
_SYNCING = {"flush.messages": "1"}
SYNCED = "synced"

#: The topics and their configurations.
_TOPICS = {"fast": _ROLLING, SYNCED: {**_ROLLING, **_SYNCING}, "timed": {"flush.ms": "10"}}

#: The space that startup needs on a full disk.
_ROOM_BYTES = 1000

#: A function that runs some of the background work, or all of it.
Settle = Callable[[bool], None]


class Sent(NamedTuple):
    """A record that was sent.

    Attributes:
        value: the value, which is unique.
        topic_id: the id of the topic that it was sent to.
    """

    value: bytes
    topic_id: bytes


class Ledger:
    """The requests to a broker, and its answers.

    Attributes:
        topics: the name of each created topic, keyed by id.
        deleted: the ids of topics whose deletion was acknowledged.
        maybe_deleted: the ids of topics whose deletion was requested.
        refused_topics: the names of topics whose creation was refused.
        sent: every record, in order.
        acknowledged: the acknowledged records.
        synced: the acknowledged records of topics that sync before acknowledging.
        refused: the refused records.
    """

    def __init__(self) -> None:
        self.topics: dict[bytes, str] = {}
        self.deleted: set[bytes] = set()
        self.maybe_deleted: set[bytes] = set()
        self.sent: list[Sent] = []
        self.acknowledged: set[Sent] = set()
        self.synced: set[Sent] = set()
        self.refused: set[Sent] = set()

    def check(self, disk: Disk, *, loses_unsynced: bool, may_keep_refused: bool = False) -> int:
        """Start a broker on the remaining files, check its data, and return the number of records.

        Args:
            disk: the disk after the failure.
            loses_unsynced: whether the power was cut, in which case unsynced data may be gone.
            may_keep_refused: whether refused records may exist because the sync failed, not the write.
        """
        bench = BrokerBench(disk)
        directory, store = bench.core.directory, bench.store
        found = 0
        for topic_id, name in self.topics.items():
            if topic_id in self.deleted:
                assert topic_id not in store.topics_by_id, f"{name} reappeared"
            elif topic_id not in self.maybe_deleted:
                assert topic_id in store.topics_by_id, f"{name} is gone"
        for topic in store.topics.values():
            present = [Sent(value, topic.topic_id) for value in values_of(bench, topic.name)]
            found += len(present)
            sent = [sent for sent in self.sent if sent.topic_id == topic.topic_id]
            assert len(set(present)) == len(present), f"{topic.name}: a record is present twice"
            assert set(present) <= set(sent), (
                f"{topic.name}: records {set(present) - set(sent)} were not sent to this topic"
            )
            assert present == [entry for entry in sent if entry in set(present)], (
                f"{topic.name}: records are out of order"
            )
            if not may_keep_refused:
                assert not set(present) & self.refused, f"{topic.name}: refused records are present"
            acknowledged = [entry for entry in sent if entry in self.acknowledged]
            if loses_unsynced:
                assert {entry for entry in sent if entry in self.synced} <= set(present), (
                    f"{topic.name}: synced records are gone"
                )
                left = [entry for entry in acknowledged if entry in set(present)]
                assert left == acknowledged[: len(left)], f"{topic.name}: there is a hole between the records"
            else:
                assert set(acknowledged) <= set(present), f"{topic.name}: acknowledged records are gone"
            assert not directory.of(topic.name)[0].is_offline
        # The broker works.
        name = f"after{len(store.topics)}"
        bench.create(name)
        assert not bench.produce(produced(b"again"), name).error_code
        bench.core.abandon()
        return found


def run(bench: BrokerBench, ledger: Ledger, settle: Settle = lambda is_all: None) -> None:
    """Create topics, produce, roll, delete, recreate under the same names, restart, and produce again.

    Args:
        bench: the broker.
        ledger: records all requests and answers.
        settle: runs some of the background work, or all of it.
    """
    for name, configs in _TOPICS.items():
        _create(bench, ledger, name, configs)
    settle(True)
    for number in range(8):
        for name in _TOPICS:
            _produce(bench, ledger, name, f"{name} {number}")
            settle(False)
        bench.advance(7)
    _delete(bench, ledger, "fast")
    settle(True)
    _create(bench, ledger, "fast", _ROLLING)
    settle(True)
    for number in range(4):
        _produce(bench, ledger, "fast", f"second fast {number}")
    settle(True)
    _restart(bench)
    for number in range(5):
        for name in _TOPICS:
            _produce(bench, ledger, name, f"{name} after {number}")
            settle(False)
    _delete(bench, ledger, SYNCED)
    settle(True)


def _restart(bench: BrokerBench) -> None:
    try:
        bench.restart()
    except OSError as error:
        # The operator frees space on the full disk, and restarts the broker.
        disk = bench.disk
        if error.errno == errno.ENOSPC and isinstance(disk, MemoryDisk) and disk.capacity_bytes is not None:
            disk.capacity_bytes += _ROOM_BYTES
        bench.restart_again()


def _create(bench: BrokerBench, ledger: Ledger, name: str, configs: dict[str, str]) -> None:
    if name in bench.store.topics:
        return

    def answered(response: CreateTopicsResponse) -> None:
        (result,) = response.topics
        if not result.error_code:
            ledger.topics[bytes(result.topic_id)] = name
        else:
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert name not in bench.store.topics

    entries = [CreateTopicsRequest.CreatableTopicConfig(*entry) for entry in configs.items()]
    topic = CreateTopicsRequest.CreatableTopic(name, 1, 1, configs=entries)
    bench.ask_then(CreateTopicsRequest([topic]), None, answered)


def _delete(bench: BrokerBench, ledger: Ledger, name: str) -> None:
    topic = bench.store.topics.get(name)
    if topic is None:
        return
    topic_id = topic.topic_id
    ledger.maybe_deleted.add(topic_id)

    def answered(response: DeleteTopicsResponse) -> None:
        (result,) = response.responses
        if not result.error_code:
            ledger.deleted.add(topic_id)
        else:
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            ledger.maybe_deleted.remove(topic_id)

    bench.ask_then(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], timeout_ms=60_000), None, answered)


def _produce(bench: BrokerBench, ledger: Ledger, name: str, value: str) -> None:
    topic = bench.store.topics.get(name)
    if topic is None:
        return
    log = bench.core.directory.of(name)[0]
    sent = Sent(value.encode(), topic.topic_id)
    ledger.sent.append(sent)

    def answered(response: ProduceResponse) -> None:
        (partition,) = response.responses[0].partition_responses
        if not partition.error_code:
            ledger.acknowledged.add(sent)
            if topic.configs.get("flush.messages"):
                ledger.synced.add(sent)
        elif partition.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert log.is_offline
            ledger.refused.add(sent)
            (data,) = _fetch(bench, name, 0)
            assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    data = ProduceRequest.TopicProduceData(name)
    data.partition_data = [ProduceRequest.PartitionProduceData(0, produced(sent.value))]
    bench.ask_then(ProduceRequest(None, -1, 1000, [data]), 9, answered)


def values_of(bench: BrokerBench, name: str) -> Iterator[bytes]:
    """Yield the values that a consumer reads from partition 0 of a topic, up to the high watermark."""
    log = bench.core.directory.of(name)[0]
    offset = log.log_start_offset
    while offset < log.high_watermark:
        (data,) = _fetch(bench, name, offset)
        assert not data.error_code, f"{name} at offset {offset}: error code {data.error_code}"
        values = values_in(data.records)
        assert values, f"{name}: there is no record at offset {offset}"
        yield from values
        offset += len(values)


def _fetch(bench: BrokerBench, name: str, offset: int) -> list:  # type: ignore[type-arg]  # of generated messages
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(name, partitions=[partition])], max_bytes=2**20)
    return list(bench.ask(request, 12).responses[0].partitions)
