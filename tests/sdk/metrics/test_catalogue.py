"""Metric names are Kafka's, each metric has a description, and real clients have exactly the metrics in the catalogue.

Method: compare with the names from Apache Kafka 4.3's documentation that users ask for, which this module lists; create
clients without a cluster.
"""

from __future__ import annotations

import re
from pathlib import Path

from kafkawire.sdk.client.options import AdminOptions, ConsumerOptions, ProducerOptions, ShareConsumerOptions
from kafkawire.sdk.consumer.core import ConsumerCore
from kafkawire.sdk.consumer.sharing.core import ShareConsumerCore
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.groups.rebalance_metrics import RebalanceMetrics
from kafkawire.sdk.metrics.catalogue import CLIENT, METRICS, NODE, Family, described
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.producer.core import ProducerCore
from kafkawire.sdk.routing.request_metrics import TrafficMetrics
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import backoff, options

#: As in Apache Kafka's documentation ("Monitoring").
JAVA = {
    "producer-metrics": "record-send-rate record-queue-time-avg request-latency-avg buffer-available-bytes "
    "batch-size-avg compression-rate-avg records-per-request-avg record-error-total record-retry-rate batch-split-rate "
    "produce-throttle-time-max requests-in-flight connection-count connection-creation-rate connection-close-total "
    "outgoing-byte-rate incoming-byte-total request-rate response-rate request-size-max metadata-age "
    "failed-authentication-total txn-init-time-ns-total txn-begin-time-ns-total txn-send-offsets-time-ns-total "
    "txn-commit-time-ns-total txn-abort-time-ns-total",
    "producer-topic-metrics": "record-send-total byte-rate record-error-rate record-retry-total",
    "consumer-fetch-manager-metrics": "records-lag-max records-lag fetch-latency-avg fetch-rate fetch-size-avg "
    "bytes-consumed-rate records-consumed-total records-per-request-avg fetch-throttle-time-avg",
    "consumer-coordinator-metrics": "commit-latency-avg commit-rate heartbeat-rate heartbeat-response-time-max "
    "last-heartbeat-seconds-ago join-time-avg join-rate sync-time-max sync-total rebalance-total rebalance-latency-avg "
    "rebalance-latency-total rebalance-rate-per-hour failed-rebalance-total last-rebalance-seconds-ago "
    "assigned-partitions",
    "consumer-metrics": "last-poll-seconds-ago connection-count",
    "consumer-node-metrics": "request-latency-avg response-rate",
    "consumer-share-fetch-manager-metrics": "fetch-size-avg fetch-size-max bytes-consumed-rate bytes-consumed-total "
    "records-per-request-avg records-per-request-max records-consumed-rate records-consumed-total "
    "acknowledgements-send-rate acknowledgements-send-total acknowledgements-error-rate acknowledgements-error-total "
    "fetch-latency-avg fetch-latency-max fetch-rate fetch-total fetch-throttle-time-avg fetch-throttle-time-max",
    "consumer-share-coordinator-metrics": "heartbeat-rate heartbeat-total heartbeat-response-time-max "
    "last-heartbeat-seconds-ago rebalance-total rebalance-rate-per-hour",
    "consumer-share-metrics": "last-poll-seconds-ago",
    "admin-client-metrics": "request-rate",
}

#: The rates and totals for which Kafka counts the values; for all others, Kafka adds them up.
COUNTED = {
    "-metrics": "connection-creation connection-close failed-authentication request response",
    "-node-metrics": "response",
    "producer-metrics": "batch-split",
    "consumer-fetch-manager-metrics": "fetch",
    "consumer-coordinator-metrics": "commit heartbeat join sync rebalance failed-rebalance",
    "consumer-share-fetch-manager-metrics": "fetch",
    "consumer-share-coordinator-metrics": "heartbeat rebalance",
}


def test_names_are_those_of_kafka() -> None:
    assert [
        (group, name) for group, names in JAVA.items() for name in names.split() if not described(group, name)
    ] == []
    assert described("producer-metrics", "no-such-metric") == described("no-metrics", "fetch-rate") == ""


def test_what_it_says() -> None:
    assert described("producer-metrics", "record-send-rate") == "records sent, retries included, per second"
    assert described("consumer-coordinator-metrics", "assigned-partitions") == "partitions that this consumer reads"


def test_what_is_counted_and_what_is_summed() -> None:
    counted = [(group, stem) for group, stems in COUNTED.items() for stem in stems.split()]
    assert [(family.group, family.stem) for family in METRICS.values() if family.counts] == counted


def names_of(kind: str) -> set[MetricName]:
    """Return the metrics that a client of this kind has before it does anything."""
    given = {"bootstrap_servers": "node-1:9092", "group_id": "g"}
    if kind == "producer":
        core = ProducerCore(options(ProducerOptions), None)
        return set(core.client.metrics())
    if kind == "consumer":
        client = ConsumerCore(options(ConsumerOptions, group_id=given["group_id"])).client
        RebalanceMetrics(client.router.metrics)
        return set(client.metrics())
    if kind == "consumer-share":
        return set(ShareConsumerCore(options(ShareConsumerOptions, group_id="g"), None, ShareDelivery).client.metrics())
    router = Router(options(AdminOptions), backoff())
    TrafficMetrics(router.metrics)
    return set(router.metrics.read(0))


def test_clients_have_what_is_described() -> None:
    for kind in ("producer", "consumer", "consumer-share", "admin-client"):
        beginning = "consumer" if kind == "consumer-share" else kind
        described_here = {
            MetricName(f"{beginning}{CLIENT}" if family.group == CLIENT else family.group, name)
            for family in METRICS.values()
            for _, name in family.names()
            if not family.tags and (family.group == CLIENT or is_of(family.group, kind))
        }
        assert names_of(kind) == described_here
    assert {family.group for family in METRICS.values() if family.tags} >= {NODE}


def is_of(group: str, kind: str) -> bool:
    """Return whether a group belongs to a kind of client."""
    return group.startswith(f"{kind}-") and (kind == "consumer-share") == group.startswith("consumer-share-")


def test_the_table_of_the_page() -> None:
    """docs/observability.md has a row for each family, word for word, in the same order."""
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text("utf-8")
    section = page[page.index("## Metrics") : page.index("## The broker's metrics and health")]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == list(map(table_row, METRICS.values()))


def table_row(family: Family) -> str:
    """Return a family's row: group, names, tags and description."""
    group = family.group if family.group[0] != "-" else f"…{family.group}"
    names = ", ".join(f"`{name}`" for _, name in family.names())
    tags = ", ".join(f"`{tag}`" for tag in family.tags)
    return f"| `{group}` | {names} | {tags} | {family.text} |"


def test_the_loggers_of_the_page() -> None:
    """docs/observability.md lists every logger of the clients and the broker."""
    root = Path(__file__).parents[3]
    used = {
        name
        for folder in ("sdk", "reference_broker")
        for path in (root / folder).rglob("*.py")
        for name in re.findall(r'getLogger\("([\w.]+)"\)', path.read_text("utf-8"))
    }
    page = (root / "docs" / "observability.md").read_text("utf-8")
    section = page[page.index("## Logging") : page.index("## Metrics")]
    assert set(re.findall(r"^\| `([\w.]+)`", section, re.MULTILINE)) == used
