"""Turn a user's options into the TLS settings and authenticators that connections need.

A mechanism and its optional packages are imported by the first login that uses them.

Source: `LoginManager` and `SaslClientCallbackHandler` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.client.security_options import SecurityOptions, TokenProvider
from kafkawire.sdk.client.token_life import expires_ms
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, CredentialsUnavailable, Login
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.threads import in_thread
from kafkawire.sdk.transport.timing import random_text, sleep_ms
from kafkawire.sdk.transport.tls import PemFiles
from kafkawire.sdk.version import __version__

if TYPE_CHECKING:
    import ssl

    from kafkawire.sdk.protocol.sasl.aws_msk_iam import AwsCredentials

__all__ = ["TOKEN_LIFE_MIN_MS", "credentials", "login", "tls"]

#: A token that ends within this time might end on its way to the broker.
TOKEN_LIFE_MIN_MS: Final = 1_000

#: How long after its end a token has surely ended for the function, too, whose clock may be another one.
_AFTER_END_MS: Final = 20


def tls(options: SecurityOptions) -> ssl.SSLContext | PemFiles | None:
    """Return the TLS settings for `TcpNetwork`; None for plaintext."""
    if not options.security_protocol.endswith("SSL"):
        return None
    if options.ssl_context is not None:
        return options.ssl_context
    key = options.ssl_keystore_key
    if options.ssl_key_location is not None:
        key = Secret(options.ssl_key_location)
    return PemFiles(
        options.ssl_truststore_certificates or options.ssl_truststore_location,
        options.ssl_keystore_certificate_chain or options.ssl_keystore_location,
        key,
        options.ssl_key_password,
        checks_hostname=bool(options.ssl_endpoint_identification_algorithm),
    )


def login(options: SecurityOptions) -> Login | None:
    """Return a function that creates one authenticator per login; None for connections without SASL."""
    if not options.security_protocol.startswith("SASL_"):
        return None
    match options.sasl_mechanism:
        case "OAUTHBEARER":
            return _oauthbearer(options)
        case "GSSAPI":
            return _gssapi(options)
        case "AWS_MSK_IAM":
            return _aws_msk_iam(options)
        case _:
            return _password(options)


def credentials(options: SecurityOptions) -> str:
    """Return where logins get their credentials, as the subject of a sentence."""
    match options.sasl_mechanism:
        case "OAUTHBEARER" if callable(provide := options.sasl_oauthbearer_token):
            name = getattr(provide, "__qualname__", type(provide).__qualname__)
            return f"the function {name} (sasl_oauthbearer_token)"
        case "OAUTHBEARER" if options.sasl_oauthbearer_token is None:
            return "the token service (sasl_oauthbearer_token_endpoint_url)"
        case "GSSAPI":
            return "Kerberos (sasl_mechanism)"
        case "AWS_MSK_IAM":
            return "botocore (sasl_mechanism)"
        case _:
            return "the login"


def _password(options: SecurityOptions) -> Login:
    mechanism, username, password = options.sasl_mechanism, options.sasl_username, options.sasl_password
    assert mechanism is not None
    assert username is not None
    assert password is not None, "the options were checked"

    async def plain(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator

        return PlainAuthenticator(username, password)

    async def scram(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator

        is_token = options.sasl_scram_tokenauth
        return ScramAuthenticator(mechanism, username, password, random_text(), is_token=is_token)

    return plain if mechanism == "PLAIN" else scram


def _oauthbearer(options: SecurityOptions) -> Login:
    provide = _token_provider(options)

    async def oauthbearer(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator

        token = await _token(provide) if callable(provide) else provide
        return OAuthBearerAuthenticator(token, options.sasl_oauthbearer_extensions)

    return oauthbearer


async def _token(provide: TokenProvider) -> Secret:
    """Return a token; one that is about to end is not used, but waited out."""
    token = await _asked(provide)
    end_ms = expires_ms(token)
    if end_ms is not None and 0 < (left_ms := end_ms - now_ms()) < TOKEN_LIFE_MIN_MS:
        await sleep_ms(left_ms + _AFTER_END_MS)
        token = await _asked(provide)
    return token


async def _asked(provide: TokenProvider) -> Secret:
    token = provide()
    if isinstance(token, Awaitable):
        token = await token
    if isinstance(token, str):
        token = Secret(token)
    if not isinstance(token, Secret):
        reason = f"expected a function that returns a string, but it returned {type(token).__name__}"
        raise ConfigurationError("sasl_oauthbearer_token", token, reason)
    return token


def _token_provider(options: SecurityOptions) -> Secret | TokenProvider:
    if options.sasl_oauthbearer_token is not None:
        return options.sasl_oauthbearer_token
    from kafkawire.sdk.client.oidc import ClientCredentials

    url, client_id = (
        options.sasl_oauthbearer_token_endpoint_url,
        options.sasl_oauthbearer_client_credentials_client_id,
    )
    secret = options.sasl_oauthbearer_client_credentials_client_secret
    assert url is not None
    assert client_id is not None
    assert secret is not None, "the options were checked"
    scope, encodes = options.sasl_oauthbearer_scope, options.sasl_oauthbearer_header_urlencode
    return ClientCredentials(url, client_id, secret, scope, url_encodes=encodes).token


def _gssapi(options: SecurityOptions) -> Login:
    async def gssapi(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.gssapi import GssapiAuthenticator

        # The first step requests a ticket from the Kerberos server, over the network.
        return await in_thread(lambda: GssapiAuthenticator(options.sasl_kerberos_service_name, host))

    return gssapi


def _aws_msk_iam(options: SecurityOptions) -> Login:
    async def aws_msk_iam(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.aws_msk_iam import AwsMskIamAuthenticator, region_of

        region = options.sasl_aws_region or region_of(host)
        credentials = await in_thread(_aws_credentials)  # may read files or use the network
        return AwsMskIamAuthenticator(host, region, credentials, now_ms(), f"kafkawire/{__version__}")

    return aws_msk_iam


def _aws_credentials() -> AwsCredentials:
    """Return credentials from the usual sources: the environment, files or the machine's role.

    Raises:
        ConfigurationError: the package `botocore` is not installed.
        CredentialsUnavailable: nothing provides credentials at the moment.
    """
    from kafkawire.sdk.protocol.sasl.aws_msk_iam import AwsCredentials

    option, mechanism = "sasl_mechanism", "AWS_MSK_IAM"
    try:
        from botocore.session import Session
    except ImportError as error:
        reason = 'needs the package botocore: pip install "kafkawire[aws]"'
        raise ConfigurationError(option, mechanism, reason) from error
    found = Session().get_credentials()
    if found is None:
        raise CredentialsUnavailable("AWS_MSK_IAM: botocore found no AWS credentials")
    frozen = found.get_frozen_credentials()
    token = Secret(frozen.token) if frozen.token else None
    return AwsCredentials(frozen.access_key, Secret(frozen.secret_key), token)
