"""One group on both sides: an in-memory coordinator and an Apache Kafka coordinator, which get the same requests.

The coordinator knows the same topics under the same ids, and adopts the member ids that Kafka assigns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from random import Random
from typing import Any

from kafkawire.reference_broker.groups.classic.group import ClassicGroup
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.embedded_protocol import read_assignment
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.java_order import string_hash
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.kafka.cleaning import until
from tests.kafka.java_buckets import bucket, spread_ids
from tests.kafka.line import CLIENT, Line, Lines
from tests.kafka.mixed_exclusions import is_left_out
from tests.reference_broker.groups import consumer_sequences as sequences
from tests.reference_broker.groups.consumer_bench import ConsumerBench, assignment, subscription
from tests.reference_broker.groups.consumer_sequences import Asked, Owned, Script
from tests.reference_broker.groups.group_bench import code_of

__all__ = ["SIZES", "Mixed"]

STEPS = 30

SIZES = {"mixed-a": 3, "mixed-b": 5, "mixed-c": 1, "mixed-d": 4}

SESSIONS_MS = (60_000, 1_800_000)
REBALANCES_MS = (60_000, 300_000)

IDS = spread_ids(5)

#: Each expression matches some topics, so the group's epoch shows when the expression has been resolved.
REGEXES = ("mixed-[ab]", "mixed-(b|d)", "mixed-.*")

#: How long a sequence may continue after a resolution: our clock stands still, but Apache Kafka resolves again.
_SECONDS_MAX = 8


class Mixed:
    """One group on both sides.

    Args:
        lines: connections to Apache Kafka.
        topics: the topics of both sides.
        seed: the seed of the sequence.
        group: the id of the group.
    """

    def __init__(self, lines: Lines, topics: Mapping[str, TopicFacts], seed: int, group: str) -> None:
        self.lines = lines
        self.topics = topics
        self.names = {facts.topic_id: name for name, facts in topics.items()}
        self.group = group
        self.bench = ConsumerBench()
        self.bench.topics.clear()
        self.bench.topics.update(topics)
        self.script = Script(Random(seed), tuple(topics), SIZES, IDS, SESSIONS_MS, REBALANCES_MS, REGEXES)
        self.resolved_at: float | None = None
        self.waiting: list[tuple[Asked, list[Any], Line]] = []
        self.asked = 0
        self.is_over = False
        self.was_consumer = False
        self.turns = 0

    def run(self) -> None:
        """Run a sequence."""
        for _ in range(STEPS):
            asked = self.script.next()
            if not is_left_out(self.current(), asked):
                self.ask(asked)
            if self.is_over:
                break
        if not self.is_over:
            self.compare_groups()
        for asked, answers, line in self.waiting:
            assert self.is_over or not line.is_answered(), f"{asked} should have waited"
            assert self.is_over or not answers
            line.frames.close()

    def current(self) -> ClassicGroup | ConsumerGroup | None:
        groups: list[ClassicGroup | ConsumerGroup] = [
            *self.bench.groups.classic_groups(),
            *self.bench.groups.consumer_groups(),
        ]
        return groups[0] if groups else None

    def ask(self, asked: Asked) -> None:
        """Send a request to both sides, and compare the immediate answers."""
        self.asked += 1
        was = self.current()
        line = self.lines.take()
        line.send(self.message(asked), version_of(asked))
        self.bench.next_ids = []
        theirs: Any = None
        if isinstance(asked, sequences.Join) and not asked.member_id:
            # An immediate answer reveals the member id that Kafka uses.
            theirs = line.receive()
            prefix = "" if isinstance(was, ConsumerGroup) and was.members else f"{asked.instance or CLIENT}-"
            self.bench.next_ids = [theirs.member_id.removeprefix(prefix)]
        answers = self.answers(asked)
        told_epoch = self.epoch()
        self.bench.resolve()
        if theirs is not None:
            assert answers, f"{asked}: only Apache Kafka responded, with {theirs}"
            self.compare(asked, answers[0], theirs)
            self.lines.give(line)
        else:
            self.waiting.append((asked, answers, line))
        self.collect(asked)
        if self.is_over:
            return
        if self.epoch() != told_epoch and isinstance(asked, sequences.Beat | sequences.Join):
            self.await_epoch()
        self.note_turn(was)
        is_waiting = bool(self.waiting) and self.waiting[-1][0] is asked
        # If the last member of a generation leaves while another member is about to join, Kafka ends the rebalance a
        # moment later, using a 0 ms timer. A new group refuses a join without a member id, and answers it before the
        # group is written.
        if is_waiting or isinstance(asked, sequences.Leave | sequences.Join):
            self.await_state()
        self.avoid_collision(asked, answers)

    def collect(self, asked: Asked) -> None:
        """Compare all answers of our coordinator so far."""
        still = []
        for entry in self.waiting:
            waiting, answers, line = entry
            if not answers:
                still.append(entry)
                continue
            is_late = isinstance(waiting, sequences.Sync) and waiting is not asked
            if is_late and answers[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                # Kafka never answers the SyncGroup of a member that has left in the meantime.
                line.frames.close()
                continue
            try:
                theirs = line.receive()
            except TimeoutError as error:
                raise AssertionError(f"{waiting}: Apache Kafka did not respond, expected {answers[0]}") from error
            if self.resolved_at is not None and time.monotonic() - self.resolved_at > _SECONDS_MAX:
                self.is_over = True
                return
            self.compare(waiting, answers[0], theirs)
            self.lines.give(line)
        self.waiting = still

    def epoch(self) -> int | None:
        """Return the epoch of a consumer group."""
        group = self.current()
        return group.epoch if isinstance(group, ConsumerGroup) else None

    def await_epoch(self) -> None:
        """Wait until Apache Kafka has also resolved the expressions."""
        epoch = self.epoch()
        self.resolved_at = time.monotonic()

        def is_so() -> bool:
            (described,) = self.ask_kafka(ConsumerGroupDescribeRequest([self.group]), 1).groups
            return bool(described.group_epoch == epoch)

        until(is_so, f"Apache Kafka's group does not get to epoch {epoch}")

    def compare(self, asked: Asked, answer: Any, other: Any) -> None:
        ours, theirs = self.shape(asked, answer), self.shape(asked, other)
        if isinstance(asked, sequences.Beat) and theirs == ErrorCode.UNKNOWN_SERVER_ERROR:
            # Kafka cannot upgrade a group whose new member does not support the others' protocol.
            self.is_over = True
            return
        assert ours == theirs, f"{asked}: expected {theirs}, as from Apache Kafka, got {ours}"
        self.script.answered(asked, other, self.assigned(other))

    def note_turn(self, was: object) -> None:
        """Count a protocol change, after which the leader is chosen at random."""
        group = self.current()
        if type(group) is type(was) or group is None or was is None:
            return
        self.turns += 1
        if isinstance(group, ClassicGroup) and len(group.members) > 1:
            self.compare_groups()
            self.is_over = True

    def avoid_collision(self, asked: Asked, answers: list[Any]) -> None:
        """Remove a member whose id falls into another member's bucket."""
        if not isinstance(asked, sequences.Join) or asked.member_id or not answers:
            return
        member_id = answers[0].member_id
        group = self.current()
        others = {*IDS, *(group.members if group is not None else ())} - {member_id}
        others |= {known.member_id for known in self.script.known} - {member_id}
        if member_id and bucket(string_hash(member_id)) in {bucket(string_hash(other)) for other in others}:
            self.is_over = asked.instance is not None
            self.ask(sequences.Leave(((member_id, asked.instance),)))

    def await_state(self) -> None:
        """Before the next request, wait until Apache Kafka has completed this one, even if it gives no answer."""
        group = self.current()
        expected = group.state.value if isinstance(group, ClassicGroup) else None

        def is_so() -> bool:
            (described,) = self.ask_kafka(DescribeGroupsRequest([self.group]), 6).groups
            return expected is None or described.group_state == expected

        until(is_so, f"Apache Kafka's group is not {expected}")

    def ask_kafka(self, message: Message, version: int) -> Any:
        return self.lines.ask(message, version)

    # Ours.

    def answers(self, asked: Asked) -> list[Any]:
        """Send a request to the bench; return the answers, or an empty list if they are delayed."""
        bench, group, answers = self.bench, self.group, []
        if isinstance(asked, sequences.Beat):
            owned = (
                None
                if asked.owned is None
                else {self.topics[name].topic_id: part for name, part in asked.owned.items() if part}
            )
            answers.append(
                bench.beat(
                    asked.member_id,
                    asked.epoch,
                    instance_id=asked.instance,
                    rebalance_timeout_ms=asked.rebalance_ms,
                    topics=asked.topics,
                    assignor=asked.assignor,
                    rack_id=asked.rack,
                    regex=asked.regex,
                    owned=owned,
                    group_id=group,
                    may_lack_id=False,
                )
            )
        elif isinstance(asked, sequences.Join):
            bench.join(
                asked.member_id,
                instance=asked.instance,
                protocols=self.protocols(asked),
                needs_id=asked.needs_id,
                answers=answers,
                session_timeout_ms=asked.session_ms,
                rebalance_timeout_ms=asked.rebalance_ms,
                group_id=group,
                client_id=CLIENT,
            )
        elif isinstance(asked, sequences.Sync):
            given = {name: self.assignment(parts) for name, parts in asked.assigns}
            names = {"instance_id": asked.instance, "protocol_name": asked.protocol, "group_id": group}
            bench.sync(asked.member_id, asked.generation, given, answers=answers, protocol_type="consumer", **names)
        elif isinstance(asked, sequences.Heartbeat):
            bench.groups.heartbeat(group, asked.generation, asked.member_id, asked.instance, answers.append, 0)
        elif isinstance(asked, sequences.Leave):
            bench.groups.leave(group, asked.members, lambda outcome: answers.append(code_of(outcome)), 0)
        else:
            topic_id = self.topics["mixed-a"].topic_id
            bench.groups.commit(
                Commit(group, asked.epoch, asked.member_id, asked.instance),
                {("mixed-a", 0): Committed(1, -1, "", 0, topic_id)},
                lambda outcome: answers.append(code_of(outcome)),
                0,
            )
        return answers

    # Theirs.

    def message(self, asked: Asked) -> Message:
        """Return a request for Apache Kafka."""
        group = self.group
        if isinstance(asked, sequences.Beat):
            Part = ConsumerGroupHeartbeatRequest.TopicPartitions
            owned = None
            if asked.owned is not None:
                owned = [Part(self.topics[name].topic_id, sorted(part)) for name, part in asked.owned.items() if part]
            return ConsumerGroupHeartbeatRequest(
                group,
                asked.member_id,
                asked.epoch,
                asked.instance,
                asked.rack,
                asked.rebalance_ms,
                None if asked.topics is None else list(asked.topics),
                asked.regex,
                asked.assignor,
                owned,
            )
        if isinstance(asked, sequences.Join):
            Protocol = JoinGroupRequest.JoinGroupRequestProtocol
            protocols = [Protocol(name, data) for name, data in self.protocols(asked)]
            times = asked.session_ms, asked.rebalance_ms
            return JoinGroupRequest(group, *times, asked.member_id, asked.instance, "consumer", protocols)
        if isinstance(asked, sequences.Sync):
            Part = SyncGroupRequest.SyncGroupRequestAssignment
            parts = [Part(name, self.assignment(given)) for name, given in asked.assigns]
            who = group, asked.generation, asked.member_id, asked.instance
            return SyncGroupRequest(*who, "consumer", asked.protocol, parts)
        if isinstance(asked, sequences.Heartbeat):
            return HeartbeatRequest(group, asked.generation, asked.member_id, asked.instance)
        if isinstance(asked, sequences.Leave):
            Identity = LeaveGroupRequest.MemberIdentity
            return LeaveGroupRequest(group, members=[Identity(*identity) for identity in asked.members])
        Topic = OffsetCommitRequest.OffsetCommitRequestTopic
        topic = Topic("mixed-a", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)])
        return OffsetCommitRequest(group, asked.epoch, asked.member_id, asked.instance, topics=[topic])

    def protocols(self, asked: sequences.Join) -> tuple[tuple[str, bytes], ...]:
        owned = {name: tuple(sorted(part)) for name, part in asked.owned.items()}
        return tuple((name, subscription(asked.topics, owned)) for name in asked.protocols)

    def assignment(self, parts: Owned) -> bytes:
        return assignment({name: tuple(sorted(part)) for name, part in parts.items()})

    # Both.

    def assigned(self, response: Any) -> Owned | None:
        """Return the assignment in a response, keyed by topic name."""
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            if response.assignment is None:
                return None
            parts = response.assignment.topic_partitions
            return {self.names[bytes(part.topic_id)]: frozenset(part.partitions) for part in parts}
        if isinstance(response, SyncGroupResponse) and not response.error_code:
            return self.read(bytes(response.assignment))
        return None

    def read(self, data: bytes) -> Owned:
        try:
            parts = read_assignment(data, self.topics).partitions
        except DecodeError:
            return {}
        return {self.names[topic_id]: numbers for topic_id, numbers in parts.items()}

    def shape(self, asked: Asked, answer: Any) -> object:
        """Return the parts of an answer that are compared."""
        if isinstance(asked, sequences.Beat):
            if not isinstance(answer, ConsumerGroupHeartbeatResponse) or answer.error_code:
                code: Any = getattr(answer, "error_code", answer)
                return int(code)
            return answer.member_id, answer.member_epoch, self.assigned(answer)
        if isinstance(asked, sequences.Join):
            assert isinstance(answer, JoinGroupResponse)
            members = {m.member_id: (m.group_instance_id, bytes(m.metadata)) for m in answer.members}
            told = answer.error_code, answer.generation_id, answer.protocol_type or None, answer.protocol_name or None
            return (*told, answer.leader, answer.member_id, answer.skip_assignment, members)
        if isinstance(asked, sequences.Sync):
            return answer.error_code, answer.protocol_type, answer.protocol_name, self.read(bytes(answer.assignment))
        if isinstance(asked, sequences.Heartbeat):
            return int(getattr(answer, "error_code", answer))
        if isinstance(asked, sequences.Leave):
            return (
                [int(code) for code in answer] if isinstance(answer, list) else [m.error_code for m in answer.members]
            )
        if hasattr(answer, "topics"):
            return answer.topics[0].partitions[0].error_code
        return int(answer)

    def compare_groups(self) -> None:
        """Compare the two coordinators' descriptions of the group."""
        group = self.current()
        if isinstance(group, ConsumerGroup):
            (theirs,) = self.ask_kafka(ConsumerGroupDescribeRequest([self.group]), 1).groups
            assert (group.state.value, group.epoch, group.assignment_epoch) == (
                theirs.group_state,
                theirs.group_epoch,
                theirs.assignment_epoch,
            ), f"expected {theirs}, got {group.state} {group.epoch} {group.assignment_epoch}"
            ours = {name: self.described(group, name) for name in group.members}
            others = {
                m.member_id: (
                    m.instance_id,
                    m.rack_id,
                    m.member_epoch,
                    sorted(m.subscribed_topic_names),
                    m.subscribed_topic_regex or "",
                    *(
                        {bytes(p.topic_id): frozenset(p.partitions) for p in part.topic_partitions}
                        for part in (m.assignment, m.target_assignment)
                    ),
                    m.member_type,
                )
                for m in theirs.members
            }
            for name in {**ours, **others}:
                assert ours.get(name) == others.get(name), f"{name}: expected {others.get(name)}, got {ours.get(name)}"
        elif group is not None:
            (described,) = self.ask_kafka(DescribeGroupsRequest([self.group]), 6).groups
            members = {name: (m.instance_id, self.read(m.assignment)) for name, m in group.members.items()}
            shown = {
                m.member_id: (m.group_instance_id, self.read(bytes(m.member_assignment))) for m in described.members
            }
            ours, theirs = (group.state.value, members), (described.group_state, shown)
            assert ours == theirs, f"expected {theirs}, as from Apache Kafka, got {ours}"

    def described(self, group: ConsumerGroup, name: str) -> object:
        member = group.members[name]
        kind = 1 if member.classic is None else 0
        told = member.instance_id, member.rack_id, member.epoch, list(member.topics), member.regex
        return (*told, member.owned, group.target.get(name, {}), kind)


def version_of(asked: Asked) -> int:
    """Return the version of the request."""
    if isinstance(asked, sequences.Sync) and asked.protocol is None:
        return 4
    versions = {
        sequences.Beat: 1,
        sequences.Join: 9,
        sequences.Sync: 5,
        sequences.Heartbeat: 4,
        sequences.Leave: 5,
        sequences.Commit: 9,
    }
    return versions[type(asked)]
