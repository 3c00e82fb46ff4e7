"""The audit itself: it collects new facts, builds tables from all facts, and writes the report.

New facts come from segments or brokers. The audit works the same way on a laptop and on a cluster: all work that grows
with the data is done either by tasks, each on its part of the data, or by Spark's sorts and sums, which spill to disk.
The driver handles one row per partition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.spark.audit.store import AuditStore, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkawire.sdk.routing.partitions import TopicPartition
    from kafkawire.sdk.spark.audit.findings import Finding
    from kafkawire.sdk.spark.audit.partition_facts import PartitionFacts
    from kafkawire.sdk.spark.segments.files import FoundSegment
    from kafkawire.sdk.spark.segments.storage import SegmentFiles

__all__ = ["AuditResult", "audit", "audit_brokers"]

#: Most tables are small, and planning a table takes Spark as long as building it, so several tables are built
#: concurrently.
_TABLES_AT_A_TIME: Final = 4

#: Maximum number of facts for a single task. Above it, a single task would take longer than passing the facts between
#: stages: each table has several stages, and each stage takes a tenth of a second.
_SMALL_BYTES: Final = 8 * 1024 * 1024

#: Partitions read from brokers are split into this many tasks, which keeps cores from idling for long while another
#: runs the last task.
_TASKS_FOR_EACH_CORE: Final = 2


class AuditResult(NamedTuple):
    """The outcome of an audit.

    Attributes:
        folder: the folder of the audit; its `tables` link leads to the tables.
        version: the number of audits completed in this folder.
        numbers: sums over all topics. Counts: `topics`, `partitions`, `records`, `batches`, `groups`, `lostRecords`
            (probably lost), `corruptRegions`, `gaps`, `unknownGaps` (unexplained gaps), `duplicateRecords`,
            `abortedTransactions` and `openTransactions`. `sizeBytes`: total size of the batches on disk.
            `compressionRatio`: bytes before compression per byte on disk; None if unknown.
        findings: the problems that need attention, worst first.
        report: the path of the report; None if none was requested.
    """

    folder: Path
    version: int
    numbers: Mapping[str, int | float | None]
    findings: tuple[Finding, ...]
    report: Path | None


def _quiet(step: str) -> None:
    """Report nothing at the beginning of a step."""


def audit(
    spark: SparkSession,
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    split_bytes: int | None = None,
    reread: bool = False,
    with_report: bool = True,
    on_step: Callable[[str], None] = _quiet,
) -> AuditResult:
    """Audit the topics in log segments, and write tables and a report.

    A second audit into the same folder reads only new data, and adds its facts to those of the first.

    Args:
        spark: the session; its workers need `kafkawire`, `pyarrow`, and the same paths.
        path: a folder with segments anywhere below it, a segment, or a list of either.
        out: the folder of the audit; created if it does not exist.
        topics: topic names, as a list or separated by commas; all topics by default, including Kafka's own.
        since_ms: count only batches whose highest timestamp is at least this, in ms since the epoch; all by default.
        until_ms: count only batches whose highest timestamp is lower than this, in ms since the epoch; all by default.
        split_bytes: the number of segment bytes that a task reads, at least 1 MiB; 128 MiB by default. It does not
            affect the tables.
        reread: whether to read everything again instead of only new data: data read earlier may have been damaged since
            then, or partitions may have been recreated. Data that no longer exists also disappears from the tables.
        with_report: whether to write `report.html`.
        on_step: called with a short description at the beginning of each step.

    Raises:
        ConfigurationError: there are no segments, or the audit in the folder cannot be continued, for example because a
            partition ends before the offset that the audit had reached.
        OSError: a file cannot be read or written.
    """
    from kafkawire.sdk.spark.audit.continuation import check_continuation
    from kafkawire.sdk.spark.audit.partition_facts import agreeing_facts, read_partition_facts
    from kafkawire.sdk.spark.audit.segment_facts import AuditFacts, read_source
    from kafkawire.sdk.spark.segments.options import SPLIT_BYTES_MIN, option_texts, shown_paths

    chosen = _asked(topics, since_ms, until_ms)
    _check_report(with_report)
    if split_bytes is not None and (type(split_bytes) is not int or not SPLIT_BYTES_MIN <= split_bytes <= INT64_MAX):
        raise ConfigurationError("split_bytes", split_bytes, f"expected at least {SPLIT_BYTES_MIN} bytes")
    said = {"topics": chosen, "since_ms": since_ms, "until_ms": until_ms}
    options: dict[str, object] = {"startingTimestamp": since_ms, "endingTimestamp": until_ms, "topics": chosen}
    options["splitBytes"] = split_bytes
    texts = option_texts(path, {name: value for name, value in options.items() if value is not None})
    with AuditStore(out, said) as store:
        if reread:
            store.forget()
        before = store.before
        files, segments, noted = _segments(texts, chosen, before)
        check_continuation(files, segments, before.next_offsets, before.last_batches, str(store.folder))
        facts = read_source(spark, AuditFacts, texts)

        def known() -> dict[TopicPartition, PartitionFacts]:
            return agreeing_facts(noted, read_partition_facts(files, *files.look()))

        on_step("reading segments")
        return _complete(spark, store, facts, known, shown_paths(texts), with_report, on_step)


def audit_brokers(
    spark: SparkSession,
    bootstrap_servers: str,
    out: str | PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    client: Mapping[str, str] = MappingProxyType({}),
    reread: bool = False,
    with_report: bool = True,
    on_step: Callable[[str], None] = _quiet,
) -> AuditResult:
    """Audit topics by reading them from their brokers, up to their current ends; see `audit`.

    Args:
        spark: the session; its workers need `kafkawire`, `pyarrow`, and access to the brokers.
        bootstrap_servers: the brokers to connect to first: `host:port,host:port`.
        out: the folder of the audit; created if it does not exist.
        topics: topic names, as a list or separated by commas; all topics by default, including Kafka's own.
        since_ms: count only batches whose highest timestamp is at least this, in ms since the epoch; all by default.
        until_ms: count only batches whose highest timestamp is lower than this, in ms since the epoch; all by default.
        client: further client options, named as in Kafka's documentation: `security.protocol`.
        reread: whether to read everything again, as in `audit`.
        with_report: whether to write `report.html`.
        on_step: called with a short description at the beginning of each step.

    Raises:
        ConfigurationError: there are no such topics, an option is refused, or the audit in the folder cannot be
            continued, for example because a topic was recreated.
        KafkaWireError: a request to the brokers failed.
        OSError: a file cannot be written.
    """
    from kafkawire.sdk.spark.audit.broker_facts import BrokerFacts, broker_input, partition_facts_of_brokers
    from kafkawire.sdk.spark.audit.segment_facts import read_source

    chosen = _asked(topics, since_ms, until_ms)
    _check_report(with_report)
    said = {"topics": chosen, "since_ms": since_ms, "until_ms": until_ms, "source": "brokers"}
    with AuditStore(out, said) as store:
        if reread:
            store.forget()
        on_step("asking the brokers")
        settings = {**client, "bootstrap.servers": bootstrap_servers}
        texts, topic_ids, log_starts = broker_input(settings, chosen, store.before, str(store.folder))
        times = {"since_ms": since_ms, "until_ms": until_ms}
        texts.update({name: str(time) for name, time in times.items() if time is not None})
        texts["minPartitions"] = str(_TASKS_FOR_EACH_CORE * spark.sparkContext.defaultParallelism)
        noted = partition_facts_of_brokers(settings, texts, log_starts)
        on_step("reading from brokers")
        facts = read_source(spark, BrokerFacts, texts)
        return _complete(spark, store, facts, lambda: noted, bootstrap_servers, with_report, on_step, topic_ids)


def _asked(topics: Iterable[str] | None, since_ms: int | None, until_ms: int | None) -> list[str] | None:
    """Return the names of topics.

    Raises:
        ConfigurationError: a name or a time is invalid.
    """
    from kafkawire.sdk.spark.option_values import parse_names

    for name, time in (("since_ms", since_ms), ("until_ms", until_ms)):
        if time is not None and (type(time) is not int or not 0 <= time <= INT64_MAX):
            raise ConfigurationError(name, time, f"expected ms since the epoch, 0 to {INT64_MAX}")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise ConfigurationError("since_ms", since_ms, f"expected at most until_ms={until_ms}")
    if topics is None:
        return None
    return sorted(parse_names("topics", topics) if isinstance(topics, str) else topics)


def _segments(
    texts: dict[str, str], topics: Sequence[str] | None, before: Manifest
) -> tuple[SegmentFiles, list[FoundSegment], dict[TopicPartition, PartitionFacts]]:
    """Return the files of a query, including all segments, and what is known about each selected partition.

    The query continues where the previous audit stopped.

    Topics that have since been deleted are omitted from the names and the offsets.

    Raises:
        ConfigurationError: an option is refused, there are no segments at all, or a named topic has none.
        OSError: a folder cannot be read.
    """
    from kafkawire.sdk.spark.audit.continuation import still_there
    from kafkawire.sdk.spark.audit.partition_facts import read_partition_facts
    from kafkawire.sdk.spark.segments.files import nothing_found
    from kafkawire.sdk.spark.segments.options import parse_options, shown_paths
    from kafkawire.sdk.spark.segments.storage import SegmentFiles

    options = parse_options(texts)
    files = SegmentFiles(options.paths, options.path_pattern)
    found, listed = files.look()
    noted = read_partition_facts(files, found, listed)
    there = {partition.topic for partition in noted}
    if topics is not None:
        left = still_there(topics, there, before.next_offsets)
        texts["topics"] = ",".join(left or topics)
        options = parse_options(texts)
    if not noted:
        raise nothing_found(shown_paths(texts), listed)
    options.check_partitions(noted)
    if starts := {topic: offsets for topic, offsets in before.next_offsets.items() if topic in there}:
        texts["startingOffsets"] = json.dumps(starts)
    wanted = {partition: facts for partition, facts in noted.items() if options.selection.has(partition)}
    return files, [segment for segment in found if not segment.is_deleted], wanted


def _check_report(with_report: bool) -> None:
    """Raise an error if no report can be written, before hours are spent on its content.

    Raises:
        ConfigurationError: the package that renders its templates is not installed.
    """
    if with_report and find_spec("jinja2") is None:
        raise ConfigurationError("with_report", True, "jinja2 is not installed (pip install 'kafkawire[spark]')")


def _complete(
    spark: SparkSession,
    store: AuditStore,
    facts: DataFrame,
    known: Callable[[], Mapping[TopicPartition, PartitionFacts]],
    source: str,
    with_report: bool,
    on_step: Callable[[str], None],
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> AuditResult:
    """Write the new facts, the tables built from all facts, and the report; then make this version the current one."""
    noted = _note(spark, store, facts)
    written = _write_tables(spark, store, noted, known(), on_step)
    result = _finish(store, written, source, with_report, on_step)
    store.commit(noted._replace(topic_ids={**noted.topic_ids, **topic_ids}))
    return result


def _note(spark: SparkSession, store: AuditStore, facts: DataFrame) -> Manifest:
    """Write the new facts; return the runs now in use, and the offset up to which each partition has been read."""
    run = store.next_run
    facts.write.partitionBy("kind").parquet(store.uri(store.facts_of(run)))
    next_offsets, last_batches = _ends(_facts(spark, store, [run]), store.before)
    runs = _merge(spark, store, (*store.before.runs, run))
    return store.before._replace(runs=runs, next_offsets=next_offsets, last_batches=last_batches)


def _ends(facts: DataFrame, before: Manifest) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, Sequence[int]]]]:
    """Return where each partition continues after a run, and facts about the last batch before that position."""
    from pyspark.sql import functions as f

    from kafkawire.sdk.spark.audit.continuation import LAST_BATCH

    batches = facts.where((f.col("kind") == "batch") & f.col("reason").isNull())
    last = f.max_by(f.struct(*LAST_BATCH), "lastOffset").alias("last")
    ends = batches.groupBy("topic", "partition").agg((f.max("lastOffset") + 1).alias("end"), last).collect()
    next_offsets = {topic: dict(partitions) for topic, partitions in before.next_offsets.items()}
    last_batches = {topic: dict(partitions) for topic, partitions in before.last_batches.items()}
    for row in ends:
        next_offsets.setdefault(row["topic"], {})[str(row["partition"])] = row["end"]
        last_batches.setdefault(row["topic"], {})[str(row["partition"])] = [*row["last"]]
    return next_offsets, last_batches


def _merge(spark: SparkSession, store: AuditStore, runs: tuple[int, ...]) -> tuple[int, ...]:
    """Merge the facts of several runs into one run if there are too many runs; return the runs now in use."""
    from kafkawire.sdk.spark.audit.merging import RUNS_MAX, merged

    if len(runs) <= RUNS_MAX:
        return runs
    run = runs[-1] + 1
    merged(_facts(spark, store, runs)).write.partitionBy("kind").parquet(store.uri(store.facts_of(run)))
    return (run,)


def _facts(spark: SparkSession, store: AuditStore, runs: Sequence[int]) -> DataFrame:
    """Return the facts of some runs, each with the number of the run that recorded it, if known."""
    from pyspark.sql import functions as f

    from kafkawire.sdk.spark.audit.facts import NOTED_RUN, fact_ddl

    facts: DataFrame = spark.read.schema(f"{fact_ddl()}, run int").parquet(store.uri(store.facts_folder))
    chosen = _gathered(store, runs, facts.where(f.col("run").isin(*runs)))
    return chosen.withColumn("run", f.coalesce(NOTED_RUN, "run")).drop(NOTED_RUN)


def _gathered(store: AuditStore, runs: Sequence[int], frame: DataFrame) -> DataFrame:
    """Return rows in a single Spark partition if there are few facts, which saves Spark from moving them again."""
    return frame.coalesce(1) if store.facts_bytes(runs) <= _SMALL_BYTES else frame


def _write_tables(
    spark: SparkSession,
    store: AuditStore,
    noted: Manifest,
    known: Mapping[TopicPartition, PartitionFacts],
    on_step: Callable[[str], None],
) -> Callable[[str], DataFrame]:
    """Write all tables, and return a function that reads one by name."""
    from kafkawire.sdk.spark.audit.partition_facts import loss_rows, partition_fact_rows
    from kafkawire.sdk.spark.audit.tables import LOSSES_DDL, PARTITION_FACTS_DDL, TABLES, Tables

    schemas: dict[str, StructType] = {}  # without them, Spark would run a job to read each schema from a file

    def written(name: str) -> DataFrame:
        table = spark.read.schema(schemas[name]).parquet(store.uri(store.table(name)))
        return _gathered(store, noted.runs, table)

    def rows(found: list[tuple[object, ...]], ddl: str) -> DataFrame:
        return _gathered(store, noted.runs, spark.createDataFrame(found, ddl))

    tables = Tables(
        _facts(spark, store, noted.runs),
        written,
        rows(partition_fact_rows(known), PARTITION_FACTS_DDL),
        rows(loss_rows(known, noted.next_offsets), LOSSES_DDL),
    )
    keys = tables.keys  # created once, before several threads need them

    def write(name: str) -> None:
        table = tables.make(name)
        schemas[name] = table.schema
        table.write.parquet(store.uri(store.table(name)))

    try:
        independent = [name for name, table in TABLES.items() if not table.is_derived]
        with ThreadPoolExecutor(_TABLES_AT_A_TIME, "kafkawire-audit") as threads:
            writing = [threads.submit(write, name) for name in independent]
            try:
                for number, each in enumerate(as_completed(writing), 1):
                    each.result()
                    on_step(f"tables, {number} of {len(TABLES)}")
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        for name in (name for name, table in TABLES.items() if table.is_derived):
            on_step(f"table {name}")
            write(name)
    finally:
        keys.unpersist()
    return written


def _finish(
    store: AuditStore,
    written: Callable[[str], DataFrame],
    source: str,
    with_report: bool,
    on_step: Callable[[str], None],
) -> AuditResult:
    """Write the report, and return the outcome."""
    from kafkawire.sdk.spark.audit.findings import findings_of
    from kafkawire.sdk.spark.audit.report import numbers_of, report
    from kafkawire.sdk.spark.audit.summary import summary_of

    on_step("report")
    summary = summary_of(written)
    if with_report:
        (store.version_folder / "report.html").write_text(report(summary, source), "utf-8")
    return AuditResult(
        folder=store.folder,
        version=store.version,
        numbers=numbers_of(summary),
        findings=tuple(findings_of(summary)),
        report=store.folder / "report.html" if with_report else None,
    )
