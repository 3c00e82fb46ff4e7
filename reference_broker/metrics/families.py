"""The catalogue of the broker's metrics, and the rule that turns Kafka's names into OpenMetrics names.

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec  ->  kafka_server_broker_topic_metrics_bytes_in
    kafka.network:type=RequestMetrics,name=TotalTimeMs       ->  kafka_network_request_metrics_total_time_seconds

The domain, the type and the name follow each other in snake_case. A rate becomes a counter, without `PerSec`, and a
time is in seconds instead of `Ms`. The other keys of an MBean become labels. Metrics that Kafka does not have begin
with `kafkawire_`; those of the process have the names that Prometheus' clients give them.

Source: Apache Kafka documentation, "Monitoring"; OpenMetrics 1.0.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["FAMILIES", "Family", "Kind", "name_of"]

#: Between a small letter and a capital, between a capital and the beginning of a word, and at `-` or `.`.
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-.]")


class Kind(Enum):
    """The type of a family, as in the text formats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Family(NamedTuple):
    """The metrics of one name.

    Attributes:
        name: the name, without suffixes such as `_total`.
        kind: see `Kind`.
        text: what is measured; it begins with Kafka's name, if Kafka has the metric.
        labels: the names of the labels.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()


def name_of(mbean: str, attribute: str = "") -> str:
    """Return the name for one of Kafka's MBeans.

    Args:
        mbean: for example `kafka.log:type=LogManager,name=OfflineLogDirectoryCount`.
        attribute: the attribute, for MBeans whose values are attributes with names of their own.
    """
    domain, _, keys = mbean.partition(":")
    parts = dict(key.split("=", 1) for key in keys.split(","))
    name = attribute or parts["name"]
    if name.endswith("PerSec"):
        name = name.removesuffix("PerSec")
    elif name.endswith("TimeMs"):
        name = name.removesuffix("Ms") + "Seconds"
    return "_".join(_WORDS.sub("_", part).lower() for part in (domain, parts["type"], name))


def _kafka(kind: Kind, mbean: str, text: str, *labels: str, attribute: str = "", own: str = "") -> Family:
    """Declare one of Kafka's metrics; `own` is added to the name if Kafka uses the same name for something else."""
    shown = f"{mbean}{', ' + attribute if attribute else ''}"
    return Family(name_of(mbean, attribute) + own, kind, f"{shown}: {text}", labels)


_REQUESTS: Final = "kafka.network:type=RequestMetrics,name="
_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_SOCKETS: Final = "kafka.server:type=socket-server-metrics"


def _times(name: str, text: str) -> Family:
    return _kafka(Kind.SUMMARY, f"{_REQUESTS}{name},request=*", text, "request")


#: All families, keyed by a short name that the collecting code uses.
FAMILIES: Final = {
    "requests": _kafka(Kind.COUNTER, f"{_REQUESTS}RequestsPerSec,request=*", "requests answered", "request"),
    "errors": _kafka(
        Kind.COUNTER,
        f"{_REQUESTS}ErrorsPerSec,request=*,error=*",
        "error codes in responses, without NONE",
        "request",
        "error",
    ),
    "total_time": _kafka(
        Kind.HISTOGRAM, f"{_REQUESTS}TotalTimeMs,request=*", "from the arrival to the response", "request"
    ),
    "queue_time": _times("RequestQueueTimeMs", "waiting for earlier requests of the connection"),
    "local_time": _times("LocalTimeMs", "in the handler"),
    "remote_time": _times("RemoteTimeMs", "delayed, for records, replicas or other members"),
    "response_time": _times("ResponseSendTimeMs", "writing out the response"),
    "throttle_time": _times("ThrottleTimeMs", "for which connections were muted by quotas"),
    "request_bytes": _kafka(Kind.SUMMARY, f"{_REQUESTS}RequestBytes,request=*", "sizes of requests", "request"),
    "bytes_in": _kafka(Kind.COUNTER, f"{_TOPICS}BytesInPerSec", "bytes of batches that producers appended"),
    "messages_in": _kafka(Kind.COUNTER, f"{_TOPICS}MessagesInPerSec", "records that producers appended"),
    "bytes_out": _kafka(Kind.COUNTER, f"{_TOPICS}BytesOutPerSec", "bytes of batches sent to consumers"),
    "replication_bytes_out": _kafka(
        Kind.COUNTER, f"{_TOPICS}ReplicationBytesOutPerSec", "bytes of batches sent to followers"
    ),
    "topic_bytes_in": _kafka(
        Kind.COUNTER, f"{_TOPICS}BytesInPerSec,topic=*", "the same by topic", "topic", own="_by_topic"
    ),
    "topic_messages_in": _kafka(
        Kind.COUNTER, f"{_TOPICS}MessagesInPerSec,topic=*", "the same by topic", "topic", own="_by_topic"
    ),
    "topic_bytes_out": _kafka(
        Kind.COUNTER, f"{_TOPICS}BytesOutPerSec,topic=*", "the same by topic", "topic", own="_by_topic"
    ),
    "connections": _kafka(
        Kind.GAUGE, f"{_SOCKETS},listener=*", "open connections", "listener", attribute="connection-count"
    ),
    "memory_used": _kafka(
        Kind.GAUGE,
        "kafka.network:type=SocketServer,name=MemoryPoolUsed",
        "bytes of unhandled requests and unread responses",
    ),
    "purgatory": _kafka(
        Kind.GAUGE,
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
        "requests whose response is delayed",
        "request",
    ),
    "fetch_sessions": _kafka(
        Kind.GAUGE, "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", "fetch sessions"
    ),
    "partitions": _kafka(Kind.GAUGE, f"{_REPLICAS}PartitionCount", "partitions with a replica here"),
    "leaders": _kafka(Kind.GAUGE, f"{_REPLICAS}LeaderCount", "partitions that this broker leads"),
    "under_replicated": _kafka(
        Kind.GAUGE, f"{_REPLICAS}UnderReplicatedPartitions", "partitions led here whose replicas are not all in sync"
    ),
    "offline_replicas": _kafka(Kind.GAUGE, f"{_REPLICAS}OfflineReplicaCount", "replicas here whose disk has failed"),
    "isr_shrinks": _kafka(Kind.COUNTER, f"{_REPLICAS}IsrShrinksPerSec", "removals of replicas from an ISR"),
    "isr_expands": _kafka(Kind.COUNTER, f"{_REPLICAS}IsrExpandsPerSec", "additions of replicas to an ISR"),
    "controller": _kafka(Kind.GAUGE, f"{_CONTROLLER}ActiveControllerCount", "1 if this broker is the controller"),
    "offline_partitions": _kafka(
        Kind.GAUGE,
        f"{_CONTROLLER}OfflinePartitionsCount",
        "partitions without a leader; 0 if not the controller",
    ),
    "topics": _kafka(Kind.GAUGE, f"{_CONTROLLER}GlobalTopicCount", "topics; 0 if not the controller"),
    "log_size": _kafka(
        Kind.GAUGE, "kafka.log:type=Log,name=Size,topic=*,partition=*", "bytes of a topic's partitions here", "topic"
    ),
    "log_segments": _kafka(
        Kind.GAUGE,
        "kafka.log:type=Log,name=NumLogSegments,topic=*,partition=*",
        "segments of a topic's partitions here",
        "topic",
    ),
    "uncleanable": _kafka(
        Kind.GAUGE,
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
        "logs whose retention or compaction has failed",
    ),
    "groups": _kafka(
        Kind.GAUGE,
        "kafka.server:type=group-coordinator-metrics,protocol=*,state=*",
        "groups coordinated here",
        "protocol",
        "state",
        attribute="group-count",
    ),
    "logs_bytes": Family("kafkawire_logs_bytes", Kind.GAUGE, "bytes of all logs here"),
    "transactions": Family(
        "kafkawire_transactional_ids", Kind.GAUGE, "transactional ids coordinated here, by state", ("state",)
    ),
    "timers": Family("kafkawire_timers", Kind.GAUGE, "pending and recently cancelled timers"),
    "loop_delay": Family(
        "kafkawire_event_loop_delay_seconds", Kind.HISTOGRAM, "by how much the event loop woke up late, once a second"
    ),
    "cpu": Family("process_cpu_seconds", Kind.COUNTER, "CPU time of the process"),
    "resident": Family("process_resident_memory_bytes", Kind.GAUGE, "memory of the process in RAM"),
    "open_files": Family("process_open_fds", Kind.GAUGE, "open files and connections of the process"),
    "open_files_max": Family("process_max_fds", Kind.GAUGE, "limit on open files and connections of the process"),
    "build": Family("kafkawire_build_info", Kind.GAUGE, "always 1; the label is the release", ("version",)),
}
