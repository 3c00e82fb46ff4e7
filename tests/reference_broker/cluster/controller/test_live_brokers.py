"""A registration of any version is read as a broker with endpoints; the error for a damaged one names the field.

Method: read a table of registrations.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint, live_broker
from kafkawire.sdk.protocol.tables.znodes import BrokerRegistration, VersionRange
from kafkawire.sdk.registry.content import DamagedZnode


def registration(endpoint: str, **protocols: str) -> BrokerRegistration:
    return BrokerRegistration({}, protocols, (endpoint,))


GOOD = [
    (registration("A://h:1", A="SSL"), Endpoint("A", "h", 1, 1)),
    (registration("SASL_SSL://h:1"), Endpoint("SASL_SSL", "h", 1, 3)),
    (registration("B://[::1]:65535", B="SASL_PLAINTEXT"), Endpoint("B", "::1", 65535, 2)),
    (registration("PLAINTEXT://:9092"), Endpoint("PLAINTEXT", "", 9092, 0)),
    (BrokerRegistration(host="old", port=9, version=1), Endpoint("PLAINTEXT", "old", 9, 0)),
]

BAD = [
    (registration("A://h", A="SSL"), "is not of the form LISTENER://host:port"),
    (registration("A://h:99999", A="SSL"), "must be from -1 to 65535"),
    (registration("A://h:1", B="SSL"), "has an unknown security protocol"),
    (registration("A://h:1"), "has an unknown security protocol"),
]


@pytest.mark.parametrize(("stored", "endpoint"), GOOD)
def test_endpoints_are_read(stored: BrokerRegistration, endpoint: Endpoint) -> None:
    broker = live_broker(4, stored, 17)
    assert (broker.broker_id, broker.epoch, broker.endpoints) == (4, 17, (endpoint,))
    assert broker.endpoint(endpoint.listener) == endpoint
    assert broker.endpoint("OTHER") is None


@pytest.mark.parametrize(("stored", "reason"), BAD)
def test_damage_is_named(stored: BrokerRegistration, reason: str) -> None:
    with pytest.raises(DamagedZnode, match="/brokers/ids/4") as caught:
        live_broker(4, stored, 17)
    assert reason in str(caught.value)


def test_rack_and_features_are_kept() -> None:
    stored = BrokerRegistration({"f": VersionRange(1, 3)}, {}, (), "r")
    assert live_broker(1, stored, 1)[3:] == ("r", (("f", 1, 3),))
