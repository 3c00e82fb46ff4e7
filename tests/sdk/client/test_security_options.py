"""Options for TLS and SASL are accepted under both names, are rejected where they do not fit, and keep their secrets.

Method: read tables of accepted and rejected options, and search every error for secrets.
"""

from __future__ import annotations

import copy
import pickle
import ssl
from typing import Any

import pytest

from kafkawire.sdk.client.options import AdminOptions, ConsumerOptions, ProducerOptions
from kafkawire.sdk.client.security_options import SecurityOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

SECRET = "hunter2hunter2"
TLS = {"security_protocol": "SSL"}
SASL = {"security_protocol": "SASL_SSL"}
PLAIN = {**SASL, "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": SECRET}
OAUTH = {**SASL, "sasl_mechanism": "OAUTHBEARER"}
OIDC = {
    **OAUTH,
    "sasl_oauthbearer_token_endpoint_url": "https://id",
    "sasl_oauthbearer_client_credentials_client_id": "me",
    "sasl_oauthbearer_client_credentials_client_secret": SECRET,
}


def read(given: dict[str, Any]) -> SecurityOptions:
    return SecurityOptions.read(given.items())


def provide() -> str:
    return SECRET


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"security.protocol": "PLAINTEXT"},
        TLS,
        {**TLS, "ssl_context": ssl.create_default_context()},
        {**TLS, "ssl.truststore.location": "ca.pem", "ssl.keystore.location": "client.pem", "ssl.key.password": SECRET},
        {**TLS, "ssl_truststore_certificates": "P", "ssl_keystore_certificate_chain": "P", "ssl_keystore_key": SECRET},
        {**TLS, "ssl_keystore_location": "client.crt", "ssl_key_location": "client.key"},
        {**TLS, "ssl.endpoint.identification.algorithm": ""},
        {**TLS, "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"},
        PLAIN,
        {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": SECRET},
        {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"},
        {**PLAIN, "sasl_mechanism": "SCRAM-SHA-512", "sasl_scram_tokenauth": True},
        {**PLAIN, "ssl_truststore_location": "ca.pem"},
        {**OAUTH, "sasl_oauthbearer_token": SECRET, "sasl_oauthbearer_extensions": {"a": "b"}},
        {**OAUTH, "sasl_oauthbearer_token": Secret(SECRET)},
        {**OAUTH, "sasl_oauthbearer_token": provide},
        OIDC,
        {**OIDC, "sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.header.urlencode": True},
        {**SASL, "sasl_mechanism": "GSSAPI"},
        {**SASL, "sasl_mechanism": "GSSAPI", "sasl.kerberos.service.name": "kfk"},
        {**SASL, "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"},
    ],
)  # fmt: skip
def test_accepted(given: dict[str, Any]) -> None:
    options = read(given)
    for name, value in given.items():
        found = getattr(options, SecurityOptions.KAFKA_NAMES.get(name, name))
        assert found == value or found == Secret(value)
    assert SECRET not in repr(options)
    assert SECRET not in str(options)
    assert SECRET not in str(vars(options))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security_protocol": "TLS"}, "security_protocol='TLS': expected one of PLAINTEXT, SSL"),
        ({"ssl_truststore_location": "x"}, "='PLAINTEXT': ssl_truststore_location needs security_protocol \"SSL\""),
        ({**PLAIN, "security_protocol": "SASL_PLAINTEXT", "ssl_keystore_location": "x"}, "ssl_keystore_location needs"),
        ({"ssl_endpoint_identification_algorithm": ""}, "ssl_endpoint_identification_algorithm needs"),
        ({**TLS, "ssl_context": "x"}, "ssl_context='x': expected an ssl.SSLContext"),
        ({**TLS, "ssl_context": ssl.create_default_context(), "ssl_key_password": SECRET}, "combined with ssl_key_p"),
        ({**TLS, "ssl_truststore_location": "x", "ssl_truststore_certificates": "y"}, "combined with ssl"),
        ({**TLS, "ssl_keystore_location": "x", "ssl_keystore_certificate_chain": "y"}, "combined with ssl_keystore"),
        ({**TLS, "ssl_keystore_location": "x", "ssl_key_location": "y", "ssl_keystore_key": SECRET}, "with ssl_keysto"),
        ({**TLS, "ssl.keystore.type": "JKS"}, "ssl.keystore.type='JKS': expected one of PEM"),
        ({**TLS, "ssl_key_location": "x"}, "ssl_key_location='x': needs ssl_keystore_location or"),
        ({**TLS, "ssl_keystore_key": SECRET}, "ssl_keystore_key=<hidden>: needs ssl_keystore_location"),
        ({**TLS, "ssl_key_password": SECRET}, "ssl_key_password=<hidden>: needs"),
        ({**TLS, "ssl_endpoint_identification_algorithm": "HTTPS"}, "expected one of https, "),
        ({**TLS, "sasl_mechanism": "PLAIN"}, "='SSL': sasl_mechanism needs security_protocol \"SASL_SSL\""),
        ({"sasl_password": SECRET}, "='PLAINTEXT': sasl_password needs security_protocol"),
        ({"sasl_password": SECRET, "ssl_key_location": "x"}, "='PLAINTEXT': ssl_key_location needs security_protocol"),
        (SASL, "sasl_mechanism=None: required for SASL_SSL"),
        ({**SASL, "sasl_mechanism": "plain"}, "sasl_mechanism='plain': expected one of PLAIN, SCRAM-SHA-256"),
        ({**PLAIN, "sasl_username": None}, "sasl_username=None: required for PLAIN"),
        ({**PLAIN, "sasl_username": ""}, "sasl_username='': required for PLAIN"),
        ({**PLAIN, "sasl_password": None}, "sasl_password=None: required for PLAIN"),
        ({**PLAIN, "sasl_password": ""}, "sasl_password=<hidden>: expected a non-empty string"),
        ({**PLAIN, "sasl_password": SECRET.encode()}, "sasl_password=<hidden>: expected a non-empty string"),
        ({**PLAIN, "sasl_scram_tokenauth": True}, "not used by PLAIN"),
        ({**PLAIN, "sasl_oauthbearer_token": SECRET}, "sasl_oauthbearer_token=<hidden>: not used by PLAIN"),
        ({**PLAIN, "sasl_kerberos_service_name": "x"}, "sasl_kerberos_service_name='x': not used by PLAIN"),
        ({**OAUTH, "sasl_username": "x", "sasl_oauthbearer_token": "x"}, "not used by OAUTHBEARER"),
        (OAUTH, "sasl_oauthbearer_token_endpoint_url=None: required for OAUTHBEARER without sasl_oauthbearer_token"),
        ({**OAUTH, "sasl_oauthbearer_token": 5}, "sasl_oauthbearer_token=<hidden>: expected a non-empty string"),
        ({**OIDC, "sasl_oauthbearer_token": SECRET}, "cannot be combined with sasl_oauthbearer_token"),
        ({**OAUTH, "sasl_oauthbearer_token": "t", "sasl_oauthbearer_scope": "x"}, "cannot be combined with sasl_oauth"),
        ({**OAUTH, "sasl_oauthbearer_token": "t", "sasl_oauthbearer_extensions": "x"}, "expected a mapping"),
        ({**OAUTH, "sasl_oauthbearer_token": "t", "sasl_oauthbearer_extensions": {"auth": "x"}}, "'auth': a name"),
        ({**SASL, "sasl_mechanism": "GSSAPI", "sasl_aws_region": "x"}, "not used by GSSAPI"),
        ({**PLAIN, "sasl.password": SECRET}, "sasl.password=<hidden>: sasl_password was already given"),
        ({**PLAIN, "sasl_pasword": SECRET}, "sasl_pasword=<hidden>: no such option; did you mean sasl_password"),
        ({"sasl.jaas.config": f'password="{SECRET}"'}, "sasl.jaas.config=<hidden>: no such option"),
        ({"ssl_keystore_pasword": SECRET}, "ssl_keystore_pasword=<hidden>: no such option"),
        ({"sasl.plain.password": SECRET}, "sasl.plain.password=<hidden>: no such option"),
    ],
)  # fmt: skip
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(given)
    error = caught.value
    assert message in str(error)
    for text in (str(error), repr(error), str(error.args), str(vars(error)), str(pickle.dumps(error))):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (PLAIN, "sasl_username"),
        (PLAIN, "sasl_password"),
        ({**OAUTH, "sasl_oauthbearer_token": SECRET}, "sasl_oauthbearer_token"),
        (OIDC, "sasl_oauthbearer_client_credentials_client_id"),
        (OIDC, "sasl_oauthbearer_client_credentials_client_secret"),
        (OIDC, "sasl_oauthbearer_scope"),
    ],
)
def test_what_no_login_could_carry(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}=.*'.ud800' cannot be encoded as UTF-8") as caught:
        read({**given, name: "text" + "\ud800"})
    assert ("text" in str(caught.value)) is (name in {"sasl_username", "sasl_oauthbearer_scope"})


@pytest.mark.parametrize("kind", [ProducerOptions, ConsumerOptions, AdminOptions])
def test_every_client_has_them(kind: type[SecurityOptions]) -> None:
    options = kind.read({"bootstrap_servers": "a:1", **PLAIN}.items())
    assert options.sasl_password == Secret(SECRET)
    assert SECRET not in repr(options)
    with pytest.raises(ConfigurationError, match="required for PLAIN"):
        kind.read({"bootstrap_servers": "a:1", **PLAIN, "sasl_username": None}.items())


def test_options_with_secrets_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="a secret cannot be pickled"):
        pickle.dumps(read(PLAIN))
    assert vars(pickle.loads(pickle.dumps(read(TLS)))) == vars(read(TLS))
    assert vars(copy.deepcopy(read(PLAIN))) == vars(read(PLAIN))
