"""The programs on the pages about Spark run, and do what the pages say.

Method: join a page's Python blocks, in order, into one program. Replace the names of brokers and folders with those of
an embedded broker and a temporary folder; set up the page's prerequisites first, and check its promises after that. The
tests are skipped if Spark or Java is missing. `test_option_tables.py` covers the option tables.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sync import Admin, Producer
from kafkawire.testing import Broker

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from tests.sdk.spark.segments.logs import TIME_MS, batch, write_segment
from tests.sdk.spark.sink.topics import written

# The first session starts a JVM, and the first query starts the workers.
pytestmark = pytest.mark.timeout(300)

DOCS = Path(__file__).parents[3] / "docs"

Names = dict[str, Any]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True) as node:
        yield node


@pytest.fixture
def page(spark: Any, broker: Broker, tmp_path: Path) -> Callable[..., Names]:
    """Return a function that runs some of a page's blocks and returns the names that they define."""

    def run(name: str, chosen: slice = slice(None), **given: Any) -> Names:
        places = {
            "broker:9092": broker.bootstrap,
            "/var/lib/kafka/data": str(tmp_path / "data"),
            "s3://backup/kafka": str(tmp_path / "data"),
            "/checkpoints": str(tmp_path / "checkpoints"),
        }
        text = (DOCS / f"{name}.md").read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[chosen]
        assert blocks
        program = "\n".join(blocks)
        for place, here in places.items():
            program = program.replace(place, here)
        names: Names = {"__name__": "page", "spark": spark, **given}
        exec(compile(program, f"{name}.md", "exec"), names)
        return names

    return run


def create(broker: Broker, *topics: str) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, configs={"retention.ms": "-1"}) for topic in topics])


def rows_of(stream: Any, name: str) -> list[Any]:
    """Return the rows of a stream that are currently available."""
    query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    found: list[Any] = stream.sparkSession.table(name).collect()
    return found


def test_columns(page: Callable[..., Names], spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(bytearray(batch(0)), "orders", 1), (bytearray(batch(0) + b"x" * 9), "bills", 0)]
    found = page("spark", raw=spark.createDataFrame(rows, "batches binary, topic string, partition int"))
    counts = Counter((row.topic, row._corrupt is None) for row in found["records"].collect())
    assert counts == {("orders", True): 10, ("bills", True): 10, ("bills", False): 1}
    shown = capsys.readouterr().out
    assert re.search(r"orders *\| *10", shown)


def test_segments(page: Callable[..., Names], tmp_path: Path) -> None:
    write_segment(tmp_path / "data" / "orders-0", [batch(0), batch(10)])
    logs = BatchBuilder()
    for line in (b"ERROR disk", b"INFO nothing", b"ERROR network"):
        logs.append(TIME_MS, None, line)
    write_segment(tmp_path / "data" / "logs-0", [logs.build()])
    found = page("spark_segments")
    assert found["records"].count() == 20
    assert len(rows_of(found["stream"], "of_segments")) == 23
    assert sorted(bytes(row.value) for row in found["errors"].collect()) == [b"ERROR disk", b"ERROR network"]


def test_brokers(page: Callable[..., Names], broker: Broker) -> None:
    create(broker, "orders")
    found = page("spark_brokers")["orders"]
    query = found.writeStream.format("memory").queryName("of_brokers").start()
    try:
        query.processAllAvailable()  # the query begins at the latest offset
        with Producer(broker.bootstrap) as producer:
            producer.send("orders", b"later")
        query.processAllAvailable()
    finally:
        query.stop()
    assert [bytes(row.value) for row in found.sparkSession.table("of_brokers").collect()] == [b"later"]


def test_writing(page: Callable[..., Names], spark: Any, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "1.json").write_text(json.dumps({"topic": "changes", "value": "of a stream"}))
    changes = spark.readStream.schema("topic string, value string").json(str(tmp_path / "changes"))
    before = {query.id for query in spark.streams.active}
    page("spark_writing", slice(1), orders=spark.sql("select 'of a query' value"), changes=changes)
    (query,) = (query for query in spark.streams.active if query.id not in before)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert [each.value for each in written(broker.bootstrap, "orders")] == [b"of a query"]
    assert [each.value for each in written(broker.bootstrap, "changes")] == [b"of a stream"]


def test_repeats(page: Callable[..., Names], broker: Broker) -> None:
    """Rows with the same id are kept once; rows without an id, with other headers or with none, are all kept."""
    create(broker, "orders")
    with Producer(broker.bootstrap) as producer:
        for headers in ([("x", b"1"), ("spark-row-id", b"q/0/0/0")], [("spark-row-id", b"q/0/0/0")]):
            producer.send("orders", b"with an id", headers=headers)
        for headers in ([("x", b"1")], [("x", b"1")], [], []):
            producer.send("orders", b"without", headers=headers)
    once = page("spark_writing", slice(1, None))["once"]
    assert Counter(bytes(row.value) for row in rows_of(once, "once")) == {b"with an id": 1, b"without": 4}
