"""Options for one listener, or one mechanism on it, hide those for all, in Kafka's order.

Method: settings of several listeners, one of whose names contains a dot.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import (
    SecuritySettings,
    is_known_for_listeners,
    split_listener_options,
)
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.wire import Address

ADDRESS = Address("localhost", 1)
LISTENERS = [
    Listener("EXTERNAL", ADDRESS, ADDRESS, "SASL_SSL"),
    Listener("EXTERNAL.TWO", ADDRESS, ADDRESS, "SSL"),
    Listener("INTERNAL", ADDRESS, ADDRESS),
]

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="hunter2";'


def of(names: dict[str, Any]) -> SecuritySettings:
    own, of_listeners = split_listener_options(names)
    return SecuritySettings(read_options(own), of_listeners, LISTENERS)


def test_a_listener_hides_the_broker() -> None:
    found = of({
        "ssl.keystore.location": "all",
        "listener.name.external.ssl.keystore.location": "one",
        "listener.name.external.two.ssl.keystore.location": "two",
    })  # fmt: skip
    assert [found.of(listener.name).ssl_keystore_location for listener in LISTENERS] == ["one", "two", "all"]
    name = "ssl.keystore.location"
    assert found.full_name("EXTERNAL", name) == f"listener.name.external.{name}"
    assert found.full_name("INTERNAL", f"x.{name}", name) == name


def test_a_changed_value_hides_the_one_from_the_start() -> None:
    name = "listener.name.external.ssl.keystore.location"
    before = of({name: "one", "listener.name.external.two.ssl.keystore.location": "two"})
    after = before.with_values({name: "changed"})
    for found, location in ((after, "changed"), (before, "one")):
        assert found.of("EXTERNAL").ssl_keystore_location == location
        assert found.of("EXTERNAL.TWO").ssl_keystore_location == "two"


def test_client_authentication_of_sasl_listeners_is_only_their_own() -> None:
    assert of({"ssl.client.auth": "required"}).of("EXTERNAL").ssl_client_auth == "none"
    assert of({"ssl.client.auth": "required"}).of("EXTERNAL.TWO").ssl_client_auth == "required"
    assert of({"listener.name.external.ssl.client.auth": "required"}).of("EXTERNAL").ssl_client_auth == "required"


def test_each_listener_has_its_own_users_and_times_of_a_mechanism() -> None:
    others = LOGIN.replace("admin", "guest")
    found = of({
        "listener.name.external.plain.sasl.jaas.config": LOGIN,
        "listener.name.external.two.plain.sasl.jaas.config": others,
        "listener.name.external.plain.connections.max.reauth.ms": 1,
        "listener.name.external.two.plain.connections.max.reauth.ms": 2,
    })  # fmt: skip
    assert [found.of_mechanism(listener.name, "PLAIN").get("sasl.jaas.config") for listener in LISTENERS] == [
        LOGIN,
        others,
        None,
    ]
    assert [found.max_reauth_ms(listener.name, "PLAIN") for listener in LISTENERS] == [1, 2, 0]


def test_a_mechanism_hides_the_listener() -> None:
    found = of({
        "connections.max.reauth.ms": 1,
        "listener.name.external.connections.max.reauth.ms": 2,
        "listener.name.external.scram-sha-256.connections.max.reauth.ms": "3",
        "listener.name.external.plain.sasl.jaas.config": LOGIN,
        "listener.name.external.oauthbearer.sasl.server.callback.handler.class": "one",
        "sasl.server.callback.handler.class": "all",
        "sasl.oauthbearer.expected.issuer": "issuer",
    })  # fmt: skip
    assert found.max_reauth_ms("INTERNAL", "PLAIN") == 1
    assert found.max_reauth_ms("EXTERNAL", "PLAIN") == 2
    assert found.max_reauth_ms("EXTERNAL", "SCRAM-SHA-256") == 3
    assert found.of_mechanism("EXTERNAL", "PLAIN")["sasl.jaas.config"] == LOGIN
    assert "sasl.jaas.config" not in found.of_mechanism("EXTERNAL", "OAUTHBEARER")
    handler = "sasl.server.callback.handler.class"
    assert found.of_mechanism("EXTERNAL", "OAUTHBEARER")[handler] == "one"
    assert found.of_mechanism("EXTERNAL", "PLAIN")[handler] == "all"
    assert found.of_mechanism("EXTERNAL", "OAUTHBEARER")["sasl.oauthbearer.expected.issuer"] == "issuer"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "listener.name.elsewhere.ssl.client.auth",
            "none",
            "unknown listener; the names in lower case are: external, ",
        ),
        ("listener.name.external.ssl.client.auth", "maybe", "expected one of"),
        ("listener.name.external.ssl.client.aut", "none", "no such option of a listener"),
        ("listener.name.external.max.connections", "0", "expected 1 to"),
        ("listener.name.external.max.connections", True, "expected 1 to"),
        ("listener.name.external.max.connection.creation.rate", "many", "expected 1 to"),
        ("listener.name.external.sasl.jaas.config", LOGIN, "a mechanism is needed, as in listener.name.external.scram"),
        ("listener.name.external.plain.sasl.jaas.config", 7, "expected a login module"),
        ("listener.name.external.plain.connections.max.reauth.ms", "x", "expected an integer"),
    ],
)
def test_refused(name: str, value: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        of({name: value})
    assert caught.value.option == name
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listener.name.a.ssl.client.auth", True),
        ("listener.name.a.plain.sasl.jaas.config", True),
        ("listener.name.a.max.connections", True),
        ("listener.name.a.max.connection.creation.rate", True),
        ("listener.name.a.quota.window.num", False),
        ("ssl.client.auth", False),
    ],
)
def test_names_in_files(name: str, expected: bool) -> None:
    assert is_known_for_listeners(name) is expected
