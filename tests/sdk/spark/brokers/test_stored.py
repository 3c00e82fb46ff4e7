"""What a leader stores is read once and in order, whatever it is: control batches, aborted records, damage.

Method: a reference broker on logs that were written by hand.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import BrokerError, DecodeError, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.stored import Damage

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.client.partitions import TopicPartition  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers import stored as module  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.ranges import OffsetRange  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.stored import StoredBatches  # noqa: E402 - it needs pyarrow
from kafkawire.testing import Broker  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.brokers.topics import ORDERS, stored, wire_options  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.segments.logs import batch, marker, records_of  # noqa: E402 - it needs pyarrow


def read(broker: Broker, start: int, end: int, timeout_ms: int = 10_000, partition: TopicPartition = ORDERS) -> Any:
    """Return the base offsets of batches, and damage as such."""
    with StoredBatches(wire_options(broker).client, timeout_ms) as reader:
        found = list(reader.read(OffsetRange(partition, start, end)))
    return [each if isinstance(each, Damage) else each.batch.base_offset for each in found]


def damaged(content: bytes, at: int = -1) -> bytes:
    broken = bytearray(content)
    broken[at] ^= 1
    return bytes(broken)


@pytest.mark.parametrize("fetch_bytes", [1, 200, 1 << 20])
def test_all_batches(tmp_path: Path, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every range those with an offset of it: the marker, what was aborted, what is compressed."""
    monkeypatch.setattr(module, "FETCH_BYTES", fetch_bytes)
    log = [batch(0, 3), records_of(3, 7, 3), marker(6, 7, False), batch(10, 5, Compression.GZIP), batch(15, 5)]
    spans = [(0, 3), (3, 6), (6, 7), (10, 15), (15, 20)]
    with stored(tmp_path, *log) as broker:
        for start, end in itertools.combinations([0, 1, 3, 6, 7, 8, 12, 15, 19, 20], 2):
            expected = [first for first, after in spans if first < end and after > start]
            assert read(broker, start, end) == expected, (start, end)


@pytest.mark.parametrize("fetch_bytes", [1, 1 << 20])
def test_damage(tmp_path: Path, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, with what is around it, however it is fetched: first, last and amid others."""
    monkeypatch.setattr(module, "FETCH_BYTES", fetch_bytes)
    log = [damaged(batch(0, 5)), batch(5, 5), damaged(batch(10, 5)), batch(15, 5), batch(20, 5)]
    with stored(tmp_path, *(batch(first, 5) for first in range(0, 25, 5))) as broker:
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        path.write_bytes(b"".join(log))  # under the broker, which does not look at checksums of what it sends
        first, *rest = read(broker, 0, 25)
        assert (first.base_offset, first.size_bytes, "CRC" in first.reason.upper()) == (0, len(log[0]), True)
        assert [each if isinstance(each, int) else each.base_offset for each in rest] == [5, 10, 15, 20]
        assert [isinstance(each, Damage) for each in rest] == [False, True, False, False]
        path.write_bytes(b"".join([*log[:4], damaged(batch(20, 5))]))
        *_, last = read(broker, 15, 25)
        assert isinstance(last, Damage)
        assert last.base_offset == 20


def test_no_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the header of the first batch is one, no one knows which offset is next."""
    content = damaged(batch(0, 5), 16)  # the magic
    with stored(tmp_path, batch(0, 5), batch(5, 5)) as broker:
        (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(content * 2)
        with pytest.raises(BrokerError) as caught:
            read(broker, 0, 10)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        monkeypatch.setattr(StoredBatches, "_content", lambda *_: content)
        with pytest.raises(DecodeError, match=r"orders-0.*nothing can be read from offset 0 on: .*magic"):
            read(broker, 0, 10)


def test_gone_meanwhile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What retention has removed is passed over, with a line that says so; what never was is an error."""
    with stored(tmp_path, *(batch(first, 5) for first in range(10, 25, 5))) as broker:
        for path in (tmp_path / "orders-0").glob("0*"):
            path.rename(path.with_name(path.name.replace("00000000000000000000", "00000000000000000010")))
        broker.kill()
        broker.start()
        assert read(broker, 0, 25) == [10, 15, 20]
        assert "offsets 0 to 9 are gone, the first one is 10" in caplog.text
        with pytest.raises(BrokerError) as caught:
            read(broker, 40, 50)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_comes(tmp_path: Path) -> None:
    with stored(tmp_path, batch(0, 5)) as broker:
        with pytest.raises(RequestTimedOut, match="orders-0: nothing from offset 5 on came in 500 ms, 6 is the end"):
            read(broker, 0, 6, timeout_ms=500)
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            read(broker, 0, 1, timeout_ms=500, partition=TopicPartition("nowhere", 0))


def test_broker_that_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket stays open, and takes requests; the task ends in time, and the next one has it all."""
    monkeypatch.setattr(module, "FETCH_BYTES", 1)
    with stored(tmp_path, *(batch(first, 5) for first in range(0, 50, 5))) as broker:
        address = broker.bootstrap
        client = wire_options(broker).client
    command = [sys.executable, "-m", "kafkawire.commands.main", "broker", "--listen", address, "--data", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "it listens"
        with StoredBatches(client, 500) as reader:
            found = reader.read(OffsetRange(ORDERS, 0, 50))
            assert not isinstance(first := next(found), Damage)
            assert first.batch.base_offset == 0
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(RequestTimedOut, match=r"orders-0, from offset \d+ on: Fetch to node 1"):
                list(found)
        process.send_signal(signal.SIGCONT)
        with StoredBatches(client, 10_000) as reader:
            assert len(list(reader.read(OffsetRange(ORDERS, 0, 50)))) == 10
    finally:
        process.kill()
        process.communicate()


def test_no_broker(tmp_path: Path) -> None:
    """A client that cannot start leaves no thread."""
    with stored(tmp_path, batch(0, 5)) as broker:
        client = wire_options(broker, **{"kafka.default.api.timeout.ms": "50"}).client
    before = set(threading.enumerate())
    with pytest.raises(KafkaWireError, match="connect"), StoredBatches(client, 50):
        pass
    assert set(threading.enumerate()) <= before  # one of the broker's may have ended meanwhile
