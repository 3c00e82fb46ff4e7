"""Share fetches wait until there are records, and are woken by the log, by released records, and by loaded states.

Method: send fetches that are delayed to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import LOCK_MS, ShareBench, acquired, values_of


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2, "m", "n")
    return bench


def wait(bench, *args, **fields):
    """Begin a fetch that has to wait."""
    answer = bench.fetch_later(*args, **{"max_wait_ms": 5_000, **fields})
    assert isinstance(answer, DelayedOperation)
    bench.pass_turns()
    assert answer.response is None
    return answer


def end(bench, answer):
    bench.pass_turns()
    assert answer.response is not None
    assert len(bench.core.shares.fetches) == 0
    return bench.through(answer.response, 2)


def test_a_fetch_waits_for_records(bench):
    answer = wait(bench)
    assert len(bench.core.shares.fetches) == 1
    bench.produce_values(b"a")
    assert values_of(end(bench, answer)) == [b"a"]


def test_a_fetch_waits_no_longer_than_the_client_wants(bench):
    answer = wait(bench)
    bench.advance(4_999)
    assert answer.response is None
    bench.advance(1)
    assert acquired(end(bench, answer)) == []


def test_a_fetch_waits_for_enough_bytes(bench):
    answer = wait(bench, min_bytes=100)
    bench.produce_values(b"a" * 10)
    bench.pass_turns()
    assert answer.response is None
    bench.produce_values(b"b" * 50)
    assert acquired(end(bench, answer)) == [(0, 1, 1)]


@pytest.mark.parametrize("how", ["released", "expired", "left", "closed"])
def test_a_fetch_waits_for_released_records(bench, how):
    bench.produce_values(b"a")
    first = bench.peer
    bench.fetch()
    bench.use_connection()
    answer = wait(bench, 0, "n", max_wait_ms=2 * LOCK_MS)
    if how == "released":
        bench.acknowledge(1, (0, 0, [2]))
    elif how == "expired":
        bench.advance(LOCK_MS)
    elif how == "left":
        bench.acknowledge(-1)
    else:
        first.lost()
    assert acquired(end(bench, answer)) == [(0, 0, 2)]


def test_a_fetch_ends_when_its_topic_does(bench):
    answer = wait(bench, partitions=[0])
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1_000))
    (topic,) = end(bench, answer).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_ends_with_its_connection(bench):
    answer = wait(bench)
    answer.cancel()
    assert len(bench.core.shares.fetches) == 0
    bench.produce_values(b"a")
    bench.pass_turns()
    assert acquired(bench.fetch(1)) == [(0, 0, 1)], "nothing has been acquired for nobody"


def test_records_are_shared_among_waiting_fetches(bench):
    answer = wait(bench)
    bench.use_connection()
    other = wait(bench, 0, "n")
    bench.produce_values(b"a")
    assert values_of(end_one(bench, answer)) == [b"a"]
    assert other.response is None
    bench.produce_values(b"b")
    assert values_of(end(bench, other)) == [b"b"]


def end_one(bench, answer):
    bench.pass_turns()
    return bench.through(answer.response, 2)


def test_partitions_take_turns(bench):
    bench.produce_values(b"a")
    bench.produce_values(b"b", partition=1)
    assert values_of(bench.fetch(partitions=[0, 1], max_records=1)) == [b"a"]
    assert values_of(bench.fetch(1, max_records=1)) == [b"b"]


def test_bytes_are_divided_among_partitions(bench):
    for partition in (0, 1):
        for value in (b"a" * 500, b"b" * 500):
            bench.produce_values(value, partition=partition)
    answer = bench.fetch(partitions=[0, 1], max_bytes=1_300)
    assert [acquired(answer, partition) for partition in (0, 1)] == [[(0, 0, 1)], [(0, 0, 1)]]
    answer = bench.fetch(1, max_bytes=1)
    assert [acquired(answer, partition) for partition in (0, 1)] == [[], [(1, 1, 1)]]


@pytest.mark.parametrize("fields", [{"max_records": 0}, {"max_bytes": 0}])
def test_nothing_is_asked_for(bench, fields):
    bench.produce_values(b"a")
    assert acquired(bench.fetch(**fields)) == []


def test_a_fetch_follows_the_start_of_the_log(bench):
    bench.produce_values(b"a", b"b")
    bench.produce_values(b"c")
    bench.fetch(max_records=1)
    bench.acknowledge(1, (0, 1, [2]))
    Topic = DeleteRecordsRequest.DeleteRecordsTopic
    part = DeleteRecordsRequest.DeleteRecordsPartition(0, 2)
    bench.ask(DeleteRecordsRequest([Topic("t", [part])], timeout_ms=1_000))
    bench.pass_turns()
    assert acquired(bench.fetch(2)) == []
    assert acquired(bench.fetch(3)) == [(2, 2, 1)]


def test_a_state_that_cannot_be_read_is_told_once(bench):
    bench.core.shares.coordinator.unload()
    answer = bench.fetch_later(max_wait_ms=10_000)
    for _ in range(50):
        bench.advance(100)
    told = bench.through(answer.response, 2)
    assert told.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(bench.core.shares.partitions) == 0
    bench.elect()
    bench.pass_turns()
    bench.produce_values(b"a")
    assert acquired(bench.fetch(1)) == [(0, 0, 1)]


def test_a_disk_that_fails():
    disk = MemoryDisk()
    bench = ShareBench(disk)
    bench.begin_group()
    bench.produce_values(b"a")
    bench.fetch(max_records=0)
    disk.plan = lambda call: fail_at(call.number)(call) if call.name == "read" and "t-0" in call.path else None
    told = bench.fetch(1)
    assert told.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
