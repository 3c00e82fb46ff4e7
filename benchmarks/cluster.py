"""Measure clusters of three brokers, this project's and Apache Kafka's, in turn, and report which goals are met.

    python -m benchmarks cluster [--quick] [--only NAME] [--data FOLDER] [--write docs/benchmarks.md]

The clusters are those in `cluster_servers.py`; all run at the same time, with the same session timeout. In most
measurements, the client sends and retries without pauses, so no cluster waits for it; only clean shutdown is measured
with this project's producer. All partitions have three replicas, and all in-sync replicas acknowledge.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.broker_load import Load, batch_of, produce
from benchmarks.broker_servers import java_release
from benchmarks.cluster_servers import (
    KRAFT,
    NODES,
    OURS,
    SESSION_TIMEOUT_MS,
    ZOOKEEPER_MODE,
    MeasuredCluster,
    cpu_seconds,
    kraft,
    on_zookeeper,
    ours,
    resident_mb,
)
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description, touch_memory
from kafkawire import KafkaWireError, Producer
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket

__all__ = ["main"]

_GB = 1e9
_MB = 1e6
_KIB = 1024

#: Versions that Apache Kafka 3.9 and 4.3 support; they are the last ones that use topic names.
_PRODUCE, _METADATA, _CREATE_TOPICS, _DESCRIBE_QUORUM = 9, 12, 7, 0

#: The pause between two attempts, which is short enough to measure milliseconds, at a few percent of a core.
_PAUSE_SECONDS = 0.005

#: On a machine that is otherwise idle, no step takes longer than this.
_LIMIT_SECONDS = 300.0

_PRODUCE_TIMEOUT_MS = 1_000

#: Value size, and batch size in KiB.
_PRODUCED = ((100, 16), (1024, 256))
_PRODUCE_DEPTH = 5

#: See `benchmarks/broker.py`; every record is stored three times.
_TOUCHED = 4

_PACED_PER_SECOND = 200


class Plan(NamedTuple):
    """The amount of work.

    Attributes:
        failovers: the number of leaders to kill, per cluster.
        shutdowns: the number of leaders to shut down, per cluster.
        rounds: the number of rounds of producing records.
        produced_mb: MB per batch size, in each round.
        partitions: the number of partitions when the controller fails.
        warm_up_mb: MB per batch size before the first round, during which a JVM compiles the code.
    """

    failovers: int
    shutdowns: int
    rounds: int
    produced_mb: int
    partitions: int
    warm_up_mb: int


NORMAL = Plan(10, 5, 4, 256, 3_000, 256)
QUICK = Plan(2, 1, 2, 64, 300, 16)


class Figures:
    """The measurements, keyed by case and cluster."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._found: dict[str, dict[str, list[float]]] = {}

    def add(self, case: str, name: str, value: float) -> None:
        """Record one value."""
        self._found.setdefault(case, {}).setdefault(name, []).append(value)
        print(f"{time.strftime('%H:%M:%S')} {name}: {case}: {value:,.2f}", file=sys.stderr, flush=True)

    def value(self, case: str, name: str) -> float | None:
        """Return the median of all values, or the highest value for "highest CASE"; None if there is no value."""
        values = self._found.get(case.removeprefix(_HIGHEST), {}).get(name)
        if not values:
            return None
        return max(values) if case.startswith(_HIGHEST) else statistics.median(values)

    def ratios(self, case: str, peers: Iterable[str]) -> dict[str, float]:
        """Return each peer's value divided by ours."""
        own = self.value(case, OURS)
        found = {peer: self.value(case, peer) for peer in peers}
        return {peer: value / own for peer, value in found.items() if value is not None and own}

    def table(self, cases: Sequence[str]) -> str:
        """Return a Markdown table with a row per case and a column per cluster."""
        lines = [f"| | {' | '.join(self._names)} |", f"|---|{'--:|' * len(self._names)}"]
        for case in cases:
            values = (self.value(case, name) for name in self._names)
            texts = ("-" if value is None else f"{value:,.2f}" for value in values)
            lines.append(f"| {case} | {' | '.join(texts)} |")
        return "\n".join(lines)


_HIGHEST = "highest "


# A client that never waits.


def _call(cluster: MeasuredCluster, node: int, message: Message, version: int) -> Message:
    """Send a request to a node over a new connection and return the response.

    Raises:
        OSError: the node does not respond.
    """
    connection = ClientConnection("benchmark")
    with FrameSocket("127.0.0.1", cluster.nodes.ports[node]) as client:
        client.send(*connection.request(message, version).parts)
        return connection.receive(client.receive()).message


def _partitions(
    cluster: MeasuredCluster, node: int, topic: str
) -> Sequence[MetadataResponse.MetadataResponsePartition]:
    """Return the partitions of a topic as reported by a node; empty if the node does not know the topic."""
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    response = _call(cluster, node, request, _METADATA)
    assert isinstance(response, MetadataResponse)
    return [] if response.topics[0].error_code else response.topics[0].partitions


def _leader(cluster: MeasuredCluster, node: int, topic: str) -> int | None:
    """Return the leader of partition 0 as reported by a node; None if the node knows of none."""
    found = [each.leader_id for each in _partitions(cluster, node, topic) if not each.partition_index]
    return found[0] if found and found[0] in NODES else None


def _is_acknowledged(cluster: MeasuredCluster, leader: int, topic: str, batch: bytes) -> bool:
    data = ProduceRequest.TopicProduceData(topic, partition_data=[ProduceRequest.PartitionProduceData(0, batch)])
    response = _call(cluster, leader, ProduceRequest(None, Acks.ALL, _PRODUCE_TIMEOUT_MS, [data]), _PRODUCE)
    assert isinstance(response, ProduceResponse)
    return not response.responses[0].partition_responses[0].error_code


def _until(done: Callable[[], bool], what: str) -> float:
    """Retry until a condition holds; return when it did, as a `time.perf_counter` value.

    Raises:
        RuntimeError: the condition does not hold in time.
    """
    deadline = time.perf_counter() + _LIMIT_SECONDS
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError):
            if done():
                return time.perf_counter()
        time.sleep(_PAUSE_SECONDS)
    raise RuntimeError(f"{what}: did not happen within {_LIMIT_SECONDS:.0f} s")


def _is_created(cluster: MeasuredCluster, node: int, topic: str, partitions: int) -> bool:
    wanted = CreateTopicsRequest.CreatableTopic(topic, partitions, len(NODES))
    response = _call(cluster, node, CreateTopicsRequest([wanted], timeout_ms=120_000), _CREATE_TOPICS)
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def _await_in_sync(cluster: MeasuredCluster, topic: str, partitions: int = 1) -> None:
    """Wait until all nodes know that all replicas of a topic are in sync."""

    def are_all() -> bool:
        views = [_partitions(cluster, node, topic) for node in NODES]
        return all(
            len(view) == partitions and all(len(each.isr_nodes) == len(NODES) for each in view) for view in views
        )

    _until(are_all, f"{cluster.name}: all replicas of {topic} in sync")


# Measurements.


def _new_topic(cluster: MeasuredCluster, partitions: int = 1) -> str:
    topic = f"benchmark-{time.time_ns()}"
    _until(lambda: any(_is_created(cluster, node, topic, partitions) for node in NODES), f"{cluster.name}: {topic}")
    _await_in_sync(cluster, topic, partitions)
    return topic


def _measure_start(cluster: MeasuredCluster, figures: Figures) -> None:
    """Measure the time from the start of the processes to the first acknowledgement by three replicas."""
    topic, batch = "first", batch_of(100, _KIB)[0]

    def is_acknowledged() -> bool:
        for node in NODES:
            with contextlib.suppress(OSError):
                leader = _leader(cluster, node, topic)
                if leader is not None:
                    return _is_acknowledged(cluster, leader, topic, batch)
                _is_created(cluster, node, topic, 1)
        return False

    done = _until(is_acknowledged, f"{cluster.name}: first acknowledgement")
    figures.add(_START, cluster.name, done - cluster.nodes.started_at)


def _measure_failover(cluster: MeasuredCluster, figures: Figures, topic: str) -> None:
    """Kill the leader, and measure the time to the first acknowledgement by another broker."""
    batch = batch_of(100, _KIB)[0]
    killed = _leader(cluster, NODES[0], topic)
    assert killed is not None
    others = [node for node in NODES if node != killed]

    def is_acknowledged() -> bool:
        for node in others:
            leader = _leader(cluster, node, topic)
            if leader in others and _is_acknowledged(cluster, leader, topic, batch):
                return True
        return False

    start = time.perf_counter()
    cluster.nodes.kill(killed)
    figures.add(_FAILOVER, cluster.name, _until(is_acknowledged, f"{cluster.name}: failover") - start)
    cluster.nodes.restart(killed)
    _await_in_sync(cluster, topic)


def _measure_shutdown(cluster: MeasuredCluster, figures: Figures, topic: str) -> None:
    """Shut down the leader while a producer sends steadily; count failed records, and find the slowest record."""
    leader = _leader(cluster, NODES[0], topic)
    assert leader is not None

    async def work() -> tuple[int, float]:
        slowest, failed = 0.0, 0

        async def send() -> None:
            nonlocal slowest, failed
            start = time.perf_counter()
            try:
                await producer.send(topic, b"value")
            except KafkaWireError:
                failed += 1
            slowest = max(slowest, time.perf_counter() - start)

        async with Producer(cluster.bootstrap, linger_ms=0) as producer, asyncio.TaskGroup() as group:
            stopping = None
            for number in range(8 * _PACED_PER_SECOND):
                group.create_task(send())
                if number == 2 * _PACED_PER_SECOND:
                    stopping = group.create_task(asyncio.to_thread(cluster.nodes.shut_down, leader))
                await asyncio.sleep(1 / _PACED_PER_SECOND)
            assert stopping is not None
            await stopping
        return failed, slowest

    failed, slowest = asyncio.run(work())
    figures.add(_FAILED, cluster.name, failed)
    figures.add(_SLOWEST, cluster.name, slowest * 1000)
    cluster.nodes.restart(leader)
    _await_in_sync(cluster, topic)


def _produced_case(size: int, batch_kib: int) -> str:
    return f"produce {size} B in {batch_kib} KiB"


def _replicate(cluster: MeasuredCluster, produced_mb: int) -> Iterator[tuple[str, float]]:
    """Produce records; yield cases with the CPU time of the leader and of both followers, and with the throughput."""
    for size, batch_kib in _PRODUCED:
        topic = _new_topic(cluster)
        batch, _ = batch_of(size, batch_kib * _KIB)
        count = int(produced_mb * _MB / len(batch))
        leader = _leader(cluster, NODES[0], topic)
        assert leader is not None
        frame = produce(topic, batch)
        with contextlib.closing(Load(cluster.nodes.ports[leader])) as load:
            response_bytes = load.size_of_response(frame)
            touch_memory(int(count * len(batch) * len(NODES) * _TOUCHED))
            cpu = cpu_seconds(cluster)
            seconds = load.repeat(frame, count, response_bytes, _PRODUCE_DEPTH)
            cpu = cpu_seconds(cluster) - cpu
        total = count * len(batch)
        case = _produced_case(size, batch_kib)
        yield f"{case}: CPU s per GB", cpu / (total / _GB)
        yield f"{case}: MB/s", total / _MB / seconds


def _controller(cluster: MeasuredCluster) -> int:
    """Return the node that is the controller."""
    if cluster.zookeeper is None:
        topic = DescribeQuorumRequest.TopicData("__cluster_metadata", [DescribeQuorumRequest.PartitionData(0)])
        quorum = _call(cluster, NODES[0], DescribeQuorumRequest([topic]), _DESCRIBE_QUORUM)
        assert isinstance(quorum, DescribeQuorumResponse)
        return quorum.topics[0].partitions[0].leader_id
    response = _call(cluster, NODES[0], MetadataRequest([]), _METADATA)
    assert isinstance(response, MetadataResponse)
    return response.controller_id


class _Watch:
    """Records when the registration of a broker disappears, since every failover waits for that.

    Args:
        connect: the address of ZooKeeper.
        node: the broker.

    Attributes:
        gone_at: when the registration disappeared, as a `time.perf_counter` value; 0 until then.
    """

    def __init__(self, connect: str, node: int) -> None:
        self.gone_at = 0.0
        self._client = KazooClient(connect)
        self._path = f"/brokers/ids/{node}"
        self._client.start()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        deadline = time.perf_counter() + _LIMIT_SECONDS
        while time.perf_counter() < deadline:
            try:
                self._client.get(self._path)
            except NoNodeError:
                self.gone_at = time.perf_counter()
                break
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._thread.join()
        self._client.stop()
        self._client.close()


def _measure_controller(cluster: MeasuredCluster, figures: Figures, partitions: int) -> None:
    """Kill the controller's broker, and measure the time until the others report that they lead all partitions."""
    topic = _new_topic(cluster, partitions)
    figures.add(_MEMORY_OF_MANY, cluster.name, resident_mb(cluster))
    killed = _controller(cluster)
    others = [node for node in NODES if node != killed]

    def is_led() -> bool:
        views = (_partitions(cluster, node, topic) for node in others)
        return all(len(view) == partitions and all(each.leader_id in others for each in view) for view in views)

    watch = None if cluster.zookeeper is None else _Watch(cluster.zookeeper, killed)
    start = time.perf_counter()
    cluster.nodes.kill(killed)
    done = _until(is_led, f"{cluster.name}: new leaders of {partitions} partitions")
    figures.add(_CONTROLLER, cluster.name, done - start)
    if watch is not None:
        watch.close()
        figures.add(_AFTER_SESSION, cluster.name, done - watch.gone_at)


_START = "start of three brokers to the first acknowledgement, s"
_FAILOVER = "leader killed to the first new acknowledgement, s"
_FAILED = "failed records while a leader shuts down"
_SLOWEST = "slowest acknowledgement while a leader shuts down, ms"
_IDLE = "resident memory of three brokers, idle, MB"
_LOADED = "resident memory of three brokers, after records, MB"
_MEMORY_OF_MANY = "resident memory of three brokers, with many partitions, MB"
_CONTROLLER = "controller killed to new leaders of all partitions, s"
_AFTER_SESSION = "end of the controller's session to new leaders of all partitions, s"


def _measure(clusters: Sequence[MeasuredCluster], figures: Figures, plan: Plan) -> None:
    for cluster in clusters:
        figures.add(_IDLE, cluster.name, resident_mb(cluster))
    for cluster in clusters:
        for _ in _replicate(cluster, plan.warm_up_mb):
            pass
    for _ in range(plan.rounds):
        for cluster in clusters:
            for case, value in _replicate(cluster, plan.produced_mb):
                figures.add(case, cluster.name, value)
    for cluster in clusters:
        figures.add(_LOADED, cluster.name, resident_mb(cluster))
    topics = {cluster.name: _new_topic(cluster) for cluster in clusters}
    for _ in range(plan.shutdowns):
        for cluster in clusters:
            _measure_shutdown(cluster, figures, topics[cluster.name])
    for _ in range(plan.failovers):
        for cluster in clusters:
            _measure_failover(cluster, figures, topics[cluster.name])
    for cluster in clusters:
        _measure_controller(cluster, figures, plan.partitions)


def _goals(figures: Figures) -> list[Goal]:
    peers = (ZOOKEEPER_MODE, KRAFT)

    def limit(case: str, most: float) -> Goal:
        value = figures.value(case, OURS)
        return Goal(f"{case}: at most {most:g}", 1.0, {OURS: most / value} if value else {})

    return [
        limit(_START, 3.0),
        Goal(_FAILOVER, 1.0, figures.ratios(_FAILOVER, peers)),
        Goal(_HIGHEST + _FAILOVER, 1.0, figures.ratios(_HIGHEST + _FAILOVER, peers)),
        *(
            Goal(f"{case}, CPU", 1.0, figures.ratios(f"{case}: CPU s per GB", peers))
            for case in (_produced_case(*each) for each in _PRODUCED)
        ),
        Goal(_LOADED, 3.0, figures.ratios(_LOADED, peers)),
        limit(_AFTER_SESSION, 3.0),
    ]


def _tables(figures: Figures) -> str:
    produced = [f"{_produced_case(*each)}: {what}" for each in _PRODUCED for what in ("CPU s per GB", "MB/s")]
    failures = [_FAILOVER, _HIGHEST + _FAILOVER, _FAILED, _HIGHEST + _FAILED, _SLOWEST, _HIGHEST + _SLOWEST]
    return figures.table([_START, *failures, *produced, _IDLE, _LOADED, _MEMORY_OF_MANY, _CONTROLLER, _AFTER_SESSION])


def main(arguments: Sequence[str]) -> None:
    """Measure, print the tables, and with --write put them into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="do a fifth of the work, for a first look")
    parser.add_argument("--only", metavar="NAME", choices=("kafkawire", "zookeeper", "kraft"), help="one cluster")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder for the brokers' files")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    options = parser.parse_args(arguments)
    if options.write and options.only:
        parser.error("--write requires all clusters")
    plan = QUICK if options.quick else NORMAL
    more = {"Java": java_release(), "session timeout": f"{SESSION_TIMEOUT_MS} ms", "partitions": str(plan.partitions)}
    machine = description(shlex.join(["python", "-m", "benchmarks", "cluster", *arguments]), more)
    print(machine, flush=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data)))
        kinds: dict[str, tuple[str, Callable[[Path], contextlib.AbstractContextManager[MeasuredCluster]]]] = {
            "kafkawire": (OURS, ours),
            "zookeeper": (ZOOKEEPER_MODE, on_zookeeper),
            "kraft": (KRAFT, kraft),
        }
        chosen = [kinds[options.only]] if options.only else list(kinds.values())
        figures, clusters = Figures([name for name, _ in chosen]), []
        for number, (_, start) in enumerate(chosen):
            files = folder / str(number)
            files.mkdir()
            cluster = stack.enter_context(start(files))
            _measure_start(cluster, figures)
            clusters.append(cluster)
        _measure(clusters, figures, plan)
    text = f"{goal_table(_goals(figures))}\n\n{_tables(figures)}"
    print(f"\n{text}")
    if options.write:
        write_section(options.write, "cluster", f"{machine}\n\n{text}")
