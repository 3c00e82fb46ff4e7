"""Followers fetch from their leader, and consumers from leaders or followers, as in Apache Kafka.

Method: use a broker without sockets that leads or follows a partition, and play the other brokers.
"""

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.enums import Acks, IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.cluster_bench import ClusterBench, partition_in
from tests.reference_broker.replicas.leader_bench import EPOCH, LAG_MAX_MS, LeaderBench
from tests.reference_broker.storage.produced_batches import produced, values_in


@pytest.fixture
def bench(tmp_path):
    bench = ClusterBench(tmp_path / "data")
    bench.leader.lead()
    return bench


def records_of(partition):
    assert partition.records is not None
    return partition.records


def begun(bench, offset, broker_id=2):
    """Start a follower's session; return its id."""
    response = bench.follow(offset, broker_id, session_epoch=0, max_wait_ms=0)
    assert response.session_id
    return response.session_id


def count_reads(monkeypatch, log):
    reads = []
    read = log.read
    monkeypatch.setattr(log, "read", lambda *args, **kwargs: reads.append(args) or read(*args, **kwargs))
    return reads


# Followers.


def test_a_follower_gets_records_that_are_not_committed(bench):
    bench.leader.append(3)
    partition = partition_in(bench.follow(1))
    assert (len(values_in(records_of(partition))), partition.high_watermark) == (2, 0)
    assert bench.consume(0).records == b""


def test_fetches_acknowledge(bench):
    bench.leader.produce()
    for broker_id in (2, 3):
        assert bench.leader.acknowledged == [None]
        bench.follow(1, broker_id)
    assert bench.leader.acknowledged == [ErrorCode.NONE]


def test_a_follower_waits_for_records(bench):
    bench.leader.append()
    session_id = begun(bench, 1)
    waiting = bench.follow(-1, session_id=session_id, session_epoch=1)
    assert isinstance(waiting, DelayedOperation)
    bench.leader.append()
    partition = partition_in(waiting)
    assert (len(records_of(partition)), partition.high_watermark) == (len(produced(b"v")), 0)


def test_what_a_follower_at_the_end_gets_is_not_read(bench):
    """The kernel sends the data directly from a region of a file; its position is known without reading it."""
    bench.leader.append()
    session_id = begun(bench, 1)
    reads = []
    bench.leader.disk.plan = lambda call: reads.append(call) if call.name == "read" else None
    waiting = bench.follow(-1, session_id=session_id, session_epoch=1)
    bench.leader.append()
    records = partition_in(waiting).records
    assert isinstance(records, FileSlice)
    assert reads == []
    assert len(values_in(records.read())) == 1


def test_what_the_next_partition_causes_to_be_appended_is_sent(bench):
    """A coordinator, elected when its partition is committed, writes markers to a partition that has just been read."""
    other = LeaderBench(isr=(1, 2)).lead(topic_id=bench.topic_id)
    bench.replicas.others["t", 1] = other.replica
    other.append()
    other.replica.when_acknowledged(Acks.ALL, 1, lambda error: bench.leader.append())
    wanted = [FetchRequest.FetchPartition(number, EPOCH, number, partition_max_bytes=2**20) for number in (0, 1)]
    topics = [FetchRequest.FetchTopic(topic_id=bench.topic_id, partitions=wanted)]
    request = FetchRequest(topics=topics, replica_state=FetchRequest.ReplicaState(2, 102), session_epoch=0)
    first = bench.ask(request, 17)
    assert bench.leader.log.next_offset == 1
    response = bench.follow(-1, session_id=first.session_id, session_epoch=1, max_wait_ms=0)
    assert len(values_in(records_of(partition_in(response)))) == 1


def test_the_answer_to_a_fetch_that_has_waited_does_not_acknowledge(bench):
    bench.leader.lead(EPOCH + 1, isr=(1, 2))
    waiting = bench.follow(0)
    bench.leader.append()
    assert waiting.response is not None
    assert (bench.leader.log.high_watermark, bench.leader.replica.position(2).end_offset) == (0, 0)


def test_a_high_watermark_alone_ends_no_wait_but_is_news(bench):
    bench.leader.append()
    session_id = begun(bench, 1)
    waiting = bench.follow(-1, session_id=session_id, session_epoch=1)
    bench.follow(1, broker_id=3)
    assert (bench.leader.log.high_watermark, waiting.response) == (1, None)
    bench.advance(500)
    assert partition_in(waiting).high_watermark == 1


def test_a_new_start_of_the_log_is_news(bench):
    bench.leader.append(2)
    bench.leader.fetch_all(3)
    session_id = begun(bench, 2)
    bench.leader.log.begin_at(1)
    response = bench.follow(-1, session_id=session_id, session_epoch=1, max_wait_ms=0)
    assert partition_in(response).log_start_offset == 1


def test_nothing_is_read_for_an_idle_follower(bench, monkeypatch):
    bench.leader.append()
    session_id = begun(bench, 1)
    bench.follow(-1, session_id=session_id, session_epoch=1, max_wait_ms=0)
    reads = count_reads(monkeypatch, bench.leader.log)
    for session_epoch in range(2, 102):
        response = bench.follow(-1, session_id=session_id, session_epoch=session_epoch)
        bench.advance(500)
        assert response.response.responses in ((), [])
    assert reads == []
    # Nevertheless, the follower was caught up at its last fetch.
    bench.leader.fetch_all(3)
    bench.leader.append()
    bench.leader.pass_time(0)
    assert bench.leader.asked == []
    bench.advance(LAG_MAX_MS)
    bench.leader.fetch_all(3)
    bench.leader.pass_time(1)
    assert bench.leader.wanted() == (1, 3)


def test_an_idle_follower_that_is_out_of_sync_is_read(bench):
    """The follower joins the ISR once the controller agrees, without any change to the log."""
    bench.leader.lead(EPOCH + 1, isr=(1, 3))
    bench.leader.append()
    session_id = begun(bench, 1)
    for session_epoch in (1, 2):
        assert bench.leader.wanted() == (1, 3, 2)
        bench.leader.answer(ErrorCode.INELIGIBLE_REPLICA)
        bench.follow(-1, session_id=session_id, session_epoch=session_epoch, max_wait_ms=0)
    assert bench.leader.wanted() == (1, 3, 2)


def test_a_follower_that_catches_up_before_it_is_removed_joins_again(bench):
    """The follower has all records when the answer arrives, and nothing else would trigger a read of the partition."""
    bench.leader.append()
    session_id = begun(bench, 0)
    bench.leader.fetch_all(3)
    bench.advance(LAG_MAX_MS)
    bench.leader.pass_time(1)
    bench.follow(1, session_id=session_id, session_epoch=1, max_wait_ms=0)
    assert bench.leader.wanted() == (1, 3)
    bench.leader.answer((1, 3))
    bench.follow(-1, session_id=session_id, session_epoch=2, max_wait_ms=0)
    assert bench.leader.wanted() == (1, 3, 2)


def test_an_idle_follower_is_read_in_a_new_epoch(bench):
    bench.leader.append()
    session_id = begun(bench, 1)
    bench.leader.lead(EPOCH + 1)
    response = bench.follow(-1, session_id=session_id, session_epoch=1)
    assert partition_in(response).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_an_idle_follower_that_a_new_epoch_removes_is_not_waited_for(bench):
    """The follower is shutting down but still alive; records acknowledged without it must not wait for it."""
    bench.leader.append()
    bench.leader.fetch_all(3)
    session_id = begun(bench, 1)
    bench.follow(-1, session_id=session_id, session_epoch=1, max_wait_ms=0)
    bench.leader.lead(EPOCH + 1, isr=(1, 3))
    bench.leader.produce()
    bench.leader.fetch_all(3)
    assert bench.leader.acknowledged == [ErrorCode.NONE]


def test_a_forgotten_partition_is_not_read_in_a_new_epoch(bench):
    bench.leader.append()
    session_id = begun(bench, 1)
    other = FetchRequest.FetchTopic(topic_id=bench.topic_id, partitions=[FetchRequest.FetchPartition(1)])
    forgotten = FetchRequest.ForgottenTopic(topic_id=bench.topic_id, partitions=[0])
    state = FetchRequest.ReplicaState(2, 102)
    asked = FetchRequest(
        replica_state=state, session_id=session_id, session_epoch=1, topics=[other], forgotten_topics_data=[forgotten]
    )
    bench.ask(asked, 17)
    bench.leader.lead(EPOCH + 1)
    response = bench.follow(-1, session_id=session_id, session_epoch=2)
    assert partition_in(response).partition_index == 1


def test_a_divergence_is_an_answer(bench):
    bench.leader.append(2)
    bench.leader.fetch_all(2, 3)
    bench.leader.lead(EPOCH + 2)
    partition = partition_in(bench.follow(2, last_fetched_epoch=EPOCH + 1))
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (EPOCH, 2)
    session_id = begun(bench, 2)
    response = bench.follow(2, session_id=session_id, session_epoch=1, last_fetched_epoch=EPOCH + 1)
    assert partition_in(response).diverging_epoch.end_offset == 2, (
        "the response is sent even if nothing else has changed"
    )


@pytest.mark.parametrize(
    ("fetch", "code"),
    [
        ({"broker_id": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"broker_id": 9, "current_leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"current_leader_epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"partition": 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_errors_are_answers(bench, fetch, code):
    assert partition_in(bench.follow(**{"offset": 0, **fetch})).error_code == code


def test_a_broker_alone_has_no_followers(tmp_path):
    bench = ClusterBench(tmp_path / "data")
    bench.use(replicas=bench.core.replicas)
    assert partition_in(bench.follow(0, current_leader_epoch=0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_old_versions_name_the_follower_elsewhere(bench):
    bench.leader.append()
    partition = FetchRequest.FetchPartition(0, fetch_offset=1, current_leader_epoch=EPOCH, partition_max_bytes=99)
    topics = [FetchRequest.FetchTopic("t", partitions=[partition])]
    bench.ask(FetchRequest(replica_id=2, topics=topics, session_epoch=-1), 12)
    position = bench.leader.replica.position(2)
    assert (position.end_offset, position.broker_epoch) == (1, -1)


# Consumers.


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging", "code"),
    [
        (3, EPOCH + 1, (EPOCH, 2), ErrorCode.NONE),
        (3, EPOCH, (EPOCH, 2), ErrorCode.NONE),
        (2, EPOCH, (-1, -1), ErrorCode.NONE),
        (3, EPOCH + 2, (-1, -1), ErrorCode.NONE),
        (3, EPOCH + 3, (-1, -1), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_consumer_that_names_its_last_epoch_learns_of_a_divergence(bench, offset, last_epoch, diverging, code):
    bench.leader.append(2)
    bench.leader.lead(EPOCH + 2)
    bench.leader.append(1)
    bench.leader.fetch_all(2, 3)
    partition = bench.consume(offset, last_fetched_epoch=last_epoch)
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == diverging
    assert (partition.error_code, len(values_in(partition.records))) == (code, int(offset == 2))
    if diverging[0] >= 0:
        assert partition.high_watermark == 3
        waiting = bench.consume(offset, last_fetched_epoch=last_epoch, max_wait_ms=500, min_bytes=1)
        assert waiting.diverging_epoch.epoch == diverging[0], "the response is sent at once"


@pytest.fixture
def follower(bench):
    """Return a following broker with two records, one of them committed."""
    bench.leader.append(2)
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    bench.leader.replica.followed(1, 0)
    return bench


def test_a_follower_serves_consumers_up_to_its_high_watermark(follower):
    partition = follower.consume(0)
    assert (partition.error_code, partition.high_watermark, len(values_in(records_of(partition)))) == (0, 1, 1)
    assert follower.consume(1).records == b""
    assert follower.consume(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (11, -1, ErrorCode.NONE),
        (12, EPOCH + 1, ErrorCode.NONE),
        (12, EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (12, EPOCH + 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_may_read_from_a_follower(follower, version, epoch, code):
    assert follower.consume(0, version, current_leader_epoch=epoch).error_code == code


def test_a_consumer_of_a_follower_waits_for_what_the_leader_commits(follower):
    partition = FetchRequest.FetchPartition(0, fetch_offset=1, partition_max_bytes=99)
    topics = [FetchRequest.FetchTopic(topic_id=follower.topic_id, partitions=[partition])]
    waiting = follower.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, session_epoch=-1), 17)
    assert isinstance(waiting, DelayedOperation)
    follower.leader.replica.followed(2, 0)
    assert len(records_of(partition_in(waiting))) == len(produced(b"v"))


def test_followers_do_not_fetch_from_followers(follower):
    assert partition_in(follower.follow(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def nearby(bench):
    """Return a leader in rack a, with fully caught-up followers in racks b and c."""
    bench.leader.append(4)
    bench.leader.fetch_all(2, 3)
    bench.leader.racks.update({1: "a", 2: "b", 3: "c"})
    return bench


@pytest.mark.parametrize(("rack", "preferred"), [("a", -1), ("b", 2), ("c", 3), ("d", -1), ("", -1)])
def test_a_consumer_is_sent_to_the_follower_in_its_rack(nearby, rack, preferred):
    partition = nearby.consume(1, rack_id=rack, max_wait_ms=500, min_bytes=1)
    assert (partition.preferred_read_replica, partition.high_watermark) == (preferred, 4)
    assert bool(partition.records) is (preferred == -1)


def test_who_is_sent_elsewhere_does_not_wait(nearby):
    assert nearby.consume(4, rack_id="b", max_wait_ms=500, min_bytes=1).preferred_read_replica == 2


def test_a_consumer_with_another_epoch_is_told_so_first(nearby):
    partition = nearby.consume(1, rack_id="b", current_leader_epoch=EPOCH - 1)
    assert (partition.preferred_read_replica, partition.error_code) == (-1, ErrorCode.FENCED_LEADER_EPOCH)


@pytest.mark.parametrize(
    ("version", "epoch", "leader"),
    [(16, EPOCH + 1, 2), (16, EPOCH, 2), (15, EPOCH + 1, -1), (16, EPOCH + 2, -1)],
    ids=["another leader", "an older epoch", "an older version", "a later epoch"],
)
def test_errors_tell_the_current_leader(bench, version, epoch, leader):
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    state = FetchRequest.ReplicaState(3, 103)
    partition = FetchRequest.FetchPartition(0, current_leader_epoch=epoch)
    topics = [FetchRequest.FetchTopic(topic_id=bench.topic_id, partitions=[partition])]
    response = bench.ask(FetchRequest(replica_state=state, topics=topics), version)
    current = partition_in(response).current_leader
    assert (current.leader_id, current.leader_epoch) == (leader, -1 if leader < 0 else EPOCH + 1)
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
    assert endpoints == ([] if leader < 0 else [(2, "host2", 9000, "b")])


def test_a_leader_that_is_not_alive_has_no_endpoint(bench):
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=3))
    response = bench.follow(0)
    assert (partition_in(response).current_leader.leader_id, response.node_endpoints) == (3, ())


def test_a_topic_that_was_created_again(bench):
    bench.leader.append()
    bench.leader.lead(EPOCH, topic_id=b"o" * 16)
    for partition in (bench.consume(0, max_wait_ms=500, min_bytes=1), partition_in(bench.follow(0))):
        assert partition.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_replica_without_a_role_does_not_say_that_its_topic_is_another_one(tmp_path):
    """The broker has just restarted, and the controller has not yet told it the replica's role and topic id."""
    bench = ClusterBench(tmp_path / "data")
    for partition in (bench.consume(0), partition_in(bench.follow(0, current_leader_epoch=-1))):
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_committed_reads_of_a_leader_end_at_the_high_watermark(bench):
    bench.leader.append(2)
    bench.leader.fetch_all(2)
    bench.leader.fetch(3, 1)
    partition = bench.consume(0, isolation_level=IsolationLevel.READ_COMMITTED)
    assert (len(values_in(records_of(partition))), partition.last_stable_offset) == (1, 1)


# Throttled replication.


@pytest.fixture
def throttled(bench):
    """Followers 2 and 3 are in the ISR, follower 4 is not, and the quota is one byte per second."""
    bench.leader.replicas = (1, 2, 3, 4)
    bench.leader.lead(EPOCH + 1)
    bench.leader.quota.bytes_per_second = 1
    bench.leader.quota.throttle("t", {0})
    return bench


def exceed(bench):
    """Let follower 4 fetch a batch, which exceeds the quota; return the batch's size."""
    bench.leader.append()
    size = len(records_of(partition_in(bench.follow(0, broker_id=4))))
    assert size
    return size


def test_an_exceeded_quota_holds_back_who_is_not_in_sync(throttled):
    exceed(throttled)
    waiting = throttled.follow(0, broker_id=4)
    assert waiting.response is None
    throttled.advance(500)
    partition = partition_in(waiting)
    assert (partition.records, partition.error_code, partition.high_watermark) == (b"", ErrorCode.NONE, 0)
    assert len(records_of(partition_in(throttled.follow(0, broker_id=2)))) == len(produced(b"v"))


def test_who_is_held_back_gets_the_rest_once_the_quota_is_free(throttled):
    """All samples of the quota have expired after eleven seconds."""
    exceed(throttled)
    throttled.advance(10_999)
    assert not throttled.follow(0, broker_id=4, max_wait_ms=0).responses[0].partitions[0].records
    throttled.advance(1)
    assert records_of(partition_in(throttled.follow(0, broker_id=4)))


def test_new_records_do_not_end_the_wait_of_who_is_held_back(throttled):
    """If they did, the follower would keep fetching without getting any."""
    exceed(throttled)
    waiting = throttled.follow(0, broker_id=4)
    throttled.leader.append(10)
    assert waiting.response is None
    throttled.leader.quota.bytes_per_second = None
    throttled.leader.append()
    assert len(records_of(partition_in(waiting))) == 12 * len(produced(b"v"))


def test_the_end_of_a_role_ends_the_wait_of_who_is_held_back(throttled):
    exceed(throttled)
    waiting = throttled.follow(0, broker_id=4)
    throttled.leader.replica.follow(throttled.leader.term(EPOCH + 2, leader=2))
    assert partition_in(waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_an_offset_out_of_range_is_told_in_spite_of_the_quota(throttled):
    exceed(throttled)
    assert partition_in(throttled.follow(9, broker_id=4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("broker_id", [2, 4])
def test_what_followers_get_counts_once(throttled, broker_id):
    """In-sync followers count, too; a fetch that has waited is read twice but counted once."""
    quota = throttled.leader.quota
    waiting = throttled.follow(0, broker_id)
    throttled.leader.append()
    size = len(records_of(partition_in(waiting)))
    quota.bytes_per_second = size
    assert not quota.is_exceeded(throttled.leader.now_ms)
    quota.bytes_per_second = size - 1
    assert quota.is_exceeded(throttled.leader.now_ms)


@pytest.mark.parametrize("partitions", [(), {1}])
def test_what_is_not_throttled_neither_counts_nor_waits(throttled, partitions):
    throttled.leader.quota.throttle("t", partitions)
    exceed(throttled)
    assert records_of(partition_in(throttled.follow(0, broker_id=4)))
    assert not throttled.leader.quota.is_exceeded(throttled.leader.now_ms)


def test_consumers_do_not_count(throttled):
    throttled.leader.append()
    throttled.leader.fetch_all(2, 3)
    assert throttled.consume(0).records
    assert not throttled.leader.quota.is_exceeded(throttled.leader.now_ms)
