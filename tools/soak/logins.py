"""A thousand slow logins at once: `python -m tools.soak logins [--seconds N] [--connections N] [--kinds KIND,KIND]`.

Clients that do not mean well open connections, and all begin a TLS handshake or a SASL login at the same moment; most
of them never complete it. Meanwhile, another client is served on a TLS connection of its own, and its requests are
timed until each of the thousand has had its first answer. The broker has a certificate of either kind, RSA and ECDSA.

The three parties are processes of their own, and the thousand are the least urgent, as if they ran on another machine.
Still, all of them share the processors with everything else on the machine. So the soak also shows how much processor
time the broker has used while a request waited, and judges it by that: it is the broker's own share of the wait, and
the whole of it if nothing else runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import shutil
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates, Key
from tools.soak.broker_process import BrokerProcess

__all__ = ["KINDS", "main"]

#: The limit for the other client.
P99_MS_MAX = 50.0

CONNECTIONS = 1_000

#: The time between two requests of the other client, and how long it is watched before the logins begin.
PAUSE_SECONDS = 0.002
BEFORE_SECONDS = 2.0

#: How long the logins may take to be answered; the broker itself ends them after 30 seconds.
PATIENCE_SECONDS = 60.0

#: A slow client sends its message in this many pieces, with a pause after each.
_PIECES = 16
_PIECE_PAUSE_SECONDS = 0.05

#: How Linux numbers the CPU clock of a process, like `clock_getcpuclockid`.
_CLOCK_SHIFT, _CLOCK_OF_PROCESS = 3, 2

_METADATA_VERSION = 12
_LENGTH = struct.Struct(">i")
_JAAS = "org.apache.kafka.common.security"

_processes = multiprocessing.get_context("forkserver")


class Kind(NamedTuple):
    """What the thousand do.

    Attributes:
        text: what they do, for the output.
        listener: the listener that they connect to.
        goes_on: whether they complete the TLS handshake.
        message: returns what each of them sends at first.
        pieces: in how many pieces.
    """

    text: str
    listener: str
    message: Callable[[], bytes]
    goes_on: bool = False
    pieces: int = 1


def _hello() -> bytes:
    """Return the first message of a TLS handshake."""
    to_send = ssl.MemoryBIO()
    tls = _trusting().wrap_bio(ssl.MemoryBIO(), to_send, server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return to_send.read()
    raise AssertionError("a handshake needs an answer")


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _sasl(mechanism: str, token: bytes | None = None) -> bytes:
    protocol = ClientConnection("soak")
    parts = [*protocol.request(SaslHandshakeRequest(mechanism), 1).parts]
    if token is not None:
        parts += protocol.request(SaslAuthenticateRequest(token), 2).parts
    return b"".join(parts)


KINDS: Final[Mapping[str, Kind]] = {
    "tls-begun": Kind("begin a TLS handshake, and do not go on", "SSL", _hello),
    "tls-dripping": Kind("begin a TLS handshake, a few bytes at a time", "SSL", _hello, pieces=_PIECES),
    "tls-whole": Kind("complete a TLS handshake, and send nothing", "SSL", _hello, goes_on=True),
    "sasl-begun": Kind("choose a mechanism, and do not go on", "SASL_PLAINTEXT", lambda: _sasl("SCRAM-SHA-256")),
    "sasl-dripping": Kind(
        "choose a mechanism, a few bytes at a time", "SASL_PLAINTEXT", lambda: _sasl("PLAIN"), pieces=_PIECES
    ),
    "sasl-refused": Kind(
        "send a wrong password", "SASL_PLAINTEXT", lambda: _sasl("PLAIN", b"\0alice\0not the password")
    ),
}


class _Stranger:
    """One of the thousand.

    Args:
        address: the listener.
        kind: what it does.
    """

    def __init__(self, address: Address, kind: Kind) -> None:
        self.socket = socket.create_connection(address, PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if kind.goes_on:
            self._tls = _trusting().wrap_bio(self._received, self._to_send, server_hostname="localhost")
            self._go_on(self._tls)
            message = self._to_send.read()
        else:
            message = kind.message()
        size = -(-len(message) // kind.pieces)
        self.pieces = [message[start : start + size] for start in range(0, len(message), size)]

    def is_answered(self) -> bool:
        """Take what has arrived; return whether nothing else is needed."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionAbortedError("the broker has closed the connection without an answer")
        if self._tls is None:
            return True
        self._received.write(data)
        is_complete = self._go_on(self._tls)
        self.socket.sendall(self._to_send.read())
        return is_complete

    @staticmethod
    def _go_on(tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True


def _strangers(address: Address, kind_name: str, count: int, told: Connection) -> None:
    """Be the thousand: connect, wait for a word, begin the logins, and tell when all have been answered."""
    os.nice(19)
    kind = KINDS[kind_name]
    strangers = [_Stranger(address, kind) for _ in range(count)]
    told.send("connected")
    told.recv()
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number in range(max(len(each.pieces) for each in strangers)):
        if number:
            time.sleep(_PIECE_PAUSE_SECONDS)
        for each in strangers:
            for piece in each.pieces[number : number + 1]:
                each.socket.sendall(piece)
    with selectors.DefaultSelector() as selector:
        for each in strangers:
            selector.register(each.socket, selectors.EVENT_READ, each)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(0.1):
                if key.data.is_answered():
                    selector.unregister(key.fileobj)
        told.send(len(selector.get_map()))
    told.recv()


class _Wait(NamedTuple):
    """How long a request took, and how much of that the broker has worked."""

    ms: float
    broker_ms: float


class _Other:
    """The client that is served meanwhile.

    Args:
        broker: the broker.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self._clock = ~broker.pid << _CLOCK_SHIFT | _CLOCK_OF_PROCESS
        address = broker.addresses["SSL"]
        connected = socket.create_connection(address, PATIENCE_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = _trusting().wrap_socket(connected)
        self._protocol = ClientConnection("other")

    def ask(self) -> _Wait:
        """Send a request, and wait for the response."""
        begun, used = time.perf_counter(), time.clock_gettime(self._clock)
        self._socket.sendall(b"".join(self._protocol.request(MetadataRequest([]), _METADATA_VERSION).parts))
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        response = self._protocol.receive(self._exactly(size)).message
        assert isinstance(response, MetadataResponse)
        return _Wait((time.perf_counter() - begun) * 1_000, (time.clock_gettime(self._clock) - used) * 1_000)

    def waits(self, is_over: Callable[[], bool]) -> Iterator[_Wait]:
        """Send requests until a time that the caller knows; yield how long each took."""
        while not is_over():
            yield self.ask()
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


class _Found(NamedTuple):
    """What a round has found: how long requests took before the logins and during them, and how long these took."""

    before: list[_Wait]
    meanwhile: list[_Wait]
    seconds: float
    unanswered: int


def _round(broker: BrokerProcess, kind_name: str, count: int) -> _Found:
    ours, theirs = _processes.Pipe()
    arguments = (broker.addresses[KINDS[kind_name].listener], kind_name, count, theirs)
    strangers = _processes.Process(target=_strangers, args=arguments, daemon=True)
    other = _Other(broker)  # comes first, since a listener has a limit on handshakes in progress
    strangers.start()
    theirs.close()
    try:
        assert ours.recv() == "connected"
        until = time.monotonic() + BEFORE_SECONDS
        before = list(other.waits(lambda: time.monotonic() >= until))
        begun = time.monotonic()
        ours.send("begin")
        meanwhile = list(other.waits(ours.poll))  # also if the strangers have ended
        return _Found(before, meanwhile, time.monotonic() - begun, ours.recv())
    finally:
        other.close()
        strangers.kill()
        strangers.join()


def _options(certificates: Certificates) -> dict[str, Any]:
    return {
        "listeners": "SSL://localhost:0,SASL_PLAINTEXT://localhost:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{_JAAS}.plain.PlainLoginModule required user_alice="the password";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    }


def _shown(waits_ms: list[float]) -> str:
    return (
        f"median {_percentile(waits_ms, 0.5):.1f}, p99 {_percentile(waits_ms, 0.99):.1f}, longest {max(waits_ms):.0f}"
    )


def _percentile(waits_ms: list[float], share: float) -> float:
    return sorted(waits_ms)[int(len(waits_ms) * share)]


def _judged(key: Key, kind_name: str, rounds: list[_Found]) -> bool:
    """Print what was found; return whether the promise was kept."""
    before = [wait for found in rounds for wait in found.before]
    meanwhile = [wait for found in rounds for wait in found.meanwhile]
    unanswered = sum(found.unanswered for found in rounds)
    seconds = max(found.seconds for found in rounds)
    own_ms = [wait.broker_ms for wait in meanwhile]
    print(
        f"logins: {key.value}, {kind_name}: {len(meanwhile):,} requests of the other client within {seconds:.1f} s\n"
        f"    ms: {_shown([wait.ms for wait in meanwhile])}; before: {_shown([wait.ms for wait in before])}\n"
        f"    of which the broker worked: {_shown(own_ms)}; {unanswered} logins unanswered",
        flush=True,
    )
    return _percentile(own_ms, 0.99) <= P99_MS_MAX and not unanswered


def main(arguments: list[str]) -> int:
    """Do rounds, print the results, and return the exit status, which is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak logins")
    parser.add_argument("--seconds", type=float, default=120, help="for all kinds together; each has a round at least")
    parser.add_argument("--seed", type=int, help="not used, since nothing is left to chance")
    parser.add_argument("--bootstrap", help="not supported, since this soak starts its own broker")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    given = parser.parse_args(arguments)
    kinds = given.kinds.split(",")
    share_seconds = given.seconds / len(kinds) / len(Key)
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"logins: {given.connections:,} at once, {os.cpu_count()} processors, load {load} (1, 5, 15 minutes)")
    is_good = True
    for key in Key:
        folder = Path(tempfile.mkdtemp(prefix="kafkawire-logins-"))
        try:
            options = _options(Certificates(folder, key))
            with BrokerProcess(None, log=folder / "log", **options) as broker:
                for kind_name in kinds:
                    until = time.monotonic() + share_seconds
                    rounds = [_round(broker, kind_name, given.connections)]
                    while time.monotonic() < until:
                        rounds.append(_round(broker, kind_name, given.connections))
                    is_good &= _judged(key, kind_name, rounds)
                log = (folder / "log").read_text()
                is_good &= "Traceback" not in log and broker.stop() == 0
        finally:
            shutil.rmtree(folder)
    return 0 if is_good else 1
