"""A driver that is killed while it writes the partition and offset of each row in a stream to a topic.

    python killed_program.py SERVERS TOPIC CHECKPOINT SOURCE OPTIONS

SOURCE is a JSON object with the fields of `killing.Source`, and OPTIONS is a JSON object with the sink's options.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from kafkawire.spark import KafkaSegments, KafkaWire

__all__ = ["main"]


def main(servers: str, topic: str, checkpoint: str, source: dict[str, Any], options: dict[str, str]) -> None:
    """Write the available rows, and return."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.files.minPartitionNum", "3")  # a task for each file
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.dataSource.register(KafkaSegments)
    session.dataSource.register(KafkaWire)
    reader = session.readStream.format(source["format"]).schema("partition int, offset bigint")
    rows = reader.options(**source["options"]).load(source["path"])
    writer = rows.selectExpr("concat(partition, '-', offset) value").writeStream.format("kafkawire")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic).options(**options)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    _, given_servers, given_topic, given_checkpoint, given_source, given_options = sys.argv
    main(given_servers, given_topic, given_checkpoint, json.loads(given_source), json.loads(given_options))
