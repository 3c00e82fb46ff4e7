"""The state of a broker is read as it is: replicas, logs, coordinators, connections, and the cluster.

Method: collect from a broker core without sockets, and from a cluster of real brokers.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kafkawire import Admin, NewTopic
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.metrics.broker_metrics import BrokerMetrics
from kafkawire.reference_broker.metrics.histogram import Histogram
from kafkawire.reference_broker.metrics.request_metrics import TOPICS_MAX, RequestMetrics
from kafkawire.reference_broker.replicas.cluster_replica import IsrChanges
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from tests.reference_broker.broker_cluster import BrokerCluster
from tests.reference_broker.requests.session_client import Client


class Scraped:
    """A broker without sockets, as its metrics see it."""

    unready_reason = ""
    held_bytes = 5

    def __init__(self, core: Core | None, *sessions) -> None:
        self.running_core = core
        self.sessions = sessions

    def values(self) -> dict[tuple[str, ...], float]:
        """Return all samples, keyed by the end of the metric's name and the labels."""
        requests = RequestMetrics(dict)
        measured = finished(BrokerMetrics(self, requests, Histogram()).collect())
        return {
            (family.name, *sample.labels): sample.value
            for family, samples in measured
            for sample in samples
            if not sample.suffix
        }


MANAGER = "kafka_server_replica_manager_"


def test_a_broker_with_a_topic(bench):
    bench.create()
    client = Client(bench)
    client.send(FetchRequest(max_wait_ms=500, min_bytes=1, topics=[]), 12)
    values = Scraped(bench.core, client.session).values()
    partitions = sum(len(topic.partitions) for topic in bench.core.metadata.image.topics.values())
    assert values[f"{MANAGER}partition_count",] == values[f"{MANAGER}leader_count",] == partitions
    assert values[f"{MANAGER}under_replicated_partitions",] == 0
    assert values["kafka_log_log_num_log_segments", "t"] == len(bench.core.replicas.of("t"))
    assert values["kafka_controller_kafka_controller_active_controller_count",] == 1
    assert values["kafka_server_socket_server_metrics_connection_count", "PLAINTEXT"] == 1
    assert values["kafka_network_socket_server_memory_pool_used",] == 5
    assert values["kafkawire_timers",] == bench.core.timers.count


def test_delayed_requests(bench):
    bench.create()
    client = Client(bench)
    topics = [FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=10)])]
    name = ("kafka_server_delayed_operation_purgatory_purgatory_size", "Fetch")
    client.send(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 12)
    assert Scraped(bench.core, client.session).values()[name] == 1
    client.session.connection_lost(None)
    assert name not in Scraped(bench.core, client.session).values()


def test_a_failed_log(bench):
    bench.create()
    bench.core.replicas.of("t")[0].log.fail(OSError("planted"))
    values = Scraped(bench.core).values()
    assert values[f"{MANAGER}offline_replica_count",] == 1


def test_groups_and_transactions(bench):
    groups = bench.core.groups
    group = SimpleNamespace(state=SimpleNamespace(value="Stable"))
    for kind in ("classic", "consumer", "share", "streams"):
        setattr(groups, f"{kind}_groups", lambda: iter([group, group]))
    values = Scraped(bench.core).values()
    name = "kafka_server_group_coordinator_metrics_group_count"
    assert {key[1:]: value for key, value in values.items() if key[0] == name} == {
        ("classic", "Stable"): 2,
        ("consumer", "Stable"): 2,
        ("share", "Stable"): 2,
        ("streams", "Stable"): 2,
    }


def test_the_number_of_topics_is_limited(bench, monkeypatch):
    bench.create()
    (replica,) = bench.core.replicas.of("t")[:1]
    many = [((f"t{number}", 0), replica) for number in range(TOPICS_MAX + 5)]
    monkeypatch.setattr(bench.core.replicas, "all", lambda: iter(many))
    values = Scraped(bench.core).values()
    assert sum(key[0] == "kafka_log_log_size" for key in values) == TOPICS_MAX
    assert values[f"{MANAGER}partition_count",] == len(many)


def test_requests_have_a_turn_after_each_replica(bench):
    bench.create()
    work = BrokerMetrics(Scraped(bench.core), RequestMetrics(dict), Histogram()).collect()
    assert sum(1 for _ in work) > sum(1 for _ in bench.core.replicas.all()) > 0


def test_a_broker_that_is_not_running():
    values = Scraped(None).values()
    assert ("process_max_fds",) in values
    assert not any(name.startswith("kafka_") for name, *_ in values)


def test_a_cluster_that_loses_a_broker():
    async def run() -> None:
        async with BrokerCluster(2, default_replication_factor=2, metrics_listen="127.0.0.1:0") as cluster:
            async with Admin(cluster.bootstrap) as admin:
                await admin.create_topics([NewTopic("t", 4, 2)])
            await cluster.led("t", range(4), 2)
            values = {each: Scraped(broker.core).values() for each, broker in cluster.brokers.items()}
            leaders = [found[f"{MANAGER}leader_count",] for found in values.values()]
            assert sum(leaders) == 4
            controllers = [
                found["kafka_controller_kafka_controller_active_controller_count",] for found in values.values()
            ]
            assert sorted(controllers) == [0, 1]
            await cluster.kill(2)
            await cluster.led("t", range(4), 1)
            found = Scraped(cluster.brokers[1].core).values()
            assert found[f"{MANAGER}isr_expands",] == 0
            assert found[f"{MANAGER}under_replicated_partitions",] == 4
            assert found[f"{MANAGER}leader_count",] == 4

    asyncio.run(run())


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [((1, 2), (1,), (1, 0)), ((1,), (1, 2), (0, 1)), ((1, 2), (2, 1), (0, 0)), ((1, 2), (1, 3), (1, 1))],
)
def test_isr_changes(before, after, counts):
    changes = IsrChanges()
    changes.count(before, after)
    assert (changes.shrinks, changes.expands) == counts
