"""Options that were given and have no effect, because no listener uses them, or there is no authorizer.

Apache Kafka ignores them silently. An administrator who sets them expects encryption, logins or ACLs, so the broker
names them when it starts, and so does `kafkawire broker --check`. Options for a listener that does not exist are
refused (`security_settings.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kafkawire.reference_broker.config.authorizer_options import ACL_OPTIONS
from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.security_options import JAAS_FILE, MECHANISM_OPTIONS
from kafkawire.reference_broker.config.security_settings import LISTENER_LIMITS, PREFIX, SecuritySettings

__all__ = ["idle_options"]

_TLS: Final = "ssl."
_CLIENT_AUTH: Final = "ssl.client.auth"

#: The options about trust in clients' certificates begin with these.
_OF_CLIENT_CERTIFICATES: Final = ("ssl.truststore.", "ssl.principal.mapping.rules")

#: The options about logins, besides those that begin with `sasl.`.
_LOGINS: Final = frozenset({JAAS_FILE, "connections.max.reauth.ms", *MECHANISM_OPTIONS})

_MAP: Final = "listener.security.protocol.map"


def idle_options(
    options: BrokerOptions, security: SecuritySettings, listeners: Collection[Listener], *, is_alone: bool
) -> Iterator[tuple[str, str]]:
    """Yield the name of each option that has no effect, and why.

    Args:
        options: the options of the broker.
        security: the security of its listeners.
        listeners: the listeners.
        is_alone: whether the broker is standalone; in a cluster, some options also apply to connections to others.
    """
    for name, value in options.given.items():
        if name.startswith(PREFIX):
            reason = _reason_at_listener(name, security, listeners, is_alone=is_alone)
        elif name in ACL_OPTIONS:
            is_idle = not options.authorizer_class_name and value.strip().lower() != ACL_OPTIONS[name]
            reason = "there is no authorizer; authorizer.class.name configures one" if is_idle else None
        elif name.startswith(_TLS):
            reason = _reason_of_tls(name, value, security, listeners, is_alone=is_alone)
        elif _is_of_logins(name) and not any(listener.has_login for listener in listeners):
            is_for_zookeeper = name == JAAS_FILE and not is_alone
            reason = None if is_for_zookeeper else f"no listener has a protocol with SASL in {_MAP}"
        else:
            reason = None
        if reason is not None:
            yield name, reason


def _is_of_logins(name: str) -> bool:
    return name.startswith("sasl.") or name in _LOGINS


def _reason_of_tls(
    name: str, value: str, security: SecuritySettings, listeners: Collection[Listener], *, is_alone: bool
) -> str | None:
    """Return why an option about TLS that was given for all listeners has no effect; None if it has one."""
    encrypted = [listener for listener in listeners if listener.has_tls]
    if not encrypted:
        return f"no listener has a protocol with TLS, SSL or SASL_SSL, in {_MAP}"
    if name == _CLIENT_AUTH and value.lower() != "none" and all(listener.has_login for listener in encrypted):
        own = f"{PREFIX}{encrypted[0].name.lower()}.{_CLIENT_AUTH}"
        return f"a listener with SASL_SSL needs an option of its own for this, such as {own}"
    asks = any(security.of(listener.name).ssl_client_auth != "none" for listener in encrypted)
    if name.startswith(_OF_CLIENT_CERTIFICATES) and is_alone and not asks:
        return f"no listener asks its clients for certificates; {_CLIENT_AUTH}=required makes them need one"
    return None


def _reason_at_listener(
    full_name: str, security: SecuritySettings, listeners: Collection[Listener], *, is_alone: bool
) -> str | None:
    """Return why an option for one listener has no effect; None if it has one."""
    rest = full_name[len(PREFIX) :]
    listener = max(
        (each for each in listeners if rest.startswith(f"{each.name.lower()}.")), key=lambda each: len(each.name)
    )
    name = rest[len(listener.name) + 1 :]
    if name in LISTENER_LIMITS:
        return None
    has = f"listener {listener.name} has the protocol {listener.protocol}"
    if name.startswith(_TLS):
        return None if listener.has_tls else has
    if not listener.has_login:
        return has
    if _is_of_logins(name):
        return None
    own = security.of(listener.name)
    offered = {each.lower(): each for each in own.mechanisms}
    mechanism = name.partition(".")[0]
    if mechanism in offered or (not is_alone and mechanism == own.sasl_mechanism_inter_broker_protocol.lower()):
        return None
    return (
        f"sasl.enabled.mechanisms of listener {listener.name} has no such mechanism, only {', '.join(own.mechanisms)}"
    )
