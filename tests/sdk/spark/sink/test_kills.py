"""A stream whose driver is killed and restarted leaves no gap and no duplicate.

Method: kill drivers as described in killing.py. With transactions, readers of committed records must see each record
once; without them, readers that drop records with a known id must do so. tests/kafka/test_spark_sink.py kills more
drivers, with Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.testing import Broker
from tests.sdk.spark.sink.killing import (
    PREFIX,
    KilledStream,
    check_once,
    check_row_ids,
    source_of_files,
    source_of_topic,
)

# Each kill takes as long as it takes to start a driver.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=2) as running:
        yield running


@pytest.mark.spark
@pytest.mark.thorough
def test_transactions(broker: Broker, tmp_path: Path) -> None:
    stream = KilledStream(
        source_of_topic(broker.bootstrap, "in", 1), broker.bootstrap, "out", tmp_path, transactionalIdPrefix=PREFIX
    )
    assert stream.run_and_kill(2) == "its commit has begun"
    stream.finish()
    check_once(stream)


#: The number of kills: a driver may end its micro-batch between a check and the kill, but not every time.
_KILLS_MAX = 3


@pytest.mark.spark
@pytest.mark.thorough
def test_row_ids(broker: Broker, tmp_path: Path) -> None:
    """Rows that were stored before their micro-batch was repeated exist twice, with the same ids."""
    source = source_of_files(tmp_path / "in", _KILLS_MAX)
    stream = KilledStream(source, broker.bootstrap, "out", tmp_path, dedupeHeaders="true")
    for _ in range(_KILLS_MAX):
        if not stream.repeated:
            assert stream.run_and_kill(1) == "some of its rows are stored"
    stream.finish()
    assert stream.repeated > 0
    assert check_row_ids(stream) >= stream.repeated
