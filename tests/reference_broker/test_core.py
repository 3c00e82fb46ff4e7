"""A broker's state survives a restart: topics, records, offsets and groups, whether it was closed or crashed.

Method: restart a broker without sockets on the same files.
"""

import errno
import logging

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.tables.enums import (
    TRANSACTION_STATE_TOPIC,
    AlterConfigOperation,
    ConfigResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import group_in, stable
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.produced_batches import produced

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Config = IncrementalAlterConfigsRequest.AlterableConfig


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_topics_and_records_stay(bench, end):
    topic_id = bench.create(partitions=2, retention_ms="1000")
    bench.produce(produced(b"a", b"b"), partition=1)
    cluster_id = bench.store.cluster_id
    getattr(bench, end)()
    topic = bench.store.topics["t"]
    assert (topic.topic_id, topic.configs) == (topic_id, {"retention.ms": "1000"})
    assert [log.next_offset for log in bench.core.directory.of(topic.name).values()] == [0, 2]
    assert bench.store.cluster_id == cluster_id
    assert bench.core.directory.was_clean is (end == "restart")
    assert bench.produce(produced(b"c"), partition=1).base_offset == 2


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_members_keep_their_group(bench, end):
    member_id = stable(bench)
    bench.advance(1000)
    getattr(bench, end)()
    group = group_in(bench)
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 1, member_id)
    assert group.members[member_id].assignment == b"assignment"
    assert not bench.ask(HeartbeatRequest("g", 1, member_id)).error_code
    bench.advance(10_000)
    assert group.state is GroupState.EMPTY


def test_groups_are_spread_over_the_offsets_topic(tmp_path):
    bench = BrokerBench(tmp_path / "data", offsets_topic_num_partitions=3)
    for group_id in ("a", "b", "c"):
        stable(bench, group_id)
    logs = bench.core.directory.of(bench.offsets_topic().name).values()
    assert [log.next_offset for log in logs] == [2, 2, 2], (
        "one record is written when the group is created, and one when it is stable"
    )
    assert sorted(partition_of(group_id, 3) for group_id in ("a", "b", "c")) == [0, 1, 2]
    bench.restart()
    assert {group.group_id for group in bench.core.groups.classic_groups()} == {"a", "b", "c"}


def test_rolled_segments_are_synced_and_noted(tmp_path):
    bench = BrokerBench(tmp_path / "data")
    bench.create(segment_bytes=str(2**20))
    for _ in range(3):
        bench.produce(produced(b"x" * 500_000))
    log = bench.core.directory.log("t", 0)
    assert log is not None
    assert log.recovery_point == 2
    assert "t 0 2\n" in (tmp_path / "data" / "recovery-point-offset-checkpoint").read_text()


def test_offsets_topic_is_synced_as_the_broker_asks():
    """Committed offsets used never to be synced, whatever the value of `log.flush.interval.messages`."""
    bench = BrokerBench(disk := MemoryDisk(), **{"log.flush.interval.messages": 1})
    stable(bench)
    (log,) = bench.core.directory.of(bench.offsets_topic().name).values()
    assert log.recovery_point == log.next_offset > 0
    for seed in range(10):
        assert group_in(BrokerBench(disk.crash(seed))).generation_id == 1


def test_coordinators_do_not_take_a_log_that_cannot_be_opened_for_an_empty_one():
    disk = MemoryDisk()
    bench = BrokerBench(disk, transaction_state_log_num_partitions=1)
    bench.create("t")
    bench.offsets_topic()
    bench.core.topics.ensure(TRANSACTION_STATE_TOPIC, lambda made: None)
    Commit = OffsetCommitRequest
    offset = Commit.OffsetCommitRequestTopic("t", partitions=[Commit.OffsetCommitRequestPartition(0, 42)])
    bench.ask(Commit("g", topics=[offset]), 7)
    bench.ask(InitProducerIdRequest("id", 60_000), 4)
    bench.core.close()

    def plan(call):
        if call.name == "open" and call.path.startswith("__") and call.path.endswith(".log"):
            raise OSError(errno.EMFILE, "Too many open files", call.path)

    disk.plan = plan
    bench.restart_again()
    fetched = bench.ask(OffsetFetchRequest("g", [OffsetFetchRequest.OffsetFetchRequestTopic("t", [0])]), 5)
    assert fetched.error_code == ErrorCode.NOT_COORDINATOR
    assert bench.ask(InitProducerIdRequest("id", 60_000), 4).error_code == ErrorCode.NOT_COORDINATOR


def test_a_changed_configuration_of_the_broker_takes_effect_everywhere_at_once(bench):
    bench.create()
    (log,) = bench.core.directory.of("t").values()
    told = []
    bench.core.on_options = lambda options: told.append(options.log_cleaner_backoff_ms)
    intervals = dict.fromkeys(
        [f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")], "7"
    )
    changes = {**intervals, "log.retention.ms": "8", "log.cleaner.backoff.ms": "9"}
    configs = [Config(name, AlterConfigOperation.SET, value) for name, value in changes.items()]
    resource = Resource(ConfigResourceType.BROKER, str(bench.core.options.node_id), configs)
    (response,) = bench.ask(IncrementalAlterConfigsRequest([resource])).responses
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert bench.core._group_limits.group_consumer_assignment_interval_ms == 7
    assert bench.core._share_limits.assignment_interval_ms("g") == 7
    assert bench.core._streams_limits.assignment_interval_ms("g") == 7
    assert log.config.retention_ms == 8
    assert bench.core.upkeep._limits.cleaner_backoff_ms == 9
    assert told == [9]


def test_an_unloaded_broker_coordinates_nothing(bench):
    Transacting(bench)
    stable(bench)
    groups, transactions = bench.core.groups, bench.core.transactions
    assert (len(list(groups.classic_groups())), len(list(transactions.transactions()))) == (1, 1)
    bench.core.unload()
    assert (list(groups.classic_groups()), list(transactions.transactions())) == ([], [])


def test_lines_that_repeat_are_held_back(bench, caplog):
    for _ in range(3):
        bench.core.requests.services.lines.warning("a subject", bench.now_ms, "it fails")
    assert caplog.record_tuples == [("kafkawire.broker", logging.WARNING, "it fails")]


def test_a_log_that_fails_while_it_is_closed_is_not_told():
    """A log may be closed on another thread."""
    bench = BrokerBench(disk := MemoryDisk())
    bench.create()
    bench.produce(produced(b"v"))
    heard: list[object] = []
    bench.core.metadata.listen(heard.append)
    image = bench.core.metadata.image
    log = bench.core.directory.log("t", 0)
    disk.plan = fail_sometimes(0, 1.0)
    bench.core.close()
    assert log is not None
    assert log.is_offline
    assert (heard, bench.core.metadata.image) == ([], image)
    assert bench.core.replicas.of("t") == []
