"""Called as Spark calls it, but without Spark, the data source plans and reads; readers and tasks can be pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.testing import Broker

pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed: the extra `spark` brings it")

from pyspark.sql.datasource import InputPartition  # noqa: E402 - it may be missing

from kafkawire.sdk.spark.brokers.cluster import Cluster  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.brokers.source import KafkaWire  # noqa: E402 - it needs pyspark
from kafkawire.sdk.spark.schema import COLUMNS  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.brokers.topics import create, produce  # noqa: E402 - it needs pyarrow

#: Options for a start at the first record that is not older than this time, or at the end.
AT_THE_END = {"startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"}

SCHEMA = types.StructType().add("partition", "integer").add("offset", "long")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True) as node:
        create(node, orders=2, empty=1)
        produce(node, "orders", 0, 20)
        produce(node, "orders", 1, 10)
        yield node


def source(broker: Broker, **options: str) -> KafkaWire:
    topics = {} if "assign" in options else {"subscribe": "orders"}
    return KafkaWire({"kafka.bootstrap.servers": broker.bootstrap, **topics, **options})


def read(reader: Any) -> list[tuple[int, int]]:
    """Do Spark's work: plan, pickle, and read each task."""
    worker = pickle.loads(pickle.dumps(reader))
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    found = [row for task in tasks for rows in worker.read(task) for row in rows.to_pylist()]
    return [(row["partition"], row["offset"]) for row in found]


def rows(*ranges: range) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, offsets in enumerate(ranges) for offset in offsets]


def test_schema(broker: Broker) -> None:
    assert KafkaWire.name() == "kafkawire"
    assert source(broker, includeHeaders="true", extra="sequence").schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp_ltz, "
        "`timestampType` int, `headers` array<struct<`key`: string, `value`: binary>>, `sequence` int"
    )
    with pytest.raises(ConfigurationError, match="did you mean failOnDataLoss"):
        source(broker, failOnDataLos="x").schema()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, rows(range(20), range(10))),
        ({"startingOffsets": '{"orders":{"0":18,"1":-2}}'}, rows(range(18, 20), range(10))),
        ({"endingOffsets": '{"orders":{"0":2,"1":-1}}'}, rows(range(2), range(10))),
        ({"assign": '{"orders":[1]}', "endingOffsets": '{"orders":{"1":5}}'}, rows(range(0), range(5))),
        ({"startingTimestamp": "0", "endingTimestamp": "1"}, []),
    ],
)
def test_rows(broker: Broker, options: dict[str, str], expected: list[tuple[int, int]]) -> None:
    assert read(source(broker, **options).reader(SCHEMA)) == expected


@pytest.mark.parametrize(
    ("options", "sizes"),
    [({}, [20, 10]), ({"minPartitions": "6"}, [5, 5, 5, 5, 5, 5]), ({"maxRecordsPerPartition": "10"}, [10, 10, 10])],
)
def test_tasks(broker: Broker, options: dict[str, str], sizes: list[int]) -> None:
    reader = source(broker, **options).reader(SCHEMA)
    assert [[each.size for each in task.value] for task in reader.partitions()] == [[size] for size in sizes]
    assert read(reader) == rows(range(20), range(10))


def test_nothing(broker: Broker) -> None:
    reader = source(broker, assign='{"empty":[0]}').reader(SCHEMA)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets='latest': a batch query would read nothing"),
        (
            {"startingOffsets": '{"orders":{"0":1}}'},
            "startingOffsets='orders-0': expected exactly the existing partitions",
        ),
        (
            {"startingOffsets": '{"orders":{"0":5,"1":0}}', "endingOffsets": '{"orders":{"0":4,"1":1}}'},
            "startingOffsets=5: orders-0 would begin at offset 5, but end earlier, at 4, because of endingOffsets=4",
        ),
        (
            {**AT_THE_END, "endingOffsetsByTimestamp": '{"orders":{"0":0,"1":0}}'},
            "startingTimestamp=9999999999999: orders-0 would begin at offset 20, but end earlier, at 0, because of "
            "endingOffsetsByTimestamp=0",
        ),
        (
            {"startingOffsets": '{"orders":{"0":50,"1":0}}'},
            "startingOffsets=50: orders-0 would begin at offset 50, but end earlier, at 20, because of "
            "endingOffsets=latest",
        ),
        ({"assign": '{"orders":[7]}'}, "assign='orders-7': the cluster has no such partition"),
    ],
)
def test_refused(broker: Broker, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        source(broker, **options).reader(SCHEMA).partitions()
    assert str(caught.value).startswith(reason)


def test_nothing_is_left_before_the_end(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention causes this for a partition that is read repeatedly up to a fixed offset; other partitions are read."""
    ends = {"endingOffsets": '{"orders":{"0":5,"1":-1}}'}
    monkeypatch.setattr(Cluster, "earliest", lambda self, found: {each: 8 * (not each.partition) for each in found})
    assert read(source(broker, failOnDataLoss="false", **ends).reader(SCHEMA)) == [(1, offset) for offset in range(10)]
    assert "lost: orders-0: the query would begin at offset 8, but ends earlier, at 5" in caplog.text
    by_number = {"startingOffsets": '{"orders":{"0":8,"1":0}}', "failOnDataLoss": "false"}  # not a loss
    for options in ({}, by_number):
        with pytest.raises(ConfigurationError, match="orders-0 would begin at offset 8, but end earlier, at 5"):
            source(broker, **ends, **options).reader(SCHEMA).partitions()


THERE = tuple(name for name in COLUMNS if name not in ("batchPosition", "path", "_corrupt"))


_CORRUPT = types.StructType().add("path", "string").add("position", "long").add("size", "long").add("reason", "string")


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("offset", "integer", "schema='offset int': the column is bigint; cast it in the query"),
        ("id", "integer", f"schema='id int': no such column; available columns: {', '.join(THERE)}"),
        ("_corrupt", _CORRUPT, "schema='_corrupt': only available when files are read"),
        ("path", "string", "schema='path': only available when files are read"),
    ],
)
def test_refused_schema(broker: Broker, name: str, kind: Any, reason: str) -> None:
    given, schema = source(broker), types.StructType().add(name, kind)
    for call in (lambda: given.reader(schema), lambda: given.streamReader(schema).initialOffset()):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [True, True]),
        ({"startingOffsets": '{"orders":{"0":0,"1":-2}}'}, [False, True]),
        ({"startingTimestamp": "0"}, [False, False]),
    ],
)
def test_what_is_no_loss(broker: Broker, options: dict[str, str], expected: list[bool]) -> None:
    """A query from the earliest offset may begin later by the time it runs; a query that names an offset may not."""
    tasks = source(broker, **options).reader(SCHEMA).partitions()
    assert [each.may_begin_later for task in tasks for each in task.value] == expected


def test_secrets(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks, which Spark may show, hold no options; readers hold options but do not show them."""
    monkeypatch.setattr(Cluster, "partitions", lambda self: [TopicPartition("orders", 0)])
    places = {"startingOffsets": 0, "endingOffsets": 9}
    monkeypatch.setattr(Cluster, "place", lambda self, bound, found: dict.fromkeys(found, places[bound.option]))
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}
    given = source(broker, **login, **{"kafka.sasl.password": "do not tell"})
    reader = given.reader(SCHEMA)
    assert "do not tell" not in repr(vars(reader))
    assert b"do not tell" in pickle.dumps(reader)
    tasks = reader.partitions()
    assert len(tasks) == 1
    assert b"do not tell" not in pickle.dumps(tasks)


def test_how_tasks_read(broker: Broker) -> None:
    """Batch and stream readers both pass on the options."""
    given = source(broker, failOnDataLoss="false", **{"kafkaConsumer.pollTimeoutMs": "77"})
    for reader in (given.reader(SCHEMA), given.streamReader(SCHEMA)):
        found = vars(reader)["_read_options"]
        assert (found.names, found.poll_timeout_ms, found.fails_on_loss) == (("partition", "offset"), 77, False)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets='latest': only batch queries support this option"),
        ({"endingTimestamp": "7"}, "endingTimestamp='7': only batch queries support this option"),
        (
            {"endingOffsets": '{"orders":{"0":7}}'},
            'endingOffsets=\'{"orders":{"0":7}}\': only batch queries support this option',
        ),
        ({"startingOffset": "latest"}, "startingOffset='latest': no such option; did you mean startingOffsets?"),
    ],
)
def test_a_stream_that_is_refused(broker: Broker, given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        source(broker, **given).streamReader(SCHEMA).initialOffset()
    assert str(caught.value) == reason


def test_nothing_stays_connected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection stays open after planning, even if the plan is refused."""
    closed: list[Cluster] = []

    def close(self: Cluster) -> None:
        closed.append(self)
        original(self)

    original = Cluster.close
    monkeypatch.setattr(Cluster, "close", close)
    source(broker).reader(SCHEMA).partitions()
    assert len(closed) == 1
    with pytest.raises(ConfigurationError):
        source(broker, startingOffsets='{"orders":{"0":1}}').reader(SCHEMA).partitions()
    assert len(closed) == 2
