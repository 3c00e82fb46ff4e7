"""A follower gets records up to the end of the log, an error, or the point at which its log diverges from the leader's.

Method: use a leader with scripted followers; the answers and the order of the checks are those of Kafka's `Partition`.
"""

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.replicas.follower_positions import Follower
from kafkawire.reference_broker.replicas.follower_reads import read_for_follower
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leader_bench import EPOCH, LeaderBench
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.produced_batches import produced

SIZE = len(produced(b"v"))


def grown():
    """Return a leader whose log begins at offset 2: epoch 5 ends at 4, epoch 7 at 6, and epoch 9 has no records."""
    bench = LeaderBench().lead()
    bench.append(4)
    bench.lead(EPOCH + 2)
    bench.append(2)
    bench.fetch_all(2, 3)
    bench.lead(EPOCH + 4)
    bench.log.begin_at(2)
    return bench


def end_known(bench):
    """Return the end of follower 2's log, as far as the leader knows it."""
    position = bench.replica.position(2)
    assert position is not None
    return position.end_offset


def size_of(data):
    records = data.records
    return 0 if records is None else len(records)


def test_a_follower_reads_beyond_the_high_watermark():
    bench = LeaderBench().lead()
    bench.append(3)
    read = bench.fetch(2, 1)
    assert (size_of(read.data), read.data.high_watermark, read.data.error_code) == (2 * SIZE, 0, ErrorCode.NONE)
    assert (read.is_at_end, read.is_answer, read.data.aborted_transactions) == (False, False, None)


def test_the_first_batch_is_whole():
    bench = LeaderBench().lead()
    bench.append(2)
    assert size_of(bench.fetch(2, 0, max_bytes=1).data) == SIZE


def test_the_high_watermark_includes_the_fetch():
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.append(2)
    read = bench.fetch(2, 2)
    assert (read.data.high_watermark, read.data.last_stable_offset, read.data.log_start_offset) == (2, 2, 0)
    assert (read.is_at_end, size_of(read.data)) == (True, 0)


def test_only_the_arrival_tells_where_a_follower_is():
    bench = LeaderBench(isr=(1, 2)).lead()
    bench.append(2)
    bench.fetch(2, 2, arrives=False)
    assert (bench.log.high_watermark, bench.asked) == (0, [])
    bench.fetch(3, 2, arrives=False)
    assert bench.asked == []


def test_a_follower_whose_fetch_was_not_noted_is_read_at_the_next_one():
    """The partition cannot be read when the request arrives, but can be read when it is answered."""
    bench = LeaderBench(isr=(1, 2)).lead()
    assert not bench.fetch(2, 0, arrives=False).is_at_end
    assert bench.fetch(2, 0).is_at_end
    assert bench.fetch(2, 0, arrives=False).is_at_end


def test_a_follower_out_of_sync_is_read_at_each_fetch():
    bench = LeaderBench(isr=(1,)).lead()
    bench.append()
    assert not bench.fetch(2, 1).is_at_end
    bench.answer((1, 2))
    assert bench.fetch(2, 1).is_at_end


def no_leader(bench):
    bench.replica.follow(bench.term(EPOCH + 5, leader=2))


def failed(bench):
    bench.log.fail(OSError("the disk is gone"))


@pytest.mark.parametrize(
    ("change", "fetch", "code"),
    [
        pytest.param(failed, {"current_leader_epoch": 1, "broker_id": 9}, ErrorCode.KAFKA_STORAGE_ERROR, id="failed"),
        pytest.param(no_leader, {"broker_id": 9}, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="role before assignment"),
        pytest.param(no_leader, {"current_leader_epoch": EPOCH}, ErrorCode.FENCED_LEADER_EPOCH, id="epoch before role"),
        pytest.param(
            None, {"current_leader_epoch": EPOCH, "broker_id": 9}, ErrorCode.FENCED_LEADER_EPOCH, id="older epoch"
        ),
        pytest.param(
            None, {"current_leader_epoch": EPOCH + 5, "offset": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH, id="later epoch"
        ),
        pytest.param(None, {"broker_id": 9, "offset": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH, id="not assigned"),
        pytest.param(
            None,
            {"broker_id": 9, "current_leader_epoch": -1},
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            id="not assigned, without an epoch",
        ),
        pytest.param(None, {"current_leader_epoch": -5}, None, id="any negative epoch is none"),
        pytest.param(None, {"offset": 1}, ErrorCode.OFFSET_OUT_OF_RANGE, id="before the start"),
        pytest.param(None, {"offset": 7}, ErrorCode.OFFSET_OUT_OF_RANGE, id="after the end"),
        pytest.param(
            None, {"last_fetched_epoch": EPOCH + 5}, ErrorCode.OFFSET_OUT_OF_RANGE, id="epoch that has not begun"
        ),
        pytest.param(
            None,
            {"last_fetched_epoch": EPOCH, "offset": 1},
            ErrorCode.OFFSET_OUT_OF_RANGE,
            id="before the start, with an epoch",
        ),
    ],
)
def test_errors(change, fetch, code):
    bench = grown()
    epoch = bench.replica.leader_epoch
    if change is not None:
        change(bench)
    given = {"broker_id": 2, "offset": 4, "current_leader_epoch": epoch if change is None else epoch + 1, **fetch}
    read = bench.fetch(**given)
    assert read.data.error_code == (ErrorCode.NONE if code is None else code)
    assert read.is_answer is (code is not None)
    if code is not None:
        assert (read.is_at_end, read.data.high_watermark, size_of(read.data)) == (False, -1, 0)


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        pytest.param(4, EPOCH, None, id="the end of an epoch"),
        pytest.param(3, EPOCH, None, id="within an epoch"),
        pytest.param(5, EPOCH, (EPOCH, 4), id="more of an epoch than the leader has"),
        pytest.param(5, EPOCH + 1, (EPOCH, 4), id="an epoch that the leader has never had"),
        pytest.param(4, EPOCH + 1, (EPOCH, 4), id="such an epoch, at the end of the one before"),
        pytest.param(6, EPOCH + 2, None, id="the last epoch with records"),
        pytest.param(9, EPOCH + 2, (EPOCH + 2, 6), id="more of the last epoch"),
        pytest.param(6, EPOCH + 4, None, id="the current epoch"),
        pytest.param(6, EPOCH + 3, (EPOCH + 2, 6), id="an epoch between the last two"),
        pytest.param(6, EPOCH - 2, (EPOCH - 2, 2), id="an epoch before the first"),
        pytest.param(6, -1, None, id="no epoch"),
    ],
)
def test_divergence(offset, epoch, diverging):
    bench = grown()
    before = end_known(bench)
    read = bench.fetch(2, offset, last_fetched_epoch=epoch)
    assert read.data.error_code == ErrorCode.NONE
    found = read.data.diverging_epoch
    assert (found.epoch, found.end_offset) == (diverging or (-1, -1))
    assert read.is_answer is (diverging is not None)
    if diverging is not None:
        assert (size_of(read.data), read.is_at_end) == (0, False)
    # The offset in a diverged log says nothing about the records that the log has.
    assert end_known(bench) == (offset if diverging is None else before)


def test_an_offset_out_of_range_says_nothing_of_the_follower():
    bench = LeaderBench(isr=(1,)).lead()
    bench.append(2)
    bench.fetch(2, 3)
    assert (bench.asked, end_known(bench)) == ([], -1)


def test_a_broker_alone_has_no_followers():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    replica = leading(PartitionLog(LogServices(disk), "t-0", log_config({})))
    wanted = FetchRequest.FetchPartition(0, current_leader_epoch=replica.leader_epoch)
    read = read_for_follower(replica, Follower(2), wanted, 99, at_least_one=True, arrived_ms=0)
    assert read.data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_deleted_partition():
    bench = LeaderBench().lead()
    bench.replica.delete(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted"))
    assert bench.fetch(2, 0).data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
