"""Three real Apache Kafka nodes on loopback, which can be paused, killed and restarted individually.

Each node is both a broker and a controller. Topics have three replicas, at least two of which must be in sync.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafkawire import TopicPartition
from kafkawire.sdk.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address
from tests.kafka.apache import java_command
from tests.ports import await_port, free_port
from tests.sdk.transport.responses import response_to

__all__ = ["NODES", "KafkaCluster"]

NODES = (1, 2, 3)

#: A stopping node first moves leadership of its partitions to other nodes.
_STOP_TIMEOUT_SECONDS = 60

_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # The cluster gives up on a paused or killed node after 2 s instead of 9, which shortens the tests.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    # Leaders move only when a test moves them.
    "auto.leader.rebalance.enable": "false",
}


class KafkaCluster:
    """Three nodes, running inside a `with` block.

    Args:
        settings: server properties in addition to those that the nodes need.
        heap: the JVM's heap option; nodes with 1 GiB each would not fit on every test machine.

    Attributes:
        ports: the port of each node on 127.0.0.1.
        started_at: when the first node was started, as measured by `time.perf_counter`.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, heap: str = "-Xmx384m") -> None:
        self._settings = _SETTINGS | dict(settings or {})
        self._heap = heap
        self.started_at = 0.0
        self._folder = Path(tempfile.mkdtemp(prefix="kafkawire-apache-kafka-"))
        self.ports = {node: free_port() for node in NODES}
        self._controllers = {node: free_port() for node in NODES}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses that clients connect to."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> Self:
        try:
            self._format()
            self.started_at = time.perf_counter()
            for node in NODES:
                self._launch(node)
            for node in NODES:
                self._await(node)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the nodes and remove their data."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pause(self, node: int) -> None:
        """Pause a node; its connections stay open."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Resume a paused node."""
        self._processes[node].send_signal(signal.SIGCONT)

    def kill(self, node: int) -> None:
        """Kill a node."""
        self._processes[node].kill()
        self._processes[node].wait()

    def pid(self, node: int) -> int:
        """Return the process of a node."""
        return self._processes[node].pid

    def shut_down(self, node: int) -> None:
        """Stop a node with SIGTERM, and wait for it to exit."""
        self._processes[node].terminate()
        self._processes[node].wait(_STOP_TIMEOUT_SECONDS)

    def restart(self, node: int) -> None:
        """Restart a killed node with its existing files, and wait until it accepts connections."""
        self._launch(node)
        self._await(node)

    async def lead(self, leaders: Mapping[TopicPartition, int], through: int = NODES[0]) -> None:
        """Make the given nodes the leaders of partitions; their replicas must be in sync.

        Args:
            leaders: the new leader of each partition.
            through: the node that the request is sent to.
        """
        topics = {partition.topic for partition in leaders}
        kind = AlterPartitionReassignmentsRequest
        moves = [
            kind.ReassignableTopic(
                topic,
                [
                    kind.ReassignablePartition(each.partition, _first(leader, NODES))
                    for each, leader in leaders.items()
                    if each.topic == topic
                ],
            )
            for topic in topics
        ]
        elections = [
            ElectLeadersRequest.TopicPartitions(topic, [each.partition for each in leaders if each.topic == topic])
            for topic in topics
        ]
        connection = await BrokerConnection.open(
            TcpNetwork(), Address("127.0.0.1", self.ports[through]), ConnectionSettings()
        )
        try:
            moved = await response_to(connection, kind(topics=moves), AlterPartitionReassignmentsResponse)
            _check(part for topic in moved.responses for part in topic.partitions)
            request = ElectLeadersRequest(topic_partitions=elections)
            elected = await response_to(connection, request, ElectLeadersResponse)
            _check(part for topic in elected.replica_election_results for part in topic.partition_result)
        finally:
            connection.close()

    def _java(self) -> list[str]:
        return java_command(self._folder, self._heap)

    def _format(self) -> None:
        java = self._java()
        cluster_id = _uuid()
        voters = ",".join(f"{node}@127.0.0.1:{port}:{_uuid()}" for node, port in self._controllers.items())
        formats = []
        for node in NODES:
            folder = self._folder / str(node)
            folder.mkdir()
            listeners = f"PLAINTEXT://127.0.0.1:{self.ports[node]},CONTROLLER://127.0.0.1:{self._controllers[node]}"
            settings = self._settings | {
                "node.id": str(node),
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controllers[NODES[0]]}",
                "log.dirs": str(folder / "data"),
                "listeners": listeners,
                "advertised.listeners": listeners,
            }
            properties = folder / "server.properties"
            properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            command = ["kafka.tools.StorageTool", "format", "--initial-controllers", voters, "-t", cluster_id]
            formats.append(subprocess.Popen([*java, *command, "-c", str(properties)], stdout=subprocess.DEVNULL))
        if sum(process.wait() for process in formats):
            raise RuntimeError("could not format the storage of the Apache Kafka nodes")

    def _launch(self, node: int) -> None:
        folder = self._folder / str(node)
        with (folder / "server.log").open("ab") as output:
            self._processes[node] = subprocess.Popen(
                [*self._java(), "kafka.Kafka", str(folder / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _await(self, node: int) -> None:
        await_port(self.ports[node], self._processes[node], self._folder / str(node) / "server.log")


def _first(leader: int, nodes: Sequence[int]) -> list[int]:
    """Return the nodes, with the leader first."""
    return [leader, *(node for node in nodes if node != leader)]


def _uuid() -> str:
    """Return an id in Kafka's notation that does not begin with a dash, because it would look like an option."""
    return "k" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]


def _check(parts: Iterable[Any]) -> None:
    """Raise the error in an element of a response of either type."""
    for part in parts:
        if part.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            raise AssertionError(f"{ErrorCode(part.error_code).name}: {part.error_message}")
