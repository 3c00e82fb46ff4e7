"""Kafka's record batches in Apache Spark, without Kafka: `pip install kafkawire[spark]`.

    segments = spark.read.format("binaryFile").load("orders-0/*.log")
    records = decode_batches(segments, "content", topic=lit("orders"), partition=0)
    records.groupBy("partition").count().show()

Names and types of the columns are those of Spark's own Kafka connector.
"""

from __future__ import annotations

from kafkawire.sdk.spark.decode import decode_batches
from kafkawire.sdk.spark.functions import (
    decode_internal_record,
    decode_message,
    decode_records,
    decode_request,
    decode_response,
    register_kafka_decode,
)

__all__ = [
    "decode_batches",
    "decode_internal_record",
    "decode_message",
    "decode_records",
    "decode_request",
    "decode_response",
    "register_kafka_decode",
]
