"""How clients connect to each listener: with TLS or without, logged in or not, and as which principal.

    socket ─▶ (TLS handshake ─▶ principal of the certificate) ─▶ ClientWire ─▶ Session ─▶ (SASL login ─▶ principal)

The doors are checked before the broker opens its logs, so that one that cannot be used stops the start.

Source: `SocketServer`, `ChannelBuilders`, `DefaultKafkaPrincipalBuilder` in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.security_options import JAAS, ListenerSecurityOptions
from kafkawire.reference_broker.config.security_settings import PREFIX, SecuritySettings, protected
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.network.handshakes import Handshakes
from kafkawire.reference_broker.network.outlets import Outlet
from kafkawire.reference_broker.network.tls_connection import TlsConnection, TlsDoor, ciphertext_buffer
from kafkawire.reference_broker.network.tls_settings import ListenerTls
from kafkawire.reference_broker.network.tls_transport import TlsTransport
from kafkawire.reference_broker.requests.call import RequestServices
from kafkawire.reference_broker.requests.login_turns import LoginTurns
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.session_login import ListenerLogin, LoginFailures
from kafkawire.reference_broker.security.authentication import OfferedMechanism
from kafkawire.reference_broker.security.credentials_in_use import CredentialsInUse
from kafkawire.reference_broker.security.distinguished_names import subject_of
from kafkawire.reference_broker.security.principal_mapping import NoRule, PrincipalMapping
from kafkawire.reference_broker.security.sasl.mechanisms import Mechanism, new_exchange
from kafkawire.reference_broker.work.background import Background
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.secret import revealed

__all__ = ["Doors", "NewOutlet"]

_log = logging.getLogger("kafkawire.broker")

_MECHANISMS: Final = "sasl.enabled.mechanisms"

#: Java's exceptions in Kafka's reasons why a certificate cannot replace another one.
_INVALID: Final = "org.apache.kafka.common.errors.InvalidConfigurationException"
_CONFIG: Final = "org.apache.kafka.common.config.ConfigException"

#: The configurations that a running broker can be given, as in Kafka: a listener's certificates.
_OF_TLS: Final = re.compile(r"listener\.name\..+\.ssl\.(?:key\.password|keystore\..+|truststore\..+)")

#: Creates what sends on a socket; see `ClientWire`.
NewOutlet = Callable[[socket.socket, asyncio.Transport], Outlet]


class _Door:
    """One listener.

    Args:
        listener: the listener.
        settings: the settings of all listeners.
        credentials: looks up the credentials of clients.

    Raises:
        ConfigurationError: an option cannot be used.

    Attributes:
        tls: the TLS of the listener; None if it has none.
        mapping: how names in certificates become principals.
        mechanisms: the mechanisms that it offers.
        offered: the same, keyed by name, with the times that their logins last.
        handshakes: its handshakes in progress.
    """

    def __init__(self, listener: Listener, settings: SecuritySettings, credentials: CredentialsInUse) -> None:
        self._listener = listener
        self.tls = ListenerTls(listener, settings) if listener.has_tls else None
        options = settings.of(listener.name)
        self.receive_bytes_max = options.sasl_server_max_receive_size
        self.failure_delay_ms = options.connection_failed_authentication_delay_ms
        self.handshakes = Handshakes()
        self.mechanisms = _mechanisms(listener, settings, credentials) if listener.has_login else []
        self.offered = {
            each.name: OfferedMechanism(each, settings.max_reauth_ms(listener.name, each.name))
            for each in self.mechanisms
        }
        try:
            self.mapping = PrincipalMapping(options.ssl_principal_mapping_rules)
        except ConfigurationError as error:
            raise _of_listener(error, listener, settings) from None

    def change(self, settings: SecuritySettings) -> None:
        """Use the certificates of other settings.

        Raises:
            ConfigurationError: see above.
        """
        if self.tls is not None:
            self.tls = ListenerTls(self._listener, settings)

    def check(self, settings: SecuritySettings) -> None:
        """Check that the certificates of other settings can replace the current ones.

        Raises:
            ConfigurationError: they cannot; the reason is Kafka's, if Kafka has one.
        """
        if self.tls is None:
            return
        try:
            new = ListenerTls(self._listener, settings)
        except ConfigurationError as error:
            _log.info("changed certificates are refused: %s", error)
            raise _unchangeable(error, _INVALID, _load_failure(error, settings.of(self._listener.name))) from None
        try:
            self.tls.check_change(new)
        except ConfigurationError as error:
            raise _unchangeable(error, _CONFIG, error.reason) from None


class Doors:
    """The doors of a broker.

    Args:
        listeners: its listeners.
        settings: their security.

    Raises:
        ConfigurationError: a listener cannot be used; the error names it, the option and the reason.

    Attributes:
        credentials: looks up the credentials of clients; the broker sets its stores.
        on_change: called with changed settings; if it raises ConfigurationError, the error is logged.
    """

    def __init__(self, listeners: Collection[Listener], settings: SecuritySettings) -> None:
        self._settings = settings
        self._changed: Mapping[str, object] = {}
        self.on_change: Callable[[SecuritySettings], None] = lambda settings: None
        self.credentials = CredentialsInUse()
        self._doors = {listener.name: _Door(listener, settings, self.credentials) for listener in listeners}
        self._logins: dict[str, ListenerLogin] = {}
        self._lines = LogLimit(_log)
        self._buffer = ciphertext_buffer() if any(door.tls is not None for door in self._doors.values()) else None

    def open(self, services: RequestServices, background: Background, now_ms: int) -> None:
        """Start to accept clients.

        Args:
            services: services shared by all requests.
            background: runs blocking work.
            now_ms: the current time.
        """
        for mechanism in self._mechanisms:
            mechanism.start(services.timers, background, now_ms)
        failures, turns = LoginFailures(services), LoginTurns(monotonic_ms)
        self._logins = {
            name: ListenerLogin(door.offered, door.receive_bytes_max, door.failure_delay_ms, failures, turns)
            for name, door in self._doors.items()
            if door.offered
        }

    def change(self, configs: Mapping[str, str]) -> None:
        """Use other certificates for new connections, because configurations of the running broker have changed.

        Certificates that cannot be used are reported, and the former ones stay.

        Args:
            configs: all dynamic configurations; those that are not for a listener's TLS are left out.
        """
        changed = self._of_tls(configs)
        if changed == self._changed:
            return
        self._changed = changed
        settings = self._settings.with_values(changed)
        for change in (*(door.change for door in self._doors.values()), self.on_change):
            try:
                change(settings)
            except ConfigurationError as error:
                _log.error("the changed certificates are not used, the former ones stay: %s", error)

    def check(self, configs: Mapping[str, str]) -> None:
        """Check that changed configurations of the running broker can be used; see `change`.

        Raises:
            ConfigurationError: a listener could not use its certificates.
        """
        changed = self._of_tls(configs)
        if not changed or changed == self._changed:
            return
        settings = self._settings.with_values(changed)
        for name, door in self._doors.items():
            prefix = f"{PREFIX}{name.lower()}."
            if any(each.startswith(prefix) for each in changed):
                door.check(settings)

    def _of_tls(self, configs: Mapping[str, str]) -> dict[str, object]:
        """Return the configurations that are for a listener's TLS, with secrets for passwords."""
        own = tuple(f"{PREFIX}{name.lower()}." for name in self._doors)
        names = [name for name in configs if _OF_TLS.fullmatch(name) and name.startswith(own)]
        return {name: protected(name, revealed(configs[name])) for name in names}

    def close(self) -> None:
        """End all TLS handshakes in progress, and the upkeep of mechanisms."""
        for door in self._doors.values():
            door.handshakes.close()
        for mechanism in self._mechanisms:
            mechanism.stop()

    @property
    def _mechanisms(self) -> list[Mechanism]:
        return [mechanism for door in self._doors.values() for mechanism in door.mechanisms]

    def login(self, listener: str) -> ListenerLogin | None:
        """Return how clients of a listener log in; None if they need not."""
        return self._logins.get(listener)

    def protocol(
        self,
        client: socket.socket,
        peer: Peer,
        connect: Callable[[NewOutlet | None], asyncio.BufferedProtocol],
        gone: Callable[[], None],
    ) -> asyncio.BufferedProtocol:
        """Return the protocol for a new connection.

        Args:
            client: the non-blocking socket.
            peer: the client, who gets the principal of its certificate.
            connect: returns the protocol that handles the client's requests, given its outlet (None for the socket
                itself).
            gone: called when the connection ends before `connect` has been called.
        """
        door = self._doors[peer.listener.name]
        tls, buffer = door.tls, self._buffer
        if tls is None or buffer is None:
            return connect(None)

        def enter(certificate: bytes | None, transport: TlsTransport) -> asyncio.BufferedProtocol:
            if certificate is not None and not peer.listener.has_login:
                peer.principal = _principal_of(certificate, door.mapping)
            return connect(lambda client, above: transport)

        shared = TlsDoor(lambda: tls.context(monotonic_ms()), door.handshakes, buffer, partial(self._refused, peer))
        return TlsConnection(client, shared, enter, gone)

    def _refused(self, peer: Peer, reason: str) -> None:
        subject = ("tls", peer.listener.name, peer.host)
        text = "no TLS connection from %s on listener %s: %s"
        self._lines.info(subject, monotonic_ms(), text, peer.host, peer.listener.name, reason)


def _unchangeable(error: ConfigurationError, kind: str, reason: str) -> ConfigurationError:
    """Return an error for a change of a running listener, with a reason in Kafka's form."""
    return ConfigurationError(
        error.option, None, f"Validation of dynamic config update of SSLFactory failed: {kind}: {reason}"
    )


def _load_failure(error: ConfigurationError, options: ListenerSecurityOptions) -> str:
    """Return Kafka's text for an unusable PEM file, which gives no cause, and calls a trust store a key store, too."""
    stores = (
        ("ssl.keystore.location", options.ssl_keystore_location, options.ssl_keystore_type),
        ("ssl.truststore.location", options.ssl_truststore_location, options.ssl_truststore_type),
    )
    for name, location, kind in stores:
        if error.option.endswith(name) and location is not None and kind.upper() == "PEM":
            return f"Failed to load PEM SSL keystore {location}"
    return error.reason


def _principal_of(certificate: bytes, mapping: PrincipalMapping) -> KafkaPrincipal:
    """Return the principal of a certificate.

    Raises:
        PermissionError: no rule applies to its name.
    """
    try:
        return KafkaPrincipal(USER, mapping.name_of(subject_of(certificate)))
    except (NoRule, ValueError) as error:
        raise PermissionError(str(error)) from error


def _mechanisms(listener: Listener, settings: SecuritySettings, credentials: CredentialsInUse) -> list[Mechanism]:
    options = settings.of(listener.name)
    full_name = settings.full_name(listener.name, _MECHANISMS)
    if not options.mechanisms:
        raise ConfigurationError(full_name, options.sasl_enabled_mechanisms, f"listener {listener.name} needs one")
    found = []
    for mechanism in options.mechanisms:
        given = settings.of_mechanism(listener.name, mechanism)
        try:
            found.append(new_exchange(mechanism, given, credentials, credentials, listener=listener.name))
        except ConfigurationError as error:
            raise _of_listener(error, listener, settings, mechanism) from None
    return found


def _of_listener(
    error: ConfigurationError, listener: Listener, settings: SecuritySettings, mechanism: str | None = None
) -> ConfigurationError:
    """Return an error with the name of the listener, and the name under which the option was given."""
    names = [error.option] if mechanism is None else [f"{mechanism.lower()}.{error.option}", error.option]
    place = f"listener {listener.name}" + ("" if mechanism is None else f", mechanism {mechanism}")
    own = ListenerSecurityOptions.KAFKA_NAMES.get(error.option)
    value = "" if own is None else getattr(settings.of(listener.name), own)
    full_name = settings.full_name(listener.name, *names)
    if error.option == JAAS:  # there is no such option for all listeners
        full_name = f"{PREFIX}{listener.name.lower()}.{names[0]}"
    return ConfigurationError(full_name, value, f"{place}: {error.reason}")
