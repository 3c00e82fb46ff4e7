"""Kill a stream's driver repeatedly, at moments chosen from what can be observed from outside.

The driver is `killed_program.py`, in a separate process; SIGKILL kills its JVM too. Its Python workers are in a
separate process group and notice later; they are the earlier tasks that transactions have to keep out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkawire import NewTopic, RecordMetadata, TopicPartition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sync import Admin, Producer
from tests.needs import java_home
from tests.sdk.spark.sink.topics import row_id, written

__all__ = ["PREFIX", "KilledStream", "Source", "check_once", "check_row_ids", "source_of_files", "source_of_topic"]

PREFIX = "writers"
#: The source's partitions, each of which is read by one task.
_PARTITIONS = 3
#: The number of rows per partition in a micro-batch.
_ROWS_IN_BATCH = 40
#: The number of checks before the driver is considered stuck, and the pause between two checks.
_LOOKS_MAX = 40_000
_PAUSE_SECONDS = 0.005


class Source(NamedTuple):
    """A stream's source: rows with a partition and an offset.

    Attributes:
        expected: `partition-offset` of each row.
        format: the format name for Spark.
        options: the source's options, with a limit of `_ROWS_IN_BATCH` rows per partition in a micro-batch.
        path: the path; None if the format has none.
    """

    expected: Counter[str]
    format: str
    options: Mapping[str, str]
    path: str | None = None


def source_of_files(folder: Path, kills: int) -> Source:
    """Fill a new folder with enough rows for this many kills."""
    folder.mkdir()
    expected: Counter[str] = Counter()
    for number in range(_batches(kills)):
        offsets = range(number * _ROWS_IN_BATCH, (number + 1) * _ROWS_IN_BATCH)
        for partition in range(_PARTITIONS):
            lines = (json.dumps({"partition": partition, "offset": offset}) for offset in offsets)
            (folder / f"{number:04}-{partition}.json").write_text("\n".join(lines))
            expected.update(f"{partition}-{offset}" for offset in offsets)
    return Source(expected, "json", {"maxFilesPerTrigger": str(_PARTITIONS)}, str(folder))


def source_of_topic(servers: str, topic: str, kills: int, folder: Path | None = None) -> Source:
    """Fill a new topic with enough rows for this many kills; part of each micro-batch is aborted, the rest committed.

    Args:
        servers: the broker's address.
        topic: the topic to create.
        kills: the number of kills.
        folder: the folder with the broker's logs, if these are to be read instead of the topic.
    """
    with Admin(servers) as admin:
        admin.create_topics(NewTopic(topic, _PARTITIONS))
    expected: Counter[str] = Counter()
    with Producer(servers, transactional_id=topic) as producer:
        for _ in range(_batches(kills)):
            _write_transaction(producer, topic, _ROWS_IN_BATCH // 4, commits=False)
            sent = _write_transaction(producer, topic, _ROWS_IN_BATCH - _ROWS_IN_BATCH // 4, commits=True)
            expected.update(f"{each.partition}-{each.offset}" for each in sent)
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(_PARTITIONS * _ROWS_IN_BATCH),
        "isolationLevel": "read_committed",
    }
    if folder is not None:
        return Source(expected, "kafka_segments", options, str(folder))
    return Source(expected, "kafkawire", {**options, "kafka.bootstrap.servers": servers})


def _write_transaction(producer: Producer, topic: str, offsets: int, *, commits: bool) -> list[RecordMetadata]:
    """Write records and a marker that together take up this many offsets in each partition."""
    producer.begin_transaction()
    sent = [
        producer.send(topic, b"v", partition=partition) for partition in range(_PARTITIONS) for _ in range(1, offsets)
    ]
    producer.flush()
    if commits:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    return [each.result() for each in sent]


def _batches(kills: int) -> int:
    """Return the number of micro-batches; each run completes one and begins another."""
    return 2 * kills + 2


class KilledStream:
    """A stream that writes to a topic.

    Args:
        source: the rows to write.
        servers: the broker's address.
        topic: the topic to which it writes.
        folder: the folder for the checkpoint and the drivers' logs.
        options: the sink's options.

    Attributes:
        repeated: the minimum number of rows stored in micro-batches that Spark has to repeat.
    """

    def __init__(self, source: Source, servers: str, topic: str, folder: Path, **options: str) -> None:
        self.expected = source.expected
        self.servers = servers
        self.topic = topic
        self.repeated = 0
        self._source = source
        self._options = options
        self._environment = _environment()
        self._stored_before = 0
        self._folder = folder
        self._checkpoint = folder / f"{topic}.checkpoint"
        self._runs = 0

    def run_and_kill(self, number: int) -> str:
        """Start the driver, and kill it at one of several moments during its second micro-batch.

        Args:
            number: the number of the kill, which determines the moment.

        Returns:
            The moment.
        """
        batch_id = self._last("offsets") + 1
        moments: dict[str, Callable[[Admin], bool]] = {
            "its offsets are written": lambda admin: self._last("offsets") >= batch_id,
            "some of its rows are stored": lambda admin: (
                self._last("offsets") >= batch_id and self._stored(admin) > self._stored_before
            ),
            "its commit has begun": lambda admin: self._committed(admin) >= batch_id,
            "Spark has noted its commit": lambda admin: self._last("commits") >= batch_id,
        }
        if "transactionalIdPrefix" not in self._options:
            del moments["its commit has begun"]
        name = [*moments][number % len(moments)]
        process = self._start()
        try:
            with Admin(self.servers) as admin:
                self._stored_before = sys.maxsize
                for _ in range(_LOOKS_MAX):
                    if self._last("commits") >= batch_id - 1:
                        self._stored_before = min(self._stored_before, self._stored(admin))
                    if moments[name](admin):
                        return name
                    with suppress(subprocess.TimeoutExpired):
                        code = process.wait(_PAUSE_SECONDS)
                        raise AssertionError(f"the driver has ended with {code}: {self._log().read_text()[-3000:]}")
            raise AssertionError(f"{name}: not seen; {self._log().read_text()[-3000:]}")
        finally:
            _end(process)
            if self._last("offsets") >= batch_id > self._last("commits"):
                self._note_repeated()

    def finish(self) -> None:
        """Let the driver write the remaining rows."""
        process = self._start()
        try:
            code = process.wait(200)
            assert code == 0, self._log().read_text()[-3000:]
        finally:
            _end(process)

    def _note_repeated(self) -> None:
        """Count the stored rows of the second micro-batch, which was killed before its commit was recorded."""
        with Admin(self.servers) as admin:
            self.repeated += max(self._stored(admin) - self._stored_before, 0)

    def _start(self) -> subprocess.Popen[bytes]:
        self._runs += 1
        program = Path(__file__).with_name("killed_program.py")
        source = json.dumps({name: getattr(self._source, name) for name in ("format", "options", "path")})
        arguments = [self.servers, self.topic, str(self._checkpoint), source, json.dumps(self._options)]
        with self._log().open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _log(self) -> Path:
        return self._folder / f"{self.topic}.{self._runs}.log"

    def _last(self, what: str) -> int:
        """Return the last micro-batch in part of the checkpoint, or -1 if there is none."""
        folder = self._checkpoint / what
        names = os.listdir(folder) if folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _stored(self, admin: Admin) -> int:
        """Return the sum of the end offsets, including open transactions."""
        try:
            partitions = [
                TopicPartition(self.topic, each) for each in admin.describe_topics(self.topic)[self.topic].partitions
            ]
        except BrokerError:
            return 0
        return sum(each.offset for each in admin.list_offsets(dict.fromkeys(partitions, -1)).values())

    def _committed(self, admin: Admin) -> int:
        """Return the last micro-batch whose first transaction is committed."""
        offsets = admin.list_group_offsets(f"{self._options['transactionalIdPrefix']}-commit")
        return max((each.offset for each in offsets.values()), default=-1)


def check_once(stream: KilledStream) -> None:
    """Check that readers of committed records see each record once."""
    found = Counter(str(each.value, "utf-8") for each in written(stream.servers, stream.topic))
    _compare(stream, found)


def check_row_ids(stream: KilledStream) -> int:
    """Check that each record exists once after records with a known id are dropped, and return the number dropped."""
    records = written(stream.servers, stream.topic)
    values: dict[str, str] = {}
    for record in records:
        value = str(record.value, "utf-8")
        known = values.setdefault(row_id(record), value)
        assert known == value, f"{row_id(record)} is of {known} and of {value}"
    _compare(stream, Counter(values.values()))
    return len(records) - len(values)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _environment() -> dict[str, str]:
    """Return environment variables with which Spark finds its Java and this Python."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": java_home()}


def _compare(stream: KilledStream, found: Counter[str]) -> None:
    missing, more = stream.expected - found, found - stream.expected
    assert not missing, f"{missing.total()} of {stream.expected.total()} are missing: {sorted(missing)[:10]}"
    assert not more, f"{more.total()} too many of {stream.expected.total()}: {sorted(more)[:10]}"
