"""After any trouble, a consumer's I/O side resumes where it was, and behaves like a new one.

Goal: after the next success, errors, pauses, seeks, sessions, followers and lookups leave no trace in the fetch
    planner, its sessions, lookups and responses, the queue, or the assignment.

Method: run stories about logs that grow, move, lose their beginning and have aborted transactions, about failing
brokers, and about an application that seeks, pauses and is assigned other partitions. The consumer must always hand out
the next record, and never an aborted one. Once all faults are repaired, everything must be read promptly. Then run one
more story with the used consumer and a new one that begins at the same offsets, side by side.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.simulated_logs import Cluster
from tests.sdk.simulation import SILENT
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

T = [TopicPartition("t", number) for number in range(3)]
NODES = (1, 2, 3)

#: The simulated brokers answer an empty fetch immediately; without latency, there would be too many fetches.
LATENCY_MS = 20

OPTIONS: dict[str, Any] = {
    "isolation_level": "read_committed",
    "max_partition_fetch_bytes": 1_024,
    "fetch_max_bytes": 4_096,
    "fetch_max_wait_ms": 100,
    "request_timeout_ms": 500,
    "metadata_max_age_ms": 5_000,
}

#: Enough for the longest pause, followed by a metadata refresh, a lookup and the fetches of all unread records.
PROMPT_MS = 4_000

#: This long after a metadata refresh, the next reason to refresh takes effect immediately.
CALM_MS = 3_000

partitions = st.sampled_from(T)
some_partitions = st.sets(partitions, min_size=1).map(sorted)
KINDS: Kinds = {
    "abort": (partitions,),
    "append": (partitions, st.integers(1, 4)),
    "append much": (partitions,),
    "assign": (some_partitions,),
    "break": (st.sampled_from(NODES),),
    "cut": (partitions, st.sampled_from([None, 700, 1_000])),
    "down": (st.sampled_from(NODES), st.booleans()),
    "end session": (st.sampled_from(NODES),),
    "error": (
        partitions,
        st.sampled_from(
            [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.FENCED_LEADER_EPOCH,
            ]
        ),
    ),
    "follow": (partitions, st.sampled_from([-1, 1, 2, 3])),
    "lead": (partitions, st.sampled_from([1, 2, 3, None])),
    "pass": (st.sampled_from([20, 60, 300]),),
    "pause": (some_partitions,),
    "read": (st.sampled_from([20, 100, 400]),),
    "read on": (st.sampled_from([20, 100, 1_500]),),
    "resume": (some_partitions,),
    "retain": (partitions,),
    "seek": (partitions, st.integers(0, 5)),
    "silence": (st.sampled_from(NODES),),
    "withhold": (some_partitions,),
}


class Scene:
    """A consumer, the logs that it reads, and the records that it must hand out next.

    Args:
        now_ms: the start time.
        model: the scene whose logs and offsets are copied; None for empty logs.
    """

    def __init__(self, now_ms: int = 1_000, model: Scene | None = None) -> None:
        self.cluster = Cluster({"t": [1, 2, 3]}, **OPTIONS)
        self.cluster.simulation.latency_ms = LATENCY_MS
        self.cluster.simulation.now_ms = now_ms
        self.expected = dict.fromkeys(T, 0) if model is None else dict(model.expected)
        self.visible: dict[TopicPartition, list[int]] = {each: [] for each in T}
        if model is not None:
            for partition, log in model.cluster.logs.items():
                own = self.cluster.logs[partition]
                own.leader, own.epoch, own.start = log.leader, log.epoch, log.start
                own.batches, own.aborted = list(log.batches), list(log.aborted)
                self.visible[partition] = list(model.visible[partition])
        self.silent: set[int] = set()
        for node in NODES:
            fetch = self.cluster.simulation.handlers[node, FetchRequest]
            self.cluster.simulation.handlers[node, FetchRequest] = self._handler(node, fetch)
        self.found: list[tuple[int, int, int]] = []
        self._producers = 0 if model is None else model._producers
        self._seen_sent = self._seen_found = 0
        self.cluster.assignment.assign({each: Position(self.expected[each]) for each in T})

    def _handler(self, node: int, fetch: Any) -> Any:
        def handle(request: FetchRequest, version: int) -> Any:
            if node in self.silent:
                self.silent.discard(node)
                return SILENT
            return fetch(request, version)

        return handle

    def append(self, partition: TopicPartition, values: int, size_bytes: int = 1) -> None:
        """Write a batch."""
        log = self.cluster.logs[partition]
        self.visible[partition] += range(log.end, log.end + values)
        log.append(*[b"x" * size_bytes] * values)

    def read(self, duration_ms: int) -> None:
        """Have the application read; it must get a partition's next record, or the first one left after retention."""
        for number, offset in self.cluster.read(duration_ms):
            partition = T[number]
            log, expected = self.cluster.logs[partition], self.expected[partition]
            at_least = max(expected, log.start)
            following = next((each for each in self.visible[partition] if each >= at_least), None)
            allowed = {following, next((each for each in self.visible[partition] if each >= expected), None)}
            assert offset in allowed, f"{partition}: expected offset {following}, got {offset}"
            self.expected[partition] = offset + 1
            self.found.append((self.cluster.simulation.now_ms, number, offset))

    def act(self, step: Step) -> None:
        cluster = self.cluster
        simulation, assignment, logs = cluster.simulation, cluster.assignment, cluster.logs
        match step:
            case ("abort", partition):
                self._producers += 2
                logs[partition].abort(self._producers, self._producers + 1)
            case ("append", partition, values):
                self.append(partition, values)
            case ("append much", partition):
                for _ in range(4):
                    self.append(partition, 2, 300)
            case ("assign", chosen):
                added = [each for each in chosen if each not in assignment.assigned]
                assignment.assign(chosen)
                for each in added:
                    assignment.seek(each, Position(self.expected[each]))
            case ("break", node):
                simulation.break_connections(node, ConnectionLost("reset by peer"))
            case ("cut", partition, size_bytes):
                logs[partition].cut = size_bytes
            case ("down", node, True):
                simulation.down.add(node)
                simulation.break_connections(node)
            case ("down", node, False):
                simulation.down.discard(node)
            case ("end session", node):
                cluster.sessions.pop(node, None)
            case ("error", partition, code):
                logs[partition].error = code
            case ("follow", partition, node):
                logs[partition].replica = -1 if node == logs[partition].leader else node
            case ("lead", partition, leader):
                logs[partition].leader = leader
                logs[partition].replica = -1
                logs[partition].epoch += 1
            case ("pass", duration_ms):
                simulation.run(duration_ms)
            case ("pause", chosen):
                assignment.pause([each for each in chosen if each in assignment.assigned])
            case ("read" | "read on", duration_ms):
                self.read(duration_ms)
            case ("resume", chosen):
                assignment.resume([each for each in chosen if each in assignment.assigned])
            case ("retain", partition):
                log = logs[partition]
                if len(log.batches) > 1 and not log.aborted:
                    end = log.end
                    del log.batches[0]
                    log.start = next(each for each in self.visible[partition] if each >= log.start) + 1
                    log.start = min(end, max(log.start, self._first_offset(partition)))
            case ("seek", partition, offset):
                if partition in assignment.assigned:
                    offset = max(offset, logs[partition].start)
                    if offset <= logs[partition].end:
                        self.expected[partition] = offset
                        assignment.seek(partition, Position(offset))
            case ("silence", node):
                self.silent.add(node)
            case ("withhold", chosen):
                assignment.withhold(chosen)
        simulation.run(0)

    def _first_offset(self, partition: TopicPartition) -> int:
        return int.from_bytes(self.cluster.logs[partition].batches[0][:8], "big")

    def mend(self) -> None:
        """Repair all faults, and check that all unread records are then read promptly."""
        cluster = self.cluster
        cluster.simulation.down.clear()
        self.silent.clear()
        for node in NODES:  # otherwise, an unanswered request would stay in flight
            cluster.simulation.break_connections(node)
        for number, log in enumerate(cluster.logs.values()):
            if log.leader != number + 1:
                log.leader, log.epoch = number + 1, log.epoch + 1
            log.error, log.replica, log.cut = ErrorCode.NONE, -1, None
        cluster.assignment.resume(list(cluster.assignment.assigned))
        self.act(("assign", T))
        cluster.assignment.assign(T)  # the withheld partitions
        self.read_all()

    def read_all(self) -> None:
        """Read all unread records promptly."""
        for partition in T:
            self.append(partition, 1)
        self.read(PROMPT_MS)
        ends = {partition: self.visible[partition][-1] + 1 for partition in T}
        assert self.expected == ends, "some records were not read"
        assert self.cluster.queue.size_bytes == 0

    def settle(self) -> None:
        """Reach a state with nothing in flight, every broker connected, and fetches timed like the other scene's."""
        self.read_all()
        self.read(CALM_MS)
        self.cluster.simulation.router.refresh(lambda error: None)
        for node in NODES:
            self.cluster.sessions.pop(node, None)
        self.read(400)
        self.read_all()
        self.news()

    def news(self) -> tuple[object, ...]:
        sent, found = self.cluster.simulation.sent[self._seen_sent :], self.found[self._seen_found :]
        self._seen_sent, self._seen_found = len(self.cluster.simulation.sent), len(self.found)
        queue = self.cluster.queue
        return (
            found,
            sorted(
                (at, node, _summary(request)) for at, node, request, _ in sent if type(request) is not MetadataRequest
            ),
            (queue.size_bytes, len(queue.errors), repr(queue.refusal)),
            sorted(self.cluster.assignment.to_commit().items()),
            {each: reading.end_offset for each, reading in self.cluster.assignment.readings.items()},
        )


def _summary(request: Any) -> str:
    """Return a request's contents without the values that differ between sessions and leaders."""
    if not isinstance(request, FetchRequest):
        return type(request).__name__
    asked = sorted((each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions)
    forgotten = sorted(number for topic in request.forgotten_topics_data for number in topic.partitions)
    return f"fetch {asked} forget {forgotten} {request.session_epoch == 0}"


@given(steps(KINDS, 30), steps(KINDS, 15))
@example([("abort", T[0]), ("append", T[0], 1), ("read", 400)], [])
@run_stories(15)
def test_a_consumer_that_has_recovered_behaves_like_a_new_one(past: list[Step], future: list[Step]) -> None:
    old = Scene()
    for step in past:
        old.act(step)
    old.mend()
    new = Scene(old.cluster.simulation.now_ms, old)
    for each in (old, new):
        each.settle()
    assert_alike(old, new, future)
