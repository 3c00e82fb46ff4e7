"""A driver that is killed: it writes a folder of records to a topic, a few files in each micro-batch, until it ends.

    python killed_program.py SERVERS TOPIC FOLDER FILES OPTIONS

FILES are those of a micro-batch, a task for each; OPTIONS those of the sink, as JSON. The checkpoint is beside the
folder.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from kafkawire.spark import KafkaWire

__all__ = ["main"]


def main(servers: str, topic: str, folder: str, files: str, options: dict[str, str]) -> None:
    """Write what is there, and return."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.files.minPartitionNum", files)
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.dataSource.register(KafkaWire)
    rows = session.readStream.format("json").schema("partition int, offset bigint")
    rows = rows.option("maxFilesPerTrigger", files).load(folder)
    writer = rows.selectExpr("concat(partition, '-', offset) value").writeStream.format("kafkawire")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic).options(**options)
    query = writer.option("checkpointLocation", f"{folder}.checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    _, given_servers, given_topic, given_folder, given_files, given_options = sys.argv
    main(given_servers, given_topic, given_folder, given_files, json.loads(given_options))
