"""A broker in virtual time starts, fails to start, stops, and is killed.

Method: run one broker of a cluster, and inspect its core and its registry.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.cluster import SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Scheduler
from kafkawire.reference_broker.storage.disk.disk import write_file
from kafkawire.sdk.protocol.tables.znodes import BROKER
from kafkawire.sdk.storage.meta_properties import META_PROPERTIES


def started() -> SimulatedCluster:
    """Return a cluster with one broker up."""
    cluster = SimulatedCluster(Scheduler(1), {"zookeeper_session_timeout_ms": 1_000})
    cluster.start(1)
    cluster.scheduler.run_to(1_000_000)
    return cluster


def is_registered(cluster: SimulatedCluster) -> bool:
    return any(node.path == BROKER.path(1) for node in cluster.registry.tree.nodes())


def test_a_broker_is_announced() -> None:
    cluster = started()
    broker = cluster.brokers[1]
    assert broker.is_announced
    assert broker.core is not None
    assert broker.core.metadata.image.controller_id == 1
    assert is_registered(cluster)


def test_a_stopped_broker_leaves_the_cluster_at_once() -> None:
    cluster = started()
    cluster.stop(1)
    cluster.scheduler.run_to(1_400_000)
    assert cluster.brokers == {}
    assert not is_registered(cluster)


def test_a_killed_broker_stays_registered_until_its_session_ends() -> None:
    cluster = started()
    cluster.kill(1)
    assert is_registered(cluster)
    cluster.scheduler.run_to(3_000_000)
    assert not is_registered(cluster)


def test_a_start_that_fails_is_repeated() -> None:
    cluster = SimulatedCluster(Scheduler(1), {})
    write_file(cluster.disks[1], META_PROPERTIES, b"broker.id=7\ncluster.id=x\nversion=0\n")
    cluster.start(1)
    cluster.scheduler.run_to(1_000_000)
    assert cluster.lives[1] > 2
    assert any("broker 1 fails: ConfigurationError" in line for line in cluster.scheduler.trace)
