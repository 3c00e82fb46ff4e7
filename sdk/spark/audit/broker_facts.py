"""Facts about topics, read from their brokers by a data source like the one for segments.

The driver decides once which partitions are read, and up to which offsets. Records written after that are left to the
next run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.audit.continuation import WAY_OUT, check_end, still_there
from kafkawire.sdk.spark.audit.fact_rows import FactRows, NotedFacts
from kafkawire.sdk.spark.audit.facts import fact_ddl
from kafkawire.sdk.spark.audit.partition_facts import PartitionFacts
from kafkawire.sdk.spark.audit.store import Manifest
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.cluster import Cluster
from kafkawire.sdk.spark.brokers.options import WireOptions, parse_options
from kafkawire.sdk.spark.brokers.ranges import PartitionRange, split, together
from kafkawire.sdk.spark.brokers.readable_topics import unreadable
from kafkawire.sdk.spark.brokers.source import KafkaWireReader
from kafkawire.sdk.spark.brokers.stored_batches import StoredBatches
from kafkawire.sdk.spark.connecting import connected
from kafkawire.sdk.spark.damage import Place
from kafkawire.sdk.spark.offset_order import first_offset
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX, there_are

__all__ = ["BrokerFacts", "BrokerInput", "broker_input", "compacted", "partition_facts_of_brokers"]

_log = logging.getLogger("kafkawire.spark")

#: The topic option that says whether a topic is compacted.
_POLICY: Final = "cleanup.policy"


class BrokerInput(NamedTuple):
    """The input of an audit.

    Attributes:
        options: the options of the query.
        topic_ids: the topic ids, keyed by topic name; omitted if brokers have no ids.
        log_starts: the offset at which each partition now begins.
    """

    options: dict[str, str]
    topic_ids: dict[str, str]
    log_starts: dict[TopicPartition, int]


def broker_input(
    settings: Mapping[str, str], topics: Collection[str] | None, before: Manifest, out: str
) -> BrokerInput:
    """Return the input of an audit that reads new data from brokers.

    Args:
        settings: client options, named as in Kafka's documentation.
        topics: topic names; None for all.
        before: the previous audit; partitions that it did not read are read from their beginning.
        out: the folder of the audit, for error messages.

    Raises:
        ConfigurationError: there are no such topics, an option is refused, a topic was recreated, or a partition ends
            before the offset at which it should continue.
        KafkaWireError: a request to the brokers failed.
    """
    topic_ids = _topic_ids(ClientSettings(settings), topics, before)
    for topic, known in before.topic_ids.items():
        if topic_ids.get(topic, known) not in (known, ""):
            reason = f"topic {topic} was deleted and recreated since it was read; {WAY_OUT}"
            raise ConfigurationError("out", out, reason)
    texts = {f"{CLIENT_PREFIX}{name}": value for name, value in settings.items()}
    cluster = Cluster(parse_options({**texts, "subscribe": ",".join(topic_ids)}))
    try:
        partitions = cluster.partitions()
        log_starts, ends = cluster.earliest(partitions), cluster.latest(partitions)
    finally:
        cluster.close()
    starts = dict(log_starts)
    for each in partitions:
        goes_on = before.next_offsets.get(each.topic, {}).get(str(each.partition), 0)
        check_end(each, goes_on, ends[each], out)
        starts[each] = max(starts[each], goes_on)
    texts["assign"] = json.dumps({topic: [*map(int, offsets)] for topic, offsets in _by_topic(ends).items()})
    texts["startingOffsets"] = json.dumps(_by_topic(starts))
    texts["endingOffsets"] = json.dumps(_by_topic(ends))
    return BrokerInput(texts, {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}, dict(log_starts))


def partition_facts_of_brokers(
    settings: Mapping[str, str], texts: Mapping[str, str], log_starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionFacts]:
    """Return what brokers know apart from batches: where partitions begin, and up to which offset they are compacted.

    Args:
        settings: client options.
        texts: query options.
        log_starts: the offset at which each partition begins.

    Raises:
        KafkaWireError: a request to the brokers failed.
    """
    cleaned = compacted(settings, texts)
    return {each: PartitionFacts(log_start=start, cleaned=cleaned.get(each)) for each, start in log_starts.items()}


def compacted(settings: Mapping[str, str], texts: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Return the partitions of compacted topics, and where they end.

    Topics whose configuration the brokers do not reveal are omitted and logged.

    Args:
        settings: client options.
        texts: query options.

    Raises:
        KafkaWireError: a request to the brokers failed.
    """
    ends: dict[str, dict[str, int]] = json.loads(texts["endingOffsets"])
    found = {}
    client = ClientSettings(settings)
    with connected(client.admin(), client.api_timeout_ms) as admin:
        for topic, offsets in ends.items():
            try:
                entries = admin.describe_configs(ConfigResourceType.TOPIC, topic, [_POLICY])
            except BrokerError as error:  # a user who may read a topic may not be allowed to see its configuration
                _log.warning("%s of topic %s is unknown: %s", _POLICY, topic, error)
                continue
            if _POLICY in entries and "compact" in (entries[_POLICY].value or ""):
                found.update({TopicPartition(topic, int(number)): end for number, end in offsets.items()})
    return found


def _topic_ids(client: ClientSettings, topics: Collection[str] | None, before: Manifest) -> dict[str, str]:
    """Return the ids of the topics to read, keyed by name; the id is empty if the broker has none."""
    with connected(client.admin(), client.api_timeout_ms) as admin:
        there = admin.list_topics(include_internal=True)
    names = sorted(there) if topics is None else still_there(sorted(set(topics)), there, before.next_offsets)
    missing = [name for name in names if name not in there]
    if missing or not names:
        raise ConfigurationError("topics", ", ".join(missing), there_are(sorted(there), asked=missing))
    denied = unreadable(client, names)
    if denied and (topics is not None or len(denied) == len(names)):
        raise ConfigurationError(
            "topics", ", ".join(denied), "this user may not read them: the permission READ is missing"
        )
    if denied:
        _log.warning("skipped, because this user may not read them: %s", ", ".join(denied))
        names = [name for name in names if name not in denied]
    ids = {name: there[name].topic_id for name in names}
    return {name: "" if topic_id == ZERO_UUID else format_uuid(topic_id) for name, topic_id in ids.items()}


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        found.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return found


class BrokerFacts(DataSource):
    """The wide table of all facts. It takes the options of `kafkawire`, plus `since_ms` and `until_ms`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafka_audit_broker_facts"

    def schema(self) -> str:
        """Return the columns."""
        return fact_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a query.

        Raises:
            ConfigurationError: an option is invalid.
        """
        given = dict(self.options)
        since_ms, until_ms = (int(given.pop(name)) if name in given else None for name in ("since_ms", "until_ms"))
        return _Reader(parse_options(given), NotedFacts(since_ms=since_ms, until_ms=until_ms))


class _Part(NamedTuple):
    """The part of a partition that a task reads.

    Attributes:
        range: the range of offsets.
        is_first: whether it is the first part of the partition, which includes any batch that spans its beginning.
    """

    range: PartitionRange
    is_first: bool


class _Reader(KafkaWireReader):
    """Reads facts from brokers."""

    def __init__(self, options: WireOptions, noted: NotedFacts) -> None:
        super().__init__(options, ())
        self._noted = noted

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; see `KafkaWireReader.partitions`."""
        tasks_min = self._options.tasks_min or 1
        ranges = split(self._ranges(), tasks_min, self._options.task_records_max)
        firsts = iter([True, *(before.partition != after.partition for before, after in pairwise(ranges))])
        tasks = [[_Part(each, next(firsts)) for each in task] for task in together(ranges, tasks_min)]
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the facts of a task.

        Raises:
            KafkaWireError: see `StoredBatches.read`.
        """
        parts: Sequence[_Part] = partition.value or ()  # without tasks, Spark creates an empty one
        if not parts:
            return
        sink = FactRows(self._noted)
        with StoredBatches(self._options.client, self._options.poll_timeout_ms) as stored:
            for part in parts:
                place = Place(*part.range.partition)
                expected = part.range.start
                for found in stored.read(part.range):
                    if isinstance(found, Damage):
                        yield from sink.add_damage(place, found, expected)
                        continue
                    expected = found.batch.last_offset + 1
                    first = first_offset(found.batch)
                    if part.is_first or first >= part.range.start:
                        wanted = None if first >= part.range.start else (part.range.start, expected)
                        yield from sink.add(place, found.batch, None, wanted)
        yield from sink.finish()
