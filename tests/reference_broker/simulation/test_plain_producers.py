"""A producer without an id in virtual time: what it has sent is in the partition that may lose records."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.checkers import LOSSY
from kafkawire.reference_broker.simulation.simulation import Simulation


def test_its_values_are_stored(calm: Simulation) -> None:
    for broker in calm.cluster.brokers.values():
        assert broker.core is not None
        replica = broker.core.replicas.get(*LOSSY)
        assert replica is not None
        assert replica.log.next_offset > 5
