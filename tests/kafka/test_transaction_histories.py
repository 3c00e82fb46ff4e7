"""Fixed histories of transactions leave the same files as on Apache Kafka, and consumers fetch the same data.

Method: have both brokers assign the same producer ids, and compare transaction indexes byte for byte, and producer
snapshots except for producers' timestamps: a marker has the time at which the broker wrote it. Fetches begin at every
offset, with several limits, because the list of aborted transactions depends on the returned records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.producers.producer_snapshots import (
    decode_snapshot,
    encode_snapshot,
    producer_state_entries,
)
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kafkawire.sdk.storage.partitions import Partition
from tests.kafka.apache import ApacheKafka
from tests.kafka.transacting import Pair, new_bench, open_line
from tests.reference_broker.transactions.asking import codes_of
from tests.reference_broker.transactions.sequences import (
    PARTITIONS,
    AddPartitions,
    Asked,
    End,
    Initialize,
    Known,
    Mark,
    Produce,
    Wait,
)

#: The smallest segments that Kafka allows, which two large batches fill, and an index with an entry for most batches.
#: The reference broker writes its transaction index with each sync.
CONFIGS = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "100", "flush.messages": "1"}
LARGE = b"v" * 600_000

TIMEOUT_MS = 60_000

#: The timeout of a transaction that should expire; it leaves enough time for two requests.
PASSING_MS = 5_000

A, B, C = PARTITIONS


class History:
    """A history that runs on both brokers.

    Args:
        pair: both brokers.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.sequences: dict[tuple[ProducerIdAndEpoch, Partition], int] = {}
        self.values = 0

    def do(self, asked: Asked, *, is_passing: bool = False) -> object:
        """Send a request that must succeed to both; see `Pair.do`."""
        answer = self.pair.do(asked, is_passing=is_passing)
        if answer is not None:
            assert set(codes_of(answer)) == {ErrorCode.NONE}, (asked, answer)
        return answer

    def begin(self, transactional_id: str | None, *, is_tv_2: bool = True, timeout_ms: int = TIMEOUT_MS) -> Known:
        """Initialize a producer."""
        answer = self.pair.do(Initialize(transactional_id, timeout_ms, None, 5))
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:  # an open transaction is first aborted
            answer = self.pair.do(Initialize(transactional_id, timeout_ms, None, 5))
        assert answer.error_code == ErrorCode.NONE
        theirs = self.pair.theirs.names.producer_id(answer.producer_id)
        assert theirs == answer.producer_id, "the producer ids must be equal, because the compared files contain them"
        return Known(transactional_id, ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch), is_tv_2)

    def produce(
        self,
        one: Known,
        *partitions: Partition,
        count: int = 1,
        value: bytes | None = None,
        is_passing: bool = False,
    ) -> None:
        """Produce to partitions, after adding them if the producer's version needs that."""
        for partition in partitions:
            if one.transactional_id is not None and not one.is_tv_2 and partition not in one.added:
                asked = AddPartitions(one.transactional_id, one.producer, (partition,), False, 3)
                self.do(asked, is_passing=is_passing)
                one.added.add(partition)
            place = one.producer, partition
            sequence = self.sequences.get(place, 0)
            self.sequences[place] = sequence + count
            values = []
            for _ in range(count):
                self.values += 1
                values.append(b"%d" % self.values if value is None else value)
            version = 12 if one.is_tv_2 else 11
            asked = Produce(one.transactional_id, one.producer, partition, sequence, tuple(values), version)
            self.do(asked, is_passing=is_passing)

    def end(self, one: Known, is_commit: bool) -> None:
        """End a transaction."""
        assert one.transactional_id is not None
        answer = self.pair.do(End(one.transactional_id, one.producer, is_commit, 5 if one.is_tv_2 else 4))
        assert answer.error_code == ErrorCode.NONE
        one.added.clear()
        if one.is_tv_2:
            one.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def roll(self, *partitions: Partition) -> None:
        """Start a new segment in partitions."""
        plain = self.begin(None)
        for _ in range(2):
            self.produce(plain, *partitions, value=LARGE)


def interleaved(history: History) -> None:
    """Two producers of each version, whose transactions overlap in one partition."""
    for is_tv_2 in (False, True):
        x, y = history.begin("x", is_tv_2=is_tv_2), history.begin("y", is_tv_2=is_tv_2)
        for turn in range(4):
            history.produce(x, A, B, count=2)
            history.produce(y, A)
            history.produce(x, A)
            history.end(x, turn % 2 == 0)
            history.produce(y, A, C, count=3)
            history.end(y, turn in (1, 2))
    history.roll(A, B)


def across_segments(history: History) -> None:
    """Transactions that begin in one segment and end in another, or are open when a snapshot is taken."""
    x, y = history.begin("x"), history.begin("y", is_tv_2=False)
    history.produce(x, A, B)
    history.produce(y, A)
    history.roll(A)
    history.end(x, False)
    history.produce(x, A, count=5)
    history.roll(A, B)
    history.end(y, False)
    history.end(x, True)
    history.produce(y, B)
    history.roll(A, B)


def fenced_and_late(history: History) -> None:
    """Producers that are fenced or time out; transactions that have no records left."""
    for is_tv_2 in (True, False):
        first = history.begin("x", is_tv_2=is_tv_2)
        history.produce(first, A, B)
        second = history.begin("x", is_tv_2=is_tv_2)
        history.produce(second, A)
        history.end(second, True)
        late = history.begin("y", is_tv_2=is_tv_2, timeout_ms=PASSING_MS)
        history.produce(late, A, is_passing=True)
        history.do(Wait("y"))
        history.begin("y")
    empty = history.begin("x", is_tv_2=False)
    history.do(AddPartitions("x", empty.producer, (A, C), False, 3))
    history.end(empty, False)
    # A version 2 producer may abort a transaction that it has not begun.
    history.end(history.begin("y"), False)
    history.roll(A, B, C)


def administrated(history: History) -> None:
    """Markers written by a client, both inside and outside open transactions."""
    x, plain = history.begin("x", is_tv_2=False), history.begin(None)
    history.produce(plain, A, B, count=2)
    history.produce(x, A, B)
    history.do(Mark(x.producer, False, (A,), 0, 0, 1))
    history.produce(plain, A)
    history.do(Mark(x.producer, True, (B,), 0, 0, 2))
    history.do(Mark(x.producer, False, (B, C), 3, 0, 2))
    history.roll(A, B, C)


@pytest.mark.parametrize("play", [interleaved, across_segments, fenced_and_late, administrated])
def test_files_and_fetches(kafka: ApacheKafka, play: Callable[[History], None]) -> None:
    line = open_line(kafka.bootstrap)
    last = line.ask(InitProducerIdRequest(None), 4)
    bench = new_bench(last.producer_id + 1)  # type: ignore[attr-defined]  # the type of the response is not known here
    pair = Pair(bench, line, f"{uuid.uuid4().hex[:8]}-", CONFIGS)
    play(History(pair))
    found: dict[str, dict[str, bytes]] = {}
    for name, number in PARTITIONS:
        folder = f"{pair.ours.names.name(name)}-{number}"
        ours = {file: read_file(bench.disk, f"{folder}/{file}") or b"" for file in bench.disk.names(folder)}
        theirs = {path.name: path.read_bytes() for path in (kafka.data_dir / folder).iterdir()}
        found[folder] = compared(ours)
        assert found[folder] == compared(theirs)
    assert {Path(file).suffix for files in found.values() for file in files} == {".txnindex", ".snapshot"}
    log = bench.core.directory.of(pair.ours.names.name("a"))[0]
    for offset in range(log.next_offset):
        for max_bytes in (1, 300, 2**20):
            pair.compare_fetches(offset, max_bytes)
    pair.end()
    line.frames.close()


def compared(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files to compare, keyed by name; snapshots have no timestamps."""
    found = {}
    for name, content in files.items():
        match Path(name).suffix:
            case suffix if suffix == TRANSACTION_INDEX_SUFFIX:
                found[name] = content
            case suffix if suffix == SNAPSHOT_SUFFIX:
                producers = decode_snapshot(content)
                assert encode_snapshot(producer_state_entries(producers)) == content
                for producer in producers:
                    producer.last_timestamp = 0
                found[name] = encode_snapshot(producer_state_entries(producers))
    return found
