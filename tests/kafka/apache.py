"""A real Apache Kafka on loopback: one KRaft node from the Maven jars, and Kafka's command-line tools.

    python tests/kafka/apache.py jars [VERSION]           fetch the jars of a release once and print their folder
    python tests/kafka/apache.py serve PORT [KEY=VALUE…]  run a node until interrupted
    python tests/kafka/apache.py run CLASS [ARG…]         run a tool, such as org.apache.kafka.tools.DumpLogSegments

Needs `java` (17 or newer) and `mvn`. Jars are kept in the user's cache folder, and the node's data in a temporary
folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkawire.sdk.protocol.tables.enums import KAFKA_RELEASE
from tests.ports import await_port, free_port

__all__ = [
    "RELEASE",
    "ApacheKafka",
    "await_stop",
    "cache_folder",
    "copy_jars",
    "fetch_jars",
    "java_command",
    "kept_folder",
    "run_tool",
]

#: The release that is fetched and run by default.
RELEASE = KAFKA_RELEASE

#: A signal marks a process as stopped immediately, but each of its threads stops only when it is next scheduled.
STOP_TIMEOUT_SECONDS = 10

#: A tool exits before the JVM's second compiler would pay off; disabling that compiler halves the run time.
_SHORT_RUN = ("-XX:TieredStopAtLevel=1",)

_HERE = Path(__file__).parent

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # Kafka's default interval is ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}

_LOGGING = """rootLogger.level=WARN
rootLogger.appenderRef.console.ref=Console
appender.console.type=Console
appender.console.name=Console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c)%n
"""


def cache_folder() -> Path:
    """Return the folder for files that need to be fetched or built only once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkawire"


def kept_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder in the user's cache, filled on first use; other processes wait while it is being filled.

    Args:
        name: the name of the folder.
        fill: creates its content; if it raises an error, the folder stays as it is, and the next call tries again.
    """
    folder = cache_folder() / name
    complete = folder / ".complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                fill(folder)
                complete.touch()
    return folder


def fetch_jars(release: str = RELEASE) -> Path:
    """Return the folder with the jars of a release, fetched on first use.

    Raises:
        subprocess.CalledProcessError: Maven could not resolve them; its output goes to standard error.
    """
    return copy_jars("pom.xml", f"kafka-{release}", {"kafka.version": release})


def copy_jars(pom: str, name: str, properties: Mapping[str, str]) -> Path:
    """Return the folder with the jars that a project beside this module depends on, fetched on first use.

    Args:
        pom: the project's POM file.
        name: the folder's name in the user's cache folder.
        properties: values for the properties that the POM file does not set.

    Raises:
        subprocess.CalledProcessError: Maven could not resolve them; its output goes to standard error.
    """

    def copy(folder: Path) -> None:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        given = [f"-D{key}={value}" for key, value in properties.items()]
        subprocess.run(["mvn", "-q", "-B", "-f", str(_HERE / pom), *goal, *given], check=True, stdout=sys.stderr)

    return kept_folder(name, copy)


def run_tool(
    name: str, *arguments: str, stdin: str | None = "", timeout_seconds: float = 90, release: str = RELEASE
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's classes to completion and return its output; if `stdin` is None, it inherits ours."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [*java_command(Path(folder), release=release), *_SHORT_RUN, name, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )


class ApacheKafka:
    """One node, running inside a `with` block.

    Args:
        port: the port of the PLAINTEXT listener on 127.0.0.1; 0 to choose a free one. The controller uses another free
            port.
        settings: server properties in addition to those that a single node needs.
        listeners: further listeners: their addresses, keyed by name.
        users: names and passwords for SCRAM.
        features: feature levels that differ from the release's defaults, keyed by name.

    Attributes:
        port: see above.
        started_at: when the node's process was started, as measured by `time.perf_counter`.
    """

    def __init__(
        self,
        port: int = 0,
        settings: dict[str, str] | None = None,
        listeners: dict[str, str] | None = None,
        users: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.started_at = 0.0
        self._settings = settings or {}
        self._listeners = listeners or {}
        self._users = users or {}
        self._features = features or {}
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The folder that holds its logs."""
        assert self._folder is not None, "the node was not started"
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """The node's process."""
        assert self._process is not None, "the node was not started"
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send SIGSTOP or SIGCONT to the node; when this returns after SIGSTOP, the node has stopped."""
        assert self._process is not None, "the node was not started"
        self._process.send_signal(number)
        if number == signal.SIGSTOP:  # a running thread may continue for a while and answer requests
            await_stop(self._process.pid)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="kafkawire-apache-kafka-"))
        try:
            self._start(self._folder)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the node and remove its data."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, folder: Path) -> None:
        java = java_command(folder)
        controller = free_port()
        addresses = {"PLAINTEXT": self.bootstrap, "CONTROLLER": f"127.0.0.1:{controller}"} | self._listeners
        listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
        settings = _SETTINGS | {
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.data_dir),
            "listeners": listeners,
            "advertised.listeners": listeners,
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in (settings | self._settings).items()))
        storage = [*java, "kafka.tools.StorageTool"]
        cluster_id = subprocess.run(
            [*storage, "random-uuid"], check=True, capture_output=True, text=True
        ).stdout.strip()
        format_command = [*storage, "format", "--standalone", "-t", cluster_id, "-c", str(properties)]
        for name, password in self._users.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                format_command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        for feature, level in self._features.items():
            format_command += ["--feature", f"{feature}={level}"]
        subprocess.run(format_command, check=True, capture_output=True)
        self._launch(folder)

    def _launch(self, folder: Path) -> None:
        log, command = folder / "server.log", [*java_command(folder), "kafka.Kafka", str(folder / "server.properties")]
        self.started_at = time.perf_counter()
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        # Kafka binds its listeners one after another.
        for port in (self.port, *(int(address.rpartition(":")[2]) for address in self._listeners.values())):
            await_port(port, self._process, log)

    def kill(self) -> None:
        """Kill the node, to simulate a crash."""
        assert self._process is not None, "the node was not started"
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Restart a killed node with its existing files."""
        assert self._folder is not None, "the node was never started"
        self._launch(self._folder)


def await_stop(pid: int) -> None:
    """Wait until a signal has stopped every thread of a process.

    Raises:
        RuntimeError: a thread is still running.
    """
    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    while any(_state(task) != "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"process {pid} has not stopped after {STOP_TIMEOUT_SECONDS} s")
        time.sleep(0.01)


def _state(task: Path) -> str:
    """Return a thread's state from its `stat` file in /proc; the thread name that precedes it may contain brackets."""
    try:
        return (task / "stat").read_text("utf-8", "replace").rpartition(") ")[2][:1]
    except FileNotFoundError:  # it has ended
        return "T"


def java_command(folder: Path, heap: str = "-Xmx1g", release: str = RELEASE) -> list[str]:
    """Return the command that runs one of Kafka's classes, with a logging configuration in `folder`."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return ["java", heap, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{fetch_jars(release)}/*"]


def _main(arguments: list[str]) -> int:
    match arguments:
        case ["jars", *release]:
            print(fetch_jars(*release))
        case ["serve", port, *settings]:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            with ApacheKafka(int(port), dict(setting.split("=", 1) for setting in settings)) as kafka:
                print(kafka.bootstrap, flush=True)
                signal.pause()
        case ["run", name, *rest]:
            result = run_tool(name, *rest, stdin=None)
            print(result.stdout, end="")
            print(result.stderr, end="", file=sys.stderr)
            return result.returncode
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
