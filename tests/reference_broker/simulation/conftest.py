"""One run of a cluster without faults, for the tests of its clients to inspect."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.plan import Plan
from kafkawire.reference_broker.simulation.simulation import Simulation, quiet


@pytest.fixture(scope="session")
def calm() -> Simulation:
    """A completed run without faults."""
    with quiet() as defects:
        simulation = Simulation(Plan(1, is_synced=False, steps=()), defects)
        simulation.run()
    return simulation
