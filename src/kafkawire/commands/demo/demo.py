"""`kafkawire demo`: the main features in one run.

The demo starts a broker on a free port with a temporary folder, creates a topic, produces every line of a file, and
consumes the lines with a group of two members. Halfway through, it kills and restarts the broker. At the end, it
explains one batch of the segment file. With `--bootstrap`, it uses a running broker, which may be Apache Kafka, and
does not kill it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.commands.demo.demo_count import SparkCount
from kafkawire.commands.pipeline.spark_session import why_not
from kafkawire.commands.terminal import new_app, run_app
from kafkawire.sdk.errors import KafkaWireError

__all__ = ["app", "run"]

app = new_app()
run = partial(run_app, app)

#: A module whose source is part of every Python installation: 16,000 lines of text about Python.
DEFAULT_INPUT = "pydoc_data.topics"

PARTITIONS = 4
MEMBERS = 2

#: Members learn of a rebalance through their heartbeats; with the default interval of 3 s, the demo would spend most of
#: its time waiting.
HEARTBEAT_INTERVAL_MS = 50

#: The broker starts in well under a second, but takes longer on a loaded machine.
START_TIMEOUT_SECONDS = 30

#: Time after which a demo step is considered hung.
STEP_TIMEOUT_SECONDS = 120

#: Enough for the header of a batch and its first record.
ROWS_SHOWN = 24
BYTES_SHOWN = 8

#: Output to a file is not limited to 80 columns.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


class DemoFailed(Exception):
    """A demo step gave a wrong result, which the text describes."""


@app.command()
def demo(
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT of a broker to use; the embedded broker by default.")] = "",
    file: Annotated[
        Path | None, typer.Option(help="The text file to produce; by default, one that comes with Python.")
    ] = None,
    compression: Annotated[str, typer.Option(help="The codec: none, gzip, snappy, lz4 or zstd.")] = "zstd",
    spark: Annotated[bool, typer.Option(help="Also decode the segment files with PySpark, if it can run.")] = True,
) -> None:
    """Produce every line of a file, consume it in a group, kill the broker in between, and look at the bytes."""
    start = time.perf_counter()
    path = file or _default_input()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--file") from None
    if not lines:
        raise typer.BadParameter(f"{path} has no lines", param_hint="--file")
    console.print(f"[bold]kafkawire demo[/]: {len(lines):,} lines of {path.name}, {path.stat().st_size:,} bytes\n")
    try:
        if bootstrap:
            asyncio.run(_Run(bootstrap, lines, compression).whole())
        else:
            with tempfile.TemporaryDirectory(prefix="kafkawire-demo-") as folder:
                broker = _Broker(Path(folder))
                with broker.running():
                    run = _Run(broker.bootstrap, lines, compression, broker, spark=spark)
                    try:
                        asyncio.run(run.whole())
                    finally:
                        run.stop_spark()
    except (DemoFailed, KafkaWireError, TimeoutError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        console.print(f"\n[bold red]failed[/]: {type(error).__name__}: {error}")
        raise typer.Exit(1) from error
    console.print(f"\n[bold green]done[/] in {time.perf_counter() - start:.1f} s")


def _default_input() -> Path:
    spec = importlib.util.find_spec(DEFAULT_INPUT)
    if spec is None or spec.origin is None:
        raise typer.BadParameter(
            f"{DEFAULT_INPUT} is not part of this Python installation; specify a text file", param_hint="--file"
        )
    return Path(spec.origin)


class _Broker:
    """The reference broker in a separate process, which can be killed.

    Args:
        folder: the folder for its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect."""
        return f"127.0.0.1:{self._port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the broker running inside a `with` block."""
        self.start()
        try:
            yield
        finally:
            self.end(signal.SIGTERM)

    def start(self) -> float:
        """Start the process; return the time in seconds until it accepted connections.

        Raises:
            DemoFailed: the broker exited, or did not answer in time.
        """
        start = time.perf_counter()
        command = [sys.executable, "-m", "kafkawire.commands.main", "broker", "--listen", self.bootstrap]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--data", str(self.folder / "data")], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        while time.perf_counter() - start < START_TIMEOUT_SECONDS:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.01)
            else:
                return time.perf_counter() - start
        raise DemoFailed(f"the broker did not start:\n{(self.folder / 'broker.log').read_text()[-2000:]}")

    def end(self, how: signal.Signals) -> None:
        """Send a signal to the process and wait for it to exit."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_TIMEOUT_SECONDS)
            self._process = None


@dataclass(slots=True)
class _Consumed:
    """The records that a group has read: the place and line number of each, and the number read by each member."""

    places: list[tuple[int, int]] = field(default_factory=list)
    lines: dict[int, bytes] = field(default_factory=dict)
    by_member: list[int] = field(default_factory=lambda: [0] * MEMBERS)


class _Run:
    """One run against one broker.

    Args:
        bootstrap: the broker's address.
        lines: the input.
        compression: the compression of the batches.
        broker: the embedded broker, or None for an external one.
        spark: whether PySpark also decodes the segment files.
    """

    def __init__(
        self,
        bootstrap: str,
        lines: list[bytes],
        compression: str,
        broker: _Broker | None = None,
        *,
        spark: bool = False,
    ) -> None:
        self._bootstrap = bootstrap
        self._lines = lines
        self._compression = compression
        self._broker = broker
        self._topic = f"kafkawire-demo-{os.getpid()}-{int(time.time())}"
        self._group = f"{self._topic}-readers"
        self._consumed = _Consumed()
        self._spark: SparkCount | None = None
        self._no_spark = None if spark else "not requested"

    async def whole(self) -> None:
        """Run all steps.

        Raises:
            DemoFailed: a count or a value is wrong.
        """
        await self._create_topic()
        self._start_spark()
        await self._produce()
        await self._consume(len(self._lines) // 2, "consumed by a group of two, first half, offsets committed")
        if self._broker is not None:
            self._broker.end(signal.SIGKILL)
            _step("broker killed (SIGKILL)", "no flush, no goodbye")
            _step("broker started again", f"with the same files, ready in {self._broker.start() * 1000:.0f} ms")
        await self._consume(len(self._lines), "the group resumed from its committed offsets")
        self._check()
        if self._broker is not None:
            await self._count_with_spark()
            self._explain(self._broker.folder / "data")

    async def _create_topic(self) -> None:
        async with Admin(self._bootstrap) as admin:
            await admin.create_topics([NewTopic(self._topic, partitions=PARTITIONS, replication_factor=1)])
        _step("topic created", f"{self._topic}, {PARTITIONS} partitions")

    async def _produce(self) -> None:
        start = time.perf_counter()
        options: dict[str, Any] = {"compression": self._compression, "linger_ms": 5}  # the user's own topic name
        async with Producer(self._bootstrap, **options) as producer:
            deliveries = [
                producer.send(self._topic, line, key=_key(line), headers=[("line", str(number).encode())])
                for number, line in enumerate(self._lines)
            ]
            await asyncio.wait_for(producer.flush(), STEP_TIMEOUT_SECONDS)
            offsets = [(await delivery).offset for delivery in deliveries]
        if min(offsets) < 0:
            raise DemoFailed("a record was stored without an offset")
        seconds = time.perf_counter() - start
        detail = f"{len(offsets):,} records with key and header, {self._compression}, {_rate(len(offsets), seconds)}"
        _step("produced", detail)

    async def _consume(self, target: int, title: str) -> None:
        """Let the group's two members read until they have `target` records in total, commit, and leave."""
        start = time.perf_counter()
        before = len(self._consumed.places)
        enough = asyncio.Event()
        async with _members(self._bootstrap, self._topic, self._group) as consumers:
            tasks = [
                asyncio.create_task(self._read(number, consumer, target, enough))
                for number, consumer in enumerate(consumers)
            ]
            try:
                await asyncio.wait_for(enough.wait(), STEP_TIMEOUT_SECONDS)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for consumer in consumers:
                await consumer.commit()
        taken = len(self._consumed.places) - before
        _step(title, f"{taken:,} records, {_rate(taken, time.perf_counter() - start)}")

    async def _read(self, member: int, consumer: Consumer, target: int, enough: asyncio.Event) -> None:
        consumed = self._consumed
        async for record in consumer:
            ((_name, number),) = record.headers
            consumed.places.append((record.partition, record.offset))
            consumed.lines[int(number or b"-1")] = record.value or b""
            consumed.by_member[member] += 1
            if len(consumed.places) >= target:
                enough.set()
                return

    def _check(self) -> None:
        """Compare the consumed records with the input."""
        consumed = self._consumed
        if len(set(consumed.places)) != len(consumed.places):
            raise DemoFailed(f"{len(consumed.places) - len(set(consumed.places))} records were read twice")
        lost = [number for number, line in enumerate(self._lines) if consumed.lines.get(number) != line]
        if lost:
            raise DemoFailed(f"{len(lost)} lines were lost or changed; the first is line {lost[0]}")
        members = " and ".join(f"{count:,}" for count in consumed.by_member)
        _step("nothing lost", f"{len(self._lines):,} lines came back unchanged, each once; members read {members}")

    def _start_spark(self) -> None:
        """Start Spark in parallel with the other steps. Spark needs the files of the embedded broker."""
        if self._broker is not None:
            self._no_spark = self._no_spark or why_not()
            if self._no_spark is None:
                self._spark = SparkCount(self._broker.folder / "data", self._topic)

    async def _count_with_spark(self) -> None:
        """Count the records in the segment files with PySpark."""
        if self._spark is None:
            console.print(f"  [yellow]-[/] Spark left out: {escape(str(self._no_spark))}")
            return
        counts = await asyncio.to_thread(self._spark.counts)
        if sum(counts.values()) != len(self._lines):
            raise DemoFailed(
                f"Spark found {sum(counts.values())} records in the segment files, expected {len(self._lines)}"
            )
        _step(
            "decoded with PySpark",
            f"{sum(counts.values()):,} records in {len(counts)} partitions, from the segment files",
        )

    def stop_spark(self) -> None:
        """Stop Spark if it is still running."""
        if self._spark is not None:
            self._spark.stop()

    def _explain(self, data: Path) -> None:
        """Show the topic's first batch as stored in the segment file."""
        from kafkawire.commands.inspection.explain import explain_batch

        segment = max(data.glob(f"{self._topic}-*/*.log"), key=lambda path: path.stat().st_size)
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("offset", "bytes", "field", "value"):
            table.add_column(column, no_wrap=True, justify="right" if column == "offset" else "left")
        for row in explain_batch(segment, 0)[:ROWS_SHOWN]:
            more = " …" if len(row.data) > BYTES_SHOWN else ""
            table.add_row(str(row.offset), row.data[:BYTES_SHOWN].hex(" ") + more, row.path, row.value)
        console.print(f"\n[bold]the first bytes of {segment.parent.name}/{segment.name}[/]")
        console.print(table)


@asynccontextmanager
async def _members(bootstrap: str, topic: str, group: str) -> AsyncIterator[list[Consumer]]:
    """Run the members of a group inside a `with` block; at its end, they leave the group."""
    consumers = [
        Consumer(
            bootstrap,
            topic,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        for _ in range(MEMBERS)
    ]
    try:
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        await asyncio.wait_for(_shared_out(consumers), STEP_TIMEOUT_SECONDS)
        yield consumers
    finally:
        for consumer in consumers:
            await consumer.close()


async def _shared_out(consumers: list[Consumer]) -> None:
    """Wait until every member has partitions."""
    while not all(consumer.assignment for consumer in consumers):
        await asyncio.sleep(HEARTBEAT_INTERVAL_MS / 1000)


def _key(line: bytes) -> bytes | None:
    """Return the first word of a line as its key; records with equal keys go to the same partition."""
    words = line.split(maxsplit=1)
    return words[0] if words else None


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} a second"


def _step(title: str, detail: str) -> None:
    console.print(f"  [green]✓[/] {title}: {escape(detail)}")
