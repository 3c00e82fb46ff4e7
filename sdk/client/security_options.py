"""The TLS and SASL options of every client: names, defaults, and the rules between them.

The names are Kafka's, except that `sasl.username`, `sasl.password` and `ssl.key.location` are librdkafka's.
Certificates and keys are PEM. Secrets are kept in `Secret`, which hides them.

Source: Apache Kafka, `CommonClientConfigs`, `SslConfigs`, `SaslConfigs`; KIP-651 (PEM).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafkawire.sdk.client.option_values import SECURITY_PROTOCOLS, check_encodable, read_wire_text
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options, choice, flag, listed, literal, option, text
from kafkawire.sdk.secret import Secret

if TYPE_CHECKING:
    import ssl

__all__ = ["SecurityOptions", "TokenProvider"]

#: Returns a token, or an awaitable of one; called for each login.
TokenProvider = Callable[[], Any]

_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
_OIDC: Final = (
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_credentials_client_secret",
)

#: Options that have an effect only with a token service.
_SERVICE: Final = (*_OIDC, "sasl_oauthbearer_scope", "sasl_oauthbearer_header_urlencode")

#: The options that each mechanism uses.
_USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl_username": _PASSWORD_MECHANISMS,
    "sasl_password": _PASSWORD_MECHANISMS,
    "sasl_scram_tokenauth": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "sasl_oauthbearer_token": ("OAUTHBEARER",),
    "sasl_oauthbearer_extensions": ("OAUTHBEARER",),
    **dict.fromkeys(_SERVICE, ("OAUTHBEARER",)),
    "sasl_kerberos_service_name": ("GSSAPI",),
    "sasl_aws_region": ("AWS_MSK_IAM",),
}


def _mechanism(name: str, value: object) -> object:
    if value is not None and value not in _MECHANISMS:
        raise ConfigurationError(name, value, f"expected one of {listed(value, [*_MECHANISMS])}")
    return value


def _secret(name: str, value: object) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value:
        raise ConfigurationError(name, value, "expected a non-empty string")
    check_encodable(name, value)
    return Secret(value)


def _token(name: str, value: object) -> Secret | TokenProvider | None:
    return value if callable(value) else _secret(name, value)


def _context(name: str, value: object) -> object:
    if value is not None:
        import ssl  # a plaintext client does not need it

        if not isinstance(value, ssl.SSLContext):
            raise ConfigurationError(name, value, "expected an ssl.SSLContext")
    return value


def _extensions(name: str, value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigurationError(name, value, "expected a mapping of names to values")
    from kafkawire.sdk.protocol.sasl.oauthbearer import check_extensions

    return check_extensions(name, value)


class SecurityOptions(Options):
    """How a client and its brokers authenticate each other.

    Attributes:
        security_protocol: "PLAINTEXT", "SSL" (TLS), "SASL_PLAINTEXT" or "SASL_SSL".
        ssl_context: the TLS configuration, instead of the other `ssl_` options.
        ssl_truststore_type: "PEM"; Java's own formats are not supported.
        ssl_keystore_type: "PEM"; Java's own formats are not supported.
        ssl_truststore_location: file with the certificates of trusted authorities; by default, the system's
            certificates are used.
        ssl_truststore_certificates: the certificates of trusted authorities, as text.
        ssl_keystore_location: file with this client's certificate chain, and with its private key unless that is given
            separately.
        ssl_keystore_certificate_chain: the certificate chain, as text.
        ssl_key_location: file with the private key.
        ssl_keystore_key: the private key, as text.
        ssl_key_password: the password of the private key.
        ssl_endpoint_identification_algorithm: "https" to check that a broker's certificate matches its name, "" to skip
            the check.
        sasl_mechanism: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI" or "AWS_MSK_IAM".
        sasl_username: the user's name for PLAIN and SCRAM; with `sasl_scram_tokenauth`, the id of a delegation token.
        sasl_password: the user's password for PLAIN and SCRAM.
        sasl_scram_tokenauth: whether `sasl_username` is the id of a delegation token.
        sasl_oauthbearer_token: a token, or a function that returns one, asynchronous or not. The function is called for
            each login and may reuse a token for most of its life, such as 80 %; it has `connect_timeout_ms` and, unless
            it is asynchronous, must not block.
        sasl_oauthbearer_extensions: names and values to send with the token.
        sasl_oauthbearer_token_endpoint_url: where to fetch tokens with OpenID Connect, using the options below.
        sasl_oauthbearer_client_credentials_client_id: the client id for fetching tokens.
        sasl_oauthbearer_client_credentials_client_secret: the secret of that client id.
        sasl_oauthbearer_scope: the scope to request.
        sasl_oauthbearer_header_urlencode: whether to URL-encode the client id and secret as RFC 6749 requires; some
            services do not decode them.
        sasl_kerberos_service_name: the first part of the brokers' Kerberos principal.
        sasl_aws_region: the region of the MSK cluster; None to take it from the broker's name.
    """

    ALIASES: ClassVar[Mapping[str, str]] = {
        "sasl.mechanisms": "sasl_mechanism",
        "sasl_plain_password": "sasl_password",
        "sasl_plain_username": "sasl_username",
        "ssl.ca.location": "ssl_truststore_location",
        "ssl.certificate.location": "ssl_keystore_location",
        "ssl_cafile": "ssl_truststore_location",
        "ssl_certfile": "ssl_keystore_location",
        "ssl_keyfile": "ssl_key_location",
        "ssl_password": "ssl_key_password",
    }

    security_protocol: str = choice(SECURITY_PROTOCOLS[0], *SECURITY_PROTOCOLS, kafka="security.protocol")
    ssl_context: ssl.SSLContext | None = option(None, _context, "ssl.SSLContext | None")
    ssl_truststore_type: str = choice("PEM", "PEM", kafka="ssl.truststore.type")
    ssl_keystore_type: str = choice("PEM", "PEM", kafka="ssl.keystore.type")
    ssl_truststore_location: str | None = text(None, kafka="ssl.truststore.location")
    ssl_truststore_certificates: str | None = text(None, kafka="ssl.truststore.certificates")
    ssl_keystore_location: str | None = text(None, kafka="ssl.keystore.location")
    ssl_keystore_certificate_chain: str | None = text(None, kafka="ssl.keystore.certificate.chain")
    ssl_key_location: str | None = text(None, kafka="ssl.key.location")
    ssl_keystore_key: Secret | None = option(None, _secret, "str | None", kafka="ssl.keystore.key")
    ssl_key_password: Secret | None = option(None, _secret, "str | None", kafka="ssl.key.password")
    ssl_endpoint_identification_algorithm: str = choice(
        "https", "https", "", kafka="ssl.endpoint.identification.algorithm"
    )
    sasl_mechanism: str | None = option(None, _mechanism, f"{literal(*_MECHANISMS)} | None", kafka="sasl.mechanism")
    sasl_username: str | None = option(None, read_wire_text, "str | None", kafka="sasl.username")
    sasl_password: Secret | None = option(None, _secret, "str | None", kafka="sasl.password")
    sasl_scram_tokenauth: bool = flag(False)
    sasl_oauthbearer_token: Secret | TokenProvider | None = option(None, _token, "str | TokenProvider | None")
    sasl_oauthbearer_extensions: dict[str, str] | None = option(None, _extensions, "Mapping[str, str] | None")
    sasl_oauthbearer_token_endpoint_url: str | None = text(None, kafka="sasl.oauthbearer.token.endpoint.url")
    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        None, read_wire_text, "str | None", kafka="sasl.oauthbearer.client.credentials.client.id"
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        None, _secret, "str | None", kafka="sasl.oauthbearer.client.credentials.client.secret"
    )
    sasl_oauthbearer_scope: str | None = option(None, read_wire_text, "str | None", kafka="sasl.oauthbearer.scope")
    sasl_oauthbearer_header_urlencode: bool = flag(False, kafka="sasl.oauthbearer.header.urlencode")
    sasl_kerberos_service_name: str = text("kafka", kafka="sasl.kerberos.service.name")
    sasl_aws_region: str | None = text(None)

    def check(self, given: Collection[str]) -> None:
        super().check(given)
        _check_tls(self)
        _check_sasl(self)


def _set(options: SecurityOptions, names: Iterable[str]) -> list[str]:
    """Return the names of the options whose values differ from the defaults."""
    return [name for name in names if getattr(options, name) != options.OPTIONS[name].default]


def _check_tls(options: SecurityOptions) -> None:
    given = _set(options, (name for name in SecurityOptions.OPTIONS if name.startswith("ssl_")))
    if given and not options.security_protocol.endswith("SSL"):
        reason = f'{given[0]} needs security_protocol "SSL" or "SASL_SSL"'
        raise ConfigurationError("security_protocol", options.security_protocol, reason)
    if options.ssl_context is not None and len(given) > 1:
        others = ", ".join(name for name in given if name != "ssl_context")
        raise ConfigurationError("ssl_context", options.ssl_context, f"cannot be combined with {others}")
    for first, second in (
        ("ssl_truststore_location", "ssl_truststore_certificates"),
        ("ssl_keystore_location", "ssl_keystore_certificate_chain"),
        ("ssl_key_location", "ssl_keystore_key"),
    ):
        if first in given and second in given:
            raise ConfigurationError(first, getattr(options, first), f"cannot be combined with {second}")
    if not {"ssl_keystore_location", "ssl_keystore_certificate_chain"} & set(given):
        for name in ("ssl_key_location", "ssl_keystore_key", "ssl_key_password"):
            if name in given:
                reason = "needs ssl_keystore_location or ssl_keystore_certificate_chain"
                raise ConfigurationError(name, getattr(options, name), reason)


def _check_sasl(options: SecurityOptions) -> None:
    mechanism = options.sasl_mechanism
    given = _set(options, (name for name in SecurityOptions.OPTIONS if name.startswith("sasl_")))
    if not options.security_protocol.startswith("SASL_"):
        if given:
            reason = f'{given[0]} needs security_protocol "SASL_SSL" or "SASL_PLAINTEXT"'
            raise ConfigurationError("security_protocol", options.security_protocol, reason)
        return
    if mechanism is None:
        raise ConfigurationError("sasl_mechanism", None, f"required for {options.security_protocol}")
    for name in given:
        if mechanism not in _USED_BY.get(name, (mechanism,)):
            raise ConfigurationError(name, getattr(options, name), f"not used by {mechanism}")
    if mechanism in _PASSWORD_MECHANISMS:
        _check_needed(options, mechanism, ("sasl_username", "sasl_password"))
    if mechanism == "OAUTHBEARER":
        _check_oauthbearer(options, given)


def _check_oauthbearer(options: SecurityOptions, given: list[str]) -> None:
    if options.sasl_oauthbearer_token is None:
        _check_needed(options, "OAUTHBEARER without sasl_oauthbearer_token", _OIDC)
        return
    for name in given:
        if name in _SERVICE:
            raise ConfigurationError(name, getattr(options, name), "cannot be combined with sasl_oauthbearer_token")


def _check_needed(options: SecurityOptions, what: str, names: Iterable[str]) -> None:
    for name in names:
        if not getattr(options, name):
            raise ConfigurationError(name, getattr(options, name), f"required for {what}")
