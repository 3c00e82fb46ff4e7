"""However a broker in virtual time dies, it restarts from the disk that it left behind.

Method: run three brokers without clients.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.cluster import BROKERS, SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Scheduler
from kafkawire.reference_broker.storage.disk.memory import PowerCut, cut_power_at


@pytest.mark.parametrize("end", ["kill", "cut_power", "stop"])
def test_a_broker_comes_back(end: str) -> None:
    cluster = SimulatedCluster(Scheduler(3), {"zookeeper_session_timeout_ms": 500})
    scheduler = cluster.scheduler
    for broker_id in BROKERS:
        cluster.start(broker_id)
    scheduler.run_to(1_000_000)
    getattr(cluster, end)(2)
    scheduler.run_to(3_000_000)
    assert [*cluster.brokers] == [1, 3]
    cluster.start(2)
    scheduler.run_to(5_000_000)
    assert all(broker.is_announced for broker in cluster.brokers.values())
    assert cluster.lives == {1: 1, 2: 2, 3: 1}
    controllers = {broker.core.metadata.image.controller_id for broker in cluster.brokers.values() if broker.core}
    assert len(controllers) == 1


def test_the_power_is_cut_in_the_middle_of_a_step() -> None:
    cluster = SimulatedCluster(Scheduler(3), {})
    cut: list[int] = []
    cluster.when_cut = cut.append
    cluster.start(1)
    cluster.disks[1].plan = cut_power_at(9)
    with pytest.raises(PowerCut):
        cluster.scheduler.run_to(1_000_000)
    cluster.lose_power()
    assert cut == [1]
    assert cluster.brokers == {}
    cluster.start(1)
    cluster.scheduler.run_to(2_000_000)
    assert cluster.brokers[1].is_announced
