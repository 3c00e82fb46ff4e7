"""A cluster on one real ZooKeeper, with two kinds of brokers: reference brokers, and nodes of an Apache Kafka release.

All brokers are processes with the same properties, and the first becomes the controller. Their files and logs stay in
a folder given by the test.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.kafka.apache import java_command, run_tool
from tests.kafka.cleaning import until
from tests.kafka.zookeeper import ZOOKEEPER_RELEASE, ZooKeeper
from tests.ports import await_port, free_port

__all__ = ["Kind", "MixedCluster"]

_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "6000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "500",
    # Leaders move only when a broker is lost or a test moves them.
    "auto.leader.rebalance.enable": "false",
}

#: A broker that runs for only a minute is faster without the JVM's second-tier compiler.
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: The logging configuration for releases of Kafka 3, which use Log4j 1.
_LOGGING: Final = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %m (%c)%n
"""

#: The limit of each wait: many times what is needed, since no test may fail because the machine is loaded.
_PATIENCE_SECONDS: Final = 300


class Kind(Enum):
    """The implementation that a broker runs."""

    OURS = "ours"
    THEIRS = "theirs"


class _Broker:
    """One broker.

    Args:
        broker_id: its id.
        kind: its implementation.
        connect: `zookeeper.connect`.
        folder: the folder for its files.
        settings: properties in addition to those that all brokers have.
        release: the release of Apache Kafka, if it is one of theirs.
    """

    def __init__(
        self, broker_id: int, kind: Kind, connect: str, folder: Path, settings: Mapping[str, str], release: str
    ) -> None:
        self.kind = kind
        self._release = release
        self.port = free_port()
        self.data = folder / "data"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        listeners = f"PLAINTEXT://127.0.0.1:{self.port}"
        own = {
            "broker.id": str(broker_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "zookeeper.connect": connect,
            "log.dirs": str(self.data),
        }
        lines = (f"{key}={value}\n" for key, value in (_SETTINGS | own | dict(settings)).items())
        (folder / "server.properties").write_text("".join(lines))

    def start(self) -> None:
        """Start the broker with its existing files, without waiting until it is up."""
        properties = str(self._folder / "server.properties")
        if self.kind is Kind.OURS:
            command = [sys.executable, "-m", "kafkawire", "broker", "--config", properties]
        else:
            logging = self._folder / "log4j.properties"
            logging.write_text(_LOGGING)
            java = java_command(self._folder, "-Xmx384m", self._release)
            command = [*java, *_JVM, f"-Dlog4j.configuration=file:{logging}", "kafka.Kafka", properties]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def await_start(self) -> None:
        """Wait until it accepts connections."""
        await_port(self.port, self._running, self._log, _PATIENCE_SECONDS)

    def kill(self) -> None:
        """Stop the broker with SIGKILL."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and wait until it has handed over partition leadership and closed its logs."""
        self._running.terminate()
        self._running.wait(_PATIENCE_SECONDS)

    def end(self) -> None:
        """Stop the broker if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker was not started"
        return self._process


class MixedCluster:
    """Brokers 1, 2, … of the given kinds, running inside a `with` block.

    Args:
        kinds: the kind of each broker; the first becomes the controller.
        folder: the folder for files and logs.
        settings: properties for all brokers of each kind, in addition to the required ones.
        release: the release of Apache Kafka's brokers; the tools are always of 3.9.
    """

    def __init__(
        self,
        kinds: tuple[Kind, ...],
        folder: Path,
        settings: Mapping[Kind, Mapping[str, str]] | None = None,
        release: str = ZOOKEEPER_RELEASE,
    ) -> None:
        self._kinds = kinds
        self._release = release
        self._folder = folder
        self._settings = settings or {}
        self._brokers: dict[int, _Broker] = {}
        self._stack = ExitStack()
        self._registry: Any = None

    def __enter__(self) -> Self:
        try:
            zookeeper = self._stack.enter_context(ZooKeeper())
            self._registry = KazooClient(zookeeper.address)
            self._stack.callback(self._registry.close)
            self._stack.callback(self._registry.stop)
            self._registry.start(_PATIENCE_SECONDS)
            for broker_id, kind in enumerate(self._kinds, 1):
                folder = self._folder / f"{broker_id}-{kind.value}"
                settings = self._settings.get(kind, {})
                broker = self._brokers[broker_id] = _Broker(
                    broker_id, kind, zookeeper.address, folder, settings, self._release
                )
                self._stack.callback(broker.end)
                broker.start()
                if broker_id == 1:
                    self.until(lambda: self.controller == 1, "the first broker is the controller")
            for broker in self._brokers.values():
                broker.await_start()
            self.await_registered(*self.ids)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._brokers.values())

    def address(self, broker_id: int) -> str:
        """Return the address of a broker."""
        return f"127.0.0.1:{self._brokers[broker_id].port}"

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all brokers, in the order they were first started."""
        return tuple(self._brokers)

    @property
    def folders(self) -> dict[int, Path]:
        """The log directory of each broker."""
        return {broker_id: broker.data for broker_id, broker in self._brokers.items()}

    def kind(self, broker_id: int) -> Kind:
        """Return the kind of a broker."""
        return self._brokers[broker_id].kind

    # Brokers.

    def kill(self, broker_id: int) -> None:
        """Stop a broker with SIGKILL."""
        self._brokers[broker_id].kill()

    def stop(self, broker_id: int) -> None:
        """Stop a broker with SIGTERM, and wait until it has handed over partition leadership."""
        self._brokers[broker_id].stop()

    def start(self, broker_id: int) -> None:
        """Restart a broker with its files, and wait until it has registered."""
        self._brokers[broker_id].start()
        self._brokers[broker_id].await_start()
        self.await_registered(broker_id)

    def await_registered(self, *broker_ids: int) -> None:
        """Wait until brokers are registered."""
        wanted = set(map(str, broker_ids))
        self.until(lambda: wanted <= self._children("/brokers/ids"), f"{broker_ids} are registered")

    def await_gone(self, broker_id: int) -> None:
        """Wait until the session of a killed broker has ended."""
        self.until(lambda: str(broker_id) not in self._children("/brokers/ids"), f"{broker_id} is gone")

    @property
    def controller(self) -> int | None:
        """The controller; None if there is none at present."""
        found = self._content("/controller")
        return None if found is None else int(found["brokerid"])

    def elect(self, kind: Kind) -> None:
        """Delete `/controller` until a broker of this kind has won the election."""

        def is_elected() -> bool:
            controller = self.controller
            if controller is None:
                return False
            if self.kind(controller) is kind:
                return True
            with suppress(NoNodeError):
                self._registry.delete("/controller")
            return False

        self.until(is_elected, f"the controller is one of {kind.value}")

    # Topics.

    def states(self, topic: str) -> dict[int, dict[str, Any]]:
        """Return the states of those partitions of a topic that have one."""
        path = f"/brokers/topics/{topic}/partitions"
        found = {int(number): self._content(f"{path}/{number}/state") for number in self._children(path)}
        return {number: state for number, state in sorted(found.items()) if state is not None}

    def await_in_sync(self, *topics: str, replicas: int = 3) -> None:
        """Wait until all partitions of topics have a leader and the given number of in-sync replicas."""

        def are_in_sync() -> bool:
            for topic in topics:
                assignment, states = self._content(f"/brokers/topics/{topic}"), self.states(topic)
                if assignment is None or len(states) < len(assignment["partitions"]):
                    return False
                if any(len(each["isr"]) != replicas or each["leader"] not in each["isr"] for each in states.values()):
                    return False
            return True

        self.until(are_in_sync, lambda: f"all are in sync: {[self.states(topic) for topic in topics]}")

    def is_being_deleted(self, topic: str) -> bool:
        """Return whether the controller has been asked to delete a topic but has not yet deleted it."""
        return topic in self._children("/admin/delete_topics") and topic in self._children("/brokers/topics")

    def await_deleted(self, topic: str) -> None:
        """Wait until the registry has no trace of a topic, and no broker has a folder for it."""

        def is_deleted() -> bool:
            nodes = ("/brokers/topics", "/admin/delete_topics", "/config/topics")
            in_registry = any(topic in self._children(node) for node in nodes)
            return not in_registry and not any(self.partitions_of(topic).values())

        self.until(is_deleted, lambda: f"{topic} is deleted: {self.partitions_of(topic)}")

    def partitions_of(self, topic: str) -> dict[int, list[str]]:
        """Return the folders that each broker has for a topic."""
        pattern = re.compile(rf"{re.escape(topic)}-\d+")
        return {
            broker_id: sorted(path.name for path in folder.iterdir() if pattern.fullmatch(path.name))
            for broker_id, folder in self.folders.items()
        }

    def run_tool(self, name: str, *arguments: str, asked: int | None = None) -> str:
        """Run one of Kafka's tools, which must succeed, and return its output; it asks any broker, or the given one."""
        where = ("--bootstrap-server", self.bootstrap if asked is None else self.address(asked))
        result = run_tool(name, *where, *arguments, timeout_seconds=_PATIENCE_SECONDS, release=ZOOKEEPER_RELEASE)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def until(self, is_so: Callable[[], bool], what: str | Callable[[], str]) -> None:
        """Wait until a condition holds; on timeout, fail with `what`, or with its result if it is a function."""

        def reason() -> str:
            return f"it does not come about that {what if isinstance(what, str) else what()}"

        until(is_so, reason, _PATIENCE_SECONDS)

    # The registry.

    def node(self, path: str) -> bytes | None:
        """Return the content of a node; None if it does not exist."""
        try:
            content, _ = self._registry.get(path)
        except NoNodeError:
            return None
        return bytes(content)

    def _children(self, path: str) -> set[str]:
        try:
            return set(self._registry.get_children(path))
        except NoNodeError:
            return set()

    def _content(self, path: str) -> dict[str, Any] | None:
        content = self.node(path)
        if content is None:
            return None
        found: dict[str, Any] = json.loads(content)
        return found
