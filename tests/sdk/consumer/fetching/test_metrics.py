"""A consumer counts the data that it fetches, and reports its lag.

Method: read simulated logs with a consumer.
"""

from __future__ import annotations

from math import isnan

import pytest

from kafkawire.sdk.consumer.fetching import metrics
from kafkawire.sdk.consumer.fetching.metrics import show_group, show_lags
from kafkawire.sdk.metrics.registry import Registry
from tests.sdk.consumer.simulated_logs import Cluster, reading
from tests.sdk.consumer.user_side import T0, T1


def read(cluster: Cluster, *tags: tuple[str, str]) -> dict[str, float]:
    """Return the fetch metrics with these tags, keyed by name."""
    found = cluster.simulation.router.metrics.read(cluster.simulation.now_ms)
    group = "consumer-fetch-manager-metrics"
    return {name.name: value for name, value in found.items() if (name.group, name.tags) == (group, tags)}


def test_records_and_bytes() -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].append(b"a", b"b")
    cluster.logs[T0].append(b"c")
    cluster.logs[T1].append(b"d" * 500)
    size = sum(len(batch) for log in cluster.logs.values() for batch in log.batches)
    cluster.read()
    everything, topic = read(cluster), read(cluster, ("topic", "t"))
    assert everything["records-consumed-total"] == topic["records-consumed-total"] == 4
    assert everything["bytes-consumed-total"] == topic["bytes-consumed-total"] == size
    assert everything["fetch-total"] == len(cluster.fetches()) - 1  # one is in flight
    assert (everything["fetch-size-max"], everything["records-per-request-avg"]) == (
        size,
        4 / everything["fetch-total"],
    )


def test_more_topics_than_have_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TOPICS_MAX", 0)
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    cluster.read()
    assert read(cluster)["records-consumed-total"] == 1
    assert read(cluster, ("topic", "t")) == {}


def test_lags() -> None:
    cluster = reading(T0, T1)
    registry = cluster.simulation.router.metrics
    show_lags(registry, cluster.assignment)
    assert isnan(read(cluster)["records-lag-max"])
    cluster.logs[T0].append(b"a", b"b", b"c")
    cluster.run(100)
    assert cluster.reader.advance()
    assert cluster.reader.handout is not None
    cluster.reader.handout.take()
    assert read(cluster, ("topic", "t"), ("partition", "0")) == {"records-lag": 2}
    assert read(cluster)["records-lag-max"] == 2
    cluster.read()
    assert read(cluster)["records-lag-max"] == 0


def test_metrics_come_in_the_order_of_the_page() -> None:
    cluster = reading(T0)
    registry = Registry("consumer")
    show_lags(registry, cluster.assignment)
    show_group(registry, dict, lambda: None)
    wanted = ("records-lag-max", "last-poll-seconds-ago", "assigned-partitions", "last-heartbeat-seconds-ago")
    assert [name.name for name in registry.read(0) if name.name in wanted] == list(wanted)


def test_the_state_of_a_membership() -> None:
    registry = Registry("consumer")
    heartbeats: list[int | None] = [None, 1_000]
    show_group(registry, lambda: {T0: 1, T1: 2}, lambda: heartbeats.pop(0))
    first, second = (
        {name.name: value for name, value in registry.read(3_500).items()}["last-heartbeat-seconds-ago"]
        for _ in range(2)
    )
    assert isnan(first)
    assert second == 2.5
