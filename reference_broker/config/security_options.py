"""The options for TLS and SASL on a broker's listeners; each can be given for one listener, or for one mechanism on it.

    listener.name.external.scram-sha-512.connections.max.reauth.ms      one mechanism on one listener
    listener.name.external.connections.max.reauth.ms                    one listener
    connections.max.reauth.ms                                           all listeners

The first of these that is given applies. `security_settings.py` resolves them. Passwords and keys are `Secret`s.

Source: `SslConfigs`, `SaslConfigs`, `BrokerSecurityConfigs` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT64_MAX, Option, Options, Reader, choice, flag, number, option, text
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigType
from kafkawire.sdk.secret import Secret

__all__ = ["JAAS", "JAAS_FILE", "MECHANISM_OPTIONS", "TLS_VERSIONS", "ListenerSecurityOptions"]

#: The name of the login module of a mechanism, which Kafka reads only with the prefix of a listener and a mechanism.
JAAS: Final = "sasl.jaas.config"

#: The file with the login modules of listeners that have none of their own.
JAAS_FILE: Final = "java.security.auth.login.config"

#: The supported versions of TLS, oldest first.
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

#: The longest time until a login must be renewed; Kafka has no limit.
_REAUTH_MS_MAX: Final = INT64_MAX

#: The options of SASL mechanisms, which are passed on to them as they are.
MECHANISM_OPTIONS: Final = (
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.callback.handler.class",
)


def _secret(name: str, value: object) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ConfigurationError(name, value, "expected a string")
    return Secret(value)


def _password(kafka: str) -> Any:
    return option(None, _secret, "str | None", kafka=kafka)


def _list_of(choices: Collection[str] = ()) -> Reader:
    """Return a reader of names that are separated by commas, which remain text."""

    def read(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise ConfigurationError(name, value, "expected names, separated by commas")
        names = _names(value)
        for each in names:
            if choices and each not in choices:
                raise ConfigurationError(name, value, f"expected some of {', '.join(choices)}")
        return ",".join(names)

    return read


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))


def _choice(name: str) -> Any:
    """Declare one of Kafka's options that has a few possible values, in any case."""
    key = BROKER_CONFIGS[name]
    declared: Option = choice(key.default or "", *key.one_of, kafka=name)
    return declared._replace(parse=str.lower)


def _as_given(name: str) -> Option:
    """Declare an option of a mechanism, which reads the value itself."""

    def read(given_name: str, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | tuple | list):
            raise ConfigurationError(given_name, value, "expected a string")
        return ",".join(value) if isinstance(value, tuple | list) else str(value)

    return Option(None, read, name, accepts="int | None" if _is_number(name) else "str | None")


def _is_number(name: str) -> bool:
    return BROKER_CONFIGS[name].type in (ConfigType.INT, ConfigType.LONG)


def _identification(name: str, value: object) -> str:
    if not isinstance(value, str) or value.strip().lower() not in ("https", ""):
        raise ConfigurationError(name, value, "expected https, or an empty value to skip the check")
    return value.strip().lower()


class ListenerSecurityOptions(
    Options, from_text=True, more={name.replace(".", "_"): _as_given(name) for name in MECHANISM_OPTIONS}
):
    """How clients and the broker authenticate each other.

    Attributes:
        ssl_keystore_type: the format of the broker's key store: "PEM", or "PKCS12" if the package `cryptography` is
            installed. "JKS", Kafka's default, stands for either of Java's formats, of which PKCS12 is supported.
        ssl_keystore_location: the file with the broker's private key and certificate chain.
        ssl_keystore_password: the password of that file if it is PKCS12.
        ssl_keystore_certificate_chain: the certificate chain as PEM text, instead of a file.
        ssl_keystore_key: the private key as PEM text.
        ssl_key_password: the password of the private key if it is PEM.
        ssl_truststore_type: the format of the trust store; see `ssl_keystore_type`.
        ssl_truststore_location: the file with the certificates of the authorities to trust; None for the system's.
        ssl_truststore_password: the password of that file if it is PKCS12.
        ssl_truststore_certificates: the certificates of the authorities to trust as PEM text, instead of a file.
        ssl_enabled_protocols: the TLS versions, "TLSv1.2" and "TLSv1.3", separated by a comma.
        ssl_cipher_suites: the cipher suites for TLS 1.2 under their standard names, separated by commas; empty for
            OpenSSL's. The suites of TLS 1.3 cannot be restricted.
        ssl_client_auth: whether clients need a certificate: "required", "requested" or "none". A listener with
            SASL_SSL ignores the value for all listeners.
        ssl_endpoint_identification_algorithm: for connections between brokers: "https" to check that a broker's
            certificate matches its host name, "" to skip the check.
        ssl_allow_dn_changes: whether a certificate that is altered while the broker runs may have another subject.
        ssl_allow_san_changes: whether it may lack alternative names that the one before has.
        ssl_principal_mapping_rules: rules that shorten the names in client certificates to the names of principals.
        sasl_enabled_mechanisms: the SASL mechanisms that a listener offers, separated by commas.
        sasl_mechanism_inter_broker_protocol: the SASL mechanism for connections between brokers.
        sasl_server_max_receive_size: the maximum size of a request during a login.
        connections_max_reauth_ms: the time after which a client has to log in again (KIP-368); 0 for no limit.
        connection_failed_authentication_delay_ms: how long a failed login stays unanswered.
        java_security_auth_login_config: the login module file. Its section `KafkaServer`, or `external.KafkaServer` for
            the listener EXTERNAL, has the login modules of listeners without `sasl.jaas.config`.
        sasl_kerberos_principal_to_local_rules: for GSSAPI: rules that shorten Kerberos principals.
        sasl_kerberos_service_name: for GSSAPI: the first part of the broker's Kerberos principal.
        sasl_oauthbearer_clock_skew_seconds: for OAUTHBEARER: the tolerated difference between clocks.
        sasl_oauthbearer_expected_audience: for OAUTHBEARER: the audiences, one of which a token must name.
        sasl_oauthbearer_expected_issuer: for OAUTHBEARER: the issuer that a token must name.
        sasl_oauthbearer_jwks_endpoint_refresh_ms: for OAUTHBEARER: how often the keys are fetched.
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: for OAUTHBEARER: the longest pause after a failed fetch.
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: for OAUTHBEARER: the first pause after a failed fetch.
        sasl_oauthbearer_jwks_endpoint_url: for OAUTHBEARER: where the keys that verify tokens are fetched from.
        sasl_oauthbearer_jwt_validator_class: for OAUTHBEARER: the Kafka class that verifies tokens.
        sasl_oauthbearer_scope_claim_name: for OAUTHBEARER: the claim with the scope.
        sasl_oauthbearer_sub_claim_name: for OAUTHBEARER: the claim with the name of the principal.
        sasl_server_callback_handler_class: the Kafka class that checks credentials, if a mechanism has several.
    """

    ssl_keystore_type: str = text("JKS", kafka="ssl.keystore.type")
    ssl_keystore_location: str | None = text(None, kafka="ssl.keystore.location")
    ssl_keystore_password: Secret | None = _password("ssl.keystore.password")
    ssl_keystore_certificate_chain: Secret | None = _password("ssl.keystore.certificate.chain")
    ssl_keystore_key: Secret | None = _password("ssl.keystore.key")
    ssl_key_password: Secret | None = _password("ssl.key.password")
    ssl_truststore_type: str = text("JKS", kafka="ssl.truststore.type")
    ssl_truststore_location: str | None = text(None, kafka="ssl.truststore.location")
    ssl_truststore_password: Secret | None = _password("ssl.truststore.password")
    ssl_truststore_certificates: Secret | None = _password("ssl.truststore.certificates")
    ssl_enabled_protocols: str = option(
        ",".join(TLS_VERSIONS), _list_of(TLS_VERSIONS), "str", kafka="ssl.enabled.protocols"
    )
    ssl_cipher_suites: str = option("", _list_of(), "str", kafka="ssl.cipher.suites")
    ssl_client_auth: str = _choice("ssl.client.auth")
    ssl_endpoint_identification_algorithm: str = option(
        "https", _identification, "str", kafka="ssl.endpoint.identification.algorithm"
    )
    ssl_allow_dn_changes: bool = flag(False, kafka="ssl.allow.dn.changes")
    ssl_allow_san_changes: bool = flag(False, kafka="ssl.allow.san.changes")
    ssl_principal_mapping_rules: str = text("DEFAULT", kafka="ssl.principal.mapping.rules")
    sasl_enabled_mechanisms: str = option("GSSAPI", _list_of(), "str", kafka="sasl.enabled.mechanisms")
    sasl_mechanism_inter_broker_protocol: str = text("GSSAPI", kafka="sasl.mechanism.inter.broker.protocol")
    sasl_server_max_receive_size: int = number(524_288, 1, kafka="sasl.server.max.receive.size")
    connections_max_reauth_ms: int = number(0, 0, _REAUTH_MS_MAX, kafka="connections.max.reauth.ms")
    java_security_auth_login_config: str | None = text(None, kafka=JAAS_FILE)
    connection_failed_authentication_delay_ms: int = number(100, 0, kafka="connection.failed.authentication.delay.ms")

    @property
    def tls_versions(self) -> tuple[str, ...]:
        """The TLS versions."""
        return _names(self.ssl_enabled_protocols)

    @property
    def cipher_suites(self) -> tuple[str, ...]:
        """The cipher suites for TLS 1.2; empty for OpenSSL's."""
        return _names(self.ssl_cipher_suites)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms."""
        return _names(self.sasl_enabled_mechanisms)
