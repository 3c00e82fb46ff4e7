"""A cluster of broker processes on this machine, started and stopped by this program.

    with Cluster(brokers=3) as cluster:
        cluster.kill(1)
        cluster.restart(1)

The supervisor runs on an event loop in its own thread, which is the members' parent for the kernel.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self
from uuid import uuid4

from kafkawire.local_cluster.cluster_folder import ClusterFolder
from kafkawire.local_cluster.supervisor import ClusterSettings, Supervisor
from kafkawire.sdk.errors import Closed, ConfigurationError, LocalProtocolError
from kafkawire.sdk.transport import fork

__all__ = ["Cluster"]

#: A broker's id, or "zookeeper" for the server that the cluster has started.
Member = int | Literal["zookeeper"]

#: Starting or stopping a member takes at most this long.
_TIMEOUT_SECONDS: Final = 200.0


class Cluster:
    """Run a cluster of brokers, each in its own process, and a ZooKeeper server.

    All methods block, can be called from any thread, and act like the commands `kafkawire cluster …`, which also work
    with this cluster. A member is identified by its broker id, starting at 1, or by "zookeeper".

    Args:
        data_dir: the folder for the cluster's files, created if it does not exist; None for a temporary folder, which
            `start` creates, and which is removed by `close` or at the end of the program.
        brokers: the number of brokers; None for as many as the folder has, or three.
        zookeeper: the address of a ZooKeeper, as `host:port,host:port/chroot`; None to start one, which requires Java,
            and the jars from pyspark or from Debian's package `zookeeper`.
        options: options for all brokers, keyed by the dotted names from Kafka's documentation.

    Raises:
        ConfigurationError: an argument is invalid, the cluster itself sets one of the options, or a broker refuses one.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        brokers: int | None = None,
        zookeeper: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        if data_dir is not None and (not isinstance(data_dir, str | os.PathLike) or data_dir == ""):
            raise ConfigurationError("data_dir", data_dir, "expected a folder path")
        texts = {name: str(value) for name, value in (options or {}).items()}
        self._settings = ClusterSettings(brokers, zookeeper, texts)
        self._temporary = Path(tempfile.gettempdir(), f"kafkawire-{uuid4().hex}") if data_dir is None else None
        self._folder = ClusterFolder(self._temporary or Path(str(data_dir)))
        Supervisor(self._folder, self._settings)  # this checks the settings
        self._supervisor: Supervisor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()  # held while the cluster starts or stops
        self._process = fork.generation()

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} at {self.bootstrap}>"
        except Closed:
            return f"<{type(self).__name__}, not running>"

    @property
    def data_dir(self) -> Path:
        """The folder of the cluster's files, with `cluster.json`, and the members' logs below logs/."""
        return self._folder.path

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as `host:port,host:port`; they survive restarts.

        Raises:
            Closed: the cluster is not running.
        """
        return self._running.record.bootstrap

    @property
    def addresses(self) -> dict[int, str]:
        """The address of each broker, as `host:port`, keyed by broker id.

        Raises:
            Closed: the cluster is not running.
        """
        return {int(broker.name): broker.address for broker in self._running.record.brokers}

    @property
    def zookeeper(self) -> str:
        """The address of the cluster's ZooKeeper, in the form of `zookeeper.connect`.

        Raises:
            Closed: the cluster is not running.
        """
        return self._running.record.zookeeper_connect

    @property
    def states(self) -> dict[int, str]:
        """The state of each broker, keyed by id: starting, running, paused, stopping, stopped, killed or ended.

        Raises:
            Closed: the cluster is not running.
        """
        return {int(broker.name): broker.state.value for broker in self._running.record.brokers}

    def start(self) -> None:
        """Start ZooKeeper and all brokers, and wait until each broker knows all others. Brokers keep their ports.

        Raises:
            LocalProtocolError: the cluster is already running.
            ClusterError: another process runs a cluster in this folder, a member could not be started, or this machine
                has no ZooKeeper program; the text then says what to install.
            ConfigurationError: the folder has more brokers, or nothing listens at ZooKeeper's address.
            OSError: the folder cannot be written.
        """
        with self._changing:
            if self._loop is not None:
                raise LocalProtocolError("the cluster is already running")
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="kafkawire-cluster", daemon=True)
            self._thread.start()
            if self._temporary is not None:
                self._temporary.mkdir(mode=0o700, exist_ok=True)
            atexit.register(self._end)
            supervisor = Supervisor(self._folder, self._settings)
            try:
                self._call(supervisor.start())
            except BaseException:
                self._end_thread()
                self._remove_temporary()
                raise
            self._supervisor = supervisor

    def stop(self, member: Member | None = None) -> None:
        """Stop a member, or the whole cluster, as SIGTERM does. The files are kept.

        Args:
            member: the member; None for all.

        Raises:
            ClusterError: the member is not running.
            Closed: the cluster is not running, and a member was named.
        """
        if member is not None:
            self._act("stop", member)
            return
        with self._changing:
            supervisor, self._supervisor = self._supervisor, None
            if supervisor is not None and self._process == fork.generation():
                self._call(supervisor.stop())
                self._end_thread()

    def kill(self, member: Member) -> None:
        """Kill a member's process, to simulate a crash.

        Raises:
            ClusterError: the member has no process.
            Closed: the cluster is not running.
        """
        self._act("kill", member)

    def pause(self, member: Member) -> None:
        """Pause a member's process with SIGSTOP; its connections stay open.

        Raises:
            ClusterError: the member is not running.
            Closed: the cluster is not running.
        """
        self._act("pause", member)

    def resume(self, member: Member) -> None:
        """Resume a paused member.

        Raises:
            ClusterError: the member is not paused.
            Closed: the cluster is not running.
        """
        self._act("resume", member)

    def restart(self, member: Member) -> None:
        """Start a member with its existing files and port, and wait until it is ready; if it is running, stop it first.

        Raises:
            ClusterError: the member could not be started; the text includes the end of its log.
            Closed: the cluster is not running.
        """
        self._act("restart", member)

    def close(self) -> None:
        """Stop the cluster, and remove its folder if it is temporary; in a forked child, leave both to the parent."""
        self.stop()
        self._remove_temporary()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _running(self) -> Supervisor:
        supervisor = self._supervisor
        if supervisor is None or supervisor.stopped.is_set() or self._process != fork.generation():
            raise Closed("the cluster is not running")
        return supervisor

    def _act(self, action: str, member: Member) -> None:
        self._call(self._running.act(action, str(member)))

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        loop = self._loop
        if loop is None:
            coroutine.close()
            raise Closed("the cluster is not running")
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(_TIMEOUT_SECONDS)

    def _end(self) -> None:
        """Clean up at the end of the program."""
        supervisor = self._supervisor
        if supervisor is not None and self._process == fork.generation():
            self._call(supervisor.kill())
        self.close()

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        atexit.unregister(self._end)
        if loop is None or thread is None:
            return

        async def settle() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(settle(), loop).result(_TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_TIMEOUT_SECONDS)
        loop.close()

    def _remove_temporary(self) -> None:
        if self._temporary is not None and self._process == fork.generation():
            shutil.rmtree(self._temporary, ignore_errors=True)
