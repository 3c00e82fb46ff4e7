"""Both secured brokers with the same settings, next to each other, and every way to log in to them.

Clients log in as Alice, or with a certificate as "client". With the programs of MIT Kerberos and the package gssapi,
there is a realm, too.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tests.certificates import Certificates
from tests.kafka.cleaning import until
from tests.kafka.raw_connection import CLOSED, Messages, RawConnection, bearer, plain, scram
from tests.kafka.secure import SecureBroker, SecureKafka, unsecured_token
from tests.kafka.security_scene import SecurityScene
from tests.needs import KERBEROS
from tests.reference_broker.security.sasl.kerberos_realm import REALM, KerberosRealm

__all__ = ["WAYS", "SecurePair", "Way", "kerberos", "ways_by_name"]

_TOKEN_VERSION = 3


class Way(NamedTuple):
    """A way to log in.

    Attributes:
        name: its name.
        protocol: the security protocol.
        mechanism: the SASL mechanism; "" if the certificate suffices.
        is_token: whether the client has a delegation token.
    """

    name: str
    protocol: str
    mechanism: str = ""
    is_token: bool = False

    @property
    def user(self) -> str:
        """The principal of the client."""
        return "User:alice" if self.mechanism else "User:client"


WAYS = (
    Way("PLAIN without TLS", "SASL_PLAINTEXT", "PLAIN"),
    *(Way(each, "SASL_SSL", each) for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")),
    Way("token with SCRAM-SHA-256", "SASL_SSL", "SCRAM-SHA-256", is_token=True),
    Way("token with SCRAM-SHA-512", "SASL_SSL", "SCRAM-SHA-512", is_token=True),
    Way("certificate", "SSL"),
)

#: The ways as parameters of tests.
ways_by_name = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def kerberos(service: str = "kafka@localhost") -> Messages:
    """Log in with a ticket of Alice."""
    gssapi = pytest.importorskip("gssapi")
    name = gssapi.Name(service, name_type=gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos)
    challenge = yield context.step()
    while not context.complete:
        context.step(challenge)
        challenge = yield b""
    assert context.unwrap(challenge).message == b"\x01\x01\x00\x00"
    yield context.wrap(bytes([1, 0, 0, 0]) + f"alice@{REALM}".encode(), False).message


class SecurePair:
    """Apache Kafka and the reference broker, running inside a `with` block.

    Args:
        certificates: the certificates of the brokers and their clients.
        folder: an empty folder for the realm.
        settings: further settings of both.

    Attributes:
        certificates: see above.
        scenes: both brokers, Apache Kafka first.
        has_realm: whether clients can log in with Kerberos.
    """

    def __init__(self, certificates: Certificates, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.certificates = certificates
        self._folder = folder
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self.has_realm = False
        self.scenes: tuple[SecurityScene, ...] = ()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            keytab = self._realm(stack)
            given = self.certificates, 0, keytab, self._settings
            brokers = stack.enter_context(SecureKafka(*given)), stack.enter_context(SecureBroker(*given))
            scenes = []
            for broker in brokers:
                scenes.append(SecurityScene(broker))
                stack.callback(scenes[-1].close)
            self.scenes = tuple(scenes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _realm(self, stack: contextlib.ExitStack) -> Path | None:
        """Start a realm in which Alice has a ticket; return the keys of the service, or None if there can be none."""
        with contextlib.suppress(pytest.skip.Exception):
            KERBEROS.require()
            gssapi = pytest.importorskip("gssapi")
            realm = stack.enter_context(KerberosRealm(self._folder))
            for principal in ("alice", "kafka/localhost"):
                realm.add(principal)
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in realm.environment.items():
                patch.setenv(name, value)
            patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}")
            name = gssapi.Name(f"alice@{REALM}", name_type=gssapi.NameType.kerberos_principal)
            store = {"client_keytab": str(realm.keytab), "ccache": os.environ["KRB5CCNAME"]}
            assert gssapi.Credentials(name=name, usage="initiate", store=store).lifetime > 0  # which gets a ticket
            self.has_realm = True
            return realm.keytab
        return None

    def tls(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        """Return the context of a client."""
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        if with_certificate:
            context.load_cert_chain(self.certificates.client)
        return context

    def messages(self, scene: SecurityScene, way: Way) -> Messages:
        """Return the messages with which Alice logs in."""
        if way.is_token:
            return self._with_token(scene, way.mechanism)
        match way.mechanism:
            case "PLAIN":
                return plain("alice")
            case "OAUTHBEARER":
                return bearer(unsecured_token("alice"))
            case "GSSAPI":
                if not self.has_realm:
                    KERBEROS.require()
                    pytest.importorskip("gssapi")
                return kerberos()
        return scram(way.mechanism, "alice")

    @contextlib.contextmanager
    def connected(self, scene: SecurityScene, way: Way) -> Iterator[RawConnection]:
        """Yield a connection on which a client has logged in."""
        has_tls = way.protocol.endswith("SSL")
        messages = self.messages(scene, way) if way.mechanism else None
        tls = self.tls(with_certificate=messages is None) if has_tls else None
        with RawConnection(scene.server.addresses[way.protocol], tls) as connection:
            if messages is not None:
                found = connection.log_in(way.mechanism, messages)
                assert not any(each == CLOSED or isinstance(each, list) for each in found), found
            yield connection

    def new_token(self, scene: SecurityScene, lifetime_ms: int = -1) -> tuple[str, str]:
        """Return the id and the password of a new delegation token of Alice, once the broker knows it."""
        with scene.alice() as connection:
            made = connection.ask(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms), _TOKEN_VERSION)
        assert not made.error_code
        found = made.token_id, base64.b64encode(made.hmac).decode()

        def is_known() -> bool:
            with RawConnection(scene.server.addresses["SASL_PLAINTEXT"]) as connection:
                messages = scram("SCRAM-SHA-256", *found, is_token=True)
                return connection.log_in("SCRAM-SHA-256", messages) == ["challenge", "challenge"]

        until(is_known, "the broker knows the token")
        return found

    def _with_token(self, scene: SecurityScene, mechanism: str) -> Messages:
        return scram(mechanism, *self.new_token(scene), is_token=True)
