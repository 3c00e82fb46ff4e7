"""The options for TLS and SASL take Kafka's names and values, and hide secrets.

Method: read options as a user gives them.
"""

from __future__ import annotations

import pickle

import pytest

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_options import MECHANISM_OPTIONS
from kafkawire.reference_broker.config.security_settings import SecuritySettings
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.transport.wire import Address


def test_defaults_are_those_of_kafka() -> None:
    options = read_options({})
    assert options.tls_versions == ("TLSv1.2", "TLSv1.3")
    assert options.cipher_suites == ()
    assert options.mechanisms == ("GSSAPI",)
    assert options.ssl_client_auth == "none"
    assert options.ssl_keystore_location is None


@pytest.mark.parametrize(
    ("name", "value", "own", "expected"),
    [
        ("ssl.client.auth", "REQUIRED", "ssl_client_auth", "required"),
        ("ssl.enabled.protocols", "TLSv1.3", "tls_versions", ("TLSv1.3",)),
        ("sasl.enabled.mechanisms", " PLAIN , SCRAM-SHA-256,PLAIN", "mechanisms", ("PLAIN", "SCRAM-SHA-256")),
        ("ssl.endpoint.identification.algorithm", "HTTPS", "ssl_endpoint_identification_algorithm", "https"),
        ("ssl.endpoint.identification.algorithm", "", "ssl_endpoint_identification_algorithm", ""),
        ("sasl.oauthbearer.clock.skew.seconds", 30, "sasl_oauthbearer_clock_skew_seconds", "30"),
        ("sasl.oauthbearer.expected.audience", ["a", "b"], "sasl_oauthbearer_expected_audience", "a,b"),
    ],
)
def test_values(name: str, value: object, own: str, expected: object) -> None:
    assert getattr(read_options({name: value}), own) == expected


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ssl.client.auth", "maybe", "expected one of"),
        ("ssl.enabled.protocols", "TLSv1.1", "expected some of TLSv1.2, TLSv1.3"),
        ("ssl.enabled.protocols", 3, "separated by commas"),
        ("ssl.endpoint.identification.algorithm", "ldap", "expected https"),
        ("ssl.key.password", 7, "expected a string"),
        ("sasl.oauthbearer.clock.skew.seconds", True, "expected a string"),
        ("sasl.server.max.receive.size", 0, "expected 1 to"),
        ("connections.max.reauth.ms", -1, "expected 0 to"),
    ],
)
def test_refused(name: str, value: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read_options({name: value})


def test_secrets_are_not_shown() -> None:
    names = ("keystore.password", "keystore.key", "keystore.certificate.chain", "truststore.password", "key.password")
    given = {f"ssl.{name}": "hunter2" for name in names}
    options = read_options(given)
    assert "hunter2" not in repr(options)
    configs = BrokerConfigs(options)
    for name in given:
        assert [setting.value for setting in configs.settings(name)] == [None]
    assert "hunter2" not in str(options.given)


def test_options_of_listeners_are_described() -> None:
    jaas, auth = "listener.name.a.plain.sasl.jaas.config", "listener.name.a.ssl.client.auth"
    options = read_options({}).with_listener_options({jaas: "hunter2", auth: "required"}).with_values(node_id=2)
    assert "hunter2" not in str(options.given)
    configs = BrokerConfigs(options)
    assert {jaas, auth} <= {*configs.names}
    assert [setting.value for setting in configs.settings(jaas)] == [None]
    assert [setting.value for setting in configs.settings(auth)] == ["required", "none"]


def test_options_of_listeners_hold_secrets_only_as_secrets() -> None:
    jaas, key = "listener.name.a.plain.sasl.jaas.config", "listener.name.a.ssl.keystore.key"
    given = {jaas: "hunter2 required;", key: "hunter2"}
    options = read_options({}).with_listener_options(given)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(options)
    listener = Listener("A", Address("", 1), Address("", 1), "SASL_SSL")
    settings = SecuritySettings(options, given, [listener])
    assert "hunter2" not in str(vars(settings))
    of_mechanism = settings.of_mechanism("A", "PLAIN")
    assert of_mechanism["sasl.jaas.config"] == "hunter2 required;"
    assert repr(of_mechanism).startswith("<settings ")
    assert "hunter2" not in repr(of_mechanism)


@pytest.mark.parametrize("value", ["", "  ", 5])
def test_a_login_module_cannot_be_blank(value: object) -> None:
    name = "listener.name.a.plain.sasl.jaas.config"
    listener = Listener("A", Address("", 1), Address("", 1), "SASL_SSL")
    with pytest.raises(ConfigurationError, match="expected a login module") as caught:
        SecuritySettings(read_options({}), {name: value}, [listener])
    assert caught.value.option == name


def test_options_of_mechanisms_are_kafkas() -> None:
    assert {*MECHANISM_OPTIONS} <= BROKER_CONFIGS.keys()
