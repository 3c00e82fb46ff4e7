"""A member of a cluster on this machine: one process at a time, with its log and its state.

A member is running once its owner considers it ready: ZooKeeper once it listens, a broker once its cluster announces
    it.

All calls come from the thread of one event loop, which must live as long as the member has a process, since on Linux
the kernel kills a process when the thread that started it ends. A separate thread waits for the process to end. A
member that is stopping has stopped only when its process has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from kafkawire.local_cluster import bound_process
from kafkawire.local_cluster.cluster_folder import ClusterError, MemberRecord
from kafkawire.local_cluster.member_state import MEMBER_EDGES, MemberState
from kafkawire.local_cluster.process_identity import ProcessIdentity, identify
from kafkawire.sdk.transport.wire import Address

__all__ = ["Member", "listens"]

#: On an idle machine, a broker takes half a second and ZooKeeper one second; on a loaded machine, they take longer.
_START_SECONDS: Final = 60.0

#: A broker hands over the leadership of its partitions and syncs its logs, which takes up to a minute in total.
_STOP_SECONDS: Final = 75.0

#: A signal stops each thread when it runs next, which may take a while on a loaded machine.
_SIGNAL_SECONDS: Final = 10.0

_ATTEMPT_SECONDS: Final = 0.02

#: How much of the end of a log is shown in an error.
_LOG_BYTES: Final = 4_096
_LOG_CHARACTERS: Final = 300


class Member:
    """A member of a cluster.

    Args:
        record: its name and address, with a state in which it has no process.
        command: the command that runs it.
        log: the file to which its output is appended.
        on_change: called after each change of the record.
        can_be_used: whether the member is ready; see `listens`.

    Attributes:
        record: its current state.
        may_start: whether a process may be started; False while the cluster is stopping.
    """

    def __init__(
        self,
        record: MemberRecord,
        command: Sequence[str],
        log: Path,
        on_change: Callable[[], None],
        can_be_used: Callable[[Address], Awaitable[bool]],
    ) -> None:
        self.record = record
        self.may_start = True
        self.log: Final = log
        self._command: Final = tuple(command)
        self._on_change = on_change
        self._can_be_used = can_be_used
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_usable = False
        self._is_killed = False
        self._probe: asyncio.Task[None] | None = None

    @property
    def state(self) -> MemberState:
        """The current state."""
        return self.record.state

    async def start(self) -> None:
        """Start the process, and wait until it is ready.

        Raises:
            ClusterError: the member already has a process, or the new process ended or was not ready in time.
            OSError: the process cannot be started.
        """
        if self.state.has_process:
            raise ClusterError(f"{self.record.full_name} is {self.state.value}")
        if not self.may_start:
            raise ClusterError(f"{self.record.full_name} cannot start, because the cluster is stopping")
        self._spawn()
        try:
            async with asyncio.timeout(_START_SECONDS):
                while self.state in (MemberState.STARTING, MemberState.PAUSED) and not self._is_usable:
                    await self._changed.wait()
        except TimeoutError:
            reason = f"was not ready on {self.record.address} within {_START_SECONDS:.0f} s"
            raise ClusterError(f"{self.record.full_name} {reason}; its log is {self.log}") from None
        if not self._is_usable:
            raise ClusterError(self._failure())

    async def stop(self) -> None:
        """Stop the process with SIGTERM; kill it if that takes too long. Do nothing if there is none."""
        process = self._process
        if process is None:
            return
        if self.state is not MemberState.STOPPING:
            self._become(MemberState.STOPPING)
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)  # a paused process receives no other signal
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Kill the process, to simulate a crash. Do nothing if there is none."""
        process = self._process
        if process is not None:
            self._is_killed = True
            process.kill()
            await self._ended.wait()

    async def pause(self) -> None:
        """Pause the process with SIGSTOP; its connections stay open.

        Raises:
            ClusterError: the member is not running, or ends in the meantime.
        """
        if self.state not in (MemberState.STARTING, MemberState.RUNNING):
            raise ClusterError(f"{self.record.full_name} is {self.state.value}")
        await self._signal(signal.SIGSTOP, lambda: self.state is MemberState.PAUSED)

    async def resume(self) -> None:
        """Resume a paused process.

        Raises:
            ClusterError: the member is not paused, or ends in the meantime.
        """
        if self.state is not MemberState.PAUSED:
            raise ClusterError(f"{self.record.full_name} is {self.state.value}")
        await self._signal(signal.SIGCONT, lambda: self.state is not MemberState.PAUSED)

    async def restart(self) -> None:
        """Stop the process, if there is one, and start a new one with the same files; see `start`."""
        await self.stop()
        await self.start()

    def observe(self) -> None:
        """Check whether another program's signal has paused or resumed the process."""
        process = self._process
        if process is None or self.state is MemberState.STOPPING or not hasattr(os, "waitid"):
            return
        try:
            found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        except ChildProcessError:  # its end is about to be reported
            return
        if found is None or process.returncode is not None:
            return
        if found.si_code == os.CLD_STOPPED and self.state is not MemberState.PAUSED:
            self._become(MemberState.PAUSED)
        elif found.si_code == os.CLD_CONTINUED and self.state is MemberState.PAUSED:
            self._become(MemberState.RUNNING if self._is_usable else MemberState.STARTING)

    def _spawn(self) -> None:
        command = [*self._command]
        if sys.platform == "linux":
            bound = [sys.executable, "-I", "-S", bound_process.__file__, str(os.getpid())]
            command = [*bound, *command]
        with self.log.open("ab") as output:
            # The process has its own session, so Ctrl-C reaches only the supervisor, which stops the members in order.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._process = process
        self._ended = asyncio.Event()
        self._is_usable = self._is_killed = False
        self._become(MemberState.STARTING, identify(process.pid))
        loop = asyncio.get_running_loop()

        def wait() -> None:
            status = process.wait()
            with contextlib.suppress(RuntimeError):  # the loop was closed after a failure
                loop.call_soon_threadsafe(self._end, process, status)

        threading.Thread(target=wait, name=f"kafkawire-cluster-{self.record.name}", daemon=True).start()
        self._probe = asyncio.create_task(self._look_for_use(process))

    async def _look_for_use(self, process: subprocess.Popen[bytes]) -> None:
        """Check repeatedly until the member is ready."""
        address = Address.parse("address", self.record.address)
        while process is self._process and self.state is not MemberState.STOPPING:
            if not await self._can_be_used(address):
                await asyncio.sleep(_ATTEMPT_SECONDS)
                continue
            self._is_usable = True
            if process is self._process and self.state is MemberState.STARTING:
                self._become(MemberState.RUNNING)
            return

    def _end(self, process: subprocess.Popen[bytes], status: int) -> None:
        if self._probe is not None:
            self._probe.cancel()
        self._process = None
        if self._is_killed:
            state = MemberState.KILLED
        elif self.state is MemberState.STOPPING:
            state = MemberState.STOPPED
        else:
            state = MemberState.ENDED
        self._become(state, None, status)
        self._ended.set()

    async def _signal(self, number: signal.Signals, is_done: Callable[[], bool]) -> None:
        if self._process is not None:
            self._process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SIGNAL_SECONDS):
                while self._process is not None and not is_done():
                    self.observe()
                    if not is_done():
                        await asyncio.sleep(_ATTEMPT_SECONDS / 10)
        if not is_done():
            raise ClusterError(f"{self.record.full_name} is {self.state.value} after {number.name}")

    def _become(
        self, state: MemberState, process: ProcessIdentity | None = None, exit_status: int | None = None
    ) -> None:
        MEMBER_EDGES.follow(self.state, state)
        if state.has_process and process is None:
            process = self.record.process
        self.record = self.record._replace(state=state, process=process, exit_status=exit_status)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._on_change()

    def _failure(self) -> str:
        status = self.record.exit_status
        how = f"ended with exit status {status}" if status is not None else f"is {self.state.value}"
        return f"{self.record.full_name} {how} during startup; {self.log} ends with: {_last_line(self.log)}"


async def listens(address: Address) -> bool:
    """Return whether a process accepts connections at an address."""
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return False
    writer.close()
    return True


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - _LOG_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LOG_CHARACTERS]
