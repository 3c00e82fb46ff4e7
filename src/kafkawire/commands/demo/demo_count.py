"""Count the records in segment files with Spark, in a separate process, as the last step of the demo.

Spark takes seconds to start and writes much to standard error. Therefore it starts while the demo runs, and this output
is discarded. A line on standard input signals that the files are complete; the answer is JSON on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kafkawire.commands.pipeline.spark_session import start_spark, starting_quickly

__all__ = ["SparkCount"]

#: How long the demo waits for Spark, which is enough even on a loaded machine.
TIMEOUT_SECONDS = 120

#: Spark's settings for a short query.
_SHORT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


class SparkCount:
    """Spark in a separate process, started early and queried late.

    Args:
        folder: the folder that holds the partitions' folders.
        topic: the topic whose records are counted.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kafkawire.commands.demo.demo_count", str(folder), topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def counts(self) -> dict[int, int]:
        """Return the number of records that Spark finds in the files, keyed by partition.

        Raises:
            subprocess.TimeoutExpired: no answer arrived in time.
            ValueError: Spark failed, so it printed no answer.
        """
        output, _ = self._process.communicate("go\n", TIMEOUT_SECONDS)
        lines = output.splitlines()
        if not lines:
            raise ValueError(f"Spark ended with status {self._process.returncode} without printing a result")
        return {int(partition): count for partition, count in json.loads(lines[-1]).items()}

    def stop(self) -> None:
        """Stop the process if it is still running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _main(folder: str, topic: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from kafkawire.spark import read_segments

    starting_quickly()
    spark = start_spark("kafkawire demo", "local[2]", _SHORT)
    sys.stdin.readline()
    rows = read_segments(spark, folder, columns=["partition"], topics=topic).groupBy("partition").count().collect()
    print(json.dumps({row["partition"]: row["count"] for row in rows}))
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
