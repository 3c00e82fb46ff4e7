"""How this broker connects to other brokers' listeners: with TLS or without, and with which login.

The login is that of the listener's own `sasl.jaas.config` for `sasl.mechanism.inter.broker.protocol`, as in Kafka.

Source: `ChannelBuilders.clientChannelBuilder`, `LoginManager`, `SaslClientCallbackHandler`,
`OAuthBearerUnsecuredLoginCallbackHandler` in Apache Kafka.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.security_options import JAAS, JAAS_FILE
from kafkawire.reference_broker.config.security_settings import SecuritySettings
from kafkawire.reference_broker.network.tls_settings import ListenerTls
from kafkawire.reference_broker.security.sasl.jaas import parse_jaas, server_section
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, Login
from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
from kafkawire.sdk.protocol.scram import SCRAM_MECHANISMS
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.threads import in_thread
from kafkawire.sdk.transport.timing import random_text

__all__ = ["LinkSecurity", "LinkTls", "link_security"]

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"

#: Options of OAuthBearerLoginModule: the claims of an unsecured token, and its lifetime if it is not given.
_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_LIFETIME_SECONDS: Final = 3_600


class LinkTls:
    """A callable that returns the TLS context for a new connection.

    Args:
        listener: see `link_security`.
        settings: see `link_security`.

    Raises:
        ConfigurationError: an option cannot be used; the error names the listener.
    """

    def __init__(self, listener: Listener, settings: SecuritySettings) -> None:
        self._listener = listener
        self._tls = ListenerTls(listener, settings, is_server=False)

    def __call__(self) -> ssl.SSLContext:
        return self._tls.context(monotonic_ms())

    def change(self, settings: SecuritySettings) -> None:
        """Use the certificates of other settings for later connections.

        Raises:
            ConfigurationError: they cannot be used, and the former ones stay.
        """
        self._tls = ListenerTls(self._listener, settings, is_server=False)


class LinkSecurity(NamedTuple):
    """The security of connections to other brokers.

    Attributes:
        tls: returns the TLS context for a new connection; None for connections without TLS.
        login: creates an authenticator for each login; None for connections without a login.
    """

    tls: LinkTls | None
    login: Login | None


def link_security(listener: Listener, settings: SecuritySettings) -> LinkSecurity:
    """Return how to connect to the other brokers' listener of the same name.

    Args:
        listener: this broker's listener.
        settings: the security of its listeners.

    Raises:
        ConfigurationError: an option cannot be used; the error names the listener.
    """
    login = _login(listener, settings) if listener.has_login else None
    return LinkSecurity(LinkTls(listener, settings) if listener.has_tls else None, login)


def _login(listener: Listener, settings: SecuritySettings) -> Login:
    mechanism = settings.of(listener.name).sasl_mechanism_inter_broker_protocol
    known = _LOGINS.get(mechanism)
    if known is None:
        full_name = settings.full_name(listener.name, _MECHANISM)
        reason = f"listener {listener.name}: expected one of {', '.join(_LOGINS)}"
        raise ConfigurationError(full_name, mechanism, reason)
    given = settings.of_mechanism(listener.name, mechanism)
    full_name = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.{JAAS}"
    if JAAS not in given and JAAS_FILE in given:
        full_name = JAAS_FILE
    elif JAAS not in given:
        reason = f"listener {listener.name}: needed for connections between brokers"
        raise ConfigurationError(full_name, None, reason)
    enabled = settings.of(listener.name).mechanisms
    if mechanism not in enabled:  # the other brokers, which have the same options, would refuse every login
        full_name = settings.full_name(listener.name, _MECHANISM)
        reason = f"listener {listener.name}: expected one of sasl.enabled.mechanisms, {', '.join(enabled) or 'none'}"
        raise ConfigurationError(full_name, mechanism, reason)
    try:
        return known.begin(mechanism, _login_module(listener, known.module, given), given)
    except (OSError, ValueError, KeyError) as error:
        reason = f"the option {error.args[0]} is needed" if isinstance(error, KeyError) else str(error)
        reason = f"listener {listener.name}: the login between brokers cannot be used: {reason}"
        raise ConfigurationError(full_name, "", reason) from None


def _login_module(listener: Listener, module: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of the login module.

    Raises:
        OSError: the file with login modules cannot be read.
        ValueError: the notation is wrong, or there is no such login module.
    """
    if JAAS in given:
        return parse_jaas(given[JAAS]).options
    for entry in server_section(Path(given[JAAS_FILE]).read_text("utf-8"), listener.name):
        if entry.module.endswith(f".{module}"):
            return entry.options
    raise ValueError(f"there is no {module}")


def _plain(mechanism: str, options: Mapping[str, str], given: Mapping[str, str]) -> Login:
    username, password = options["username"], Secret(options["password"])

    async def login(host: str) -> Authenticator:
        return PlainAuthenticator(username, password)

    return login


def _scram(mechanism: str, options: Mapping[str, str], given: Mapping[str, str]) -> Login:
    username, password = options["username"], Secret(options["password"])
    is_token = options.get("tokenauth", "").lower() == "true"

    async def login(host: str) -> Authenticator:
        return ScramAuthenticator(mechanism, username, password, random_text(), is_token=is_token)

    return login


def _oauthbearer(mechanism: str, options: Mapping[str, str], given: Mapping[str, str]) -> Login:
    """Return a login with unsecured tokens, the only ones that brokers can make themselves."""
    claims = {name[len(_CLAIM) :]: value for name, value in options.items() if name.startswith(_CLAIM)}
    if "sub" not in claims:
        raise KeyError(f"{_CLAIM}sub")
    lifetime_seconds = int(options.get(_LIFETIME, _LIFETIME_SECONDS))

    async def login(host: str) -> Authenticator:
        return OAuthBearerAuthenticator(Secret(_unsecured_token(claims, lifetime_seconds)), None)

    return login


def _unsecured_token(claims: Mapping[str, str], lifetime_seconds: int) -> str:
    now_seconds = now_ms() / 1_000
    content = {**claims, "iat": now_seconds, "exp": now_seconds + lifetime_seconds}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, content))
    return ".".join(base64.b64encode(part, b"-_").decode().rstrip("=") for part in parts) + "."


def _gssapi(mechanism: str, options: Mapping[str, str], given: Mapping[str, str]) -> Login:
    service = given.get("sasl.kerberos.service.name") or options["serviceName"]

    async def login(host: str) -> Authenticator:
        from kafkawire.sdk.protocol.sasl.gssapi import GssapiAuthenticator  # needs a package that few have

        # The first step requests a ticket from the Kerberos server, over the network.
        return await in_thread(lambda: GssapiAuthenticator(service, host))

    return login


class _Known(NamedTuple):
    """A mechanism.

    Attributes:
        module: the name of the class of its login module, without the package.
        begin: returns a login, given the mechanism, the options of the login module, and those of the mechanism.
    """

    module: str
    begin: Callable[[str, Mapping[str, str], Mapping[str, str]], Login]


_LOGINS: Final[Mapping[str, _Known]] = {
    "PLAIN": _Known("PlainLoginModule", _plain),
    **dict.fromkeys(SCRAM_MECHANISMS, _Known("ScramLoginModule", _scram)),
    "OAUTHBEARER": _Known("OAuthBearerLoginModule", _oauthbearer),
    "GSSAPI": _Known("Krb5LoginModule", _gssapi),
}
