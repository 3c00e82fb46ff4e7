"""Kafka's records in Apache Spark, without Kafka's jars: `pip install kafkawire[spark]`.

    spark.dataSource.register(KafkaSegments)
    records = spark.read.format("kafka_segments").load("/var/lib/kafka/data")
    records.groupBy("topic", "partition").count().show()

`read_segments` does the same by running a function over Arrow batches in the workers; `read_batches` returns the
batches themselves. `KafkaWire` is the data source that fetches from brokers; `decode_batches` decodes a column of raw
batches. The columns have the names and types of Spark's own Kafka connector. `audit` analyses topics and finds their
problems, from segments; `audit_brokers` does so through brokers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.spark.audit.audit import AuditResult, audit, audit_brokers
from kafkawire.sdk.spark.audit.batches import read_batches
from kafkawire.sdk.spark.columns.decode import decode_batches
from kafkawire.sdk.spark.columns.functions import (
    decode_internal_record,
    decode_message,
    decode_records,
    decode_request,
    decode_response,
    register_kafka_decode,
)
from kafkawire.sdk.spark.segments.frame import read_segments

if TYPE_CHECKING:
    from kafkawire.sdk.spark.audit.findings import Finding, Severity
    from kafkawire.sdk.spark.brokers.source import KafkaWire
    from kafkawire.sdk.spark.segments.source import KafkaSegments

__all__ = [
    "AuditResult",
    "Finding",
    "KafkaSegments",
    "KafkaWire",
    "Severity",
    "audit",
    "audit_brokers",
    "decode_batches",
    "decode_internal_record",
    "decode_message",
    "decode_records",
    "decode_request",
    "decode_response",
    "read_batches",
    "read_segments",
    "register_kafka_decode",
]

#: Names that are imported on first use, and their modules. This module can thus be imported without Spark.
_LATER: Final = {
    "Finding": "audit.findings",
    "KafkaSegments": "segments.source",
    "KafkaWire": "brokers.source",
    "Severity": "audit.findings",
}


def __getattr__(name: str) -> object:
    """Return a data source, a Spark class, or the result of an audit."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kafkawire.sdk.spark.{_LATER[name]}"), name)
