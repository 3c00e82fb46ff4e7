"""A task's rows are stored by the time the task ends; otherwise, it fails with the topic, partition and reason.

Method: send rows as Arrow batches to the reference broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow

from kafkawire.sdk.errors import BrokerError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.spark import connecting
from kafkawire.sdk.spark.sink.columns import WrittenColumns
from kafkawire.sdk.spark.sink.options import parse_options
from kafkawire.sdk.spark.sink.sending import write
from kafkawire.sdk.spark.sink.task import WriteTask
from kafkawire.testing import Broker
from tests.sdk.spark.sink.topics import row_id, written

VALUES_ONLY = WrittenColumns(None, None, None)
ALL = WrittenColumns("key", "headers", "partition")
TASK = WriteTask("query", 3, 1)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=2, message_max_bytes=1_000) as running:
        yield running


def sent(broker: Broker, batches: Any, columns: WrittenColumns = VALUES_ONLY, **given: Any) -> int:
    task = given.pop("task", None)
    options = parse_options({"kafka.bootstrap.servers": broker.bootstrap, **given})
    return write(options, columns, task, [pyarrow.RecordBatch.from_pydict(each) for each in batches])


def test_several_topics(broker: Broker) -> None:
    batches = [
        {
            "topic": ["a", "b", "a"],
            "value": ["1", None, "3"],
            "key": [b"k", None, b""],
            "partition": pyarrow.array([1, 0, 1], pyarrow.int32()),
            "headers": [[{"key": "h", "value": b"x"}], None, []],
        }
    ]
    assert sent(broker, batches, ALL) == 3
    found = [(each.partition, each.key, each.value, [*each.headers]) for each in written(broker.bootstrap, "a")]
    assert found == [(1, b"k", b"1", [("h", b"x")]), (1, b"", b"3", [])]
    assert [(each.partition, each.value) for each in written(broker.bootstrap, "b")] == [(0, None)]


def test_the_buffer_is_smaller_than_the_rows(broker: Broker) -> None:
    values = [[f"{batch} {row}" for row in range(5_000)] for batch in range(3)]
    given: dict[str, Any] = {"topic": "out", "kafka.buffer.memory": "20000", "kafka.batch.size": "900"}
    assert sent(broker, [{"value": each} for each in values], **given) == 15_000
    found = sorted(str(each.value, "utf-8") for each in written(broker.bootstrap, "out"))
    assert found == sorted(value for each in values for value in each)


def test_a_column_topic_without_a_type(broker: Broker) -> None:
    """The topic option names the topic for the rows."""
    assert sent(broker, [{"value": ["v"], "topic": pyarrow.nulls(1)}], topic="out") == 1
    assert [each.value for each in written(broker.bootstrap, "out")] == [b"v"]


def test_row_ids(broker: Broker) -> None:
    batches = [{"topic": ["a", "b"], "value": ["0", "1"]}, {"topic": ["a"], "value": ["2"]}]
    sent(broker, batches, task=TASK)
    ids = {row_id(each): each.value for topic in "ab" for each in written(broker.bootstrap, topic)}
    assert ids == {f"query/3/1/{number}": b"%d" % number for number in range(3)}


def test_nothing(broker: Broker) -> None:
    assert sent(broker, [], topic="out") == 0


def test_a_broker_that_is_away_at_first(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parse_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": "out"})
    broker.stop()
    monkeypatch.setattr(connecting, "pause", lambda _: broker.start())
    assert write(options, VALUES_ONLY, None, [pyarrow.RecordBatch.from_pydict({"value": ["v"]})]) == 1


def test_a_record_that_the_broker_refuses(broker: Broker) -> None:
    with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE: 1 record for out-[01].*; .* 2000 bytes"):
        sent(broker, [{"value": ["v" * 2_000, "v"]}], topic="out")


def test_a_record_that_no_request_could_carry(broker: Broker) -> None:
    batches = [{"topic": ["a", "b"], "value": ["", "v" * 3_000_000]}]
    with pytest.raises(RecordTooLarge, match="row 0: ") as caught:
        sent(broker, batches)
    assert "the rows for topic b, starting at row 1 of the task" in caught.value.__notes__[0]


def test_what_can_be_no_partition(broker: Broker) -> None:
    batches = [{"value": ["v"], "partition": pyarrow.array([-1], pyarrow.int32())}]
    with pytest.raises(LocalProtocolError, match="partition of out: expected 0 to 2147483647, got -1"):
        sent(broker, batches, WrittenColumns(None, None, "partition"), topic="out")
