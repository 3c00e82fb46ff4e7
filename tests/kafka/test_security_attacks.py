"""Attacks on a login have the same outcome on Apache Kafka and on the reference broker, and neither tells a secret.

Method: play every attack of a table on both secured brokers, as bytes, and compare the outcomes; no password may be in
anything that the brokers send, nor in our log at DEBUG. Then take away what clients who are connected have: their
rights, their users, their tokens.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import ssl
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kafkawire import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from kafkawire.sdk.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.certificates import Certificates
from tests.kafka.cleaning import until
from tests.kafka.raw_connection import CLOSED, Messages, RawConnection, bearer, plain, scram
from tests.kafka.secure import PASSWORDS, unsecured_token
from tests.kafka.secure_pair import SecurePair
from tests.kafka.security_scene import SecurityScene
from tests.reference_broker.apis.authorization_cases import ANSWERS, CASES, answers

pytestmark = pytest.mark.timeout(300)

WRONG = "wrong-secret"

#: The default of `sasl.server.max.receive.size`.
RECEIVE_BYTES_MAX = 524_288

#: How long a login with one of the mechanisms lasts, and how long credentials that expire are valid.
SESSION_MS = 60_000
LIFETIME_MS = 3_000

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED

_METADATA = MetadataRequest([])
_METADATA_VERSION = 12


@pytest.fixture(scope="module")
def pair(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecurePair]:
    limited = {"listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS)}
    with SecurePair(certificates, tmp_path_factory.mktemp("realm"), limited) as pair:
        yield pair


class Attacker:
    """Attacks one of the brokers.

    Args:
        pair: both brokers.
        scene: the one that is attacked.
    """

    def __init__(self, pair: SecurePair, scene: SecurityScene) -> None:
        self.pair = pair
        self.scene = scene
        self._stack = contextlib.ExitStack()
        self._connections: list[RawConnection] = []

    def connect(self, protocol: str = "SASL_PLAINTEXT", tls: ssl.SSLContext | None = None) -> RawConnection:
        """Return a connection to a listener; with TLS if that is given."""
        connection = RawConnection(self.scene.server.addresses[protocol], tls)
        self._connections.append(self._stack.enter_context(connection))
        return connection

    def tls(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        """Return the context of a well-behaved client."""
        return self.pair.tls(with_certificate=with_certificate)

    @property
    def received(self) -> bytes:
        """Everything that the broker has sent."""
        return b"".join(bytes(each.received) for each in self._connections)

    def close(self) -> None:
        """Close all connections."""
        self._stack.close()


Attack = Callable[[Attacker], list[Any]]


def login(mechanism: str, messages: Callable[[], Messages]) -> Attack:
    """Log in with something wrong, and check whether the connection can be used afterwards."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect()
        found = connection.log_in(mechanism, messages())
        return [*found, connection.state()]

    return attack


def token(data: bytes, version: int = 2) -> tuple[Message, int]:
    return SaslAuthenticateRequest(data), version


def shake(mechanism: str = "PLAIN", version: int = 1) -> tuple[Message, int]:
    return SaslHandshakeRequest(mechanism), version


def right() -> bytes:
    return next(plain("alice"))


def wrong() -> bytes:
    return next(plain("alice", WRONG))


def at_once(*requests: tuple[Message, int]) -> Attack:
    """Send requests with one write, and return what is answered."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect()
        connection.send(b"".join(connection.encoded(*request) for request in requests))
        found: list[Any] = []
        for _ in requests:
            response = connection.response()
            if response is None:
                return [*found, CLOSED]
            found.append(getattr(response, "error_code", "answered"))
        return [*found, connection.state()]

    return attack


def frame(size_bytes: int, content: bytes | None = None, *, after: tuple[Message, int] | None = None) -> Attack:
    """Announce a frame, and send as much of it as is given."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect()
        if after is not None:
            assert connection.ask(*after) is not None
        connection.send(size_bytes.to_bytes(4, "big", signed=True) + (content or b""))
        return [connection.state(1.0)]

    return attack


def sized_token(size_bytes: int) -> Attack:
    """Send SaslAuthenticate in a frame of a size."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect()
        connection.ask(*shake())
        header = len(RawConnection.encoding(*token(b"", 1))) - 4
        answer = connection.ask(*token(bytes(size_bytes - header), 1))
        return [CLOSED] if answer is None else [answer.error_code, connection.state()]

    return attack


def half(data: bytes, protocol: str = "SASL_PLAINTEXT", after: tuple[Message, int] | None = None) -> Attack:
    """Send a part of something, wait, and then end the sending direction."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect(protocol)
        if after is not None:
            assert connection.ask(*after) is not None
        connection.send(data)
        before = connection.state()
        connection.finish_sending()
        return [before, connection.state(5.0)]

    return attack


def raw(data: bytes, protocol: str, *, hello: bool = False) -> Attack:
    """Send bytes to a listener, after the first message of TLS if so wished."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect(protocol)
        if hello:
            connection.send(client_hello())
            assert connection.state(10.0) == "answered"
        connection.send(data)
        return [connection.ended()]

    return attack


def client_hello() -> bytes:
    to_send = ssl.MemoryBIO()
    context = ssl.create_default_context()
    tls = context.wrap_bio(ssl.MemoryBIO(), to_send, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return to_send.read()


def with_tls(
    change: Callable[[Attacker, ssl.SSLContext], None], protocol: str = "SASL_SSL", request: Message = _METADATA
) -> Attack:
    """Connect with a context that differs from a well-behaved client's, and send a request."""

    def attack(attacker: Attacker) -> list[Any]:
        context = attacker.tls()
        change(attacker, context)
        try:
            connection = attacker.connect(protocol, context)
        except OSError:
            return ["no handshake"]
        version = 1 if isinstance(request, SaslHandshakeRequest) else _METADATA_VERSION
        answer = connection.ask(request, version)
        return [CLOSED if answer is None else getattr(answer, "error_code", "answered")]

    return attack


def only(version: ssl.TLSVersion) -> Callable[[Attacker, ssl.SSLContext], None]:
    def change(attacker: Attacker, context: ssl.SSLContext) -> None:
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the point is that the version is old
            context.minimum_version = context.maximum_version = version

    return change


def without_encryption(attacker: Attacker, context: ssl.SSLContext) -> None:
    only(ssl.TLSVersion.TLSv1_2)(attacker, context)
    context.set_ciphers("NULL:@SECLEVEL=0")


def certified(attacker: Attacker, context: ssl.SSLContext) -> None:
    context.load_cert_chain(attacker.pair.certificates.client)


def certified_by_a_stranger(attacker: Attacker, context: ssl.SSLContext) -> None:
    context.load_cert_chain(attacker.pair.certificates.stranger)


def nothing(attacker: Attacker, context: ssl.SSLContext) -> None:
    """Change nothing."""


def garbage_inside_tls(attacker: Attacker) -> list[Any]:
    """Complete the handshake, and then send bytes that are not TLS on the socket below."""
    connection = attacker.connect("SASL_SSL", attacker.tls())
    connection.send_below(b"\x17\x03\x03\x00\x20" + bytes(32))
    return [connection.ended()]


def drip(attacker: Attacker) -> list[Any]:
    """Log in a byte at a time, which is slow but right."""
    connection = attacker.connect()
    found: list[Any] = []
    for request in (shake(), token(right())):
        for byte in connection.encoded(*request):
            connection.send(bytes([byte]))
        found.append(connection.response().error_code)
    return [*found, connection.state()]


def token_of(pick: Callable[[str, str], tuple[str, str, bool]]) -> Attack:
    """Log in with a part of a delegation token that is right."""

    def attack(attacker: Attacker) -> list[Any]:
        user, password, is_token = pick(*attacker.pair.new_token(attacker.scene))
        return login("SCRAM-SHA-256", partial(scram, "SCRAM-SHA-256", user, password, is_token=is_token))(attacker)

    return attack


def again(*steps: tuple[str, Callable[[], Messages]] | tuple[Message, int]) -> Attack:
    """Log in where sessions expire, and then take further steps: another login, or a request."""

    def attack(attacker: Attacker) -> list[Any]:
        connection = attacker.connect("SASL_SSL", attacker.tls())
        found = connection.log_in("SCRAM-SHA-512", scram("SCRAM-SHA-512", "alice"))
        for first, second in steps:
            if isinstance(first, str):
                assert callable(second)
                found += connection.log_in(first, second())
            else:
                assert isinstance(second, int)
                answer = connection.ask(first, second)
                found.append(CLOSED if answer is None else getattr(answer, "error_code", "answered"))
        return [*found, connection.state()]

    return attack


def gs2(header: str) -> Messages:
    yield f"{header}n=alice,r=nonce".encode()


ATTACKS: dict[str, Attack] = {
    # Wrong secrets.
    "PLAIN: wrong password": login("PLAIN", partial(plain, "alice", WRONG)),
    "PLAIN: unknown user": login("PLAIN", partial(plain, "nobody", WRONG)),
    "PLAIN: password of another user": login("PLAIN", partial(plain, "alice", PASSWORDS["admin"])),
    "SCRAM-SHA-256: wrong password": login("SCRAM-SHA-256", partial(scram, "SCRAM-SHA-256", "alice", WRONG)),
    "SCRAM-SHA-256: unknown user": login("SCRAM-SHA-256", partial(scram, "SCRAM-SHA-256", "nobody", WRONG)),
    "SCRAM-SHA-512: wrong password": login("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "alice", WRONG)),
    "SCRAM-SHA-512: unknown user": login("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "nobody", WRONG)),
    "OAUTHBEARER: expired token": login("OAUTHBEARER", lambda: bearer(unsecured_token("alice", -1))),
    "OAUTHBEARER: no token": login("OAUTHBEARER", partial(bearer, "wrong-secret")),
    "token: wrong key": token_of(lambda token_id, key: (token_id, WRONG, True)),
    "token: without the extension": token_of(lambda token_id, key: (token_id, key, False)),
    "token: unknown id": token_of(lambda token_id, key: (token_id[::-1], key, True)),
    "token: a user as a token": token_of(lambda token_id, key: ("alice", PASSWORDS["alice"], True)),
    # Downgrades.
    "mechanism: not offered": at_once(shake("SCRAM-SHA-1")),
    "mechanism: anonymous": at_once(shake("ANONYMOUS")),
    "mechanism: of the certificate": at_once(shake("EXTERNAL")),
    "mechanism: other tokens than chosen": login("SCRAM-SHA-512", partial(plain, "alice")),
    "mechanism: without a handshake": at_once(token(right())),
    "SCRAM: channel binding": login("SCRAM-SHA-256", partial(gs2, "p=tls-unique,,")),
    "SCRAM: channel binding is possible": login("SCRAM-SHA-256", partial(gs2, "y,,")),
    "TLS 1.0": with_tls(only(ssl.TLSVersion.TLSv1)),
    "TLS 1.1": with_tls(only(ssl.TLSVersion.TLSv1_1)),
    "TLS 1.2": with_tls(only(ssl.TLSVersion.TLSv1_2), request=SaslHandshakeRequest("PLAIN")),
    "TLS 1.2 without encryption": with_tls(without_encryption),
    "TLS 1.3": with_tls(only(ssl.TLSVersion.TLSv1_3), request=SaslHandshakeRequest("PLAIN")),
    # Another login on the same connection.
    "again: the same user": again(("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "alice"))),
    "again: another user": again(("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "admin"))),
    "again: a wrong password": again(("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "alice", WRONG))),
    "again: an unknown user": again(("SCRAM-SHA-512", partial(scram, "SCRAM-SHA-512", "nobody", WRONG))),
    "again: another mechanism": again(("PLAIN", partial(plain, "alice"))),
    "again: a mechanism that is not offered": again(("SCRAM-SHA-1", partial(plain, "alice"))),
    "again: a request instead of the password": again(shake("SCRAM-SHA-512"), (_METADATA, _METADATA_VERSION)),
    "again: only the password": again(token(right())),
    "again: nothing more": again(shake("SCRAM-SHA-512")),
    # Certificates.
    "certificate: none": with_tls(nothing, "SSL"),
    "certificate: of a stranger": with_tls(certified_by_a_stranger, "SSL"),
    "certificate: right": with_tls(certified, "SSL"),
    "certificate: right, and a login": with_tls(certified, "SSL", SaslHandshakeRequest("PLAIN")),
    "certificate: instead of a login": with_tls(certified, "SASL_SSL"),
    # Several requests with one write.
    "at once: a login and a request": at_once(shake(), token(right()), (_METADATA, _METADATA_VERSION)),
    "at once: wrong password, right password": at_once(shake(), token(wrong()), token(right())),
    "at once: wrong password, a request": at_once(shake(), token(wrong()), (_METADATA, _METADATA_VERSION)),
    "at once: a request before the password": at_once(shake(), (_METADATA, _METADATA_VERSION), token(right())),
    "at once: a request before everything": at_once((_METADATA, _METADATA_VERSION), shake(), token(right())),
    "at once: two mechanisms": at_once(shake(), shake("SCRAM-SHA-256"), token(right())),
    "at once: two passwords": at_once(shake(), token(right()), token(right())),
    # Sizes.
    "size: the largest token": sized_token(RECEIVE_BYTES_MAX),
    "size: a larger token": sized_token(RECEIVE_BYTES_MAX + 1),
    "size: negative": frame(-1),
    "size: negative, during the login": frame(-1, after=shake()),
    "size: nothing": frame(0),
    "size: nothing, during the login": frame(0, after=shake()),
    "size: the most that can be announced": frame(2**31 - 1),
    "size: the most that can be announced, during the login": frame(2**31 - 1, after=shake()),
    "size: announced": frame(RECEIVE_BYTES_MAX),
    "size: announced, during the login": frame(RECEIVE_BYTES_MAX, after=shake()),
    # Half-open logins.
    "half: nothing": half(b""),
    "half: part of a size": half(b"\0\0"),
    "half: a size": half(b"\0\0\1\0"),
    "half: part of a request": half(b"\0\0\1\0\0\x11\0\1"),
    "half: after the handshake": half(b"", after=shake()),
    "half: part of a token": half(b"\0\0\1\0\0\x24\0\2", after=shake()),
    "half: nothing with TLS": half(b"", "SASL_SSL"),
    "half: part of the first message of TLS": half(client_hello()[:40], "SASL_SSL"),
    "slow, but right": drip,
    # The wrong port, and garbage.
    "TLS without TLS": raw(client_hello(), "SASL_PLAINTEXT"),
    "no TLS with TLS": raw(b"\0\0\0\x12\0\x11\0\1\0\0\0\0\xff\xff\0\5PLAIN", "SASL_SSL"),
    "HTTP": raw(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "SASL_PLAINTEXT"),
    "HTTP with TLS": raw(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "SASL_SSL"),
    "SSH": raw(b"SSH-2.0-OpenSSH_9.6\r\n", "SASL_PLAINTEXT"),
    "TLS: garbage after the first message": raw(b"\xff" * 300, "SASL_SSL", hello=True),
    "TLS: the first message twice": raw(client_hello(), "SASL_SSL", hello=True),
    "TLS: an oversized record": raw(b"\x16\x03\x03\xff\xff" + bytes(65_535), "SASL_SSL", hello=True),
    "TLS: a damaged record": raw(b"\x17\x03\x03\x00\x20" + bytes(32), "SASL_SSL", hello=True),
    "TLS: an alert": raw(b"\x15\x03\x03\x00\x02\x02\x28", "SASL_SSL", hello=True),
    "TLS: a damaged record after the handshake": garbage_inside_tls,
}  # fmt: skip


#: What is no attack, so that the others are known to fail for a reason of their own.
HARMLESS = {
    "again: nothing more",
    "again: only the password",
    "again: the same user",
    "TLS 1.2",
    "TLS 1.3",
    "at once: a login and a request",
    "at once: two passwords",
    "certificate: right",
    "certificate: right, and a login",
    "size: announced",
    "size: announced, during the login",
    "slow, but right",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(pair: SecurePair, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = []
    for scene in pair.scenes:
        attacker = Attacker(pair, scene)
        try:
            found.append(ATTACKS[name](attacker))
        finally:
            attacker.close()
        for secret in (*PASSWORDS.values(), WRONG):
            assert secret.encode() not in attacker.received
            assert secret not in caplog.text
    theirs, ours = found
    assert ours == theirs
    assert (ours[-1] in (CLOSED, "no handshake")) is (name not in HARMLESS)


# What clients lose while they are connected.

#: Requests that a client goes on sending, and all rights that they need.
GOING_ON = [
    case
    for case in CASES
    if case.name
    in {
        "Produce v12 by name", "Fetch v12 by name", "Fetch v18 by id", "ListOffsets v11", "Metadata v13 of a topic",
        "FindCoordinator v6 of several groups", "JoinGroup v9", "OffsetCommit v9 by name", "OffsetFetch v9 of groups",
        "InitProducerId v5 in transactions", "EndTxn v5", "CreateAcls v3", "DescribeQuorum v2", "ShareFetch v2",
    }
]  # fmt: skip
RIGHTS = {right for case in GOING_ON for right in case.rights}


def test_rights_are_taken_away(pair: SecurePair) -> None:
    """Each request on an open connection is checked against the new rights once the broker has learned of them."""
    for scene in pair.scenes:
        with scene.alice() as connection:
            for rights, expected in ((RIGHTS, "allowed"), ((), "denied"), (RIGHTS, "allowed")):
                scene.give_only(rights)
                for case in GOING_ON:
                    response = connection.ask(case.request(scene.facts), case.version)
                    assert answers(response, case.version) == ANSWERS[case.name][expected], case.name


def test_a_user_is_deleted_and_comes_back_with_another_password(pair: SecurePair) -> None:
    found = [deleted_and_added(scene) for scene in pair.scenes]
    assert found[1] == found[0]
    refused, was_open, wrong_password, right_password, is_open = found[0]
    assert (refused[-1][0], wrong_password[-1][0], right_password) == (FAILED, FAILED, ["challenge", "challenge"])
    assert (was_open, is_open) == (True, True)


def deleted_and_added(scene: SecurityScene) -> list[Any]:
    """Return the outcomes of logins, and whether a connection stays open, while Alice's credential changes."""
    mechanism, other = ScramMechanism.SCRAM_SHA_256, "other-secret"
    found: list[Any] = []
    with open_session(scene, "SCRAM-SHA-256") as connection:
        change_user(scene, UserScramCredentialDeletion("alice", mechanism))
        found += [logged_in(scene), is_answered(connection)]
        change_user(scene, UserScramCredentialUpsertion("alice", mechanism, other), other)
        found += [logged_in(scene), logged_in(scene, other), is_answered(connection)]
    change_user(scene, UserScramCredentialUpsertion("alice", mechanism, PASSWORDS["alice"]), PASSWORDS["alice"])
    return found


def test_a_user_is_deleted_and_must_log_in_again(pair: SecurePair) -> None:
    """The session of this listener and mechanism has an end, so the client logs in again on its connection."""
    mechanism = ScramMechanism.SCRAM_SHA_512
    found: list[list[Any]] = []
    for scene in pair.scenes:
        with open_session(scene, "SCRAM-SHA-512", tls=pair.tls()) as connection:
            assert 0 < connection.session_ms <= SESSION_MS
            change_user(scene, UserScramCredentialDeletion("alice", mechanism))
            outcomes = connection.log_in("SCRAM-SHA-512", scram("SCRAM-SHA-512", "alice"))
            found.append([*outcomes, connection.ended()])
        change_user(scene, UserScramCredentialUpsertion("alice", mechanism, PASSWORDS["alice"]), PASSWORDS["alice"])
    assert found[1] == found[0]
    (code, text), ended = found[0]
    assert (code, ended) == (FAILED, CLOSED)
    assert "during re-authentication" in text


def test_a_token_is_withdrawn(pair: SecurePair) -> None:
    """A client that is logged in with the token stays connected; no other client can log in with it."""
    found = [withdrawn(pair, scene) for scene in pair.scenes]
    assert found[1] == found[0]
    refused, is_open = found[0]
    assert (refused[-1][0], is_open) == (FAILED, True)


def withdrawn(pair: SecurePair, scene: SecurityScene) -> list[Any]:
    """Return the outcome of a login with a withdrawn token, and whether an earlier connection is open."""
    token_id, key = pair.new_token(scene)
    messages = token_messages(token_id, key)

    def outcome() -> list[Any]:
        with RawConnection(scene.server.addresses["SASL_PLAINTEXT"]) as connection:
            return connection.log_in("SCRAM-SHA-256", messages())

    with open_session(scene, "SCRAM-SHA-256", messages) as connection:
        with scene.alice() as owner:
            response = owner.ask(ExpireDelegationTokenRequest(base64.b64decode(key), -1), 2)
            assert not response.error_code
        until(lambda: len(outcome()) == 1, "the broker has forgotten the token")
        return [outcome(), is_answered(connection)]


@pytest.mark.parametrize("kind", ["token", "OAUTHBEARER"])
def test_credentials_expire_while_connected(pair: SecurePair, kind: str) -> None:
    """The first request after the credentials expire closes the connection, and they cannot be used for another one."""
    found = [expired(pair, scene, kind) for scene in pair.scenes]
    assert found[1] == found[0]
    assert found[0][-1] is False


def expired(pair: SecurePair, scene: SecurityScene, kind: str) -> list[Any]:
    """Return the outcome of a login with credentials that have expired, and whether a request is answered then."""
    mechanism, messages = kind, partial(bearer, unsecured_token("alice", LIFETIME_MS // 1_000))
    if kind == "token":
        mechanism, messages = "SCRAM-SHA-256", token_messages(*pair.new_token(scene, LIFETIME_MS))
    with open_session(scene, mechanism, messages) as connection:
        assert 0 < connection.session_ms <= LIFETIME_MS
        assert is_answered(connection)
        until(lambda: not is_answered(connection), "the session has ended")
    with RawConnection(scene.server.addresses["SASL_PLAINTEXT"]) as other:
        outcome = other.log_in(mechanism, messages())
        # A client that is let in has a session without any time, which ends with a request of a later millisecond.
        until(lambda: not is_answered(other), "the session has ended")
        return [*outcome, is_answered(other)]


def token_messages(token_id: str, key: str) -> Callable[[], Messages]:
    return partial(scram, "SCRAM-SHA-256", token_id, key, is_token=True)


@contextlib.contextmanager
def open_session(
    scene: SecurityScene,
    mechanism: str,
    messages: Callable[[], Messages] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[RawConnection]:
    """Yield a connection on which Alice has logged in, with her password unless there are other messages."""
    with RawConnection(scene.server.addresses["SASL_PLAINTEXT" if tls is None else "SASL_SSL"], tls) as connection:
        found = connection.log_in(mechanism, scram(mechanism, "alice") if messages is None else messages())
        assert all(each in ("", "challenge") for each in found), found
        yield connection


def is_answered(connection: RawConnection) -> bool:
    return connection.ask(_METADATA, _METADATA_VERSION) is not None


def logged_in(scene: SecurityScene, password: str | None = None, mechanism: str = "SCRAM-SHA-256") -> list[Any]:
    """Return the outcome of a login of Alice."""
    with RawConnection(scene.server.addresses["SASL_PLAINTEXT"]) as connection:
        return connection.log_in(mechanism, scram(mechanism, "alice", password))


def change_user(
    scene: SecurityScene,
    change: UserScramCredentialDeletion | UserScramCredentialUpsertion,
    password: str | None = None,
) -> None:
    """Change or delete a credential of Alice, and wait until the broker has learned of the change."""
    scene.admin.alter_user_scram_credentials(change).all()
    mechanism = change.mechanism.name.replace("_", "-")
    expected = ["challenge", "challenge"] if password is not None else None

    def is_known() -> bool:
        outcome = logged_in(scene, password, mechanism)
        return outcome == expected if expected else len(outcome) == 1

    until(is_known, "the broker has heard of the change")
