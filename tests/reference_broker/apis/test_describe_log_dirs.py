"""DescribeLogDirs shows what the data directory contains, and its free space.

Method: send a table of requests, with Apache Kafka's answers, to a broker without sockets; then use disks of known
sizes, and disks and logs that have failed.
"""

import errno
from types import SimpleNamespace

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.sdk.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.asked_bench import check, fill
from tests.reference_broker.apis.asked_cases import cases, name_of
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced

VERSIONS = versions_of(ApiKey.DESCRIBE_LOG_DIRS)


def described(bench, version=None):
    (result,) = bench.ask(DescribeLogDirsRequest(None), version).results
    return result


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_LOG_DIRS), ids=name_of)
def test_answers(bench, case):
    check(fill(bench), case)


def test_directory_and_volume(bench, tmp_path):
    result = described(bench)
    assert result.log_dir == str(tmp_path / "data")
    assert 0 < result.usable_bytes < result.total_bytes


@pytest.mark.parametrize("version", VERSIONS)
def test_volume_of_a_disk_in_memory(version):
    bench = BrokerBench(disk := MemoryDisk(2**20))
    bench.create("t")
    bench.produce(produced(b"v" * 1000))
    result = described(bench, version)
    assert result.log_dir == "memory:"
    shown = (2**20, 2**20 - disk.used_bytes) if version >= 4 else (-1, -1)
    assert (result.total_bytes, result.usable_bytes) == shown


def test_volume_without_a_limit():
    result = described(BrokerBench(MemoryDisk()))
    assert (result.error_code, result.total_bytes, result.usable_bytes) == (ErrorCode.NONE, -1, -1)


def test_volume_that_an_answer_has_no_room_for(bench, monkeypatch):
    monkeypatch.setattr(bench.disk, "volume", lambda: (2**64, 2**63))
    result = described(bench)
    assert (result.total_bytes, result.usable_bytes) == (2**63 - 1, 2**63 - 1)


def test_all_segments_count(bench):
    bench.create("t", segment_bytes=str(2**20))
    records = produced(b"v" * 2**19)
    for _ in range(3):
        bench.produce(bytes(records))
    assert len(bench.core.directory.log("t", 0).segments) > 1
    ((partition,),) = (topic.partitions for topic in described(bench).topics)
    assert partition.partition_size == 3 * len(records)


def test_log_that_is_offline_is_left_out(bench):
    bench.create("t", 2)
    bench.core.directory.log("t", 0).fail(OSError(errno.EIO, "broken"))
    (topic,) = described(bench).topics
    assert [partition.partition_index for partition in topic.partitions] == [1]


def test_a_partition_that_the_broker_has_not_been_told_to_host(bench):
    bench.create("t", 2)
    first = bench.core.replicas.get("t", 0)
    bench.use(replicas=SimpleNamespace(get=lambda topic, number: None if number else first))
    ((here, there),) = (topic.partitions for topic in described(bench).topics)
    assert (here.offset_lag, there.offset_lag) == (0, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_disk_that_has_failed(version):
    bench = BrokerBench(disk := MemoryDisk())
    bench.create("t")
    disk.plan = fail_sometimes(1, 1.0)
    result = described(bench, version)
    assert (result.error_code, result.topics, result.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, (), -1)


def test_response_waits_until_the_volume_is_measured():
    bench = BrokerBench(MemoryDisk(2**20), work := HeldWork())
    waiting = bench.ask(DescribeLogDirsRequest(None))
    assert isinstance(waiting, DelayedOperation)
    work.run()
    assert waiting.response is not None
    (result,) = bench.through(waiting.response, 5).results
    assert result.total_bytes == 2**20
