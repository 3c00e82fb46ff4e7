"""The clusters to measure, each of three brokers: this project and Kafka 3.9 on ZooKeeper, and Kafka 4.3 on KRaft.

The same properties file works for both kinds of brokers on ZooKeeper. Time and memory are the kernel's figures for the
brokers; those for ZooKeeper are not included.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.broker_servers import cpu_seconds_of
from benchmarks.machine import environment
from tests.kafka.apache import RELEASE, java_command
from tests.kafka.cluster import NODES, KafkaCluster
from tests.kafka.zookeeper import ZOOKEEPER_RELEASE, ZooKeeper
from tests.ports import await_port, free_port
from tools.processes import status_kb

__all__ = [
    "KRAFT",
    "NODES",
    "OURS",
    "SESSION_TIMEOUT_MS",
    "ZOOKEEPER_MODE",
    "MeasuredCluster",
    "Nodes",
    "cpu_seconds",
    "kraft",
    "on_zookeeper",
    "ours",
    "resident_mb",
]

OURS = "kafkawire"
ZOOKEEPER_MODE = f"Apache Kafka {ZOOKEEPER_RELEASE}, ZooKeeper"
KRAFT = f"Apache Kafka {RELEASE}, KRaft"

#: Every cluster considers a broker failed after hearing nothing from it for this time.
SESSION_TIMEOUT_MS = 6_000

#: The heap size in Kafka's own scripts.
_HEAP = "-Xmx1g"

_STOP_TIMEOUT_SECONDS = 60

#: With these settings, leadership moves only when a broker stops.
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}

_KRAFT_SETTINGS = {"broker.session.timeout.ms": str(SESSION_TIMEOUT_MS), "broker.heartbeat.interval.ms": "2000"}


class Nodes(Protocol):
    """The processes of a cluster.

    Attributes:
        ports: the port of each node on the loopback interface.
        started_at: when the first node was started, as a `time.perf_counter` value.
    """

    ports: dict[int, int]
    started_at: float

    def pid(self, node: int) -> int:
        """Return the process of a node."""
        ...

    def kill(self, node: int) -> None:
        """Kill a node, as if it had crashed."""
        ...

    def shut_down(self, node: int) -> None:
        """Stop a node with SIGTERM, and wait for it to exit."""
        ...

    def restart(self, node: int) -> None:
        """Restart a stopped node on its files, and wait until it accepts connections."""
        ...


class MeasuredCluster:
    """A cluster.

    Attributes:
        name: the name in the tables.
        nodes: its processes.
        zookeeper: the ZooKeeper address to which its brokers connect; None without ZooKeeper.
    """

    def __init__(self, name: str, nodes: Nodes, zookeeper: str | None) -> None:
        self.name = name
        self.nodes = nodes
        self.zookeeper = zookeeper

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(f"127.0.0.1:{port}" for port in self.nodes.ports.values())


def cpu_seconds(cluster: MeasuredCluster) -> float:
    """Return the CPU time that the current broker processes have used."""
    return sum(cpu_seconds_of(cluster.nodes.pid(node)) for node in NODES)


def resident_mb(cluster: MeasuredCluster) -> float:
    """Return the resident memory of the brokers."""
    return sum(status_kb(cluster.nodes.pid(node), "VmRSS") for node in NODES) / 1000


class _Processes:
    """Brokers that are started with a properties file.

    Args:
        folder: the folder for all their files.
        connect: `zookeeper.connect`.
        command: returns the beginning of a broker's command, to which its properties file is appended.
    """

    def __init__(self, folder: Path, connect: str, command: Callable[[Path], Sequence[str]]) -> None:
        self.ports = {node: free_port() for node in NODES}
        self.started_at = 0.0
        self._folder = folder
        self._connect = connect
        self._command = command
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all brokers, without waiting for them."""
        self.started_at = time.perf_counter()
        for node in NODES:
            self._launch(node)

    def end(self) -> None:
        """Stop all brokers."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def pid(self, node: int) -> int:
        """Return the process of a node."""
        return self._processes[node].pid

    def kill(self, node: int) -> None:
        """Kill a node, as if it had crashed."""
        self._processes[node].kill()
        self._processes[node].wait()

    def shut_down(self, node: int) -> None:
        """Stop a node with SIGTERM, and wait for it to exit."""
        self._processes[node].terminate()
        self._processes[node].wait(_STOP_TIMEOUT_SECONDS)

    def restart(self, node: int) -> None:
        """Restart a stopped node on its files, and wait until it accepts connections."""
        self._launch(node)
        await_port(self.ports[node], self._processes[node], self._folder / str(node) / "server.log")

    def _launch(self, node: int) -> None:
        folder = self._folder / str(node)
        folder.mkdir(exist_ok=True)
        listeners = f"PLAINTEXT://127.0.0.1:{self.ports[node]}"
        settings = _SETTINGS | {
            "broker.id": str(node),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(folder / "data"),
            "zookeeper.connect": self._connect,
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with (folder / "server.log").open("ab") as output:
            self._processes[node] = subprocess.Popen(
                self._command(properties),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
            )


@contextlib.contextmanager
def _running(name: str, folder: Path, command: Callable[[Path], Sequence[str]]) -> Iterator[MeasuredCluster]:
    with ZooKeeper() as zookeeper:
        nodes = _Processes(folder, zookeeper.address, command)
        try:
            nodes.start()
            yield MeasuredCluster(name, nodes, zookeeper.address)
        finally:
            nodes.end()


def ours(folder: Path) -> contextlib.AbstractContextManager[MeasuredCluster]:
    """Run this project's brokers on a ZooKeeper server, and wait for ZooKeeper but not for the brokers.

    Args:
        folder: the folder for their files.
    """
    kafkawire = [sys.executable, "-m", "kafkawire", "broker", "--config"]
    return _running(OURS, folder, lambda properties: [*kafkawire, str(properties)])


def on_zookeeper(folder: Path) -> contextlib.AbstractContextManager[MeasuredCluster]:
    """Run Apache Kafka 3.9 brokers on a ZooKeeper server, each with a heap of 1 GB; see `ours`."""

    def command(properties: Path) -> list[str]:
        return [*java_command(properties.parent, _HEAP, ZOOKEEPER_RELEASE), "kafka.Kafka", str(properties)]

    return _running(ZOOKEEPER_MODE, folder, command)


@contextlib.contextmanager
def kraft(_: Path) -> Iterator[MeasuredCluster]:
    """Run Apache Kafka 4.3 nodes, which are brokers and controllers, each with a heap of 1 GB and its own folder."""
    with KafkaCluster(_KRAFT_SETTINGS, _HEAP) as nodes:
        yield MeasuredCluster(KRAFT, nodes, None)
