"""The catalogue of a client's metrics: their meanings, groups and names, the last two as in Kafka's clients.

A row stands for one name, or for several names with the same stem: "record-send" with rate and total means
`record-send-rate` and `record-send-total`. Sensors are created from these rows, so every metric is described here;
docs/observability.md contains the table for users.

Source: Apache Kafka documentation, "Monitoring": producer, consumer and common client metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

__all__ = [
    "CLIENT",
    "COORDINATOR",
    "FETCH",
    "METRICS",
    "NODE",
    "PRODUCER",
    "SHARE",
    "SHARE_COORDINATOR",
    "SHARE_FETCH",
    "TOPIC",
    "TOPICS_MAX",
    "Family",
    "Stat",
    "described",
]


class Stat(Enum):
    """A statistic of a sensor; its value is the end of the metric's name."""

    RATE = "rate"
    TOTAL = "total"
    AVERAGE = "avg"
    MAXIMUM = "max"
    PER_HOUR = "rate-per-hour"
    GAUGE = ""


#: Groups. For metrics that all clients have, the group's name begins with the kind of client: producer-metrics,
#: admin-client-metrics.
CLIENT: Final = "-metrics"
NODE: Final = "-node-metrics"
PRODUCER: Final = "producer-metrics"
TOPIC: Final = "producer-topic-metrics"
CONSUMER: Final = "consumer-metrics"
FETCH: Final = "consumer-fetch-manager-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"
SHARE: Final = "consumer-share-metrics"
SHARE_FETCH: Final = "consumer-share-fetch-manager-metrics"
SHARE_COORDINATOR: Final = "consumer-share-coordinator-metrics"

#: The maximum number of topics with separate metrics; a client includes further topics only in its totals.
TOPICS_MAX: Final = 400

_SUMS: Final = (Stat.RATE, Stat.TOTAL)
_SPREAD: Final = (Stat.AVERAGE, Stat.MAXIMUM)
_GAUGE: Final = (Stat.GAUGE,)
_PER_TOPIC: Final = ("topic",)
_PER_PARTITION: Final = ("topic", "partition")

#: How long an application waits in each method, excluding calls that fail, as in Kafka's producer.
_TRANSACTIONS: Final = (
    ("txn-init-time-ns", "ns in `start` of a producer with a `transactional_id`"),
    ("txn-begin-time-ns", "ns in `begin_transaction`"),
    ("txn-send-offsets-time-ns", "ns in `send_offsets`"),
    ("txn-commit-time-ns", "ns in `commit_transaction`"),
    ("txn-abort-time-ns", "ns in `abort_transaction`"),
)

_WORDS: Final[Mapping[Stat, str]] = {
    Stat.RATE: "{}, per second",
    Stat.TOTAL: "{}, in total",
    Stat.AVERAGE: "{}, average",
    Stat.MAXIMUM: "{}, highest",
    Stat.PER_HOUR: "{}, per hour",
    Stat.GAUGE: "{}",
}


class Family(NamedTuple):
    """The metrics of one sensor, or one gauge.

    Attributes:
        group: see the groups above.
        stem: the beginning of the metrics' names.
        stats: the statistics, one metric each.
        text: the measured quantity.
        tags: the keys of the metrics' tags.
        counts: whether rate and total refer to the number of values rather than their sum.
    """

    group: str
    stem: str
    stats: tuple[Stat, ...]
    text: str
    tags: tuple[str, ...] = ()
    counts: bool = False

    def names(self) -> Iterator[tuple[Stat, str]]:
        """Yield each metric's name."""
        for stat in self.stats:
            yield stat, f"{self.stem}-{stat.value}" if stat.value else self.stem


def _families() -> Iterator[Family]:
    yield Family(CLIENT, "connection-creation", _SUMS, "connections opened", counts=True)
    yield Family(CLIENT, "connection-close", _SUMS, "connections closed", counts=True)
    yield Family(CLIENT, "connection-count", _GAUGE, "open connections")
    yield Family(CLIENT, "failed-authentication", _SUMS, "connections that failed to authenticate", counts=True)
    yield Family(CLIENT, "request", _SUMS, "requests sent", counts=True)
    yield Family(CLIENT, "request-size", _SPREAD, "bytes of a request")
    yield Family(CLIENT, "outgoing-byte", _SUMS, "bytes sent")
    yield Family(CLIENT, "response", _SUMS, "responses received", counts=True)
    yield Family(CLIENT, "incoming-byte", _SUMS, "bytes received")
    yield Family(CLIENT, "metadata-age", _GAUGE, "seconds since metadata last arrived, NaN if none has arrived yet")
    yield Family(NODE, "request-latency", _SPREAD, "ms from a request to its response", ("node-id",))
    yield Family(NODE, "response", _SUMS, "responses received", ("node-id",), counts=True)

    for group, tags in ((PRODUCER, ()), (TOPIC, _PER_TOPIC)):
        yield Family(group, "record-send", _SUMS, "records sent, retries included", tags)
        yield Family(group, "record-retry", _SUMS, "records sent again", tags)
        yield Family(group, "record-error", _SUMS, "records that failed", tags)
    yield Family(TOPIC, "byte", _SUMS, "bytes of batches sent, after compression", _PER_TOPIC)
    yield Family(PRODUCER, "batch-size", _SPREAD, "bytes of a batch, after compression")
    yield Family(PRODUCER, "compression-rate", (Stat.AVERAGE,), "compressed size, as a fraction of the size before")
    yield Family(PRODUCER, "batch-split", _SUMS, "batches split because they were too large", counts=True)
    yield Family(PRODUCER, "records-per-request", (Stat.AVERAGE,), "records in a request")
    yield Family(PRODUCER, "record-queue-time", _SPREAD, "ms from a batch's first record until it was sent")
    yield Family(PRODUCER, "request-latency", _SPREAD, "ms from a produce request to its response")
    yield Family(PRODUCER, "produce-throttle-time", _SPREAD, "ms by which brokers delayed produce requests")
    yield Family(PRODUCER, "requests-in-flight", _GAUGE, "produce requests without a response yet")
    yield Family(PRODUCER, "buffer-total-bytes", _GAUGE, "`buffer_memory`")
    yield Family(PRODUCER, "buffer-available-bytes", _GAUGE, "free bytes in `buffer_memory`")
    for stem, text in _TRANSACTIONS:
        yield Family(PRODUCER, stem, (Stat.TOTAL,), text)

    yield Family(FETCH, "fetch", _SUMS, "responses to fetches", counts=True)
    yield Family(FETCH, "fetch-latency", _SPREAD, "ms from a fetch to its response, which waits for new records")
    yield Family(FETCH, "fetch-throttle-time", _SPREAD, "ms by which brokers delayed fetches")
    yield Family(FETCH, "fetch-size", _SPREAD, "bytes of records in a response")
    yield Family(FETCH, "records-per-request", (Stat.AVERAGE,), "records in a response")
    yield Family(FETCH, "bytes-consumed", _SUMS, "bytes of records fetched")
    yield Family(FETCH, "records-consumed", _SUMS, "records fetched")
    yield Family(FETCH, "bytes-consumed", _SUMS, "bytes of records fetched", _PER_TOPIC)
    yield Family(FETCH, "records-consumed", _SUMS, "records fetched", _PER_TOPIC)
    yield Family(FETCH, "records-lag", _GAUGE, "records not yet handed out", _PER_PARTITION)
    yield Family(FETCH, "records-lag-max", _GAUGE, "the highest `records-lag` now, NaN if none is known")

    yield Family(CONSUMER, "last-poll-seconds-ago", _GAUGE, "seconds since the last read; 0 while a read is waiting")
    yield Family(COORDINATOR, "commit", _SUMS, "responses to commits", counts=True)
    yield Family(COORDINATOR, "commit-latency", _SPREAD, "ms from a commit to its response")
    yield Family(COORDINATOR, "heartbeat", _SUMS, "responses to heartbeats", counts=True)
    yield Family(COORDINATOR, "heartbeat-response-time", (Stat.MAXIMUM,), "ms from a heartbeat to its response")
    yield Family(
        COORDINATOR, "last-heartbeat-seconds-ago", _GAUGE, "seconds since the coordinator last confirmed this member"
    )
    yield Family(COORDINATOR, "join", _SUMS, "responses to joins", counts=True)
    yield Family(COORDINATOR, "join-time", _SPREAD, "ms from a join to its response")
    yield Family(COORDINATOR, "sync", _SUMS, "responses to syncs", counts=True)
    yield Family(COORDINATOR, "sync-time", _SPREAD, "ms from a sync to its response")
    yield Family(COORDINATOR, "rebalance", (Stat.PER_HOUR, Stat.TOTAL), "rebalances that were completed", counts=True)
    yield Family(COORDINATOR, "rebalance-latency", (*_SPREAD, Stat.TOTAL), "ms taken by a rebalance")
    yield Family(COORDINATOR, "failed-rebalance", (Stat.PER_HOUR, Stat.TOTAL), "rebalances that failed", counts=True)
    yield Family(
        COORDINATOR, "last-rebalance-seconds-ago", _GAUGE, "seconds since the last rebalance, -1 if there has been none"
    )
    yield Family(COORDINATOR, "assigned-partitions", _GAUGE, "partitions that this consumer reads")
    yield from _of_share_consumers()


def _of_share_consumers() -> Iterator[Family]:
    yield Family(SHARE_FETCH, "fetch", _SUMS, "responses to fetches", counts=True)
    yield Family(SHARE_FETCH, "fetch-latency", _SPREAD, "ms from a fetch to its response, which waits for new records")
    yield Family(SHARE_FETCH, "fetch-throttle-time", _SPREAD, "ms by which brokers delayed fetches")
    yield Family(SHARE_FETCH, "fetch-size", _SPREAD, "bytes of record batches in a response")
    yield Family(SHARE_FETCH, "records-per-request", _SPREAD, "acquired offsets in a response")
    yield Family(SHARE_FETCH, "bytes-consumed", _SUMS, "bytes of record batches fetched")
    yield Family(SHARE_FETCH, "records-consumed", _SUMS, "offsets acquired")
    yield Family(SHARE_FETCH, "acknowledgements-send", _SUMS, "offsets acknowledged")
    yield Family(SHARE_FETCH, "acknowledgements-error", _SUMS, "offsets whose acknowledgement failed")
    yield Family(SHARE, "last-poll-seconds-ago", _GAUGE, "seconds since the last read; 0 while a read is waiting")
    yield Family(SHARE_COORDINATOR, "heartbeat", _SUMS, "responses to heartbeats", counts=True)
    yield Family(SHARE_COORDINATOR, "heartbeat-response-time", (Stat.MAXIMUM,), "ms from a heartbeat to its response")
    yield Family(
        SHARE_COORDINATOR,
        "last-heartbeat-seconds-ago",
        _GAUGE,
        "seconds since the coordinator last confirmed this member",
    )
    yield Family(
        SHARE_COORDINATOR, "rebalance", (Stat.PER_HOUR, Stat.TOTAL), "assignments that were adopted", counts=True
    )


#: Families, keyed by group, stem and tag keys.
METRICS: Final[Mapping[tuple[str, str, tuple[str, ...]], Family]] = {
    (family.group, family.stem, family.tags): family for family in _families()
}


def described(group: str, name: str) -> str:
    """Return the description of a metric, given its group and name in a client; empty if it is unknown."""
    for family in METRICS.values():
        if group == family.group or (family.group in (CLIENT, NODE) and group.endswith(family.group)):
            for stat, known in family.names():
                if known == name:
                    return _WORDS[stat].format(family.text)
    return ""
