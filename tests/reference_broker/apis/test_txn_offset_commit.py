"""Offsets from TxnOffsetCommit take effect once the transaction commits, in every version, even across a restart.

Method: send requests to a broker without sockets that is restarted between the steps.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import join
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import BrokerBench, versions_of

VERSIONS = versions_of(ApiKey.TXN_OFFSET_COMMIT)
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(bench, version, is_commit):
    x = Transacting(bench)
    if version < 5:
        not_added = ErrorCode.TRANSACTION_ABORTABLE if version == 4 else ErrorCode.INVALID_TXN_STATE
        assert x.commit_offset(7, version) == not_added
        x.add_offsets()
    assert x.commit_offset(7, version) == NONE
    for restart in (lambda: None, bench.restart, bench.crash):
        restart()
        assert x.fetch_offset() == x.fetch_offset(version=7) == (-1, UNSTABLE)
        assert x.fetch_offset(is_stable=False) == x.fetch_offset(is_stable=False, version=5) == (-1, NONE)
    assert x.end(is_commit, 5 if version == 5 else 3) == NONE
    for restart in (lambda: None, bench.restart, bench.crash):
        restart()
        assert x.fetch_offset() == (7 if is_commit else -1, NONE)


def test_what_was_committed_before_counts_until_then(bench):
    x = Transacting(bench)
    x.commit_offset(7)
    x.end()
    x.commit_offset(9)
    assert x.fetch_offset() == (-1, UNSTABLE)
    assert x.fetch_offset(is_stable=False) == (7, NONE)
    bench.restart()
    x.end(False)
    assert x.fetch_offset() == (7, NONE)


def test_all_offsets_of_a_group(bench):
    x = Transacting(bench)
    x.commit_offset(7)
    x.end()
    x.commit_offset(9)
    group = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)
    (found,) = bench.ask(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups
    assert found.topics[0].partitions[0].error_code == UNSTABLE


def test_refused_offsets(bench):
    x = Transacting(bench)
    assert x.commit_offset(7, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert x.commit_offset(7, metadata="m" * 5_000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert x.commit_offset(7, group="") == ErrorCode.INVALID_GROUP_ID
    assert x.commit_offset(7, generation_id=3) == ErrorCode.ILLEGAL_GENERATION
    assert x.commit_offset(7, producer=(99, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    x.init()
    assert x.commit_offset(7) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_members_of_a_classic_group(bench):
    x = Transacting(bench)
    member_id = join(bench)
    assert x.commit_offset(7, member_id=member_id, generation_id=1) == NONE
    assert x.commit_offset(7) == NONE, "clients from before KIP-447 send no member id"
    assert x.commit_offset(7, member_id=member_id, generation_id=2) == ErrorCode.ILLEGAL_GENERATION
    assert x.commit_offset(7, member_id="who", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_a_consumer_group_commit_by_a_passed_epoch_what_they_kept(bench):
    x = Transacting(bench)
    Owned = ConsumerGroupHeartbeatRequest.TopicPartitions
    Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    topic_id = bench.store.topics["a"].topic_id

    def beat(member_id, epoch, *owned):
        answer = bench.ask(
            ConsumerGroupHeartbeatRequest(
                "g",
                member_id,
                epoch,
                rebalance_timeout_ms=-1 if epoch else 60_000,
                subscribed_topic_names=None if epoch else ["a"],
                topic_partitions=[Owned(topic_id, owned)] if owned else [],
            ),
            1,
        )
        assert answer.error_code == NONE
        return answer.member_epoch

    def commit(epoch, number):
        topics = [Topic("a", [Partition(number, 7, committed_metadata="")])]
        return x.commit_offset(7, member_id="first", generation_id=epoch, topics=topics)

    passed = beat("first", beat("first", 0), 0, 1)
    beat("second", 0)
    beat("first", passed, 0, 1)
    assert beat("first", passed, 0) == passed + 1
    assert commit(passed + 1, 0) == commit(passed, 0) == NONE
    assert commit(passed, 1) == commit(passed - 1, 0) == ErrorCode.ILLEGAL_GENERATION


def test_a_deleted_group_takes_what_is_pending_with_it(bench):
    x = Transacting(bench)
    x.commit_offset(7)
    (deleted,) = bench.ask(DeleteGroupsRequest(["g"])).results
    assert deleted.error_code == NONE
    assert x.fetch_offset() == (-1, NONE)
    bench.restart()
    assert x.fetch_offset() == (-1, NONE)
    x.end()
    bench.restart()
    assert x.fetch_offset() == (-1, NONE)


def test_a_deleted_topic_takes_what_is_pending_with_it(bench):
    x = Transacting(bench)
    x.commit_offset(7)
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("a")], timeout_ms=1_000))
    assert x.fetch_offset() == (-1, NONE)
    x.end()
    assert x.fetch_offset() == (-1, NONE)


def test_pending_offsets_keep_a_group():
    bench = BrokerBench(MemoryDisk(), offsets_retention_minutes=1, transactional_id_expiration_ms=2**31 - 1)
    x = Transacting(bench)
    x.commit_offset(7)
    x.end()
    x.commit_offset(9)
    bench.core.transactions.unload()  # from now on, nothing aborts the transaction
    bench.advance(600_000)
    assert [group.group_id for group in bench.core.groups.classic_groups()] == ["g"]
    assert x.fetch_offset(is_stable=False) == (7, NONE)
    bench.elect()
    for _ in range(8):  # load, check, abort, check again
        bench.advance(600_000)
    assert list(bench.core.groups.classic_groups()) == []
