"""OffsetForLeaderEpoch returns epochs' end offsets from the checkpoint, and fences clients with another leader epoch.

Method: ask a broker without sockets about a log whose epochs begin at 2 and 4; Apache Kafka gave the same answers for
the same log.
"""

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.produced_batches import produced

Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
Partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


def filled():
    """Return a broker with six records, two in each of the epochs 0, 2 and 6."""
    bench = BrokerBench(MemoryDisk())
    bench.create()
    log = bench.core.directory.of("t")[0]
    for epoch in (0, 2, 6):
        if epoch:
            log.epochs.begin(epoch, log.next_offset)
            bench.core.replicas.leader("t", 0).leader_epoch = epoch
        for _ in range(2):
            bench.produce(produced(b"v"))
    return bench, log


def ask(bench, epoch, current=-1, topic="t", partition=0, version=None):
    request = OffsetForLeaderEpochRequest(-1, [Topic(topic, [Partition(partition, current, epoch)])])
    (answer,) = bench.ask(request, version).topics[0].partitions
    assert answer.partition == partition
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_every_version(version):
    bench, _ = filled()
    assert ask(bench, 0, version=version) == (ErrorCode.NONE, 0, 2)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, {-2: (-2, 0), -1: (-1, -1), 0: (0, 2), 1: (0, 2), 2: (2, 4), 5: (2, 4), 6: (6, 6), 7: (-1, -1)}),
        (3, {-2: (-2, 3), -1: (-1, -1), 0: (0, 3), 1: (1, 3), 2: (2, 4), 5: (2, 4), 6: (6, 6), 7: (-1, -1)}),
        (4, {-2: (-2, 4), -1: (-1, -1), 0: (0, 4), 1: (1, 4), 2: (2, 4), 5: (5, 4), 6: (6, 6), 7: (-1, -1)}),
        (6, {-2: (-2, 6), -1: (-1, -1), 0: (0, 6), 1: (1, 6), 2: (2, 6), 5: (5, 6), 6: (6, 6), 7: (-1, -1)}),
    ],
)
def test_ends_of_epochs_and_what_deletion_leaves_of_them(start, expected):
    bench, log = filled()
    log.begin_at(start)
    assert {epoch: ask(bench, epoch)[1:] for epoch in expected} == expected


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.FENCED_LEADER_EPOCH),
        (7, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epoch_that_the_client_knows(current, code):
    bench, _ = filled()
    assert ask(bench, 0, current) == ((code, 0, 2) if code == ErrorCode.NONE else (code, -1, -1))


def test_what_is_not_there():
    bench, log = filled()
    assert ask(bench, 0, topic="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(bench, 0, partition=5)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(bench, 0, partition=-1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    log.fail(OSError("gone"))
    assert {ask(bench, 0, current) for current in (-2, -1, 5, 6, 7)} == {(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)}


def test_crash_begins_an_epoch_and_a_clean_shutdown_does_not():
    bench, _ = filled()
    bench.core.close()
    bench = BrokerBench(bench.disk.crash())  # type: ignore[attr-defined]  # a MemoryDisk
    assert ask(bench, 6) == (ErrorCode.NONE, 6, 6)
    again = BrokerBench(bench.disk.crash())  # type: ignore[attr-defined]  # a MemoryDisk
    assert ask(again, 6) == (ErrorCode.NONE, 6, 6)
    assert ask(again, 7, 7) == (ErrorCode.NONE, 7, 6)
    assert ask(again, 7, 6)[0] == ErrorCode.FENCED_LEADER_EPOCH
