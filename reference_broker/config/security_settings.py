"""The security of each listener: the options of a broker, with those given for one listener or one mechanism on it.

Source: `ListenerName.configPrefix`, `ChannelBuilders.channelBuilderConfigs`, `SaslChannelBuilder` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.security_options import (
    JAAS,
    JAAS_FILE,
    MECHANISM_OPTIONS,
    ListenerSecurityOptions,
)
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.options import INT32_MAX, parse_integer
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigType
from kafkawire.sdk.secret import Secret

__all__ = [
    "LISTENER_LIMITS",
    "PREFIX",
    "MechanismSettings",
    "SecuritySettings",
    "is_known_for_listeners",
    "protected",
    "split_listener_options",
]

#: The names of options for one listener begin with this, and the name of the listener in lower case.
PREFIX: Final = "listener.name."

#: The options that can be given for one mechanism on one listener.
_OF_MECHANISMS: Final = frozenset({JAAS, "connections.max.reauth.ms", *MECHANISM_OPTIONS})

#: The limits that the broker has, and a listener may have of its own; they may change while the broker runs.
LISTENER_LIMITS: Final = ("max.connections", "max.connection.creation.rate")

#: The ends of the names of options for one listener, or one mechanism on it, that are secret.
_PASSWORDS: Final = tuple(f".{name}" for name, key in BROKER_CONFIGS.items() if key.type == ConfigType.PASSWORD)

#: The listener's client authentication counts for SASL_SSL only if it is given for the listener.
_CLIENT_AUTH: Final = "ssl.client.auth"


def split_listener_options(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the options for the whole broker, and those for individual listeners."""
    own: dict[str, object] = {}
    of_listeners: dict[str, object] = {}
    for name, value in given.items():
        (of_listeners if name.startswith(PREFIX) else own)[name] = value
    return own, of_listeners


def is_known_for_listeners(full_name: str) -> bool:
    """Return whether the name of an option seems to be that of an option for one listener, whatever its name is."""
    if not full_name.startswith(PREFIX):
        return False
    known = (*ListenerSecurityOptions.KAFKA_NAMES, *_OF_MECHANISMS, *LISTENER_LIMITS)
    return full_name.endswith(tuple(f".{name}" for name in known))


def protected(full_name: str, value: object) -> object:
    """Return the value of an option, in a `Secret` if it is a password."""
    return Secret(value) if isinstance(value, str) and full_name.endswith(_PASSWORDS) else value


class MechanismSettings(dict[str, str]):
    """The options of a mechanism under Kafka's names; the values contain secrets, so `repr` shows only names."""

    def __repr__(self) -> str:
        return f"<settings {', '.join(self)}>"


class SecuritySettings:
    """The security of a broker's listeners.

    Args:
        options: the options for all listeners.
        of_listeners: the options for individual listeners, keyed by their full names.
        listeners: the listeners.

    Raises:
        ConfigurationError: a name contains an unknown listener or option, or a value is invalid.
    """

    def __init__(
        self,
        options: ListenerSecurityOptions,
        of_listeners: Mapping[str, object],
        listeners: Collection[Listener],
    ) -> None:
        self._shared = options
        self._of_listeners = {name: protected(name, value) for name, value in of_listeners.items()}
        self._listeners = listeners
        self._options: dict[str, ListenerSecurityOptions] = {}
        self._of_mechanisms: dict[tuple[str, str], dict[str, object]] = {}
        names = {listener.name.lower(): listener for listener in listeners}
        values: dict[str, dict[str, object]] = {name: {} for name in names}
        for full_name, value in self._of_listeners.items():
            listener_name = _listener_of(full_name, value, names)
            self._take(full_name, full_name[len(PREFIX) + len(listener_name) + 1 :], value, values[listener_name])
        shared = {name: getattr(options, name) for name in ListenerSecurityOptions.OPTIONS}
        for name, listener in names.items():
            own = values[name]
            if listener.has_login and "ssl_client_auth" not in own:
                own["ssl_client_auth"] = "none"
            self._options[listener.name] = ListenerSecurityOptions(**shared | own)

    def with_values(self, changed: Mapping[str, object]) -> SecuritySettings:
        """Return the settings with other options for individual listeners in place of those with the same names.

        Raises:
            ConfigurationError: see above.
        """
        return SecuritySettings(self._shared, {**self._of_listeners, **changed}, self._listeners)

    def of(self, listener: str) -> ListenerSecurityOptions:
        """Return the options of a listener."""
        return self._options[listener]

    def of_mechanism(self, listener: str, mechanism: str) -> MechanismSettings:
        """Return the options of a mechanism on a listener under Kafka's names, without those that are not given."""
        options = self.of(listener)
        known = ListenerSecurityOptions.KAFKA_NAMES
        found = {name: getattr(options, known[name]) for name in (*MECHANISM_OPTIONS, JAAS_FILE)}
        found |= self._of_mechanisms.get((listener.lower(), mechanism.lower()), {})
        return MechanismSettings({name: _revealed(value) for name, value in found.items() if value is not None})

    def max_reauth_ms(self, listener: str, mechanism: str) -> int:
        """Return how long a login with a mechanism lasts; 0 for no limit."""
        own = self._of_mechanisms.get((listener.lower(), mechanism.lower()), {})
        value = own.get("connections.max.reauth.ms", self.of(listener).connections_max_reauth_ms)
        return value if isinstance(value, int) else 0

    def full_name(self, listener: str, *names: str) -> str:
        """Return the name under which an option of a listener was given, for errors.

        Args:
            listener: the name of the listener.
            names: Kafka's names of the option, the most specific first; the last one is that for all listeners.
        """
        full_names = [f"{PREFIX}{listener.lower()}.{name}" for name in names]
        return next((name for name in full_names if name in self._of_listeners), names[-1])

    def _take(self, full_name: str, name: str, value: object, values: dict[str, object]) -> None:
        """Read one option of a listener."""
        listener = full_name[len(PREFIX) : -len(name) - 1]
        if name in LISTENER_LIMITS:
            _check_limit(full_name, value)
            return
        own = ListenerSecurityOptions.KAFKA_NAMES.get(name)
        try:
            if own is not None:
                values[own] = ListenerSecurityOptions.read_value(name, value)
                return
            mechanism, _, rest = name.partition(".")
            if rest in _OF_MECHANISMS:
                of_mechanism = self._of_mechanisms.setdefault((listener, mechanism), {})
                of_mechanism[rest] = (
                    _login_module(rest, value) if rest == JAAS else ListenerSecurityOptions.read_value(rest, value)
                )
                return
        except ConfigurationError as error:
            raise ConfigurationError(full_name, value, error.reason) from None
        if name == JAAS:
            reason = f"a mechanism is needed, as in {PREFIX}{listener}.scram-sha-512.{JAAS}"
            raise ConfigurationError(full_name, value, reason)
        known = [*ListenerSecurityOptions.KAFKA_NAMES, *LISTENER_LIMITS]
        raise ConfigurationError(full_name, value, f"no such option of a listener{did_you_mean(name, known)}")


def _listener_of(full_name: str, value: object, names: Collection[str]) -> str:
    """Return the listener that the name of an option names; a listener's name may contain dots."""
    rest = full_name[len(PREFIX) :]
    found = [name for name in names if rest.startswith(f"{name}.")]
    if not found:
        known = ", ".join(names)
        raise ConfigurationError(full_name, value, f"unknown listener; the names in lower case are: {known}")
    return max(found, key=len)


def _login_module(name: str, value: object) -> Secret:
    if not isinstance(value, Secret) or not value.reveal().strip():
        raise ConfigurationError(name, value, "expected a login module")
    return value


def _check_limit(name: str, value: object) -> None:
    number = parse_integer(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= INT32_MAX:
        raise ConfigurationError(name, value, f"expected 1 to {INT32_MAX}")


def _revealed(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)
