"""Everything that a leader has stored is read once and in order, including control batches, aborted records and damage.

Method: read hand-built logs from a reference broker.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from kafkawire.sdk.errors import BrokerError, DecodeError, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression, MessageSetBuilder
from kafkawire.sdk.records.stored import Damage

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.routing.partitions import TopicPartition  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers import stored_batches  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.clients import ClientSettings  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.ranges import PartitionRange  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.stored_batches import StoredBatches  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.offset_order import first_offset  # noqa: E402 - it needs pyarrow
from kafkawire.testing import Broker  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.brokers.topics import ORDERS, stored, wire_options  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.segments.logs import batch, marker, records_of  # noqa: E402 - it needs pyarrow


def client(broker: Broker, fetch_bytes: int = 1 << 20) -> ClientSettings:
    return wire_options(broker, **{"kafka.max.partition.fetch.bytes": str(fetch_bytes)}).client


def read(
    broker: Broker,
    start: int,
    end: int,
    timeout_ms: int = 10_000,
    partition: TopicPartition = ORDERS,
    fetch_bytes: int = 1 << 20,
) -> Any:
    """Return the batches' first offsets, and the damage."""
    with StoredBatches(client(broker, fetch_bytes), timeout_ms) as reader:
        found = list(reader.read(PartitionRange(partition, start, end)))
    return [each if isinstance(each, Damage) else first_offset(each.batch) for each in found]


def damaged(content: bytes, at: int = -1) -> bytes:
    broken = bytearray(content)
    broken[at] ^= 1
    return bytes(broken)


@pytest.mark.parametrize("fetch_bytes", [1, 200, 1 << 20])
def test_all_batches(tmp_path: Path, fetch_bytes: int) -> None:
    """A range yields every batch that has an offset in it, including markers, and aborted and compressed batches."""
    log = [batch(0, 3), records_of(3, 7, 3), marker(6, 7, False), batch(10, 5, Compression.GZIP), batch(15, 5)]
    spans = [(0, 3), (3, 6), (6, 7), (10, 15), (15, 20)]
    with stored(tmp_path, *log) as broker:
        for start, end in itertools.combinations([0, 1, 3, 6, 7, 8, 12, 15, 19, 20], 2):
            expected = [first for first, after in spans if first < end and after > start]
            assert read(broker, start, end, fetch_bytes=fetch_bytes) == expected, (start, end)


@pytest.mark.parametrize("fetch_bytes", [1, 1 << 20])
def test_damage(tmp_path: Path, fetch_bytes: int) -> None:
    """Damage anywhere in a fetch (start, middle or end) is reported once, and the batches around it are read."""
    log = [damaged(batch(0, 5)), batch(5, 5), damaged(batch(10, 5)), batch(15, 5), batch(20, 5)]
    with stored(tmp_path, *(batch(first, 5) for first in range(0, 25, 5))) as broker:
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        path.write_bytes(b"".join(log))  # unknown to the broker, which does not verify checksums when it sends
        first, *rest = read(broker, 0, 25, fetch_bytes=fetch_bytes)
        assert (first.base_offset, first.size_bytes, "CRC" in first.reason.upper()) == (0, len(log[0]), True)
        assert [each if isinstance(each, int) else each.base_offset for each in rest] == [5, 10, 15, 20]
        assert [isinstance(each, Damage) for each in rest] == [False, True, False, False]
        path.write_bytes(b"".join([*log[:4], damaged(batch(20, 5))]))
        *_, last = read(broker, 15, 25, fetch_bytes=fetch_bytes)
        assert isinstance(last, Damage)
        assert last.base_offset == 20
        assert read(broker, 15, 20, fetch_bytes=fetch_bytes) == [15], "a batch beyond the end belongs to the next range"


def test_fetches_that_end_amid_damage(tmp_path: Path) -> None:
    """The next fetch begins with the damage and reports it."""
    log = [batch(0, 5), damaged(batch(5, 5)), batch(10, 5), damaged(batch(15, 5)), batch(20, 5)]
    with stored(tmp_path, *(batch(first, 5) for first in range(0, 25, 5))) as broker:
        (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(b"".join(log))
        for fetch_bytes in range(300, 1100, 100):
            found = read(broker, 0, 25, fetch_bytes=fetch_bytes)
            told = [each.base_offset if isinstance(each, Damage) else each for each in found]
            assert told == [0, 5, 10, 15, 20], fetch_bytes


def test_no_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If even the first header is invalid, the next offset is unknown."""
    content = damaged(batch(0, 5), 16)  # the magic byte
    with stored(tmp_path, batch(0, 5), batch(5, 5)) as broker:
        (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(content * 2)
        with pytest.raises(BrokerError) as caught:
            read(broker, 0, 10)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        monkeypatch.setattr(StoredBatches, "_content", lambda *_: content)
        with pytest.raises(DecodeError, match=r"orders-0.*cannot read from offset 0 onward: .*magic"):
            read(broker, 0, 10)


def test_gone_meanwhile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Records that retention removed are skipped, with a log line; an offset that never existed is an error."""
    with stored(tmp_path, *(batch(first, 5) for first in range(10, 25, 5))) as broker:
        for path in (tmp_path / "orders-0").glob("0*"):
            path.rename(path.with_name(path.name.replace("00000000000000000000", "00000000000000000010")))
        broker.kill()
        broker.start()
        assert read(broker, 0, 25) == [10, 15, 20]
        assert "offsets 0 to 9 are gone; the partition begins at 10" in caplog.text
        with pytest.raises(BrokerError) as caught:
            read(broker, 40, 50)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_comes(tmp_path: Path) -> None:
    with stored(tmp_path, batch(0, 5)) as broker:
        with pytest.raises(
            RequestTimedOut,
            match="orders-0: no data arrived from offset 5 onward in 500 ms, although the range ends at 6",
        ):
            read(broker, 0, 6, timeout_ms=500)
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            read(broker, 0, 1, timeout_ms=500, partition=TopicPartition("nowhere", 0))


def test_range_that_ends_behind_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised after the leader has repeated its end several times; a new leader may learn the end late."""
    monkeypatch.setattr(stored_batches, "_WAIT_MS", 5)
    with stored(tmp_path, batch(0, 5)) as broker:
        with pytest.raises(
            LocalProtocolError, match="orders-0: offsets 5 to 7 do not exist; the partition ends at 5: "
        ):
            read(broker, 0, 8, timeout_ms=30_000)
        answers = [*((b"", 5),) * 5, (b"", 8), *((b"", 5),) * 5, (batch(5, 3), 8)]
        monkeypatch.setattr(StoredBatches, "_ask", lambda *_: answered(stored_batches._Fetched(*answers.pop(0))))
        assert read(broker, 5, 8) == [5]


async def answered(value: Any) -> Any:
    return value


@pytest.mark.parametrize("offset", [15 ^ 64, 15 ^ 1 << 24, 15 ^ 1 << 62, 2])
def test_offset_that_cannot_be_right(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No checksum covers the offset; an offset that jumps ahead or back is reported, and hides nothing that follows.

    Apache Kafka answers with everything from the first batch that ends after the requested offset.
    """
    whole = [batch(first, 5) for first in range(0, 50, 5)]
    content = b"".join([*whole[:3], offset.to_bytes(8, "big") + whole[3][8:], *whole[4:]])
    with stored(tmp_path, *whole) as broker:
        monkeypatch.setattr(StoredBatches, "_content", lambda *_: content)
        found = read(broker, 0, 50)
    assert [each for each in found if not isinstance(each, Damage)] == [0, 5, 10, *range(20, 50, 5)]
    (told,) = [each for each in found if isinstance(each, Damage)]
    assert f"offset {offset} cannot be right" in told.reason


def test_gaps(tmp_path: Path) -> None:
    """The batches that cleaning has left are read, however far apart they are, and a range may end in a gap."""
    firsts = [0, 100, 2**30, 2**30 + 7]
    with stored(tmp_path, *(batch(first, 5) for first in firsts)) as broker:
        for fetch_bytes in (1, 300, 1 << 20):
            assert read(broker, 0, 2**30 + 12, fetch_bytes=fetch_bytes) == firsts
            assert read(broker, 0, 50, fetch_bytes=fetch_bytes) == [0]
            assert read(broker, 3, 2**30, fetch_bytes=fetch_bytes) == [0, 100]
            assert read(broker, 50, 2**30 + 1, fetch_bytes=fetch_bytes) == [100, 2**30]


def test_old_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper belongs to the range that contains its last offset, which is known without opening the wrapper."""
    builder = MessageSetBuilder(1, Compression.GZIP, base_offset=10)
    for _ in range(5):
        builder.append(0, None, b"v")
    wrapper = builder.build()
    broken = wrapper[:-4] + bytes(4)  # gzip's trailer
    sealed = broken[:12] + crc32(broken[16:]).to_bytes(4, "big") + broken[16:]
    with stored(tmp_path, batch(0, 10)) as broker:
        for content in (wrapper, sealed):
            monkeypatch.setattr(
                StoredBatches, "_content", lambda *_, content=content: batch(0, 10) + content + batch(15)
            )
            assert read(broker, 0, 25) == [0, 14, 15]
            assert read(broker, 0, 12) == [0]


def test_broker_that_is_stopped(tmp_path: Path) -> None:
    """The broker's socket stays open and accepts requests; the task ends in time, and the next reads everything."""
    with stored(tmp_path, *(batch(first, 5) for first in range(0, 50, 5))) as broker:
        address = broker.bootstrap
        settings = client(broker, fetch_bytes=1)
    command = [sys.executable, "-m", "kafkawire.commands.main", "broker", "--listen", address, "--data", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "the broker must listen"
        with StoredBatches(settings, 500) as reader:
            found = reader.read(PartitionRange(ORDERS, 0, 50))
            assert not isinstance(first := next(found), Damage)
            assert first.batch.base_offset == 0
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(RequestTimedOut, match=r"orders-0, from offset \d+ on: Fetch to node 1"):
                list(found)
        process.send_signal(signal.SIGCONT)
        with StoredBatches(settings, 10_000) as reader:
            assert len(list(reader.read(PartitionRange(ORDERS, 0, 50)))) == 10
    finally:
        process.kill()
        process.communicate()


def test_no_broker(tmp_path: Path) -> None:
    """A client that cannot start leaves no thread."""
    with stored(tmp_path, batch(0, 5)) as broker:
        settings = wire_options(broker, **{"kafka.default.api.timeout.ms": "50"}).client
    before = set(threading.enumerate())
    with pytest.raises(KafkaWireError, match="connect"), StoredBatches(settings, 50):
        pass
    assert set(threading.enumerate()) <= before  # one of the broker's threads may have ended in the meantime


def test_a_leader_that_is_none_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader is looked up again, and each request contains the leader epoch that the client knows."""
    asked: list[list[str]] = []
    epochs: list[int] = []
    with stored(tmp_path, batch(0, 5)) as broker, StoredBatches(client(broker), 10_000) as reader:
        operations: Any = type(reader._core.operations)
        describe, request = operations.describe, operations.request

        async def described(self: Any, topics: list[str], **named: Any) -> Any:
            asked.append(topics)
            return await describe(self, topics, **named)

        async def requested(self: Any, node: Any, version: Any, *rest: Any, **named: Any) -> Any:
            if rest[0] is FetchResponse:
                message, _ = version(SimpleNamespace(version_for=lambda *_: 0))
                epochs.append(message.topics[0].partitions[0].current_leader_epoch)
                if len(epochs) == 1:
                    raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "as the test wants it")
            return await request(self, node, version, *rest, **named)

        monkeypatch.setattr(operations, "describe", described)
        monkeypatch.setattr(operations, "request", requested)
        assert len(list(reader.read(PartitionRange(ORDERS, 0, 5)))) == 1
        known = reader._core.router.metadata.partition(ORDERS)
    assert asked == [["orders"], ["orders"]]
    assert known is not None
    assert known.leader_epoch >= 0
    assert epochs == [known.leader_epoch] * 2
