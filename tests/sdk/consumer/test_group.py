"""A consumer joins, commits, looks up and leaves by its group's protocol; without topics, it commits without joining.

Method: run the whole consumer against a scripted broker; `tests/sdk/groups` tests the behaviour of each protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.groups.assignor import Assignment, Assignor, PartitionCounts, ReplicaRacks, Subscriptions
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets
from kafkawire.sdk.groups.consumer_protocol import decode_subscription
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.grouped import T0, consuming
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

# Without topics.


@pytest.mark.parametrize(("auto_commit", "committed"), [(True, 2), (False, None)])
def test_partitions_assigned_by_hand_are_committed_at_the_end(auto_commit: bool, committed: int | None) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        await consumer.getmany(60_000, 2)

    broker = consuming(test, enable_auto_commit=auto_commit)
    assert broker.commits.get(("g", "t", 0)) == committed
    assert broker.asked(ApiKey.JOIN_GROUP) == []


def test_partitions_assigned_by_hand_are_committed_in_between() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        await consumer.getmany(60_000, 2)
        while broker.commits.get(("g", "t", 0)) != 3:
            await consumer.getmany(5)

    consuming(test, auto_commit_interval_ms=1)


def test_it_continues_from_the_commit() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        broker.commits["g", "t", 0] = 1
        consumer.assign([T0])
        assert (await anext(aiter(consumer))).offset == 1
        await consumer.commit()
        other = TopicPartition("t", 5)
        assert await consumer.committed(T0, other) == {T0: OffsetAndMetadata(2)}
        assert await consumer.committed([]) == {}

    consuming(test)


def test_records_finished_in_any_order() -> None:
    """A commit covers everything before the first unfinished record."""

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        records = (await consumer.getmany(60_000))[T0]
        await asyncio.to_thread(consumer.finish, *records[1:])
        await consumer.commit()
        assert broker.commits["g", "t", 0] == 0
        consumer.finish(records[0])
        while broker.commits["g", "t", 0] != 3:
            await consumer.getmany(5)
        broker.fill("t", b"d")
        assert len(await consumer.getbatches(1_000)) == 1

    broker = consuming(test, enable_auto_finish=False, auto_commit_interval_ms=1)
    assert broker.commits["g", "t", 0] == 3, "the last batch is not finished"


def test_whole_batches_finished_in_any_order() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        broker.fill("t", b"d", b"e")
        consumer.assign([T0])
        found: list[ConsumerBatch] = []
        while len(found) < 2:
            found += await consumer.getbatches(1_000)
        first, second = found
        consumer.finish(second)
        await consumer.commit()
        assert broker.commits["g", "t", 0] == 0
        consumer.finish(first)
        await consumer.commit()
        assert broker.commits["g", "t", 0] == 5

    consuming(test, enable_auto_finish=False, enable_auto_commit=False)


# A consumer's identity.


def test_group_metadata_of_partitions_assigned_by_hand() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        assert consumer.group_metadata() == GroupMetadata("g")

    consuming(test)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_metadata_of_a_member(protocol: str) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(BrokerError, match="REBALANCE_IN_PROGRESS: not a member of group g at the moment"):
            consumer.group_metadata()
        await consumer.getmany(60_000)
        found = consumer.group_metadata()
        assert (found.group_id, found.generation_id, found.group_instance_id) == ("g", 1, None)
        assert found.member_id
        assert found == consumer.group_metadata()

    consuming(test, "t", group_protocol=protocol)


def test_group_metadata_without_a_group() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(LocalProtocolError, match="group_metadata: there is no group; set group_id"):
            consumer.group_metadata()

    consuming(test, group_id=None)


# The protocols.


def test_kip_848() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [(await anext(aiter(consumer))).value for _ in range(2)] == [b"a", b"b"]
        assert consumer.assignment == {T0}

    broker = consuming(
        test, "t", group_protocol="consumer", group_remote_assignor="uniform", client_rack="r", group_instance_id="i"
    )
    assert broker.commits == {("g", "t", 0): 2}
    assert broker.asked(ApiKey.JOIN_GROUP) == []
    first, *_, last = broker.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    assert isinstance(first, ConsumerGroupHeartbeatRequest)
    assert isinstance(last, ConsumerGroupHeartbeatRequest)
    assert (first.group_id, first.instance_id, first.rack_id, first.server_assignor) == ("g", "i", "r", "uniform")
    assert list(first.subscribed_topic_names or ()) == ["t"]
    assert last.member_epoch == -2  # a static member leaves temporarily
    assert last.member_id == first.member_id != ""


@pytest.mark.parametrize("offered", [True, False])
def test_auto_takes_what_the_coordinator_offers(offered: bool) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        if not offered:
            broker.responders[ApiKey.CONSUMER_GROUP_HEARTBEAT] = lambda request: ConsumerGroupHeartbeatResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION
            )
        await consumer.subscribe("t")
        assert (await anext(aiter(consumer))).value == b"a"

    broker = consuming(test, group_protocol="auto")
    assert bool(broker.asked(ApiKey.JOIN_GROUP)) is not offered
    assert broker.commits == {("g", "t", 0): 1}


def test_what_a_classic_member_says() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))

    broker = consuming(
        test, "t", assignors="sticky", session_timeout_ms=7_000, max_poll_interval_ms=9_000, group_instance_id="i"
    )
    join = broker.asked(ApiKey.JOIN_GROUP)[0]
    assert isinstance(join, JoinGroupRequest)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms, join.group_instance_id) == (7_000, 9_000, "i")
    assert [protocol.name for protocol in join.protocols] == ["sticky"]


def test_a_member_reads_some_topic() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(ConfigurationError, match="expected topic names"):
            await consumer.subscribe()
        assert (await anext(aiter(consumer))).value == b"a"

    consuming(test, "t")


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_a_pattern(protocol: str) -> None:
    """Members of a classic group match topic names themselves; in a KIP-848 group, the coordinator does so."""

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await consumer.subscribe(pattern="[s-u]")
        assert (await anext(aiter(consumer))).value == b"a"

    broker = consuming(test, group_protocol=protocol)
    if protocol == "classic":
        join = broker.asked(ApiKey.JOIN_GROUP)[-1]
        assert isinstance(join, JoinGroupRequest)
        assert decode_subscription(bytes(join.protocols[0].metadata)).topics == ("t",)
    else:
        heartbeat = broker.asked(ApiKey.CONSUMER_GROUP_HEARTBEAT)[0]
        assert isinstance(heartbeat, ConsumerGroupHeartbeatRequest)
        assert heartbeat.subscribed_topic_regex == "[s-u]"


@pytest.mark.parametrize(("protocol", "is_checked"), [("classic", True), ("auto", True), ("consumer", False)])
def test_a_pattern_that_is_none_is_refused_where_members_match(protocol: str, is_checked: bool) -> None:
    async def run() -> None:
        consumer = Consumer(str(BROKER), group_id="g", group_protocol=protocol)  # type: ignore[arg-type]  # one of three
        if is_checked:
            with pytest.raises(ConfigurationError, match=r"pattern.*missing \)"):
                await consumer.subscribe(pattern="(")
        else:
            await consumer.subscribe(pattern="(")

    asyncio.run(run())


class OneForAll(Assignor):
    """An application's own assignor.

    Attributes:
        user_datas: the members' user data that the leader received.
    """

    name = "one-for-all"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.user_datas: list[bytes | None] = []

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        return b"%d" % generation_id

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        if self.error is not None:
            raise self.error
        self.user_datas += [said.user_data for said in subscriptions.values()]
        return {min(subscriptions): [TopicPartition("t", each) for each in range(partition_counts["t"])]}


def test_an_assignor_of_the_application() -> None:
    own = OneForAll()

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert (await anext(aiter(consumer))).value == b"a"

    broker = consuming(test, "t", assignors=[own, "range"])
    join = broker.asked(ApiKey.JOIN_GROUP)[0]
    assert isinstance(join, JoinGroupRequest)
    assert [protocol.name for protocol in join.protocols] == ["one-for-all", "range"]
    assert own.user_datas == [b"-1"]


def test_an_assignor_that_raises_is_raised_by_reads_and_the_member_tries_again() -> None:
    assignor = OneForAll(ValueError("nobody"))

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        for _ in range(2):
            with pytest.raises(KafkaWireError, match=r"group g, assignor one-for-all: ValueError.'nobody'") as caught:
                await consumer.getmany(10_000)
            assert isinstance(caught.value.__cause__, ValueError)
            assert consumer.assignment == frozenset()
        assignor.error = None
        assert [record.value for record in (await consumer.getmany(10_000))[T0]] == [b"a", b"b", b"c"]
        assert len(broker.asked(ApiKey.LEAVE_GROUP)) == 2, "the others must not have to wait for its session to end"

    consuming(test, "t", assignors=assignor)


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_the_end_of_the_client_ends_the_membership_commits_and_look_ups(protocol: str) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await consumer.getmany(60_000)
        assert consumer._core is not None
        group, error = consumer._core.group, Closed("over")
        assert group is not None
        assert group.protocol is not None
        commit: Promise[None] = Promise()
        found: Promise[dict[TopicPartition, OffsetAndMetadata]] = Promise()
        group.commit({T0: OffsetAndMetadata(1)}, 60_000, commit, monotonic_ms())
        group.look_up([T0], found, monotonic_ms())
        group.fail(error, monotonic_ms())
        assert group.protocol.failure is error
        for promise in (commit, found):
            with pytest.raises(Closed, match="over"):
                promise.wait(0)

    consuming(test, "t", group_protocol=protocol)


def test_what_is_looked_up_is_asked_in_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long time may pass before anything else wakes the I/O side."""
    calls: list[str] = []
    for name in ("find", "poll"):
        original = getattr(CommittedOffsets, name)

        def noted(*arguments: Any, name: str = name, original: Any = original) -> Any:
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(CommittedOffsets, name, noted)

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert consumer._core is not None
        group = consumer._core.group
        assert group is not None
        calls.clear()
        group.find([T0], lambda found, now_ms: None, monotonic_ms())
        assert calls == ["find", "poll"]

    consuming(test)


# Commits.


def test_a_commit_has_a_limit() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        refused = OffsetCommitResponse.OffsetCommitResponsePartition(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        topic = OffsetCommitResponse.OffsetCommitResponseTopic("", topic_id_of("t"), [refused])
        broker.responders[ApiKey.OFFSET_COMMIT] = lambda request: OffsetCommitResponse(topics=[topic])
        with pytest.raises(RequestTimedOut, match="did not commit t-0 in time; COORDINATOR_LOAD_IN_PROGRESS"):
            await consumer.commit({T0: 1}, timeout_ms=500)

    consuming(test, enable_auto_commit=False)


def test_records_and_batches_are_committed_one_by_one() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        for offset in range(2):
            await consumer.commit(await anext(aiter(consumer)))
            assert broker.commits["g", "t", 0] == offset + 1
        asked = broker.asked(ApiKey.OFFSET_COMMIT)[-1]
        assert isinstance(asked, OffsetCommitRequest)
        assert asked.topics[0].partitions[0].committed_leader_epoch == 0, (
            "must be the record's leader epoch, for a restart (KIP-320)"
        )
        (batch,) = await consumer.getbatches(1_000)
        await consumer.commit(batch)
        assert broker.commits["g", "t", 0] == 3
        consumer.seek_to_beginning()
        first, *_ = (await consumer.getmany(60_000))[T0]
        await consumer.commit(first)
        assert broker.commits["g", "t", 0] == 1

    consuming(test, enable_auto_commit=False)


def test_a_list_is_committed_once_it_is_finished() -> None:
    """The next read finishes the records that `getmany` returned, as with `async for`."""

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumer.assign([T0])
        await consumer.getmany(60_000, 2)
        while ("g", "t", 0) not in broker.commits:
            await asyncio.sleep(0)
        assert broker.commits["g", "t", 0] == 0
        await consumer.getmany(60_000, 1)
        while broker.commits["g", "t", 0] != 2:
            await asyncio.sleep(0)

    consuming(test, auto_commit_interval_ms=5)


def test_a_commit_for_the_partitions_of_others() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))
        with pytest.raises(BrokerError, match="REBALANCE_IN_PROGRESS: commit of x-3 in group g"):
            await consumer.commit({T0: 1, TopicPartition("x", 3): 1})
        assert broker.commits == {("g", "t", 0): 1}

    consuming(test, "t", enable_auto_commit=False)
