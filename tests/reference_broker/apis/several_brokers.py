"""The image of a cluster with several brokers: one lacks a listener, and another is not alive."""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.metadata.image import BrokerRegistration
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.sdk.transport.wire import Address

__all__ = ["BROKERS", "INSIDE"]

#: Clients of the listener PLAINTEXT cannot reach broker 3; broker 4 is not alive.
BROKERS: Final = {
    1: BrokerRegistration(1, {"PLAINTEXT": Address("broker", 9092), "INTERNAL": Address("inside1", 9093)}),
    2: BrokerRegistration(2, {"PLAINTEXT": Address("other", 9092), "INTERNAL": Address("inside2", 9093)}, "east"),
    3: BrokerRegistration(3, {"INTERNAL": Address("inside3", 9093)}),
}

#: A client connected to the listener INTERNAL.
INSIDE: Final = Peer(Listener("INTERNAL", Address("", 9093), Address("inside1", 9093)), "host")
