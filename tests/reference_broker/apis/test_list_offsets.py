"""ListOffsets finds log ends, timestamps and the newest record, each from the version that introduced it.

Method: ask a broker without sockets whose log has three batches with known timestamps.
"""

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import IsolationLevel, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.transacting_logs import Transactions

Topic = ListOffsetsRequest.ListOffsetsTopic
Partition = ListOffsetsRequest.ListOffsetsPartition

SINCE = {
    OffsetTimestamp.MAX_TIMESTAMP: 7,
    OffsetTimestamp.EARLIEST_LOCAL: 8,
    OffsetTimestamp.LATEST_TIERED: 9,
    OffsetTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}


@pytest.fixture
def filled(bench):
    bench.create()
    for number in (0, 200, 100):
        bench.produce(produced(b"a", b"b", timestamps=(NOW_MS + number, NOW_MS + number + 1)))
    return bench


def ask(bench, timestamp, version=None, **fields):
    request = ListOffsetsRequest(-1, 0, [Topic("t", [Partition(0, timestamp=timestamp, **fields)])])
    return bench.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_OFFSETS))
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (OffsetTimestamp.LATEST, (-1, 6)),
        (OffsetTimestamp.EARLIEST, (-1, 0)),
        (OffsetTimestamp.MAX_TIMESTAMP, (NOW_MS + 201, 3)),
        (OffsetTimestamp.EARLIEST_LOCAL, (-1, 0)),
        (OffsetTimestamp.LATEST_TIERED, (-1, -1)),
        (OffsetTimestamp.EARLIEST_PENDING_UPLOAD, (-1, -1)),
        (0, (NOW_MS, 0)),
        (NOW_MS + 1, (NOW_MS + 1, 1)),
        (NOW_MS + 2, (NOW_MS + 200, 2)),
        (NOW_MS + 202, (-1, -1)),
    ],
)
def test_every_version(filled, version, timestamp, found):
    answer = ask(filled, timestamp, version)
    if version < SINCE.get(timestamp, 0):
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        return
    assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, *found)
    assert answer.leader_epoch == (0 if version >= 4 and found[1] >= 0 else -1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.NONE),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": -2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"timestamp": -9}, ErrorCode.UNSUPPORTED_VERSION),
        ({"timestamp": -9, "current_leader_epoch": 1}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_errors(filled, fields, code):
    assert ask(filled, **({"timestamp": 0} | fields)).error_code == code


def test_unknown_partitions_and_doubles(filled):
    unsupported = Partition(8, timestamp=-9)
    topics = [Topic("t", [Partition(7), Partition(0), Partition(0), unsupported]), Topic("none", [Partition(0)])]
    response = filled.ask(ListOffsetsRequest(-1, 0, topics))
    codes = [[partition.error_code for partition in topic.partitions] for topic in response.topics]
    assert codes == [
        [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNSUPPORTED_VERSION,
        ],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]


@pytest.mark.parametrize("isolation_level", IsolationLevel)
def test_what_is_not_committed(filled, isolation_level):
    Transactions(filled.core.directory.of("t")[0]).append(1, b"a")
    is_committed = isolation_level == IsolationLevel.READ_COMMITTED
    filled.produce(produced(b"c", timestamps=(NOW_MS + 500,)))

    def ask(timestamp):
        request = ListOffsetsRequest(-1, isolation_level, [Topic("t", [Partition(0, timestamp=timestamp)])])
        answer = filled.ask(request).topics[0].partitions[0]
        assert not answer.error_code
        return answer.offset

    assert ask(OffsetTimestamp.LATEST) == (6 if is_committed else 8)
    assert ask(OffsetTimestamp.EARLIEST) == 0
    assert ask(OffsetTimestamp.MAX_TIMESTAMP) == (-1 if is_committed else 7)
    assert ask(NOW_MS + 200) == 2
    assert ask(NOW_MS + 400) == (-1 if is_committed else 7)


def test_replicas_and_tools_are_told_the_end_of_the_log_whatever_is_open(bench):
    bench.create()
    Transactions(bench.core.directory.of("t")[0]).append(1, b"a")
    latest = Topic("t", [Partition(0, timestamp=OffsetTimestamp.LATEST)])
    found = [
        bench.ask(ListOffsetsRequest(replica, IsolationLevel.READ_COMMITTED, [latest])).topics[0].partitions[0].offset
        for replica in (-1, -2, 0, 5)
    ]
    assert found == [0, 1, 1, 1]


@pytest.mark.parametrize("level", [2, -1])
def test_isolation_level_that_does_not_exist(filled, level):
    latest = Topic("t", [Partition(0, timestamp=OffsetTimestamp.LATEST)])
    (answer,) = filled.ask(ListOffsetsRequest(-1, level, [latest])).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# A lost index.


def test_lookup_by_time_waits_for_a_lost_index_and_others_do_not():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), lambda *arguments: at_once(*arguments) if not is_held else work(*arguments))
    is_held = False
    bench.begin_small(200, 2)
    for number in range(4):
        bench.produce(produced(b"a" * 50, b"b" * 50, timestamps=(NOW_MS + number, NOW_MS + number)))
    bench.core.close()
    bench.disk.remove("t-0/00000000000000000000.timeindex")
    bench.restart_again()
    is_held = True
    answers = []

    def ask(*partitions):
        request = ListOffsetsRequest(-1, 0, [Topic("t", [Partition(n, timestamp=time) for n, time in partitions])])
        bench.ask_then(request, None, lambda response: answers.append(bench.through(response, 11)))

    ask((0, NOW_MS + 1), (1, OffsetTimestamp.LATEST), (7, 0))
    ask((0, OffsetTimestamp.MAX_TIMESTAMP))
    ask((0, OffsetTimestamp.LATEST), (1, NOW_MS))
    assert [partition.offset for partition in answers[0].topics[0].partitions] == [8, -1]
    work.run()
    assert len(answers) == 3
    found = {tuple((each.error_code, each.offset) for each in answer.topics[0].partitions) for answer in answers[1:]}
    assert found == {((0, 2), (0, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)), ((0, 6),)}


@pytest.mark.parametrize("timestamp", [OffsetTimestamp.LATEST, OffsetTimestamp.EARLIEST, *SINCE, NOW_MS])
@pytest.mark.parametrize("epoch", [-1, 7])
def test_log_that_is_offline_tells_no_offset(filled, timestamp, epoch):
    filled.core.directory.log("t", 0).fail(OSError("broken"))
    answer = ask(filled, timestamp, current_leader_epoch=epoch)
    assert (answer.error_code, answer.offset, answer.leader_epoch) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
