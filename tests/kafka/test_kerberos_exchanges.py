"""A login with Kerberos has the same outcome in Apache Kafka and in this broker, message by message.

Method: start a realm of MIT Kerberos and one node that logs in to it; send the same client messages, right and wrong
ones, to the node and to this broker's mechanism. A token with bytes after its end, which MIT's library refuses and
Java's ignores, is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted, LoginRefused
from kafkawire.reference_broker.security.sasl.mechanisms import Mechanism, new_exchange
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.kafka.apache import ApacheKafka
from tests.kafka.sasl_connection import SaslConnection
from tests.needs import KERBEROS
from tests.ports import free_port
from tests.reference_broker.security.sasl.exchange_cases import CLOSED
from tests.reference_broker.security.sasl.kerberos_realm import REALM, KerberosRealm

gssapi = pytest.importorskip("gssapi")

#: Yields the messages of a client, and gets the challenges.
Messages = Generator[bytes, bytes, None]

_CHOICE = bytes([1, 0, 0, 0])


class NoUsers:
    """Has no users."""

    def scram_credential(self, mechanism: str, username: str) -> None:
        return None


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    KERBEROS.require()
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as patch:
        for principal in ("alice", "kafka/localhost", "kafka/elsewhere"):
            realm.add(principal)
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}")
        name = gssapi.Name(f"alice@{REALM}", name_type=gssapi.NameType.kerberos_principal)
        store = {"client_keytab": str(realm.keytab), "ccache": os.environ["KRB5CCNAME"]}
        assert gssapi.Credentials(name=name, usage="initiate", store=store).lifetime > 0  # which gets a ticket
        yield realm


@pytest.fixture(scope="module")
def settings(realm: KerberosRealm) -> dict[str, str]:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    return {"sasl.jaas.config": f'{module} keyTab="{realm.keytab}" principal="kafka/localhost@{REALM}";'}


@pytest.fixture(scope="module")
def node(settings: dict[str, str]) -> Iterator[str]:
    """Return the address of the node."""
    address = f"localhost:{free_port()}"
    own = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        **{f"listener.name.login.gssapi.{name}": value for name, value in settings.items()},
    }
    with ApacheKafka(settings=own, listeners={"LOGIN": address}):
        yield address


def initiator(service: str = "kafka@localhost") -> Any:
    name = gssapi.Name(service, name_type=gssapi.NameType.hostbased_service)
    return gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos)


def offered(context: Any) -> Generator[bytes, bytes, None]:
    """Go on until the broker has offered its security layers."""
    challenge = yield context.step()
    while not context.complete:
        context.step(challenge)
        challenge = yield b""
    assert context.unwrap(challenge).message == b"\x01\x01\x00\x00"


def choosing(choice: bytes, *, encrypts: bool = False, signs: bool = True) -> Messages:
    context = initiator()
    yield from offered(context)
    yield context.wrap(choice, encrypts).message if signs else choice


def sending(*messages: bytes) -> Messages:
    for message in messages:
        _ = yield message  # the answer makes no difference


def changed(change: Callable[[bytes], bytes]) -> Messages:
    yield change(initiator().step())


def answering(message: bytes) -> Messages:
    """Send something in place of the acknowledgement of the last token."""
    yield initiator().step()
    yield message


CASES: dict[str, Callable[[], Messages]] = {
    "right": lambda: choosing(_CHOICE + f"alice@{REALM}".encode()),
    "without an authorization id": lambda: choosing(_CHOICE),
    "another authorization id": lambda: choosing(_CHOICE + b"bob"),
    "an encrypted choice": lambda: choosing(_CHOICE, encrypts=True),
    "a choice that is not signed": lambda: choosing(_CHOICE, signs=False),
    "a choice of integrity": lambda: choosing(b"\x02\x00\x00\x00"),
    "a choice of privacy": lambda: choosing(b"\x04\x00\x00\x00"),
    "a choice of several": lambda: choosing(b"\x07\x00\x10\x00"),
    "a choice of nothing": lambda: choosing(b"\x00\x00\x00\x00"),
    "a short choice": lambda: choosing(b"\x01"),
    "an empty choice": lambda: choosing(b""),
    "nothing": lambda: sending(b""),
    "noise": lambda: sending(b"noise"),
    "a message of PLAIN": lambda: sending(b"\0alice\0alice-secret"),
    "a cut token": lambda: changed(lambda token: token[:-1]),
    "a damaged token": lambda: changed(lambda token: token[:200] + bytes([token[200] ^ 1]) + token[201:]),
    "a ticket for another service": lambda: sending(initiator("kafka@elsewhere").step()),
    "noise in place of an acknowledgement": lambda: answering(b"noise"),
    "the token again": lambda: answering(initiator().step()),
}


def outcomes(messages: Messages, send: Callable[[bytes], bytes | list[Any] | str]) -> list[Any]:
    """Return the outcome of each message: whether a challenge has content, an error, or that the connection ended."""
    found: list[Any] = []
    message = next(messages)
    while True:
        answer = send(message)
        if not isinstance(answer, bytes):
            return [*found, answer]
        found.append("challenge" if answer else "")
        try:
            message = messages.send(answer)
        except StopIteration:
            return found


def ours(mechanism: Mechanism) -> Callable[[bytes], bytes | list[Any] | str]:
    exchange = mechanism()

    def send(message: bytes) -> bytes | list[Any] | str:
        try:
            return exchange.respond(message, 0)
        except LoginAborted:
            return CLOSED
        except LoginRefused as error:
            return [ErrorCode.SASL_AUTHENTICATION_FAILED.value, error.detail]

    return send


def test_every_case(node: str, settings: dict[str, str]) -> None:
    mechanism = new_exchange("GSSAPI", settings, NoUsers(), None)
    kafkas, own = {}, {}
    for name, messages in CASES.items():
        with SaslConnection(node, "GSSAPI") as connection:
            kafkas[name] = outcomes(messages(), connection.send)
        own[name] = outcomes(messages(), ours(mechanism))
    assert own == kafkas
    assert kafkas["right"] == ["challenge", "challenge", ""]


def test_a_replay(node: str, settings: dict[str, str]) -> None:
    token = initiator().step()
    mechanism = new_exchange("GSSAPI", settings, NoUsers(), None)
    kafkas: list[Any] = []
    own: list[Any] = []
    for _ in range(2):
        with SaslConnection(node, "GSSAPI") as connection:
            kafkas = outcomes(sending(token), connection.send)
        own = outcomes(sending(token), ours(mechanism))
    assert own == kafkas != ["challenge"]
