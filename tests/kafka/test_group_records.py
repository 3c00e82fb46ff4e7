"""The reference broker writes the same group records as Apache Kafka for groups that are new, change their protocol,
use regular expressions, or end; it can also read Kafka's records.

Method: send the same requests to both, and then compare both logs of the offsets topic. Member ids, times and hashes
may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kafkawire.reference_broker.coordinators.records import decode
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.consumer.records import CONSUMER_RECORD_TYPES
from kafkawire.reference_broker.groups.records import RECORD_TYPES
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import GroupMetadataValue
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import Line, address_of
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.groups.consumer_bench import ConsumerBench, subscription

Ask = Callable[[Message, int], Any]

LOG = Path("__consumer_offsets-0", f"{0:020}.log")

TYPES = {**RECORD_TYPES, **CONSUMER_RECORD_TYPES}


def test_records_are_those_of_apache_kafka(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0"}
    with ApacheKafka(settings=settings) as node:
        line = Line(address_of(node.bootstrap))
        play(line.ask)
        line.frames.close()
        data = (node.data_dir / LOG).read_bytes()
        theirs = records_in(data)
    bench = BrokerBench(tmp_path / "data")

    def ask(message: Message, version: int) -> Any:
        bench.advance(0)
        return bench.ask(message, version)

    play(ask)
    bench.core.close()
    ours = records_in((tmp_path / "data" / LOG).read_bytes())
    assert set(ours) == set(theirs)
    for group, records in theirs.items():
        assert ours[group] == records, group
    found = loaded(data)["kept"]
    assert {regex: set(each.topics) for regex, each in found.resolved.items()} == {"[t]": {"t"}}
    assert (found.epoch, found.subscriptions) == (2, {((), "[t]"): 1})


def play(ask: Ask) -> None:
    """Create groups, change their protocols, and end them."""
    ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    until(lambda: not ask(FindCoordinatorRequest(coordinator_keys=["x"]), 4).coordinators[0].error_code, "no topic")
    loading = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    until(lambda: beat(ask, "none", "m", 5).error_code not in loading, "the topic is not served")

    told = join(ask, "joined")
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = join(ask, "joined", told.member_id)
    Assignment = SyncGroupRequest.SyncGroupRequestAssignment
    parts = [Assignment(joined.member_id, b"")]
    ask(SyncGroupRequest("joined", 1, joined.member_id, None, "consumer", "range", parts), 5)
    leave(ask, "joined", joined.member_id)
    ask(DeleteGroupsRequest(["joined"]), 2)
    join(ask, "told")
    join(ask, "at once", version=3)
    join(ask, "static", instance="i")
    join(ask, "unknown", "odd")

    for group in ("consumer", "to classic", "mixed"):
        until(lambda group=group: beat(ask, group, "m", 0).assignment.topic_partitions, "no topic")  # type: ignore[misc]  # of a default
    beat(ask, "consumer", "m", -1)
    ask(DeleteGroupsRequest(["consumer"]), 2)
    beat(ask, "to classic", "m", -1)
    Topic, Part = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    ask(OffsetCommitRequest("to classic", -1, "", None, topics=[Topic("t", partitions=[Part(0, 1)])]), 9)
    join(ask, "to classic")
    join(ask, "mixed", "k")
    beat(ask, "mixed", "m", -1)

    for group in ("expression", "kept"):
        assert beat(ask, group, "m", 0, regex="[t]").member_epoch == 1
        await_epoch(ask, group, 2)
    assert beat(ask, "expression", "m", 1).member_epoch == 2
    assert beat(ask, "expression", "n", 0, regex="[t]").member_epoch == 3
    beat(ask, "expression", "n", -1)
    beat(ask, "expression", "m", beat(ask, "expression", "m", 2).member_epoch, subscribed_topic_regex="t|u")
    # Another heartbeat is needed, unless the first expression was resolved more than ten seconds ago.
    beat(ask, "expression", "m", 4)
    await_epoch(ask, "expression", 5)
    beat(ask, "expression", "m", -1)
    ask(DeleteGroupsRequest(["expression"]), 2)


def beat(ask: Ask, group: str, member_id: str, epoch: int, regex: str | None = None, **changes: Any) -> Any:
    names = {"subscribed_topic_names": ["t"]} if regex is None else {"subscribed_topic_regex": regex}
    joining: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], **names}
    return ask(ConsumerGroupHeartbeatRequest(group, member_id, epoch, **(joining if epoch == 0 else changes)), 1)


def await_epoch(ask: Ask, group: str, epoch: int) -> None:
    """Wait until expressions have been resolved, which raises the group's epoch."""
    until(
        lambda: bool(ask(ConsumerGroupDescribeRequest([group]), 1).groups[0].group_epoch == epoch),
        f"the epoch of {group} is not {epoch}",
    )


def join(ask: Ask, group: str, member_id: str = "", instance: str | None = None, version: int = 9) -> JoinGroupResponse:
    Protocol = JoinGroupRequest.JoinGroupRequestProtocol
    protocols = [Protocol("range", subscription(("t",)))]
    request = JoinGroupRequest(group, 60_000, 60_000, member_id, instance, "consumer", protocols)
    response = ask(request, version)
    assert isinstance(response, JoinGroupResponse)
    return response


def leave(ask: Ask, group: str, member_id: str) -> None:
    ask(LeaveGroupRequest(group, members=[LeaveGroupRequest.MemberIdentity(member_id, None)]), 5)


def loaded(data: bytes) -> dict[str, ConsumerGroup]:
    """Return the consumer groups that a coordinator loads from a log."""
    bench = ConsumerBench()
    for batch in walk(data):
        pairs = [(bytes(each.key or b""), each.value and bytes(each.value)) for each in batch.records()]
        bench.log.append(pairs, 0, lambda _: None)
    return {group.group_id: group for group in bench.loaded().groups.consumer_groups()}


def records_in(data: bytes) -> dict[str, list[Any]]:
    """Return the records of each group in order: type, member, value version, state."""
    found: dict[str, list[Any]] = {}
    names: dict[str, str] = {"": ""}
    for batch in walk(data):
        for stored in batch.records():
            assert stored.key is not None
            value = None if stored.value is None else bytes(stored.value)
            record = decode(TYPES, bytes(stored.key), value)
            assert record is not None
            key: Any = record.key
            group = getattr(key, "group_id", None) or key.group
            member = names.setdefault(getattr(key, "member_id", ""), f"member {len(names)}")
            told: Any = None
            if isinstance(record.value, GroupMetadataValue):
                state = record.value
                told = state.protocol_type, state.generation, state.protocol, bool(state.leader), len(state.members)
            written = None if record.value is None else record.value_version
            found.setdefault(group, []).append((key.SCHEMA.key, member, written, told))
    # Kafka orders members by their place in a hash table.
    return {
        group: [sorted(run, key=str) for _, run in groupby(records, itemgetter(0))] for group, records in found.items()
    }
