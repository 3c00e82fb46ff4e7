"""Faults for a cluster on this machine, and checks that must hold after them.

`Gates` are TCP proxies between the members. A gate learns from the kernel which process has connected, so the link
between two members can be cut in one direction or both, without affecting other members' connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafkawire.local_cluster.cluster_folder import ClusterFolder
from kafkawire.testing import Cluster

__all__ = ["Cut", "Gates", "check_told", "limit_files", "processes", "until"]

#: The pause between checks of an awaited condition.
_LOOK_SECONDS: Final = 0.05

#: The number of bytes that a gate reads at a time.
_READ_BYTES: Final = 65_536

_ERROR_LINE: Final = re.compile(r"^\S+ \S+ (ERROR|CRITICAL) ", re.MULTILINE)


def until(is_so: Callable[[], bool], what: str | Callable[[], str], seconds: float) -> float:
    """Wait for a condition, and return how many seconds the wait took.

    Args:
        is_so: returns whether the condition holds.
        what: the text of the error.
        seconds: the limit.

    Raises:
        AssertionError: the condition did not hold in time.
    """
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() > begin + seconds:
            raise AssertionError(f"after {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begin


def processes(cluster: Cluster) -> dict[int, int]:
    """Return the process of each running broker, keyed by broker id."""
    record = ClusterFolder(cluster.data_dir).read()
    assert record is not None
    return {int(broker.name): broker.process.pid for broker in record.brokers if broker.process is not None}


def limit_files(pid: int, size_bytes: int) -> None:
    """Make a process fail when it grows a file beyond a limit, as on a full disk; only a restart lifts the limit.

    Args:
        pid: the process id.
        size_bytes: the maximum size of a file.
    """
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


def check_told(cluster_dir: Path, known: Iterable[str] = ()) -> None:
    """Fail if a broker has logged a traceback or an unexpected error.

    Args:
        cluster_dir: the folder of the cluster.
        known: regular expressions for errors that the test has caused.
    """
    allowed = re.compile("|".join(f"(?:{each})" for each in known)) if known else None
    for log in sorted((cluster_dir / "logs").glob("broker-*.log")):
        lines = log.read_text("utf-8", "replace").splitlines()
        bad = [
            f"{log.name}:{number}: {line}"
            for number, line in enumerate(lines, 1)
            if line.startswith("Traceback")
            or (_ERROR_LINE.match(line) and not (allowed is not None and allowed.search(line)))
        ]
        assert not bad, "\n".join(bad[:20])


class Cut(Enum):
    """The ways in which a gate can disturb a member's connections."""

    #: Nothing passes, in either direction; connections stay open, and new ones are accepted.
    SILENCE = "silence"
    #: Data that the member sends is delivered; data sent to it is held back.
    NO_ANSWERS = "no answers"
    #: Data that the member sends is held back.
    NO_REQUESTS = "no requests"
    #: Existing and new connections are reset.
    RESET = "reset"


class Gates:
    """TCP proxies that run in a thread, inside a `with` block.

    Args:
        process_of: returns the current process of each connecting member, keyed by a name that the caller chooses.
    """

    def __init__(self, process_of: Callable[[], Mapping[int, int]]) -> None:
        self._process_of = process_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gates", daemon=True)
        self._cuts: dict[tuple[int, int], Cut] = {}
        self._changed = asyncio.Event()
        self._pairs: dict[tuple[int, int], set[asyncio.StreamWriter]] = {}
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for writers in self._pairs.values():
                for writer in writers:
                    writer.transport.abort()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # transports close their sockets in the next iteration of the loop

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def open(self, port: int, target: int, target_port: int) -> None:
        """Listen on a port of 127.0.0.1.

        Args:
            port: the port.
            target: the member to pass connections to.
            target_port: where that member listens on 127.0.0.1.
        """

        async def begin() -> None:
            async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._pass(reader, writer, target, target_port, port)

            self._servers.append(await asyncio.start_server(accepted, "127.0.0.1", port))

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(30)

    def cut(self, source: int, target: int, cut: Cut) -> None:
        """Disturb the existing and future connections that a member opens to another one."""

        async def change() -> None:
            self._cuts[source, target] = cut
            if cut is Cut.RESET:
                for writer in list(self._pairs.get((source, target), ())):
                    writer.transport.abort()
            self._tell()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(30)

    def heal(self) -> None:
        """Heal all cuts, and deliver the data that was held back."""

        async def change() -> None:
            self._cuts.clear()
            self._tell()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(30)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, target_port: int, port: int
    ) -> None:
        peer_port = writer.get_extra_info("peername")[1]
        source = await asyncio.to_thread(self._source, peer_port, port)
        pair = source, target
        with contextlib.suppress(OSError):
            if self._cuts.get(pair) is Cut.RESET:
                writer.transport.abort()
                return
            try:
                target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target_port)
            except OSError:
                writer.transport.abort()
                return
            writers = self._pairs.setdefault(pair, set())
            writers |= {writer, target_writer}
            try:
                await asyncio.gather(
                    self._copy(reader, target_writer, pair, (Cut.SILENCE, Cut.NO_REQUESTS)),
                    self._copy(target_reader, writer, pair, (Cut.SILENCE, Cut.NO_ANSWERS)),
                )
            finally:
                writers -= {writer, target_writer}
                writer.transport.abort()
                target_writer.transport.abort()

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pair: tuple[int, int],
        holds: tuple[Cut, ...],
    ) -> None:
        while data := await reader.read(_READ_BYTES):
            while self._cuts.get(pair) in holds:
                await self._changed.wait()
            writer.write(data)
            await writer.drain()
        while self._cuts.get(pair) in holds:  # the end of a connection is held back, too
            await self._changed.wait()
        raise ConnectionResetError("one side has ended")

    def _source(self, peer_port: int, port: int) -> int:
        """Return the member whose process has connected from a port; -1 if no member has."""
        inode = _inode(peer_port, port)
        for member, pid in self._process_of().items():
            with contextlib.suppress(OSError):  # the process has ended
                for descriptor in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):  # it is already closed
                        if os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{inode}]":
                            return member
        return -1


def _inode(local_port: int, remote_port: int) -> str | None:
    """Return the inode of one of this machine's IPv4 sockets, given its two ports."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            fields = line.split()
            if (int(fields[1].split(":")[1], 16), int(fields[2].split(":")[1], 16)) == (local_port, remote_port):
                return fields[9]
    return None
