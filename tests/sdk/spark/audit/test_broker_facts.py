"""Facts from brokers come in the right tasks and topics, and give the same tables as an audit of the segments.

Method: start a reference broker on hand-built logs, and audit it once with Spark, in two runs.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from pyspark.sql.datasource import InputPartition

from kafkawire import NewTopic
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.spark.audit import broker_facts
from kafkawire.sdk.spark.audit.broker_facts import BrokerFacts, broker_input
from kafkawire.sdk.spark.audit.partition_facts import PartitionFacts
from kafkawire.sdk.spark.audit.store import Manifest
from kafkawire.sdk.spark.brokers.stored_batches import StoredBatches
from kafkawire.sync import Admin, Producer
from kafkawire.testing import Broker
from tests.sdk.spark.brokers.topics import create, produce, stored
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of

pytestmark = pytest.mark.filterwarnings("ignore")


OUT = "/audits/shop"


def options(broker: Broker, topics: list[str] | None = None, before: Any = None) -> dict[str, str]:
    before = Manifest(next_offsets=before or {})
    return broker_input({"bootstrap.servers": broker.bootstrap}, topics, before, OUT).options


def facts(texts: dict[str, str]) -> list[list[dict[str, Any]]]:
    """Return the facts from each task."""
    reader = pickle.loads(pickle.dumps(BrokerFacts(texts).reader(None)))  # type: ignore[arg-type]  # unused
    return [[row for rows in reader.read(task) for row in rows.to_pylist()] for task in reader.partitions()]


def test_what_is_read(tmp_path: Path) -> None:
    """A run reads from the end of the previous run to the end at planning time, including internal topics."""
    with stored(tmp_path, batch(0, 5)) as broker:
        create(broker, other=2)
        produce(broker, "other", 1, 7)
        first = options(broker)
        produce(broker, "other", 1, 3)
        assert json.loads(first["startingOffsets"]) == {"orders": {"0": 0}, "other": {"0": 0, "1": 0}}
        assert json.loads(first["endingOffsets"]) == {"orders": {"0": 5}, "other": {"0": 0, "1": 7}}
        assert json.loads(first["assign"]) == {"orders": [0], "other": [0, 1]}
        second = options(broker, ["other"], {"other": {"1": 7}})
        assert json.loads(second["startingOffsets"]) == {"other": {"0": 0, "1": 7}}
        assert json.loads(second["endingOffsets"]) == {"other": {"0": 0, "1": 10}}
        rows = [row for task in facts(second) for row in task if row["kind"] == "batch"]
        assert sum(row["records"] for row in rows) == 3
        reason = f"out='{OUT}': other-1 was read up to offset 11, but now ends at 10"
        with pytest.raises(ConfigurationError, match=reason):
            options(broker, ["other"], {"other": {"1": 11}})


def test_topic_that_was_made_anew(tmp_path: Path) -> None:
    """A recreated topic is refused, whatever its length; deleted topics and brokers without topic ids are not."""
    with Broker(tmp_path) as broker, Admin(broker.bootstrap) as admin:
        create(broker, a=1, b=1)
        settings = {"bootstrap.servers": broker.bootstrap}
        ids = broker_input(settings, None, Manifest(), OUT).topic_ids
        assert ids == {name: format_uuid(topic.topic_id) for name, topic in admin.describe_topics(["a", "b"]).items()}
        others = Manifest(topic_ids={**ids, "gone": "AAAA"})
        assert broker_input(settings, ["b"], others, OUT).topic_ids == {"b": ids["b"]}
        admin.delete_topics(["b"])
        create(broker, b=1)
        produce(broker, "b", 0, 7)
        before = Manifest(next_offsets={"b": {"0": 5}}, topic_ids=ids)
        with pytest.raises(
            ConfigurationError, match=f"out='{OUT}': topic b was deleted and recreated since it was read"
        ):
            broker_input(settings, ["b"], before, OUT)
        before = before._replace(topic_ids={"a": ids["a"]})
        assert broker_input(settings, ["b"], before, OUT).topic_ids != {"b": ids["b"]}


def test_topics(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with pytest.raises(ConfigurationError, match="topics='': there are no topics"):
            options(broker)
        create(broker, a=1, b=1)
        with pytest.raises(ConfigurationError, match=r"topics='c, d': available topics: a, b$"):
            options(broker, ["d", "a", "c"])


def test_tasks(tmp_path: Path) -> None:
    """If tasks share a partition, exactly one records each batch; batches outside the time range are not counted."""
    with stored(tmp_path, *(batch(first) for first in range(0, 100, 10))) as broker:
        texts = {**options(broker), "minPartitions": "7", "since_ms": str(TIME_MS + 25), "until_ms": str(TIME_MS + 85)}
        tasks = facts(texts)
        assert len(tasks) == 7
        rows = [row for task in tasks for row in task if row["kind"] == "batch"]
        assert [(row["baseOffset"], row["isCounted"]) for row in rows] == [
            (first, 20 <= first < 80) for first in range(0, 100, 10)
        ]
        assert all(row["position"] is None and row["path"] is None for row in rows)
        texts["startingOffsets"] = json.dumps({"orders": {"0": 5}})  # inside the first batch: no other task reads it
        rows = [row for task in facts(texts) for row in task if row["kind"] == "batch"]
        assert [row["baseOffset"] for row in rows] == [*range(0, 100, 10)]
        # The records before that offset have been deleted, and no reader gets them.
        assert [row["records"] for row in rows if row["isCounted"]] == [10] * 6
        texts["since_ms"] = "0"
        rows = [row for task in facts(texts) for row in task if row["kind"] == "batch"]
        assert [row["records"] for row in rows[:2]] == [5, 10]


def test_compacted(tmp_path: Path) -> None:
    """Topics with a compacting policy are listed, with the offset up to which they are read."""
    with Broker(tmp_path) as broker:
        with Admin(broker.bootstrap) as admin:
            policies = {"a": "compact", "b": "compact,delete", "c": "delete"}
            admin.create_topics(
                [NewTopic(name, 2, configs={broker_facts._POLICY: its}) for name, its in policies.items()]
            )
        with Producer(broker.bootstrap) as producer:
            producer.send("a", b"value", key=b"key", partition=1)
        found = broker_facts.compacted({"bootstrap.servers": broker.bootstrap}, options(broker))
        assert {str(each): offset for each, offset in found.items()} == {"a-0": 0, "a-1": 1, "b-0": 0, "b-1": 0}
        known = broker_facts.partition_facts_of_brokers(
            {"bootstrap.servers": broker.bootstrap}, options(broker), dict.fromkeys(found, 7)
        )
    assert known == {each: PartitionFacts(log_start=7, cleaned=offset) for each, offset in found.items()}


def test_policies_that_nobody_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(tmp_path) as broker:
        texts = {"endingOffsets": json.dumps({"none": {"0": 5}})}
        assert broker_facts.compacted({"bootstrap.servers": broker.bootstrap}, texts) == {}
    assert "cleanup.policy of topic none is unknown" in caplog.text


def test_a_task_of_nothing(tmp_path: Path) -> None:
    with stored(tmp_path, batch(0)) as broker:
        reader = BrokerFacts(options(broker)).reader(None)  # type: ignore[arg-type]  # unused
    assert list(reader.read(InputPartition(None))) == []  # otherwise, it would connect to a broker that is gone


def test_a_task_of_several_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions in one task share a client, and produce the same facts as in separate tasks."""
    clients = []

    class Counted(StoredBatches):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            clients.append(self)

    monkeypatch.setattr(broker_facts, "StoredBatches", Counted)
    with Broker(tmp_path) as broker:
        create(broker, t=6)
        for number in range(6):
            produce(broker, "t", number, 1 + number)
        whole, parts = facts(options(broker)), facts({**options(broker), "minPartitions": "6"})
        assert (len(whole), len(parts), len(clients)) == (1, 5, 1 + 5)  # the first two are small
        (rows,), found = whole, [row for task in parts for row in task]
        assert sorted(map(repr, rows)) == sorted(map(repr, found))
        assert [row["partition"] for row in rows if row["kind"] == "batch"] == list(range(6))


def test_damage(tmp_path: Path) -> None:
    """Damage and batches without application records are recorded as they are for segments."""
    broken = bytearray(batch(10))
    broken[-1] ^= 1
    with stored(tmp_path, batch(0), batch(10), records_of(20, 7, 3), marker(23, 7, False)) as broker:
        path = tmp_path / "orders-0" / "00000000000000000000.log"
        content = path.read_bytes()
        path.write_bytes(content.replace(batch(10), bytes(broken)))
        (task,) = facts(options(broker))
        rows = [row for row in task if row["kind"] == "batch"]
        assert [(row["baseOffset"], row["controlType"]) for row in rows] == [
            *((0, None), (10, None)),
            *((20, None), (23, "ABORT")),
        ]
        (damage,) = (row for row in rows if row["reason"])
        assert (damage["sizeBytes"], damage["records"]) == (len(broken), None)
        (task,) = facts(options(broker, None, {"orders": {"0": 10}}))
        assert [row["baseOffset"] for row in task if row["kind"] == "batch"] == [10, 20, 23]
