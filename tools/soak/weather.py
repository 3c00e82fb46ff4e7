"""Seeded faults: a network that refuses and cuts connections, and a broker that is stopped, continued and killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address, Receiver, Wire
from tests.ports import await_port, free_port

__all__ = ["BrokerProcess", "StormyNetwork"]


class StormyNetwork:
    """A TCP transport that refuses some connections, and cuts others on demand. Event loops in any thread can use it.

    Args:
        random: the source of all choices.

    Attributes:
        storm: the fraction of connections and writes that fail, between 0 and 1.
        opened: the number of connections opened.
        requests: the number of requests written, keyed by API key.
    """

    def __init__(self, random: Random) -> None:
        self._tcp = TcpNetwork()
        self._random = random
        self._wires: dict[_StormyWire, asyncio.AbstractEventLoop] = {}
        self.storm = 0.0
        self.opened = 0
        self.requests: dict[int, int] = {}

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = lambda state: None,
    ) -> Receiver:
        """Connect after a delay, or fail."""
        if self._random.random() < self.storm:
            await asyncio.sleep(self._random.choice([0, 0.01, 0.2]))
            if self._random.random() < self.storm * 2:
                raise ConnectionRefusedError("this connection was refused on purpose")
        wires: list[_StormyWire] = []

        def wrapped(wire: Wire) -> Receiver:
            wires.append(_StormyWire(wire, self))
            return receiver(wires[0])

        found = await self._tcp.open(address, wrapped, enter)
        self.opened += 1
        self._wires[wires[0]] = asyncio.get_running_loop()
        return found

    def fails(self) -> bool:
        """Return whether a write should fail."""
        return self._random.random() < self.storm / 10

    def cut(self) -> None:
        """Cut one connection."""
        self._wires = {wire: loop for wire, loop in self._wires.items() if wire.is_open and not loop.is_closed()}
        if self._wires:
            wire = self._random.choice(list(self._wires))
            self._wires.pop(wire).call_soon_threadsafe(wire.close)


class _StormyWire:
    """A wire on which some writes cut the connection, before or after the bytes are sent."""

    def __init__(self, wire: Wire, network: StormyNetwork) -> None:
        self._wire = wire
        self._network = network

    @property
    def is_open(self) -> bool:
        return self._wire.is_open

    @property
    def is_congested(self) -> bool:
        return self._wire.is_congested

    def write(self, parts: Sequence[Buffer]) -> None:
        if self._network.fails():
            self._wire.close()
        key = int.from_bytes(bytes(parts[0])[4:6], "big")
        self._network.requests[key] = self._network.requests.get(key, 0) + 1
        self._wire.write(parts)
        if self._network.fails():
            asyncio.get_running_loop().call_soon(self._wire.close)

    @property
    def has_unsent(self) -> bool:
        return self._wire.has_unsent

    async def drain(self) -> None:
        await self._wire.drain()

    async def sent(self) -> None:
        await self._wire.sent()

    def close(self) -> None:
        self._wire.close()

    def abort(self) -> None:
        self._wire.abort()


class BrokerProcess:
    """A reference broker in a separate process, inside a `with` block.

    Args:
        options: the broker's options.
    """

    def __init__(self, **options: str) -> None:
        self._port = free_port()
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="kafkawire-soak-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start the broker on the files of the last run, and wait until it accepts connections."""
        command = [sys.executable, "-m", "kafkawire.commands.main", "broker", "--listen", self.bootstrap]
        command += ["--data", str(self._folder / "data")]
        for name, value in self._options.items():
            command += ["--option", f"{name}={value}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        await_port(self._port, self._process, self._folder / "log")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, SIGSTOP or SIGCONT; do nothing while the broker is dead."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the broker immediately."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
