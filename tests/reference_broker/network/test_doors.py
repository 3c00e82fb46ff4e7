"""Doors are opened and closed with the broker, and an error about one names the listener and the option as given.

Method: use doors of listeners whose mechanism is a stand-in; in `test_secure_listeners.py`, clients connect to them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, cast

import pytest

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import SecuritySettings, split_listener_options
from kafkawire.reference_broker.network import doors as module
from kafkawire.reference_broker.network.doors import Doors, NewOutlet
from kafkawire.reference_broker.network.tls_connection import TlsConnection
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.sasl.mechanisms import Mechanism
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from kafkawire.sdk.transport.wire import Address
from tests.certificates import Certificates
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.network.tls_bench import TlsClient
from tests.reference_broker.network.wire_bench import on_a_loop
from tests.reference_broker.security.played_mechanism import Played, offered_as_plain

ADDRESS = Address("localhost", 0)

JAAS = "listener.name.login.plain.sasl.jaas.config"


def doors_of(given: dict[str, Any], **protocols: str) -> Doors:
    listeners = [Listener(name, ADDRESS, ADDRESS, protocol) for name, protocol in protocols.items()]
    own, of_listeners = split_listener_options(given)
    return Doors(listeners, SecuritySettings(read_options(own), of_listeners, listeners))


def test_mechanisms_start_and_stop_with_the_doors(bench: BrokerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    class Noting(Mechanism):
        def start(self, timers: Timers, background: Background, now_ms: int) -> None:
            events.append(("start", self.name, now_ms))

        def stop(self) -> None:
            events.append(("stop", self.name))

    monkeypatch.setattr(module, "new_exchange", lambda mechanism, *others, listener: Noting(mechanism, Played))
    given = {
        "sasl.enabled.mechanisms": "A,B",
        "listener.name.login.connections.max.reauth.ms": 5,
        "listener.name.login.b.connections.max.reauth.ms": 6,
        "sasl.server.max.receive.size": 7,
        "connection.failed.authentication.delay.ms": 8,
    }
    doors = doors_of(given, LOGIN="SASL_PLAINTEXT", PLAINTEXT="PLAINTEXT")
    assert doors.login("LOGIN") is None, "nobody enters before the doors are open"
    doors.open(bench.core.requests.services, at_once, 9)
    assert events == [("start", "A", 9), ("start", "B", 9)]
    login = doors.login("LOGIN")
    assert login is not None
    assert (login.receive_bytes_max, login.failure_delay_ms) == (7, 8)
    assert {name: each.max_reauth_ms for name, each in login.mechanisms.items()} == {"A": 5, "B": 6}
    assert doors.login("PLAINTEXT") is None
    doors.close()
    assert events[2:] == [("stop", "A"), ("stop", "B")]


@pytest.mark.parametrize(
    ("given", "option", "reason"),
    [
        ({}, JAAS, "listener LOGIN, mechanism PLAIN: required for PLAIN"),
        ({"listener.name.login.sasl.enabled.mechanisms": "PLAIN,X", JAAS: "x"},
         "listener.name.login.sasl.enabled.mechanisms", "listener LOGIN, mechanism X: expected some of PLAIN"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms", "listener LOGIN needs one"),
        ({"ssl.principal.mapping.rules": "x", JAAS: "x"}, "ssl.principal.mapping.rules",
         "listener LOGIN: invalid rule"),
    ],
)  # fmt: skip
def test_unusable_listeners(given: dict[str, Any], option: str, reason: str) -> None:
    with offered_as_plain(), pytest.raises(ConfigurationError, match=reason) as caught:
        doors_of({"sasl.enabled.mechanisms": "PLAIN", **given}, LOGIN="SASL_PLAINTEXT")
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("rules", "principal"), [("DEFAULT", "User:CN=client"), ("RULE:CN=(.*)/$1/U", "User:CLIENT"), ("RULE:x/y/", None)]
)
def test_principals_of_certificates(
    certificates: Certificates, rules: str, principal: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": rules,
    }
    doors = doors_of(given, TLS="SSL", PLAINTEXT="PLAINTEXT")

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            near, _ = server.accept()
        far.setblocking(False)
        near.setblocking(False)
        peer = Peer(Listener("TLS", ADDRESS, ADDRESS, "SSL"), "127.0.0.1")
        entered: list[NewOutlet | None] = []
        ended: list[bool] = []

        def connect(outlet: NewOutlet | None) -> asyncio.BufferedProtocol:
            entered.append(outlet)
            return cast("asyncio.BufferedProtocol", Silent())

        protocol = doors.protocol(near, peer, connect, lambda: ended.append(True))
        assert isinstance(protocol, TlsConnection)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, near)
        client = TlsClient(far, tls_context(PemFiles(str(certificates.authority), str(certificates.client))))
        await client.do(client.tls.do_handshake)
        while not (entered or ended):
            await asyncio.sleep(0)
        if principal is None:
            assert not entered
        else:
            assert str(peer.principal) == principal
            assert entered[0] is not None
        transport.abort()
        far.close()

    on_a_loop(test())
    assert ("no rule in ssl.principal.mapping.rules applies to CN=client" in caplog.text) is (principal is None)


class Silent(asyncio.BufferedProtocol):
    """A protocol that does nothing."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(1))


def test_changed_certificates_are_told(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker)}
    doors, told = doors_of(given, TLS="SSL"), []

    def on_change(settings: SecuritySettings) -> None:
        told.append(settings.of("TLS").ssl_keystore_location)
        raise ConfigurationError("ssl.keystore.location", None, "links cannot use it")

    doors.on_change = on_change
    changed = {"listener.name.tls.ssl.keystore.location": str(certificates.elsewhere)}
    doors.change({**changed, "num.partitions": "3", "listener.name.other.ssl.keystore.location": "/nowhere"})
    doors.change(changed)
    assert told == [str(certificates.elsewhere)], "only a change is told"
    assert "links cannot use it" in caplog.text


def test_a_changed_certificate_does_not_outlive_its_configuration(certificates: Certificates) -> None:
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker)}
    doors = doors_of(given, TLS="SSL")
    told: list[str | None] = []
    doors.on_change = lambda settings: told.append(settings.of("TLS").ssl_keystore_location)
    doors.change({"listener.name.tls.ssl.keystore.location": str(certificates.elsewhere)})
    doors.change({"num.partitions": "3"})
    assert told == [str(certificates.elsewhere), str(certificates.broker)]


def test_a_door_without_tls() -> None:
    doors = doors_of({}, PLAINTEXT="PLAINTEXT")
    near, far = socket.socketpair()
    entered: list[NewOutlet | None] = []
    silent = Silent()

    def connect(outlet: NewOutlet | None) -> asyncio.BufferedProtocol:
        entered.append(outlet)
        return silent

    peer = Peer(Listener("PLAINTEXT", ADDRESS, ADDRESS), "127.0.0.1")
    assert doors.protocol(near, peer, connect, lambda: None) is silent
    assert entered == [None]
    near.close()
    far.close()
