"""A live broker as described by its registration: epoch, endpoints, rack.

Source: `Broker`, `EndPoint`, `BrokerIdZNode` in Apache Kafka.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.znodes import BROKER, BrokerRegistration
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.registry.content import DamagedZnode

__all__ = ["Endpoint", "LiveBroker", "live_broker"]

#: The number of each security protocol in UpdateMetadata.
_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})")

#: The last version of registrations without listeners.
_VERSION_WITHOUT_LISTENERS: Final = 1


class Endpoint(NamedTuple):
    """A listener of a broker.

    Attributes:
        listener: the name of the listener.
        host: the advertised host.
        port: the advertised port.
        security_protocol: the number of its security protocol, as in UpdateMetadata.
    """

    listener: str
    host: str
    port: int
    security_protocol: int


class LiveBroker(NamedTuple):
    """A registered broker.

    Attributes:
        broker_id: the broker's id.
        epoch: the id of the transaction that created the broker's registration; later registrations have higher epochs.
        endpoints: its listeners.
        rack: the broker's rack, or None if not configured.
        features: the supported version range of each feature.
    """

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of a listener, or None if the broker has no such listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


def live_broker(broker_id: int, registration: BrokerRegistration, epoch: int) -> LiveBroker:
    """Return the broker described by a registration.

    Args:
        broker_id: the broker's id.
        registration: the content of the broker's node.
        epoch: the `czxid` of the node.

    Raises:
        DamagedZnode: an endpoint cannot be read, or two endpoints have the same listener.
    """
    path = BROKER.path(broker_id)
    if registration.version <= _VERSION_WITHOUT_LISTENERS:
        plain = Endpoint("PLAINTEXT", registration.host or "", registration.port, _SECURITY_PROTOCOLS["PLAINTEXT"])
        return LiveBroker(broker_id, epoch, (plain,))
    endpoints = tuple(_endpoint(path, text, registration) for text in registration.endpoints)
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):  # as in Kafka
        raise DamagedZnode(path, "endpoints", f"several endpoints have the same listener: {quoted(names)}")
    features = tuple(
        (name, range_.min_version, range_.max_version) for name, range_ in (registration.features or {}).items()
    )
    return LiveBroker(broker_id, epoch, endpoints, registration.rack, features)


def _endpoint(path: str, text: str, registration: BrokerRegistration) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise DamagedZnode(path, "endpoints", f"{quoted(text)} is not of the form LISTENER://host:port")
    listener, host, port = match[1], match[2], int(match[3])
    protocols = registration.listener_security_protocol_map
    name = protocols.get(listener, "") if protocols else listener
    if name not in _SECURITY_PROTOCOLS:
        raise DamagedZnode(path, "endpoints", f"{quoted(text)} has an unknown security protocol: {quoted(name)}")
    if port not in range(-1, 1 << 16):
        raise DamagedZnode(path, "endpoints", f"the port in {quoted(text)} must be from -1 to 65535")
    return Endpoint(listener, host, port, _SECURITY_PROTOCOLS[name])
