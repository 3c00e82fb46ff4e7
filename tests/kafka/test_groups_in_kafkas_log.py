"""The reference broker answers requests about share and streams groups in Apache Kafka's log as Apache Kafka does.

Method: let a node create such groups, with and without members, and send it the requests of all other group types for
them; then give the node's group log to the reference broker, which must give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import Line, address_of
from tests.reference_broker.broker_bench import BrokerBench

Ask = Callable[[Message, int], Any]

GROUPS = ("share", "streams", "empty-share", "empty-streams")

#: The epochs and ids of members that commit or fetch offsets.
MEMBERS = ((-1, ""), (-1, "m"), (1, "m"), (0, "m"), (1, "n"))

LOG = Path("__consumer_offsets-0", f"{0:020}.log")


def test_answers_are_those_of_apache_kafka(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0"}
    with ApacheKafka(settings=settings) as node:
        line = Line(address_of(node.bootstrap))
        make_groups(line.ask)
        theirs = questions(line.ask)
        stored = (node.data_dir / LOG).read_bytes()
        ended = ending(line.ask)
        line.frames.close()
    bench = BrokerBench(tmp_path / "data")
    bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    bench.ask(FindCoordinatorRequest(coordinator_keys=["x"]), 4)
    bench.core.abandon()
    (tmp_path / "data" / LOG).write_bytes(stored)
    bench.restart_again()
    ours = questions(bench.ask)
    for question, answer in theirs.items():
        assert ours[question] == answer, question
    assert ending(bench.ask) == ended


def make_groups(ask: Ask) -> None:
    """Create the groups in Apache Kafka."""
    ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    Streams = StreamsGroupHeartbeatRequest
    topology = Streams.Topology(1, [Streams.Subtopology("0", ["t"], [], [], [], [])])
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p"}

    def is_made(request: Message, version: int) -> bool:
        return bool(ask(request, version).error_code == ErrorCode.NONE)

    until(lambda: not ask(FindCoordinatorRequest(coordinator_keys=["x"]), 4).coordinators[0].error_code, "no topic")
    for prefix in ("", "empty-"):
        share = ShareGroupHeartbeatRequest(f"{prefix}share", "m", 0, None, ["t"])
        until(lambda share=share: is_made(share, 1), "no share group")  # type: ignore[misc]  # of a default
        streams = Streams(f"{prefix}streams", "m", 0, topology=topology, rebalance_timeout_ms=60_000, **tasks)
        until(lambda streams=streams: is_made(streams, 0), "no streams group")  # type: ignore[misc]  # of a default
    assert is_made(ShareGroupHeartbeatRequest("empty-share", "m", -1), 1)
    assert is_made(Streams("empty-streams", "m", -1), 0)


def questions(ask: Ask) -> dict[str, Any]:
    """Return the answers to all requests that do not end a group."""
    found: dict[str, Any] = {}
    Member = LeaveGroupRequest.MemberIdentity
    for group in GROUPS:
        if group != "empty-streams":
            # A join ends that group; in Apache Kafka, even a refused join ends it.
            found[f"{group} join"] = joined(ask, group, "")
            found[f"{group} join known"] = joined(ask, group, "m")
        found[f"{group} sync"] = ask(SyncGroupRequest(group, 1, "m", None, "consumer", "range", []), 5).error_code
        found[f"{group} heartbeat"] = ask(HeartbeatRequest(group, 1, "m", None), 4).error_code
        found[f"{group} leave"] = ask(LeaveGroupRequest(group, members=[Member("m", None)]), 5).members[0].error_code
        for epoch in (0, 1, -1):
            joining: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"]}
            joining["topic_partitions"] = []
            beat = ConsumerGroupHeartbeatRequest(group, "m", epoch, **(joining if epoch == 0 else {}))
            response = ask(beat, 1)
            found[f"{group} beat {epoch}"] = response.error_code, response.error_message
        found |= {f"{group} {asked}": answer for asked, answer in offsets(ask, group).items()}
        for version in (5, 6):
            (described,) = ask(DescribeGroupsRequest([group]), version).groups
            found[f"{group} describe {version}"] = described
        found[f"{group} describe consumer"] = ask(ConsumerGroupDescribeRequest([group]), 1).groups
        if not group.startswith("empty"):
            found[f"{group} delete"] = ask(DeleteGroupsRequest([group]), 2).results
    for states, types in (([], ["share"]), ([], ["Streams"]), (["empty"], []), (["Stable"], []), ([], ["classic"])):
        listed = ask(ListGroupsRequest(states, types), 5).groups
        found[f"list {states} {types}"] = sorted(
            (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed
        )
    return found


def joined(ask: Ask, group: str, member_id: str) -> tuple[int, str]:
    Protocol = JoinGroupRequest.JoinGroupRequestProtocol
    request = JoinGroupRequest(group, 10_000, 60_000, member_id, None, "consumer", [Protocol("range", b"x")])
    response = ask(request, 9)
    return response.error_code, response.member_id


def offsets(ask: Ask, group: str) -> dict[str, Any]:
    """Return the answers to requests about offsets."""
    found: dict[str, Any] = {}
    Topic, Part = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    Fetch = OffsetFetchRequest.OffsetFetchRequestGroup
    Deleted, DeletedPart = (
        OffsetDeleteRequest.OffsetDeleteRequestTopic,
        OffsetDeleteRequest.OffsetDeleteRequestPartition,
    )
    for version in (8, 9):
        for epoch, member_id in MEMBERS:
            request = OffsetCommitRequest(group, epoch, member_id, None, topics=[Topic("t", partitions=[Part(0, 1)])])
            found[f"commit {version} {epoch} {member_id}"] = ask(request, version).topics[0].partitions[0].error_code
    for member in ((-1, None), *MEMBERS):
        (fetched,) = ask(OffsetFetchRequest(groups=[Fetch(group, member[1], member[0], None)]), 9).groups
        found[f"fetch {member}"] = fetched
    if not group.startswith("empty"):
        deleted = ask(OffsetDeleteRequest(group, [Deleted("t", [DeletedPart(0)])]), 0)
        found["delete offsets"] = deleted
    return found


def ending(ask: Ask) -> int:
    """Return the answer to a request that ends the empty streams group."""
    code, _ = joined(ask, "empty-streams", "")

    def left() -> list[tuple[str, str]]:
        listed = ask(ListGroupsRequest(), 5).groups
        return [(each.group_state, each.group_type) for each in listed if each.group_id == "empty-streams"]

    # This holds only once the end of the group is committed; Kafka's JoinGroup does not wait for that.
    until(lambda: left() == [("Empty", "classic")], "the streams group stays")
    return code
