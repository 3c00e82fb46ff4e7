"""The reference broker answers random sequences of group requests as Apache Kafka does.

Method: send each request to both, in the same order, through the codecs of the same version. The reference broker shows
immediately which requests it answers and which wait; Apache Kafka must give the same answers, with its own ids, and
make the same requests wait. One thing is not compared, because Kafka chooses it at random: which member leads after the
leader has left and several members remain. Timeouts are so long that only the order of requests matters.
KAFKAWIRE_SEQUENCES sets the number of sequences; a failure prints its seed.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkawire import Admin, NewTopic
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import CLIENT, IN_ORDER, Line, Lines, address_of
from tests.kafka.topics import create
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.groups import sequences
from tests.reference_broker.groups.sequences import Asked, Script

SEQUENCES = int(os.environ.get("KAFKAWIRE_SEQUENCES", "200"))

#: One second per sequence is ample; the rest is for starting a node.
pytestmark = pytest.mark.timeout(120 + SEQUENCES)
STEPS = 25

SESSIONS_MS = (60_000, 1_800_000)
REBALANCES_MS = (60_000, 300_000)


class Pair:
    """Both brokers, and the member id that each uses for the same member.

    Args:
        bench: the reference broker.
        lines: connections to Apache Kafka.
        seed: the seed of the sequence.
        group: the id of the group.
    """

    def __init__(self, bench: BrokerBench, lines: Lines, seed: int, group: str) -> None:
        self.bench = bench
        self.lines = lines
        self.group = group
        self.script = Script(Random(seed), SESSIONS_MS, REBALANCES_MS)
        self.names: dict[str, str] = {}
        self.waiting: list[tuple[Asked, int, Any, Line]] = []
        self.asked = 0

    def run(self) -> None:
        """Run a sequence."""
        for _ in range(STEPS):
            asked = self.script.next()
            if not self.is_left_out(asked):
                self.ask(asked)
        for asked, _, _, line in self.waiting:
            assert not line.is_answered(), f"{asked} should have waited"
            line.frames.close()

    def is_left_out(self, asked: Asked) -> bool:
        """Return whether the result is random, or the request replaces a waiting one, which Kafka never answers."""
        group = next((group for group in self.bench.core.groups.classic_groups() if group.group_id == self.group), None)
        if group is None:
            return False
        if isinstance(asked, sequences.Leave):
            return len(group.members) > 2
        if not isinstance(asked, sequences.Join | sequences.Sync):
            return False
        if asked.instance is not None and asked.member_id in group.pending_members:
            return True
        member = group.members.get(asked.member_id)
        return member is not None and bool(member.awaiting_join or member.awaiting_sync)

    def ask(self, asked: Asked) -> None:
        """Send a request to both brokers, and compare the immediate answers."""
        self.asked += 1
        version = version_of(asked)
        answer = self.bench.ask(self.message(asked, {}), version, CLIENT)
        # A group that has lost all its members but not its pending ids has a rebalance timeout of 0.
        self.bench.advance(0)
        sent = self.lines.take()
        sent.send(self.message(asked, self.names), version)
        self.waiting.append((asked, version, answer, sent))
        still: list[tuple[Asked, int, Any, Line]] = []
        answered: list[tuple[Asked, Any, Any]] = []
        for entry in self.waiting:
            waiting, version, answer, line = entry
            if isinstance(answer, DelayedOperation):
                if answer.response is None:
                    still.append(entry)
                    continue
                answer = self.bench.through(answer.response, version)
                if isinstance(waiting, sequences.Sync) and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    # Kafka never answers the SyncGroup of a member that has left in the meantime.
                    line.frames.close()
                    continue
            try:
                answered.append((waiting, answer, line.receive()))
            except TimeoutError as error:
                raise AssertionError(
                    f"{waiting}: Apache Kafka did not respond, expected {shape(answer, self.names)}"
                ) from error
            self.lines.give(line)
        self.waiting = still
        self.compare(answered)
        # Nor can a test know when Kafka's timer has ended a rebalance that waits for no member. A new group refuses a
        # join without a member id, and answers it before the group is written; until then, Kafka considers the group
        # unknown.
        if isinstance(asked, sequences.Leave | sequences.Join) or any(entry[3] is sent for entry in still):
            self.await_state()

    def await_state(self) -> None:
        """Before the next request, wait until Apache Kafka has completed this one, even if it gives no answer."""
        request = DescribeGroupsRequest([self.group])
        theirs = {name: name for name in self.names.values()}
        ours = shape(self.bench.ask(request, 6), self.names)
        found: object = None

        def is_same() -> bool:
            nonlocal found
            found = shape(self.lines.ask(request, 6), theirs)
            return found == ours

        until(is_same, lambda: f"{ours}, Apache Kafka {found}")

    def compare(self, answered: list[tuple[Asked, Any, Any]]) -> None:
        """Compare both brokers' answers, once all member ids are known."""
        for asked, answer, other in answered:
            if isinstance(asked, sequences.Join) and answer.member_id and answer.member_id not in self.names:
                self.names[answer.member_id] = other.member_id
        theirs = {name: name for name in self.names.values()}
        for asked, answer, other in answered:
            ours, kafkas = shape(answer, self.names), shape(other, theirs)
            assert ours == kafkas, f"{asked}: expected {kafkas}, as from Apache Kafka, got {ours}"
            self.script.answered(asked, answer)

    def message(self, asked: Asked, names: dict[str, str]) -> Message:
        """Return a request with the member ids that a broker uses."""

        def name(member_id: str) -> str:
            return names.get(member_id, member_id)

        group = self.group
        if isinstance(asked, sequences.Join):
            Protocol = JoinGroupRequest.JoinGroupRequestProtocol
            protocols = [Protocol(protocol, subscription(protocol)) for protocol in asked.protocols]
            times = asked.session_ms, asked.rebalance_ms
            return JoinGroupRequest(group, *times, name(asked.member_id), asked.instance, "consumer", protocols)
        if isinstance(asked, sequences.Sync):
            Assignment = SyncGroupRequest.SyncGroupRequestAssignment
            parts = [Assignment(name(member), b"%d" % number) for number, member in enumerate(asked.assigns)]
            kind = None if asked.protocol is None else "consumer"
            return SyncGroupRequest(
                group, asked.generation, name(asked.member_id), asked.instance, kind, asked.protocol, parts
            )
        if isinstance(asked, sequences.Heartbeat):
            return HeartbeatRequest(group, asked.generation, name(asked.member_id), asked.instance)
        if isinstance(asked, sequences.Leave):
            Identity = LeaveGroupRequest.MemberIdentity
            return LeaveGroupRequest(
                group, members=[Identity(name(member), instance) for member, instance in asked.members]
            )
        if isinstance(asked, sequences.Commit):
            Topic = OffsetCommitRequest.OffsetCommitRequestTopic
            topic = Topic("sequences", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)])
            return OffsetCommitRequest(group, asked.generation, name(asked.member_id), asked.instance, topics=[topic])
        return DescribeGroupsRequest([group]) if isinstance(asked, sequences.Describe) else DeleteGroupsRequest([group])


def subscription(protocol: str) -> bytes:
    """Return a valid subscription; with any other bytes, Kafka 4.3 may fail internally and never answer the join."""
    data = ConsumerProtocolSubscription(["sequences"], protocol.encode())
    return b"\0\0" + program(ConsumerProtocolSubscription, 0).encode(data)


def version_of(asked: Asked) -> int:
    """Return the version of the request."""
    if isinstance(asked, sequences.Join):
        return 9 if asked.needs_id or asked.instance is not None else 3
    if isinstance(asked, sequences.Sync):
        return 4 if asked.protocol is None else 5
    versions = {sequences.Heartbeat: 4, sequences.Leave: 5, sequences.Commit: 9, sequences.Describe: 6}
    return versions.get(type(asked), 2)


def shape(message: Message, names: dict[str, str]) -> object:
    """Return the parts of a response that are compared, with the other broker's member ids."""

    def name(member_id: str) -> str:
        return names.get(member_id, member_id)

    match message:
        case JoinGroupResponse():
            members = {name(m.member_id): (m.group_instance_id, bytes(m.metadata)) for m in message.members}
            told = message.error_code, message.generation_id, message.protocol_type, message.protocol_name
            return (*told, name(message.leader), name(message.member_id), message.skip_assignment, members)
        case SyncGroupResponse():
            return message.error_code, message.protocol_type, message.protocol_name, bytes(message.assignment)
        case HeartbeatResponse():
            return message.error_code
        case LeaveGroupResponse():
            left = [(name(m.member_id), m.group_instance_id, m.error_code) for m in message.members]
            return message.error_code, left
        case OffsetCommitResponse():
            return [partition.error_code for topic in message.topics for partition in topic.partitions]
        case DeleteGroupsResponse():
            return [result.error_code for result in message.results]
        case DescribeGroupsResponse():
            (group,) = message.groups
            # Members that are waiting for their id have no name yet.
            shown = sorted(
                (names.get(m.member_id, "?"), m.group_instance_id or "", m.member_metadata, m.member_assignment)
                for m in group.members
            )
            return group.error_code, group.group_state, group.protocol_type, group.protocol_data, shown
    raise AssertionError(f"unexpected {message}")


async def create_topic(bootstrap: str) -> None:
    with suppress(BrokerError):
        await create(bootstrap, NewTopic("sequences", 1))
    async with Admin(bootstrap) as admin:
        # Requests about groups create the offsets topic; wait until all its partitions have a coordinator.
        for number in range(16):
            with suppress(BrokerError):
                await admin.describe_groups([f"sequences-{number}"])


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    bench = BrokerBench(tmp_path / "data")
    bench.create("sequences")
    bench.offsets_topic()
    return bench


@pytest.fixture
def ordered_kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(settings=IN_ORDER) as node:
        yield node


def test_answers_are_those_of_apache_kafka(ordered_kafka: ApacheKafka, bench: BrokerBench) -> None:
    asyncio.run(create_topic(ordered_kafka.bootstrap))
    run = uuid.uuid4().hex[:8]
    asked = 0
    with closing(Lines(address_of(ordered_kafka.bootstrap))) as lines:
        for seed in range(SEQUENCES):
            pair = Pair(bench, lines, seed, f"{run}-{seed}")
            try:
                pair.run()
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            asked += pair.asked
    print(f"{SEQUENCES} sequences, {asked} requests")
