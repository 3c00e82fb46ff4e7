"""Hostile clients of listeners with TLS and SASL, for the soak `hostile`: none of them may be let in.

They send damaged messages of every mechanism, messages in the wrong order, oversized and unfinished ones, passwords of
others, noise in place of TLS or on top of it, TLS to a port without it and the reverse, or nothing at all. At the end
of each conversation comes a request; if it is answered, the client has been let in.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.header_start import HEADER_START
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates
from tools.mutation import mutate

__all__ = ["CONVERSATIONS", "SILENT", "TALKERS", "HostileLogins", "login_options", "secrets_in"]

#: The passwords of the users, which may not appear in the broker's log.
PASSWORDS: Final = {"alice": "Alice's own password", "bob": "Bob's own password"}

#: How many clients talk, and how many connect and do not log in.
TALKERS: Final = 12
SILENT: Final = 300

#: How long a conversation may take, and how long a silent client stays.
_TALK_SECONDS: Final = 0.5
_SILENCE_SECONDS: Final = (1.0, 10.0)

#: The largest request during a login, by default.
_RECEIVE_BYTES_MAX: Final = 524_288

#: The correlation id of the last request of each conversation.
_LAST_ID: Final = 0x5AFE5AFE

#: Its version, and the sizes of the first fields of the response.
_LIST_GROUPS_VERSION: Final = 2
_THROTTLE_BYTES: Final = 4
_CODE_BYTES: Final = 2

_LENGTH: Final = struct.Struct(">i")
_VERSIONS: Final = {ApiVersionsRequest: 0, SaslHandshakeRequest: 1, SaslAuthenticateRequest: 2, MetadataRequest: 12}
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "NONE", "")
_PLAINTEXT, _TLS = "SASL_PLAINTEXT", "SASL_SSL"

#: A message of each mechanism; damaged, none of them lets anybody in.
_TOKENS: Final = (
    f"\0alice\0{PASSWORDS['alice']}".encode(),
    b"n,,n=alice,r=nonce",
    b"c=biws,r=noncenonce,p=" + b"A" * 43 + b"=",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.\x01\x01",
)


def login_options(certificates: Certificates) -> dict[str, Any]:
    """Return the options of a broker with listeners for them, after one for clients that need not log in."""
    modules = "org.apache.kafka.common.security"
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    of_mechanisms = {
        "plain": f"{modules}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{modules}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{modules}.scram.ScramLoginModule required;",
        "oauthbearer": (
            f'{modules}.oauthbearer.OAuthBearerLoginModule required unsecuredValidatorRequiredScope="nobody has it";'
        ),
    }
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{_PLAINTEXT}://127.0.0.1:0,{_TLS}://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "sasl.enabled.mechanisms": ",".join(of_mechanisms).upper(),
        "connections.max.reauth.ms": 60_000,
        **{
            f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": module
            for listener in (_PLAINTEXT, _TLS)
            for mechanism, module in of_mechanisms.items()
        },
    }


class HostileLogins:
    """The clients.

    Args:
        addresses: the broker's listeners.
        random: the source of all choices.

    Attributes:
        counts: what they have done.
        let_in: the conversations after which a request was answered.
    """

    def __init__(self, addresses: Mapping[str, Address], random: Random) -> None:
        self._addresses = addresses
        self._random = random
        self._hello = _client_hello()
        self.counts: Counter[str] = Counter()
        self.let_in: list[str] = []

    async def talk(self) -> None:
        """Have one conversation, of a kind chosen at random."""
        name = self._random.choice([*CONVERSATIONS])
        self.counts[name] += 1
        await CONVERSATIONS[name](self)

    async def silence(self) -> None:
        """Connect, perhaps begin, and then say nothing."""
        listener = self._random.choice((_PLAINTEXT, _TLS))
        _, writer = await asyncio.open_connection(*self._addresses[listener])
        try:
            begun = self._hello if listener == _TLS else _frame(SaslHandshakeRequest("PLAIN"))
            writer.write(self._random.choice((b"", begun, begun[: self._random.randrange(len(begun))])))
            self.counts["silent clients"] += 1
            await asyncio.sleep(self._random.uniform(*_SILENCE_SECONDS))
        finally:
            writer.transport.abort()

    # Conversations.

    async def _damaged_tokens(self) -> None:
        token = self._random.choice(_TOKENS)
        damaged = bytes(mutate(self._random, token, token))
        if damaged != token:
            handshake = SaslHandshakeRequest(self._random.choice(_MECHANISMS[:4]))
            await self._say("damaged tokens", _frame(handshake) + _frame(SaslAuthenticateRequest(damaged)))

    async def _any_order(self) -> None:
        """Send the requests of a login in any order, and a wrong password in between."""
        requests: list[Message] = [
            ApiVersionsRequest(),
            *(SaslHandshakeRequest(self._random.choice(_MECHANISMS)) for _ in range(2)),
            *(SaslAuthenticateRequest(self._random.choice((b"", b"\0alice\0wrong", b"\x01"))) for _ in range(2)),
            MetadataRequest(None),
        ]
        self._random.shuffle(requests)
        await self._say("requests in any order", b"".join(map(_frame, requests[: self._random.randint(1, 6)])))

    async def _damaged_requests(self) -> None:
        frames = [_frame(SaslHandshakeRequest("PLAIN")), _frame(SaslAuthenticateRequest(b"\0alice\0wrong"))]
        which = self._random.randrange(len(frames))
        body = frames[which][_LENGTH.size :]
        changed = mutate(self._random, body, body)
        frames[which] = _LENGTH.pack(len(changed)) + changed
        await self._say("damaged requests of a login", b"".join(frames))

    async def _oversized(self) -> None:
        size = self._random.choice((_RECEIVE_BYTES_MAX - 14, _RECEIVE_BYTES_MAX, _RECEIVE_BYTES_MAX + 1, 2**31 - 1, -1))
        header = HEADER_START.pack(ApiKey.SASL_AUTHENTICATE, 1, 2) + b"\0\1x" + _LENGTH.pack(max(size - 15, 0))
        sent = self._random.choice((0, 100, 200_000, _RECEIVE_BYTES_MAX))
        frame = _LENGTH.pack(size) + header + bytes(sent)
        await self._say("oversized tokens", _frame(SaslHandshakeRequest("PLAIN")) + frame)

    async def _half_frames(self) -> None:
        frame = _frame(SaslHandshakeRequest("PLAIN")) + _frame(SaslAuthenticateRequest(_TOKENS[0]))
        await self._say("half a login", frame[: self._random.randrange(len(frame) - 1)], asks=False)

    async def _other_user(self) -> None:
        """Log in, and then log in again as someone else; the connection must be closed."""
        for_bob = SaslAuthenticateRequest(f"\0bob\0{PASSWORDS['bob']}".encode())
        requests = [SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(_TOKENS[0])]
        requests += [SaslHandshakeRequest("PLAIN"), self._random.choice((for_bob, MetadataRequest(None)))]
        await self._say("another user on the same connection", b"".join(map(_frame, requests)))

    async def _wrong_port(self) -> None:
        listener = self._random.choice((_PLAINTEXT, _TLS))
        noise = (self._hello, b"GET / HTTP/1.1\r\n\r\n", self._random.randbytes(300))
        sent = self._random.choice(noise) if listener == _PLAINTEXT else _frame(SaslHandshakeRequest("PLAIN"))
        await self._say("wrong ports", sent, listener)

    async def _damaged_tls(self) -> None:
        hello = self._hello
        damaged = self._random.choice(
            (
                bytes(mutate(self._random, hello, hello)),
                hello + self._random.randbytes(self._random.randint(1, 3_000)),
                hello + hello,
                hello[: self._random.randrange(1, len(hello))],
                hello + b"\x17\x03\x03\xff\xff" + self._random.randbytes(65_535),
                hello + b"\x15\x03\x03\x00\x02\x02\x28",
            )
        )
        await self._say("damaged TLS handshakes", damaged, _TLS, asks=False)

    async def _within_tls(self) -> None:
        """Complete the TLS handshake, and attack the login behind it."""
        reader, writer = await asyncio.open_connection(*self._addresses[_TLS], ssl=_trusting())
        try:
            sent = _frame(SaslHandshakeRequest("PLAIN")) + _frame(SaslAuthenticateRequest(b"\0alice\0wrong"))
            await self._converse("logins within TLS", reader, writer, sent + _last_request())
        finally:
            writer.transport.abort()

    async def _say(self, name: str, data: bytes, listener: str = _PLAINTEXT, *, asks: bool = True) -> None:
        """Connect, and send bytes, and then a request, in pieces of any size."""
        reader, writer = await asyncio.open_connection(*self._addresses[listener])
        try:
            await self._converse(name, reader, writer, data + (_last_request() if asks else b""))
        finally:
            writer.transport.abort()

    async def _converse(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes
    ) -> None:
        cut = self._random.randrange(len(data) + 1)
        for piece in (data[:cut], data[cut:]):
            writer.write(piece)
            await asyncio.sleep(self._random.choice((0, 0, 0.05)))
        received = b""
        with suppress(TimeoutError, ConnectionError):  # a refused client may be told by a reset
            async with asyncio.timeout(_TALK_SECONDS):
                while not _is_let_in(received) and (more := await reader.read(65_536)):
                    received += more
        if _is_let_in(received):
            self.let_in.append(name)


#: The conversations, keyed by what they are about.
CONVERSATIONS: Final[Mapping[str, Callable[[HostileLogins], Awaitable[None]]]] = {
    "damaged tokens": HostileLogins._damaged_tokens,
    "requests of a login in any order": HostileLogins._any_order,
    "damaged requests of a login": HostileLogins._damaged_requests,
    "oversized tokens": HostileLogins._oversized,
    "half a login": HostileLogins._half_frames,
    "another user on the same connection": HostileLogins._other_user,
    "wrong ports": HostileLogins._wrong_port,
    "damaged TLS handshakes": HostileLogins._damaged_tls,
    "logins within TLS": HostileLogins._within_tls,
}


def secrets_in(log: Path) -> list[str]:
    """Return the users whose passwords appear in a log."""
    text = log.read_text("utf-8", "replace")
    return [name for name, password in PASSWORDS.items() if password in text]


def _frame(request: Message) -> bytes:
    return b"".join(ClientConnection("hostile").request(request, _VERSIONS[type(request)]).parts)


def _last_request() -> bytes:
    request = HEADER_START.pack(ApiKey.LIST_GROUPS, _LIST_GROUPS_VERSION, _LAST_ID) + b"\xff\xff"
    return _LENGTH.pack(len(request)) + request


def _is_let_in(received: bytes) -> bool:
    """Return whether the last request was answered without an error, such as ILLEGAL_SASL_STATE."""
    _, found, answer = received.partition(_LAST_ID.to_bytes(4, "big"))
    return bool(found) and not any(answer[_THROTTLE_BYTES : _THROTTLE_BYTES + _CODE_BYTES])


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _client_hello() -> bytes:
    """Return the first message of a TLS handshake."""
    to_send = ssl.MemoryBIO()
    tls = _trusting().wrap_bio(ssl.MemoryBIO(), to_send, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return to_send.read()
