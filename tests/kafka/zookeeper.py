"""A real ZooKeeper on loopback, and nodes of Apache Kafka 3.9, the last release that kept its metadata in ZooKeeper.

Both come from the jars of that release. A ZooKeeper server can be paused, killed and restarted with its files; sessions
can be ended as if their clients had gone silent.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.certificates import Certificates
from tests.kafka.apache import await_stop, java_command
from tests.ports import await_port, free_port

__all__ = ["TICK_MS", "ZOOKEEPER_RELEASE", "ZooKeeper", "ZooKeeperKafka"]

#: The release of Kafka; it includes ZooKeeper 3.8.4.
ZOOKEEPER_RELEASE = "3.9.1"

#: An expired session ends at the next tick; the shortest session timeout is two ticks.
TICK_MS = 200

_STOP_SECONDS = 30

_SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "num.partitions": "2",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class _Server:
    """A Java process with its own port and folder, running inside a `with` block.

    Attributes:
        port: its port on 127.0.0.1.
    """

    def __init__(self, heap: str) -> None:
        self.port = free_port()
        self._heap = heap
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def arguments(self, folder: Path) -> list[str]:
        """Return the class and its arguments; the files go to `folder`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="kafkawire-zookeeper-"))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server with its existing files, and wait until it accepts connections."""
        folder = self._folder
        assert folder is not None, "the server can only be used inside `with`"
        command = [*java_command(folder, self._heap, ZOOKEEPER_RELEASE), *self.arguments(folder)]
        log = folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        await_port(self.port, self._process, log)

    def pause(self) -> None:
        """Pause the server, leaving its connections open."""
        self._running.send_signal(signal.SIGSTOP)
        await_stop(self._running.pid)

    def resume(self) -> None:
        """Resume a paused server."""
        self._running.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server, to simulate a crash."""
        self._running.kill()
        self._running.wait()

    def shut_down(self) -> None:
        """Shut the server down cleanly, or kill it if that takes too long; its files are kept."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop(self) -> None:
        """End the server and remove its files."""
        self.shut_down()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process


class ZooKeeper(_Server):
    """One ZooKeeper server.

    Args:
        users: names and passwords for SASL with DIGEST-MD5; empty for none.
        certificates: the certificates for an additional TLS port, which requires client certificates; None for no such
            port.

    Attributes:
        secure_port: the TLS port, to be reached as localhost, the name in the certificate.
    """

    def __init__(self, users: dict[str, str] | None = None, certificates: Certificates | None = None) -> None:
        super().__init__("-Xmx256m")
        self._users = users or {}
        self._certificates = certificates
        self.secure_port = 0 if certificates is None else free_port()

    def arguments(self, folder: Path) -> list[str]:
        settings = {
            "dataDir": str(folder / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(TICK_MS),
            # More than the default of twenty ticks, because a session must outlive a slow startup.
            "maxSessionTimeout": "120000",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
        options = []
        if self._users:
            settings["authProvider.sasl"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            jaas = folder / "jaas.conf"
            users = "".join(f' user_{name}="{password}"' for name, password in self._users.items())
            jaas.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required{users}; }};\n")
            options.append(f"-Djava.security.auth.login.config={jaas}")
        if self._certificates is not None:
            authority = folder / "authority.pem"  # ZooKeeper infers the type from the file name
            authority.write_text(self._certificates.authority.read_text())
            settings |= {
                "secureClientPort": str(self.secure_port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(self._certificates.broker),
                "ssl.trustStore.location": str(authority),
                "ssl.clientAuth": "need",
            }
        path = folder / "zoo.cfg"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return [*options, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path)]


class ZooKeeperKafka(_Server):
    """One node of Apache Kafka 3.9 that keeps its metadata in ZooKeeper.

    Args:
        broker_id: its id.
        connect: `zookeeper.connect`.
        settings: server properties in addition to the required ones.
        login: a login module file with its ZooKeeper credentials; None for no login.
    """

    def __init__(
        self, broker_id: int, connect: str, settings: dict[str, str] | None = None, login: Path | None = None
    ) -> None:
        super().__init__("-Xmx384m")
        self._broker_id = broker_id
        self._connect = connect
        self._settings = settings or {}
        self._login = login

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return self.address

    def arguments(self, folder: Path) -> list[str]:
        listeners = f"PLAINTEXT://{self.address}"
        settings = _SETTINGS | {
            "broker.id": str(self._broker_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "zookeeper.connect": self._connect,
            "log.dirs": str(folder / "data"),
        }
        path = folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in (settings | self._settings).items()))
        options = [] if self._login is None else [f"-Djava.security.auth.login.config={self._login}"]
        return [*options, "kafka.Kafka", str(path)]
