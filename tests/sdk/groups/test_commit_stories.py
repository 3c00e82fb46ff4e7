"""Soon after any trouble, a client commits and looks up offsets again, and behaves like a new one.

Goal: after the next success, failures, lost partitions and old signatures leave no trace in the state machine that
    commits or in the one that looks up committed offsets.

Method: run stories about finished records, commits, lookups, refusals and rebalances on a simulated client. Each commit
and each lookup must end once, by its deadline. Once all faults are repaired, finished records must be committed within
one interval. Then run one more story with the used client and a new one that has finished the same records, side by
side.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.commit_outcome import Committed
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets, Found
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.committing import T0, T1, T2, Client
from tests.sdk.groups.members import refusal
from tests.sdk.simulation import CONNECT_TIMEOUT_MS, SILENT, Silent, address, backoff
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

INTERVAL_MS = 500

#: Long enough for several steps while a request is in flight.
LATENCY_MS = 20

#: The time that an automatic commit may take.
TIMEOUT_MS = 10_000

#: The longest pause plus the request after it.
PROMPT_MS = 1_200

PARTITIONS = (T0, T1, T2)
CODES = (
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)

some_partitions = st.sets(st.sampled_from(PARTITIONS), min_size=1).map(sorted)
KINDS: Kinds = {
    "break": (),
    "codes": (st.sampled_from(range(3)), st.lists(st.sampled_from(CODES), max_size=3)),
    "commit": (some_partitions, st.integers(1, 50), st.sampled_from([100, 3_000, 20_000])),
    "coordinator": (st.sampled_from([1, 2]),),
    "down": (st.booleans(),),
    "fenced": (),
    "find": (some_partitions, st.sampled_from([200, 5_000])),
    "finish": (),
    "finish more": (),
    "member": (st.booleans(),),
    "pass": (st.sampled_from([1, 3, 100, 600]),),
    "pass on": (st.sampled_from([1, 30, 400, 1_500, 12_000]),),
    "release": (some_partitions,),
    "silent": (st.booleans(),),
    "stop finding": (),
}


class Scene(Client):
    """A member that commits finished records at intervals, and looks up committed offsets.

    Args:
        now_ms: the start time.
        positions: its reader's positions.
        stored: the offsets that its reader knows are committed.
    """

    def __init__(
        self,
        now_ms: int = 1_000,
        positions: dict[TopicPartition, int] | None = None,
        stored: dict[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> None:
        super().__init__(INTERVAL_MS)
        self.simulation.latency_ms = LATENCY_MS
        self.committed = CommittedOffsets(self.router, backoff(), "g")
        self.simulation.machines.append(self.committed)
        self.simulation.now_ms = now_ms
        self.reader.positions.update(positions or {})
        self.reader.stored.update(stored or {})
        self.coordinator = 2
        self.is_silent = False
        self.generation = 5
        self.kept: set[tuple[int, int]] = set()
        self.open: dict[str, int] = {}
        self.stops: dict[str, Any] = {}
        self.ends: list[tuple[int, str]] = []
        self._named = self._seen_sent = self._seen_ends = self._seen_rejections = 0
        self._seen_opened = 0
        handlers = self.simulation.handlers
        handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator("g", self.coordinator, *address(self.coordinator))]
        )
        for node in (1, 2):
            handlers[node, OffsetCommitRequest] = lambda request, version, node=node: self._store(node, request)
            handlers[node, OffsetFetchRequest] = lambda request, version, node=node: self._fetch(node, request)

    def _code(self, node: int, number: int) -> int:
        codes = self.codes.get(number, [])
        code = codes.pop(0) if codes else 0
        return code if node == self.coordinator else ErrorCode.NOT_COORDINATOR

    def _store(self, node: int, request: OffsetCommitRequest) -> Message | Silent:
        if self.is_silent:
            return SILENT
        response = refusal(request, ErrorCode.NONE)
        assert isinstance(response, OffsetCommitResponse)
        for asked, answered in zip(request.topics, response.topics, strict=True):
            for partition, answer in zip(asked.partitions, answered.partitions, strict=True):
                answer.error_code = self._code(node, answer.partition_index)
                if not answer.error_code:
                    self.kept.add((partition.partition_index, partition.committed_offset))
        return response

    def _fetch(self, node: int, request: OffsetFetchRequest) -> Message | Silent:
        if self.is_silent:
            return SILENT
        if node != self.coordinator:
            group = OffsetFetchResponse.OffsetFetchResponseGroup("g", [], ErrorCode.NOT_COORDINATOR)
            return OffsetFetchResponse(groups=[group])
        kind = OffsetFetchResponse.OffsetFetchResponsePartitions
        topics = [
            OffsetFetchResponse.OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [kind(number, 7, 3, "n", self._code(node, number)) for number in topic.partition_indexes],
            )
            for topic in request.groups[0].topics or ()
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", topics)])

    def _begin(self, name: str, deadline_ms: int) -> str:
        self._named += 1
        label = f"{name} {self._named}"
        self.open[label] = deadline_ms
        return label

    def ask_for_commit(self, partitions: list[TopicPartition], offset: int, timeout_ms: int) -> str:
        """Commit, as a program does."""
        now_ms = self.simulation.now_ms
        label = self._begin("commit", now_ms + timeout_ms)

        def done(outcome: object, now_ms: int) -> None:
            del self.open[label]  # fails if the commit has already ended
            assert now_ms == self.simulation.now_ms
            if isinstance(outcome, Committed):
                assert {(each.partition, offset.offset) for each, offset in outcome.offsets.items()} <= self.kept
            self.ends.append((now_ms, f"{label}: {outcome!r}"))

        given = {partition: OffsetAndMetadata(offset, leader_epoch=1) for partition in partitions}
        self.offsets.commit(given, now_ms + timeout_ms, done, now_ms)
        return label

    def find(self, partitions: list[TopicPartition], timeout_ms: int) -> str:
        """Look up committed offsets."""
        now_ms = self.simulation.now_ms
        label = self._begin("find", now_ms + timeout_ms)
        left = set(partitions)

        def found(results: Found, now_ms: int) -> None:
            assert now_ms == self.simulation.now_ms
            for partition in results:
                left.remove(partition)  # fails if it has already been reported
            what = "".join(f", {each}: {result!r}" for each, result in sorted(results.items()))
            self.ends.append((now_ms, f"{label}: found{what}"))
            if not left:
                del self.open[label]
                del self.stops[label]

        self.stops[label] = self.committed.find(partitions, now_ms + timeout_ms, found)
        self.committed.poll(now_ms)
        return label

    def act(self, step: Step) -> None:
        simulation = self.simulation
        match step:
            case ("break",):
                simulation.break_connections(self.coordinator)
            case ("codes", number, codes):
                self.codes[number] = list(codes)
            case ("commit", partitions, offset, timeout_ms):
                self.ask_for_commit(partitions, offset, timeout_ms)
            case ("coordinator", node):
                self.coordinator = node
            case ("down", True):
                simulation.down.add(self.coordinator)
                simulation.break_connections(self.coordinator)
            case ("down", False):
                simulation.down.clear()
            case ("fenced",):
                self.offsets.release(None, simulation.now_ms, KafkaWireError("fenced"))
                self.generation += 1
                self.signer.signature = GroupMetadata("g", self.generation, "m")
            case ("find", partitions, timeout_ms):
                self.find(partitions, timeout_ms)
            case ("finish" | "finish more",):
                self.reader.read()
            case ("member", is_member):
                if not is_member:
                    self.offsets.release(None, simulation.now_ms)
                self.signer.signature = GroupMetadata("g", self.generation, "m") if is_member else None
            case ("pass" | "pass on", duration_ms):
                simulation.run(duration_ms)
            case ("release", partitions):
                self.offsets.release(partitions, simulation.now_ms)
            case ("silent", is_silent):
                self.is_silent = is_silent
            case ("stop finding",):
                for label in list(self.stops)[:1]:
                    del self.open[label]
                    self.stops.pop(label)()
        simulation.run(0)
        self.check()

    def check(self) -> None:
        """Check that commits and lookups end in time, and that nothing is sent without a signature."""
        now_ms = self.simulation.now_ms
        for label, deadline_ms in self.open.items():
            assert now_ms <= deadline_ms, f"{label} did not end in time"
        if self.signer.signature is None:
            assert not self.offsets._commits.sent

    def mend(self) -> None:
        """Repair all faults, and let everything in progress end."""
        self.simulation.down.clear()
        self.codes.clear()
        self.is_silent = False
        self.coordinator, self.generation = 2, 5
        self.signer.signature = GroupMetadata("g", 5, "m")
        self.simulation.run(30_000 + CONNECT_TIMEOUT_MS)
        assert not self.open
        self.reader.read()
        self.simulation.run(INTERVAL_MS + PROMPT_MS)
        assert not self.reader.to_commit(), "finished records are not committed automatically"

    def greet(self) -> None:
        """Commit and look up promptly although the first attempts are refused; this also opens every connection."""
        self.codes = {each.partition: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2 for each in PARTITIONS}
        self.router.refresh(lambda error: None)
        for node in (1, 2):
            self.router.reach(node, self.simulation.now_ms)
        labels = [self.ask_for_commit([partition], 60, PROMPT_MS) for partition in PARTITIONS]
        found = self.find(list(PARTITIONS), PROMPT_MS)
        self.simulation.run(PROMPT_MS)
        ends = [text for _, text in self.ends]
        assert all(any(text.startswith(f"{label}: Committed(") for text in ends) for label in labels)
        assert sum(text.count(": OffsetAnd") for text in ends if text.startswith(f"{found}: ")) == 3
        self.check()

    def news(self) -> tuple[object, ...]:
        sent, opened = self.simulation.sent[self._seen_sent :], self.simulation.opened[self._seen_opened :]
        ends, rejections = self.ends[self._seen_ends :], self.signer.rejections[self._seen_rejections :]
        self._seen_sent, self._seen_opened = len(self.simulation.sent), len(self.simulation.opened)
        self._seen_ends, self._seen_rejections = len(self.ends), len(self.signer.rejections)
        now_ms = self.simulation.now_ms
        return (
            [(at, node, repr(request)) for at, node, request, _ in sent],
            opened,
            ends,
            rejections,
            (self.reader.positions, self.reader.stored),
            (self.offsets.due_ms(now_ms), self.committed.due_ms(now_ms)),
        )


@given(steps(KINDS, 30), steps(KINDS, 15))
@example([("codes", 0, [ErrorCode.TOPIC_AUTHORIZATION_FAILED]), ("finish",), ("pass", 600)], [])
@example(  # the response to a withdrawn commit says nothing about the next one
    [
        *(("commit", [T0], 4, 3_000), ("pass", 600), ("commit", [T0], 5, 3_000), ("pass", 3), ("release", [T0])),
        *(("codes", 0, [ErrorCode.TOPIC_AUTHORIZATION_FAILED]), ("commit", [T0], 9, 3_000), ("pass", 600)),
    ],
    [],
)
@run_stories(25)
def test_a_client_that_has_recovered_behaves_like_a_new_one(past: list[Step], future: list[Step]) -> None:
    old = Scene()
    for step in past:
        old.act(step)
    old.mend()
    due_ms = old.offsets._auto_commit.due_ms
    assert due_ms is not None
    old.simulation.run(due_ms - old.simulation.now_ms)  # a new client's first automatic commit is one interval away
    new = Scene(due_ms, old.reader.positions, old.reader.stored)
    for each in (old, new):
        each.news()
        each._named = each._seen_ends = 0
        each.ends.clear()
        for each.coordinator in (1, 2):  # both brokers are connected
            each.greet()
        each.simulation.run(3_000)  # no metadata pause is pending
        each.greet()
        each.news()
    assert_alike(old, new, future)
