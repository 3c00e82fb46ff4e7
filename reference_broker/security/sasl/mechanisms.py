"""The mechanisms that a listener can offer: their settings, and the exchanges that they begin.

    mechanism = new_exchange("OAUTHBEARER", settings, scram, tokens)     # refuses unusable settings
    mechanism.start(timers, background, now_ms)                          # when the listener opens
    exchange = mechanism()                                               # for each login
    mechanism.stop()                                                     # when the listener closes

Source: `SaslChannelBuilder` in Apache Kafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import url2pathname

from kafkawire.reference_broker.config.config_values import entries_of, parse_integer, trimmed
from kafkawire.reference_broker.security.credentials import ScramCredentials, TokenCredentials
from kafkawire.reference_broker.security.sasl.gssapi import GSSAPI, Acceptor, GssapiExchange
from kafkawire.reference_broker.security.sasl.jaas import JaasEntry, parse_jaas, server_section
from kafkawire.reference_broker.security.sasl.kerberos_names import ShortNames
from kafkawire.reference_broker.security.sasl.key_documents import KeyFile, KeyUrl
from kafkawire.reference_broker.security.sasl.mechanism import Exchange, NewExchange
from kafkawire.reference_broker.security.sasl.oauthbearer import OAUTHBEARER, OAuthBearerExchange
from kafkawire.reference_broker.security.sasl.plain import PLAIN, PlainExchange, passwords_in
from kafkawire.reference_broker.security.sasl.scram import ScramExchange
from kafkawire.reference_broker.security.sasl.signed_tokens import ExpectedClaims, SignedTokens
from kafkawire.reference_broker.security.sasl.unsecured_tokens import OPTION_PREFIXES, unsecured_tokens
from kafkawire.reference_broker.security.sasl.verification_keys import RefreshTimes, VerificationKeys
from kafkawire.reference_broker.work.background import Background
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.jaas import TEXT_CHARACTERS_MAX
from kafkawire.sdk.protocol.scram import SCRAM_MECHANISMS
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.transport.timing import random_text
from kafkawire.sdk.transport.tls import PemFiles, tls_context

__all__ = ["FILE_REFRESH_MS", "MECHANISMS", "Mechanism", "new_exchange"]

#: How often a file with keys is checked; Kafka checks it in each login, which here does no I/O.
FILE_REFRESH_MS: Final = 1_000

_JAAS: Final = "sasl.jaas.config"
_JAAS_FILE: Final = "java.security.auth.login.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
_KEYS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_RULES: Final = "sasl.kerberos.principal.to.local.rules"

_SECURITY: Final = "org.apache.kafka.common.security."
_OAUTH: Final = f"{_SECURITY}oauthbearer."

#: The handlers of OAUTHBEARER that validate signed and unsigned tokens; the first one has moved since 3.9.
_SIGNED_HANDLERS: Final = (
    f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED_HANDLER: Final = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"

#: The validators of signed tokens that check signatures.
_VALIDATORS: Final = (f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator")


class _Known(NamedTuple):
    """A mechanism.

    Attributes:
        modules: its login modules.
        handlers: the callback handlers whose behaviour it has.
        make: reads the settings; returns how to begin an exchange.
    """

    modules: tuple[str, ...]
    handlers: tuple[str, ...]
    make: Callable[[_Request], _Made]


class _Request(NamedTuple):
    """What a mechanism is made of; the settings contain secrets."""

    mechanism: str
    settings: Mapping[str, str]
    jaas: JaasEntry
    scram: ScramCredentials
    tokens: TokenCredentials | None
    random_text: Callable[[], str]

    def __repr__(self) -> str:
        return f"_Request({self.mechanism!r}, settings={sorted(self.settings)})"


class _Made(NamedTuple):
    """How to begin an exchange, and the keys to keep up to date."""

    begin: NewExchange
    keys: VerificationKeys | None = None


class Mechanism:
    """A mechanism with its settings; a call begins a login.

    Args:
        name: the name of the mechanism.
        begin: begins a login.
        keys: the keys that have to be kept up to date; None if there are none.
    """

    def __init__(self, name: str, begin: NewExchange, keys: VerificationKeys | None = None) -> None:
        self.name = name
        self._begin = begin
        self._keys = keys

    def __call__(self) -> Exchange:
        """Begin a login."""
        return self._begin()

    def start(self, timers: Timers, background: Background, now_ms: int) -> None:
        """Keep keys up to date from now on; until the first ones have arrived from a URL, tokens are rejected.

        Args:
            timers: the broker's timers.
            background: runs blocking work.
            now_ms: the current time.
        """
        if self._keys is not None:
            self._keys.start(timers, background, now_ms)

    def stop(self) -> None:
        """Stop updating keys."""
        if self._keys is not None:
            self._keys.stop()


def new_exchange(
    mechanism: str,
    settings: Mapping[str, str],
    scram: ScramCredentials,
    tokens: TokenCredentials | None,
    random_text: Callable[[], str] = random_text,
    *,
    listener: str = "",
) -> Mechanism:
    """Return a mechanism of a listener.

    Args:
        mechanism: one of `MECHANISMS`.
        settings: the listener's settings for the mechanism, with Kafka's names without prefixes; without
            `sasl.jaas.config`, the file in `java.security.auth.login.config` has the login module.
        scram: looks up SCRAM credentials.
        tokens: looks up delegation tokens; None if there are none.
        random_text: returns an unguessable text, without commas, for SCRAM.
        listener: the name of the listener, which may have a section of its own in that file.

    Raises:
        ConfigurationError: a setting is missing or unusable, or a package that the mechanism needs is not installed.
    """
    known = MECHANISMS.get(mechanism)
    if known is None:
        raise ConfigurationError("sasl.enabled.mechanisms", mechanism, f"expected some of {', '.join(MECHANISMS)}")
    handler = settings.get(_HANDLER)
    if handler is not None and handler not in known.handlers:
        reason = f"no Java class can be loaded for {mechanism}; omit the option, or use {' or '.join(known.handlers)}"
        raise ConfigurationError(_HANDLER, handler, reason)
    jaas = _entry(mechanism, known.modules, settings, listener)
    made = known.make(_Request(mechanism, settings, jaas, scram, tokens, random_text))
    return Mechanism(mechanism, made.begin, made.keys)


def _entry(mechanism: str, modules: tuple[str, ...], settings: Mapping[str, str], listener: str) -> JaasEntry:
    """Return the login module of a mechanism."""
    text, path = settings.get(_JAAS), settings.get(_JAAS_FILE)
    option, value = (_JAAS, text) if text is not None or path is None else (_JAAS_FILE, path)
    if value is None:
        raise ConfigurationError(option, None, f"required for {mechanism}: {modules[0]} required;")
    try:
        if option == _JAAS:
            entries = [parse_jaas(value)]
        else:
            with open(value, "rb") as file:
                entries = server_section(file.read(TEXT_CHARACTERS_MAX + 1).decode(), listener)
    except (OSError, ValueError) as error:
        raise ConfigurationError(option, value, str(error)) from None
    for entry in entries:
        if entry.module in modules:
            return entry
    raise ConfigurationError(option, value, f"expected the login module {modules[0]} for {mechanism}")


def _plain(request: _Request) -> _Made:
    return _Made(partial(PlainExchange, passwords_in(request.jaas.options)))


def _scram(request: _Request) -> _Made:
    mechanism, scram, tokens = request.mechanism, request.scram, request.tokens
    return _Made(lambda: ScramExchange(mechanism, request.random_text(), scram, tokens))


def _oauthbearer(request: _Request) -> _Made:
    settings, options = request.settings, request.jaas.options
    handler = settings.get(_HANDLER)
    url = trimmed(settings.get(_KEYS, ""))
    is_unsecured = any(name.startswith(OPTION_PREFIXES) for name in options)
    if handler == _UNSECURED_HANDLER or (handler is None and not url and is_unsecured):
        try:
            unsecured = unsecured_tokens(options)
        except ValueError as error:
            raise ConfigurationError(_JAAS, "", str(error)) from None
        return _Made(partial(OAuthBearerExchange, unsecured))
    if not url:
        reason = "required to verify tokens; for tests, options of the login module can ask for unsecured tokens"
        raise ConfigurationError(_KEYS, None, reason)
    validator = settings.get(_VALIDATOR)
    if validator not in (None, *_VALIDATORS):
        raise ConfigurationError(_VALIDATOR, validator, f"expected {' or '.join(_VALIDATORS)}")
    keys = _keys(settings, options, url)
    issuer = trimmed(settings.get("sasl.oauthbearer.expected.issuer", "")) or None
    expected = ExpectedClaims(
        frozenset(entries_of(settings.get("sasl.oauthbearer.expected.audience", ""))),
        issuer,
        _claim(settings, "sasl.oauthbearer.sub.claim.name"),
        _claim(settings, "sasl.oauthbearer.scope.claim.name"),
        _number(settings, "sasl.oauthbearer.clock.skew.seconds"),
    )
    return _Made(partial(OAuthBearerExchange, SignedTokens(keys, expected)), keys)


def _keys(settings: Mapping[str, str], options: Mapping[str, str], url: str) -> VerificationKeys:
    """Return the keys at a URL; those in a file are read at once."""
    times = RefreshTimes(
        _number(settings, "sasl.oauthbearer.jwks.endpoint.refresh.ms", at_least=1),
        _number(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        _number(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )
    parts = _url_parts(url)
    context = _trust(options) if parts.scheme == "https" else None
    try:
        if parts.scheme == "file":
            file = KeyFile(url2pathname(parts.path))
            document = file()
            return VerificationKeys(file, url, times._replace(refresh_ms=FILE_REFRESH_MS), document)
        location = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        return VerificationKeys(KeyUrl(url, context), location, times)
    except (OSError, ValueError) as error:
        raise ConfigurationError(_KEYS, url, f"the keys cannot be read: {error}") from error
    except ImportError as error:
        raise ConfigurationError(_KEYS, url, 'needs cryptography: pip install "kafkawire[jwt]"') from error


def _url_parts(url: str) -> SplitResult:
    with suppress(ValueError):  # for example in the notation of an IPv6 address
        parts = urlsplit(url)
        if {"file": parts.path, "http": parts.hostname, "https": parts.hostname}.get(parts.scheme):
            return parts
    raise ConfigurationError(_KEYS, url, "expected a URL that begins with file:///, http:// or https://")


def _trust(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context that the options of the login module describe; None for the system's authorities."""
    given = {name: value for name, value in options.items() if name.startswith("ssl.")}
    location, kind = given.pop("ssl.truststore.location", None), given.pop("ssl.truststore.type", "PEM")
    if given or kind != "PEM":
        reason = "of the options that begin with ssl, only ssl.truststore.location with PEM is supported"
        raise ConfigurationError(_JAAS, "", reason)
    return None if location is None else tls_context(PemFiles(location))


def _gssapi(request: _Request) -> _Made:
    options = request.jaas.options
    principal = options.get("principal")
    if not principal:
        raise ConfigurationError(_JAAS, "", "the option principal is required, for example kafka/host@REALM")
    rules = entries_of(_setting(request.settings, _RULES))
    try:
        acceptor = Acceptor(principal, options.get("keyTab"))
    except ValueError as error:
        raise ConfigurationError(_JAAS, "", str(error)) from error
    except ImportError as error:
        reason = 'GSSAPI needs the package gssapi: pip install "kafkawire[kerberos]"'
        raise ConfigurationError("sasl.enabled.mechanisms", GSSAPI, reason) from error
    try:
        names = ShortNames(rules, acceptor.realm)
    except ValueError as error:
        raise ConfigurationError(_RULES, ",".join(rules), str(error)) from None
    return _Made(lambda: GssapiExchange(acceptor, names))


def _setting(settings: Mapping[str, str], name: str) -> str:
    """Return a setting as text, or Kafka's default."""
    return settings.get(name, BROKER_CONFIGS[name].default or "")


def _number(settings: Mapping[str, str], name: str, at_least: int = 0) -> int:
    found = parse_integer(trimmed(_setting(settings, name)))
    if found is None or found < at_least:
        raise ConfigurationError(name, settings.get(name), f"expected a number of at least {at_least}")
    return found


def _claim(settings: Mapping[str, str], name: str) -> str:
    found = trimmed(_setting(settings, name))
    if not found:
        raise ConfigurationError(name, found, "must not be blank")
    return found


#: The mechanisms, keyed by name.
MECHANISMS: Final[Mapping[str, _Known]] = {
    PLAIN: _Known(
        (f"{_SECURITY}plain.PlainLoginModule",),
        (f"{_SECURITY}plain.internals.PlainServerCallbackHandler",),
        _plain,
    ),
    **{
        name: _Known(
            (f"{_SECURITY}scram.ScramLoginModule",),
            (f"{_SECURITY}scram.internals.ScramServerCallbackHandler",),
            _scram,
        )
        for name in SCRAM_MECHANISMS
    },
    OAUTHBEARER: _Known((f"{_OAUTH}OAuthBearerLoginModule",), (*_SIGNED_HANDLERS, _UNSECURED_HANDLER), _oauthbearer),
    GSSAPI: _Known(
        ("com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"),
        (f"{_SECURITY}authenticator.SaslServerCallbackHandler",),
        _gssapi,
    ),
}
