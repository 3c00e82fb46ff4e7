"""A broker's listeners, the addresses advertised to their clients, and the listeners that brokers use.

    listeners            = INTERNAL://:9093,EXTERNAL://0.0.0.0:9092
    advertised.listeners = INTERNAL://broker:9093,EXTERNAL://kafka.example.com:9092

Source: Apache Kafka, `SocketServerConfigs.LISTENERS_DOC`, `AbstractKafkaConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.config.endpoints import PLAINTEXT, SECURITY_PROTOCOLS, Listener
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Option, number
from kafkawire.sdk.transport.wire import MAX_PORT, Address

__all__ = ["ANY_HOSTS", "ListenerRoles", "read_listener_roles", "read_listeners"]

#: Hosts that stand for all of the machine's addresses; clients cannot connect to them.
ANY_HOSTS = ("", "0.0.0.0", "::")

_PROTOCOL_MAP = "listener.security.protocol.map"

_PORT: Option = number(0, 0, MAX_PORT)

_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9_.\-]+)://(?P<host>\[[^\]]*\]|[^:]*):(?P<port>[0-9]+)")


class ListenerRoles(NamedTuple):
    """The listeners that brokers use to communicate with each other.

    Attributes:
        between_brokers: the name of the listener for all requests except the controller's.
        control_plane: the name of the listener for the controller's requests; None if these use the other listener.
    """

    between_brokers: str
    control_plane: str | None = None

    @property
    def controller(self) -> str:
        """The name of the listener for requests from and to the controller."""
        return self.control_plane or self.between_brokers


def read_listener_roles(
    names: Collection[str],
    *,
    inter_broker_listener_name: str | None = None,
    security_inter_broker_protocol: str | None = None,
    control_plane_listener_name: str | None = None,
) -> ListenerRoles:
    """Return the roles of a broker's listeners.

    Args:
        names: the names of the listeners.
        inter_broker_listener_name: the inter-broker listener; None if not configured.
        security_inter_broker_protocol: the protocol that names the inter-broker listener instead; None if not
            configured.
        control_plane_listener_name: the listener of the control plane; None if not configured.

    Raises:
        ConfigurationError: both of the first two options are configured, a listener or a protocol does not exist, or
            one listener would have both roles.

    Source:
        Apache Kafka 3.9, `KafkaConfig`.
    """
    option = "inter.broker.listener.name"
    if inter_broker_listener_name is not None and security_inter_broker_protocol is not None:
        reason = "cannot be combined with security.inter.broker.protocol"
        raise ConfigurationError(option, inter_broker_listener_name, reason)
    if inter_broker_listener_name is not None:
        between_brokers = _listener(option, inter_broker_listener_name, names)
    else:
        option, protocol = "security.inter.broker.protocol", security_inter_broker_protocol or PLAINTEXT
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigurationError(option, protocol, f"expected one of {', '.join(SECURITY_PROTOCOLS)}")
        between_brokers = _listener(option, protocol, names)
    if control_plane_listener_name is None:
        return ListenerRoles(between_brokers)
    option = "control.plane.listener.name"
    control_plane = _listener(option, control_plane_listener_name, names)
    if control_plane == between_brokers:
        raise ConfigurationError(option, control_plane_listener_name, "this is already the inter-broker listener")
    return ListenerRoles(between_brokers, control_plane)


def _listener(option: str, name: str, names: Collection[str]) -> str:
    """Return the name of a listener as the `listeners` option spells it."""
    if name.upper() not in names:
        raise ConfigurationError(
            option, name, f"unknown listener {name.upper()}; configured listeners: {', '.join(names)}"
        )
    return name.upper()


def read_listeners(options: BrokerOptions, host: str, port: int, this_host: str) -> list[Listener]:
    """Return a broker's listeners; the program that runs the broker connects to the first one.

    Args:
        options: broker options.
        host: the host of the only listener, if the options name none.
        port: the port of that listener.
        this_host: the name of this machine, advertised to clients of a listener that is bound to all addresses.

    Raises:
        ConfigurationError: a listener is malformed or appears twice, or its protocol is unknown or not defined; an
            advertised listener does not exist, or clients cannot connect to its address; or the host or port is
            invalid.
    """
    _PORT.read("port", port)
    if not isinstance(host, str):
        raise ConfigurationError("host", host, "expected a string")
    bound = _entries("listeners", options.listeners) or {PLAINTEXT: Address(host, port)}
    advertised = _entries("advertised.listeners", options.advertised_listeners)
    protocols = _protocols(options)
    for name, address in advertised.items():
        option, text = "advertised.listeners", options.advertised_listeners
        if name not in bound:
            raise ConfigurationError(option, text, f"unknown listener {name}; configured listeners: {', '.join(bound)}")
        if address.host in ANY_HOSTS:
            raise ConfigurationError(option, text, f"clients cannot connect to {address}")
    return [
        Listener(
            name,
            address,
            advertised.get(name) or Address(_reachable(options, address.host, this_host), 0),
            _protocol(options, name, protocols),
        )
        for name, address in bound.items()
    ]


def _reachable(options: BrokerOptions, host: str, this_host: str) -> str:
    """Return the host to advertise to clients of a listener without an advertised address."""
    return options.advertised_host or (this_host if host in ANY_HOSTS else host)


def _entries(option: str, text: str) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        parsed = _ENTRY.fullmatch(entry)
        if parsed is None:
            raise ConfigurationError(option, text, f"{entry!r} is not of the form NAME://host:port")
        name, host = parsed["name"].upper(), parsed["host"].strip("[]")
        address = Address.parse(option, f"{parsed['host'] or '0.0.0.0'}:{parsed['port']}", lowest_port=0)
        if name in found:
            raise ConfigurationError(option, text, f"the listener {name} appears more than once")
        if option == "listeners" and address.port and address._replace(host=host) in found.values():
            raise ConfigurationError(option, text, f"two listeners have the address {address}")
        found[name] = address._replace(host=host)
    return found


def _protocols(options: BrokerOptions) -> dict[str, str]:
    """Return the protocols in the map, keyed by the names of their listeners."""
    option, text = _PROTOCOL_MAP, options.listener_security_protocol_map
    protocols = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or protocol not in SECURITY_PROTOCOLS:
            reason = f"{entry!r} is not of the form NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            raise ConfigurationError(option, text, reason)
        protocols[name] = protocol
    return protocols


def _protocol(options: BrokerOptions, name: str, protocols: Mapping[str, str]) -> str:
    """Return the protocol of a listener.

    As in Kafka, a listener with a name of its own has none by default, and a map takes the place of the default map: a
    misspelt name must not open a listener without encryption and without login.
    """
    if name in protocols:
        return protocols[name]
    known = ", ".join(protocols) or "none"
    reason = (
        f"no security protocol is defined for the listener {name}; {_PROTOCOL_MAP} needs an entry "
        f"{name}:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}, and has entries for {known}"
    )
    if _PROTOCOL_MAP in options.given:
        raise ConfigurationError(_PROTOCOL_MAP, options.listener_security_protocol_map, reason)
    raise ConfigurationError("listeners", options.listeners or name, reason)
