"""The listeners of a broker, and the addresses that their clients are given.

    listeners            = INTERNAL://:9093,EXTERNAL://0.0.0.0:9092
    advertised.listeners = INTERNAL://broker:9093,EXTERNAL://kafka.example.com:9092

Source: Apache Kafka, `SocketServerConfigs.LISTENERS_DOC`, `AbstractKafkaConfig`.
"""

from __future__ import annotations

import re

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Option, number
from kafkawire.sdk.transport.wire import MAX_PORT, Address

__all__ = ["ANY_HOSTS", "PLAINTEXT", "read_listeners"]

#: Hosts that stand for all addresses of the machine, which clients cannot connect to.
ANY_HOSTS = ("", "0.0.0.0", "::")

#: The protocol without TLS and login, the only one supported.
PLAINTEXT = "PLAINTEXT"

#: Kafka's other protocols: a listener with such a name would be misleading.
_MISSING = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")

_PORT: Option = number(0, 0, MAX_PORT)

_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9_.\-]+)://(?P<host>\[[^\]]*\]|[^:]*):(?P<port>[0-9]+)")


def read_listeners(options: BrokerOptions, host: str, port: int, this_host: str) -> list[Listener]:
    """Return the listeners of a broker; the broker's own user connects to the first.

    Args:
        options: options of the broker.
        host: host of the only listener, if the options name none.
        port: port of that listener.
        this_host: the name of this machine, for the clients of a listener on all its addresses.

    Raises:
        ConfigurationError: a listener is malformed, appears twice, or needs TLS or a login; an advertised one does not
            exist, or clients cannot connect to its address; or host or port is invalid.
    """
    _PORT.read("port", port)
    if not isinstance(host, str):
        raise ConfigurationError("host", host, "expected a string")
    bound = _entries("listeners", options.listeners) or {PLAINTEXT: Address(host, port)}
    advertised = _entries("advertised.listeners", options.advertised_listeners)
    _check_protocols(options, bound)
    for name, address in advertised.items():
        option, text = "advertised.listeners", options.advertised_listeners
        if name not in bound:
            raise ConfigurationError(option, text, f"there is no listener {name}, only {', '.join(bound)}")
        if address.host in ANY_HOSTS:
            raise ConfigurationError(option, text, f"clients cannot connect to {address}")
    return [
        Listener(name, address, advertised.get(name) or Address(_reachable(options, address.host, this_host), 0))
        for name, address in bound.items()
    ]


def _reachable(options: BrokerOptions, host: str, this_host: str) -> str:
    """Return the address for clients of a listener that advertises none."""
    return options.advertised_host or (this_host if host in ANY_HOSTS else host)


def _entries(option: str, text: str) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        parsed = _ENTRY.fullmatch(entry)
        if parsed is None:
            raise ConfigurationError(option, text, f"{entry!r} is not NAME://host:port")
        name, host = parsed["name"].upper(), parsed["host"].strip("[]")
        address = Address.parse(option, f"{parsed['host'] or '0.0.0.0'}:{parsed['port']}", lowest_port=0)
        if name in found:
            raise ConfigurationError(option, text, f"{name} appears twice")
        if option == "listeners" and address.port and address._replace(host=host) in found.values():
            raise ConfigurationError(option, text, f"two listeners have the address {address}")
        found[name] = address._replace(host=host)
    return found


def _check_protocols(options: BrokerOptions, names: dict[str, Address]) -> None:
    option, text = "listener.security.protocol.map", options.listener_security_protocol_map
    protocols = {name: name for name in _MISSING}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.upper() not in (PLAINTEXT, *_MISSING):
            raise ConfigurationError(option, text, f"{entry!r} is not NAME:PROTOCOL with {PLAINTEXT}")
        protocols[name.upper()] = protocol.upper()
    for name in names:
        if (protocol := protocols.get(name, PLAINTEXT)) != PLAINTEXT:
            reason = f"listener {name} needs {protocol}, but only {PLAINTEXT} is supported"
            if name in _MISSING:
                raise ConfigurationError("listeners", options.listeners, reason)
            raise ConfigurationError(option, text, reason)
