"""A network in virtual time, whose connections delay bytes, stall while a direction is cut, and break.

The bytes of a connection arrive in order, but different connections can overtake each other. While a direction between
two hosts is cut, bytes wait as they would in TCP, and arrive late unless the connection has been closed by then. A
connection that breaks may deliver part of the data in transit, and thus end in the middle of a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from kafkawire.reference_broker.simulation.scheduler import Host
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.wire import Address, FrameReceiver, Wire

__all__ = ["Network", "SimulatedWire"]

#: The usual range of delays of bytes in transit, the share of slow ones, and the range for these.
_LATENCY_US: Final = (80, 500)
_SLOW_SHARE: Final = 0.02
_SLOW_US: Final = (2_000, 40_000)

#: The share of connections that send again only long after a cut has been healed, because TCP waits longer each time,
#: and the delay.
_LATE_SHARE: Final = 0.2
_LATE_US: Final = (20_000, 1_500_000)

#: How long it takes the other side to notice that a computer has lost power.
_SILENCE_US: Final = (50_000, 1_500_000)

#: Creates the receiver for a new connection, given its wire.
Accept = Callable[["SimulatedWire"], FrameReceiver]


class SimulatedWire:
    """One end of a connection, created by `Network.connect`.

    Attributes:
        host: the computer at this end.
        receiver: the receiver of the frames.
        peer: the other end.
        is_client: whether requests are written at this end.
    """

    def __init__(self, network: Network, host: Host) -> None:
        self.host = host
        self.receiver: FrameReceiver | None = None
        self.peer: SimulatedWire
        self._network = network
        self._frames = FrameBuffer()
        #: Data written here but not delivered yet; None marks the end of the connection.
        self._under_way: deque[bytes | None] = deque()
        self._is_moving = False
        self._is_stalled = False
        self._is_open = True
        self.is_client = False

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_congested(self) -> bool:
        return False

    @property
    def has_unsent(self) -> bool:
        return False

    def write(self, parts: Sequence[Buffer]) -> None:
        if self._is_open:
            data = b"".join(parts)
            self.host.scheduler.mix(data)
            self._send(data)

    async def drain(self) -> None:
        """Do nothing: there is always room."""

    sent = drain

    def close(self) -> None:
        """Close this end; the other end notices after it has received the written data."""
        if self._is_open:
            self._is_open = False
            self._network.forget(self)
            self._send(None)
            self.host.post(self._lost)

    def abort(self) -> None:
        """Close this end; data in transit is lost."""
        self._under_way.clear()
        self.close()

    # In transit.

    def _send(self, data: bytes | None) -> None:
        self._under_way.append(data)
        self.move()

    def move(self) -> None:
        """Deliver the first item in transit, if possible at this time."""
        if not self._under_way or self._is_moving or self._is_stalled:
            return
        if not self._network.is_cut(self.host, self.peer.host):
            self._is_moving = True
            self.peer.host.later_us(self._network.latency_us(), self._arrive)

    def resume(self, delay_us: int) -> None:
        """Deliver the waiting data, after the pause before TCP sends it again."""

        def sent_again() -> None:
            self._is_stalled = False
            self.move()

        if self._under_way and not self._is_moving and not self._is_stalled:
            self._is_stalled = True
            self.peer.host.later_us(delay_us, sent_again)

    def _arrive(self) -> None:
        self._is_moving = False
        if not self._under_way or self._network.is_cut(self.host, self.peer.host):
            return
        data = self._under_way.popleft()
        if self.is_client and data is not None:
            delay_us = self._network.on_request(self.host, self.peer.host, data)
            if delay_us:
                self._under_way.appendleft(data)
                self.resume(delay_us)
                return
            if not self.peer.host.is_alive:
                return
        self.peer.take(data)
        self.move()

    def take(self, data: bytes | None) -> None:
        """Take bytes or the end of the connection from the other side."""
        if not self._is_open or self.receiver is None:
            return
        if data is None:
            self._is_open = False
            self._network.forget(self)
            self.receiver.connection_lost(None)
            return
        try:
            for frame in self._frames.receive(data):
                if self._is_open:
                    self.receiver.receive_frame(frame)
            if self._frames.error is not None:
                raise self._frames.error
        except RemoteProtocolError:
            self.abort()

    def _lost(self) -> None:
        if self.receiver is not None:
            self.receiver.connection_lost(None)

    # Faults.

    def keep_part(self, chance: Random) -> None:
        """Lose the data in transit except for some bytes."""
        waiting = b"".join(data for data in self._under_way if data is not None)
        kept = waiting[: chance.randint(0, len(waiting))]
        self._under_way.clear()
        if kept:
            self._under_way.append(kept)

    def break_off(self, chance: Random) -> None:
        """Break the connection; each end notices after receiving some part of the data in transit to it."""
        for wire in (self, self.peer):
            wire.keep_part(chance)
            wire._send(None)

    def vanish(self, delay_us: int) -> None:
        """Disappear with the computer at this end; the other end notices later, if at all."""
        self._is_open = False
        self._network.forget(self)
        if delay_us:
            self._under_way.clear()
            self.peer.host.later_us(delay_us, lambda: self._send(None))
        else:
            self._send(None)


class Network:
    """All connections in the simulation.

    Args:
        chance: draws the delays and the faults.

    Attributes:
        on_request: called with the sender, the receiver and the bytes just before a request arrives; may end either
            side, and returns the delay in microseconds after which this connection continues.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.on_request: Callable[[Host, Host, bytes], int] = lambda sender, receiver, data: 0
        self._listening: dict[Address, tuple[Host, Accept]] = {}
        #: The wires of both ends, in order of creation.
        self._wires: dict[SimulatedWire, None] = {}
        #: Pairs of host names, of which nothing from the first host reaches the second.
        self._cut: set[tuple[str, str]] = set()

    def latency_us(self) -> int:
        """Return the delay of the next bytes."""
        chance = self._chance
        low, high = _SLOW_US if chance.random() < _SLOW_SHARE else _LATENCY_US
        return low + int(chance.random() * (high - low))

    def listen(self, address: Address, host: Host, accept: Accept) -> None:
        """Listen for connections at an address."""
        self._listening[address] = host, accept

    def connect(
        self, host: Host, address: Address, opened: Callable[[Wire], FrameReceiver], failed: Callable[[OSError], None]
    ) -> None:
        """Open a connection.

        Args:
            host: the computer that connects.
            address: the address to connect to.
            opened: given the wire, returns the receiver of the frames.
            failed: called if nothing listens there. While the network is cut, neither callback is called.
        """

        def arrive() -> None:
            listening = self._listening.get(address)
            if listening is None or not listening[0].is_alive:
                failed(ConnectionRefusedError(f"nothing listens at {address}"))
                return
            there, accept = listening
            if self.is_cut(host, there) or self.is_cut(there, host):
                return
            near, far = SimulatedWire(self, host), SimulatedWire(self, there)
            near.peer, far.peer = far, near
            near.is_client = True
            self._wires[near] = self._wires[far] = None
            far.receiver = accept(far)
            near.receiver = opened(near)

        host.later_us(self.latency_us(), arrive)

    def forget(self, wire: SimulatedWire) -> None:
        """Forget an end that has been closed."""
        self._wires.pop(wire, None)

    # Faults.

    def is_cut(self, sender: Host, receiver: Host) -> bool:
        """Return whether the network from one host to another is cut."""
        return bool(self._cut) and (sender.name, receiver.name) in self._cut

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Cut directions between hosts, each from the first to the second."""
        self._cut.update(pairs)

    def heal(self) -> None:
        """Restore the network between all hosts; each connection sends again what has been waiting, sooner or later."""
        self._cut.clear()
        for wire in list(self._wires):
            wire.resume(self._retransmission_us())
            wire.peer.resume(self._retransmission_us())

    def _retransmission_us(self) -> int:
        chance = self._chance
        return chance.randint(*(_LATE_US if chance.random() < _LATE_SHARE else _LATENCY_US))

    def break_some(self, host: Host, share: float) -> None:
        """Break some of a host's connections."""
        for wire in list(self._wires):
            if wire.host is host and self._chance.random() < share:
                wire.break_off(self._chance)

    def vanish(self, host: Host, *, is_silent: bool) -> None:
        """Cut off a host that has ended.

        Args:
            host: the host that has ended.
            is_silent: whether other hosts notice only after a while, as after a power cut.
        """
        for wire in list(self._wires):
            if wire.host is host:
                wire.vanish(self._chance.randint(*_SILENCE_US) if is_silent else 0)
