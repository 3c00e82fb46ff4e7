"""Measure the reference broker and a warm Apache Kafka in turn, and report which goals are met.

    python -m benchmarks broker [--quick] [--kfake PROGRAM] [--uvloop] [--data FOLDER] [--write docs/benchmarks.md]

Each broker is a separate process, and all run at the same time. They are measured in turn for several rounds, and the
tables contain medians. The client sends prepared frames and discards the responses (`broker_load.py`), so its cost is
negligible. CPU is the kernel's CPU time for the broker's process. Each ratio compares brokers within one round, because
the machine is shared and its clock rate drifts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker_load import Load, batch_of, fetches, in_turns, list_offsets, metadata, produce
from benchmarks.broker_servers import (
    APACHE,
    KFAKE,
    OURS,
    Server,
    apache_kafka,
    count_syncs,
    java_release,
    kfake,
    reference_broker,
)
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description, touch_memory
from kafkawire import Admin, NewTopic

__all__ = ["main"]

_GB = 1e9
_MB = 1e6
_KIB = 1024

#: Value size, batch size in KiB, and the required ratio of Apache Kafka's CPU time to ours.
PRODUCED = ((100, 16, 2.5), (100, 256, 2.0), (1024, 16, 1.5), (1024, 256, 1.5))

#: Numbers of produce requests and of fetches in flight.
_PRODUCE_DEPTH = 5
_FETCH_DEPTH = 2

#: Fetch sizes in KiB: for a consumer that keeps up, and for one that has to catch up.
_FETCHED = (64, 1024)

#: The number of additional starts of this project's broker, just to measure startup time.
_STARTS = 4

#: Numbers of small requests in flight.
DEPTHS = (1, 2, 10, 100)

_SMALL = {"Metadata": metadata, "ListOffsets": list_offsets}

_SYNCING_PRODUCERS = 16

#: Memory is measured once each broker has stored at least this much.
_LOADED_GB = 2.5

#: Memory touched before records are produced, as a multiple of their size. The kernel hands out other free pages first,
#: so with 1.3 times the size, fresh pages still cost 1 to 2 s of CPU time per GB of records; with 8 times, they cost
#: nothing.
_TOUCHED = 8

_CREATION_TIMEOUT_SECONDS = 30
_TOPIC_CONFIGS = {"retention.ms": "-1"}


class Plan(NamedTuple):
    """The amount of work.

    Attributes:
        rounds: the number of rounds.
        produced_mb: MB per batch size, in each round.
        requests: the number of small requests per depth, in each round.
        seconds: the duration of steady load, and of syncs, in each round.
        warm_up_seconds: the duration of each kind of load before the first round.
    """

    rounds: int
    produced_mb: int
    requests: int
    seconds: float
    warm_up_seconds: float


NORMAL = Plan(5, 512, 60_000, 5.0, 10.0)
QUICK = Plan(2, 128, 10_000, 2.0, 3.0)


class Figures:
    """The measurements of each round, keyed by case and broker."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.servers = servers
        self._found: dict[str, dict[str, list[float]]] = {}

    def add(self, case: str, server: Server, value: float) -> None:
        """Record one value."""
        by_server = self._found.setdefault(case, {each.name: [] for each in self.servers})
        by_server[server.name].append(value)

    def median(self, case: str, name: str) -> float | None:
        """Return the median of all rounds; None if the case was not measured."""
        values = self._found.get(case, {}).get(name)
        return statistics.median(values) if values else None

    def ratio(self, case: str, over: str, under: str) -> float | None:
        """Return the median of the per-round ratios."""
        by_server = self._found.get(case, {})
        pairs = zip(by_server.get(over, ()), by_server.get(under, ()), strict=False)
        ratios = [above / below for above, below in pairs if below]
        return statistics.median(ratios) if ratios else None

    def table(self, cases: Sequence[str], form: str = ",.2f") -> str:
        """Return a Markdown table with a row per case and a column per broker."""
        names = [server.name for server in self.servers]
        lines = [f"| | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
        for case in cases:
            values = (self.median(case, name) for name in names)
            lines.append(
                f"| {case} | {' | '.join('-' if value is None else format(value, form) for value in values)} |"
            )
        return "\n".join(lines)


# Measurements.


def _name(size: int, batch_kib: int) -> str:
    return f"{size} B in {batch_kib} KiB" if size < _KIB else f"{size // _KIB} KiB in {batch_kib} KiB"


def _small(name: str, depth: int) -> str:
    return f"{name}, {depth} at a time"


def _fetched_from(batch_kib: int) -> list[int]:
    """Return the fetch sizes in KiB for a topic, each of which covers a few batches rather than one."""
    return [fetch_kib for fetch_kib in _FETCHED if fetch_kib > batch_kib]


def _fetch_name(size: int, batch_kib: int, fetch_kib: int) -> str:
    return f"fetch {_name(size, batch_kib)}, {fetch_kib} KiB at a time"


def _measure_records(server: Server, figures: Figures, size: int, batch_kib: int, produced_mb: int) -> None:
    """Produce records to a topic and fetch them, and measure the CPU time of both."""
    batch, records_count = batch_of(size, batch_kib * _KIB)
    count = int(produced_mb * _MB / len(batch))
    total_bytes = count * len(batch)
    topic = _create(server)
    with contextlib.closing(Load(server.port)) as load:
        frame = produce(topic, batch)
        response_bytes = load.size_of_response(frame)
        touch_memory(int(total_bytes * _TOUCHED))
        cpu = server.cpu_seconds()
        seconds = load.repeat(frame, count, response_bytes, _PRODUCE_DEPTH)
        _note(figures, server, f"produce {_name(size, batch_kib)}", server.cpu_seconds() - cpu, seconds, total_bytes)
        if load.base_offset(topic, batch) != (count + 1) * records_count:
            raise RuntimeError(f"{server.name} lost records")
        for fetch_kib in _fetched_from(batch_kib):
            at_once = fetch_kib * _KIB // len(batch)
            frames = fetches(topic, records_count, len(batch), count, at_once)
            if load.fetched_bytes(topic, 0, at_once * len(batch)) != at_once * len(batch):
                raise RuntimeError(f"{server.name} does not return the requested records")
            response_bytes = load.size_of_response(frames[0])
            cpu = server.cpu_seconds()
            seconds = load.run(frames, response_bytes, _FETCH_DEPTH)
            cpu, total_bytes = server.cpu_seconds() - cpu, len(frames) * at_once * len(batch)
            _note(figures, server, _fetch_name(size, batch_kib, fetch_kib), cpu, seconds, total_bytes)
    _delete(server, topic)


def _note(figures: Figures, server: Server, case: str, cpu: float, seconds: float, size_bytes: int) -> None:
    figures.add(f"{case}: CPU s per GB", server, cpu / (size_bytes / _GB))
    figures.add(f"{case}: MB/s", server, size_bytes / _MB / seconds)


def _measure_small(server: Server, figures: Figures, plan: Plan, topic: str) -> None:
    """Send small requests, with several in flight."""
    for name, make in _SMALL.items():
        frame = make(topic)
        with contextlib.closing(Load(server.port)) as load:
            response_bytes = load.size_of_response(frame)
            for depth in DEPTHS:
                count = plan.requests if depth > 1 else plan.requests // 3
                cpu = server.cpu_seconds()
                seconds = load.repeat(frame, count, response_bytes, depth)
                cpu = server.cpu_seconds() - cpu
                figures.add(f"{_small(name, depth)}: requests/s", server, count / seconds)
                figures.add(f"{_small(name, depth)}: CPU µs", server, cpu / count * 1_000_000)


def _measure_syncs(server: Server, figures: Figures, seconds: float) -> None:
    """Count the syncs of a broker while several producers wait for acknowledgements."""
    os.sync()
    topic = _create(server, {"flush.messages": "1"})
    batch, _ = batch_of(100, _KIB)
    frame = produce(topic, batch)
    with contextlib.closing(Load(server.port)) as load:
        response_bytes = load.size_of_response(frame)
    counted = count_syncs(server.pid, lambda: in_turns(server.port, _SYNCING_PRODUCERS, frame, response_bytes, seconds))
    if counted is not None:
        syncs, answered = counted
        figures.add("fsyncs per acknowledgement", server, syncs / answered)
        figures.add("acknowledgements/s", server, answered / seconds)
    _delete(server, topic)


def _measure_latency(server: Server, figures: Figures, rate: float, seconds: float) -> None:
    """Produce at a steady rate, and measure the slowest responses.

    Earlier data is first written to the disk, because a system that has too much to write makes writers wait.
    """
    os.sync()
    topic = _create(server)
    batch, _ = batch_of(100, 16 * _KIB)
    frame = produce(topic, batch)
    with contextlib.closing(Load(server.port)) as load:
        times = sorted(load.paced(frame, load.size_of_response(frame), rate, seconds))
    for percent in (50, 99):
        figures.add(f"produce at half load: p{percent} ms", server, times[len(times) * percent // 100] * 1000)
    _delete(server, topic)


def _half_load(figures: Figures) -> float:
    """Return half of the rate, in 16 KiB batches per second, that the slower of the two brokers accepts."""
    case = f"produce {_name(100, 16)}: MB/s"
    least = min(filter(None, (figures.median(case, OURS), figures.median(case, APACHE))))
    return least * _MB / (16 * _KIB) / 2


# Topics.


def _create(server: Server, configs: dict[str, str] | None = None) -> str:
    topic = f"benchmark-{time.time_ns()}"
    if server.name == KFAKE:
        configs = {}

    async def work() -> None:
        async with Admin(f"127.0.0.1:{server.port}") as admin:
            await admin.create_topics([NewTopic(topic, 1, 1, configs=_TOPIC_CONFIGS | (configs or {}))])

    asyncio.run(work())
    _await_leader(server, topic)
    return topic


def _await_leader(server: Server, topic: str) -> None:
    """Wait until the broker knows the topic that its controller has created."""
    deadline = time.monotonic() + _CREATION_TIMEOUT_SECONDS
    with contextlib.closing(Load(server.port)) as load:
        while not load.is_led(topic):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{server.name} does not lead {topic}")
            time.sleep(0.05)


def _delete(server: Server, topic: str) -> None:
    async def work() -> None:
        async with Admin(f"127.0.0.1:{server.port}") as admin:
            await admin.delete_topics([topic])

    asyncio.run(work())


# The whole run.


def _measure(servers: Sequence[Server], starts: Sequence[Server], plan: Plan) -> Figures:
    """Measure everything.

    Args:
        servers: the running brokers.
        starts: the started instances of this project's broker, with their startup times.
        plan: the amount of work.
    """
    figures = Figures(servers)
    for server in (*servers, *starts):
        figures.add("start to first Metadata, s", server, server.start_seconds)
        figures.add("resident memory, idle, MB", server, server.idle_mb)
    _warm_up(servers, plan)
    topics = {server.name: _create(server) for server in servers}
    for number in range(plan.rounds):
        for size, batch_kib, _ in PRODUCED:
            for server in servers:
                _measure_records(server, figures, size, batch_kib, plan.produced_mb)
        _say(f"round {number + 1}: records")
        for server in servers:
            _measure_small(server, figures, plan, topics[server.name])
        _say(f"round {number + 1}: small requests")
        rate = _half_load(figures)
        for server in servers:
            _measure_latency(server, figures, rate, plan.seconds)
        for server in servers:
            if server.name != KFAKE:
                _measure_syncs(server, figures, plan.seconds)
        _say(f"round {number + 1}: latency and syncs")
        if number == 0:
            for server in servers:
                _measure_memory(server, figures, plan.produced_mb)
    return figures


def _measure_memory(server: Server, figures: Figures, produced_mb: int) -> None:
    """Produce further records, up to the amount at which memory is measured."""
    ignored = Figures([server])
    done_mb = produced_mb * len(PRODUCED)
    while done_mb < _LOADED_GB * 1000 and server.name != KFAKE:  # kfake keeps everything in memory
        _measure_records(server, ignored, 1024, 256, 512)
        done_mb += 512
    figures.add("resident memory, after 2.5 GB, MB", server, server.resident_mb())


def _warm_up(servers: Sequence[Server], plan: Plan) -> None:
    """Run the measured loads on each broker for a while, so a JVM has compiled the code."""
    steps: list[Callable[[Server, Figures], None]] = [
        lambda server, figures: _measure_records(server, figures, 100, 16, 64),
        lambda server, figures: _measure_records(server, figures, 1024, 256, 64),
        lambda server, figures: _measure_small(server, figures, plan._replace(requests=3_000), _create(server)),
    ]
    for server in servers:
        for step in steps:
            until = time.monotonic() + plan.warm_up_seconds
            while time.monotonic() < until:
                step(server, Figures([server]))
    _say("warm")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _goals(figures: Figures) -> list[Goal]:
    """Return the goals; every ratio is the factor by which this broker is better."""

    def ratios(cases: Sequence[str], over: str, under: str) -> dict[str, float]:
        found = {case: figures.ratio(case, over, under) for case in cases}
        return {case: ratio for case, ratio in found.items() if ratio is not None}

    def limit(case: str, most: float) -> Goal:
        value = figures.median(case, OURS)
        return Goal(f"{case}: at most {most:g}", 1.0, {} if value is None else {OURS: most / value})

    goals = [
        limit("start to first Metadata, s", 0.3),
        limit("resident memory, idle, MB", 45),
        limit("resident memory, after 2.5 GB, MB", 100),
    ]
    for size, batch_kib, wanted in PRODUCED:
        name = _name(size, batch_kib)
        goals.append(Goal(f"produce {name}, CPU", wanted, ratios([f"produce {name}: CPU s per GB"], APACHE, OURS)))
    fetched = _fetch_cases()
    pipelined = [f"{_small(name, depth)}: requests/s" for name in _SMALL for depth in DEPTHS if depth > 1]
    single = [f"{_small(name, 1)}: requests/s" for name in _SMALL]
    goals += [
        Goal("fetch, CPU", 2.5, ratios([f"{case}: CPU s per GB" for case in fetched], APACHE, OURS)),
        Goal("fetch, MB/s", 1.3, ratios([f"{case}: MB/s" for case in fetched], OURS, APACHE)),
        Goal(
            "small requests, several at a time",
            1.5,
            ratios(pipelined, OURS, APACHE),
        ),
        Goal("small requests, one at a time", 1.0, ratios(single, OURS, APACHE)),
        Goal("fsyncs per acknowledgement", 4.0, ratios(["fsyncs per acknowledgement"], APACHE, OURS)),
        Goal("p99 at half load", 1.0, ratios(["produce at half load: p99 ms"], APACHE, OURS)),
    ]
    if KFAKE in (server.name for server in figures.servers):
        hundred = [f"produce {_name(100, batch_kib)}: CPU s per GB" for batch_kib in (16, 256)]
        goals.append(Goal("produce 100 B, CPU, beside kfake", 1.0, ratios(hundred, KFAKE, OURS)))
    return goals


def _fetch_cases() -> list[str]:
    return [
        _fetch_name(size, batch_kib, fetch_kib)
        for size, batch_kib, _ in PRODUCED
        for fetch_kib in _fetched_from(batch_kib)
    ]


def _tables(figures: Figures) -> str:
    names = [_name(size, batch_kib) for size, batch_kib, _ in PRODUCED]
    small = [
        f"{_small(name, depth)}: {what}" for name in _SMALL for depth in DEPTHS for what in ("requests/s", "CPU µs")
    ]
    memory = [f"resident memory, {when}, MB" for when in ("idle", "after 2.5 GB")]
    parts = [
        ("Start and memory", figures.table(["start to first Metadata, s", *memory])),
        ("Produce", figures.table([f"produce {name}: {what}" for name in names for what in ("CPU s per GB", "MB/s")])),
        ("Fetch", figures.table([f"{name}: {what}" for name in _fetch_cases() for what in ("CPU s per GB", "MB/s")])),
        (
            "Small requests",
            figures.table(small, ",.0f"),
        ),
        ("16 producers that sync each batch", figures.table(["fsyncs per acknowledgement", "acknowledgements/s"])),
        ("Latency", figures.table([f"produce at half load: p{percent} ms" for percent in (50, 99)])),
    ]
    return "\n\n".join(f"#### {title}\n\n{table}" for title, table in parts)


def main(arguments: Sequence[str]) -> None:
    """Measure, print the tables, and with --write put them into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks broker", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="take a tenth of the time, for a first look")
    parser.add_argument("--kfake", type=Path, metavar="PROGRAM", help="see `kfake` in benchmarks/broker_servers.py")
    parser.add_argument("--uvloop", action="store_true", help="run this project's broker on uvloop")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="the folder for its files; a temporary one by default"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    options = parser.parse_args(arguments)
    shown = ("PROGRAM" if argument == str(options.kfake) else argument for argument in arguments)
    machine = description(shlex.join(["python", "-m", "benchmarks", "broker", *shown]), {"Java": java_release()})
    print(machine, flush=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data)))
        settings = ["event_loop=uvloop"] if options.uvloop else []
        starts = []
        for number in range(_STARTS):
            with reference_broker(OURS, folder / f"start-{number}", *settings) as started:
                starts.append(started)
        servers = [
            stack.enter_context(reference_broker(OURS, folder / "data", *settings)),
            stack.enter_context(apache_kafka()),
        ]
        if options.kfake:
            servers.append(stack.enter_context(kfake(options.kfake)))
        figures = _measure(servers, starts, QUICK if options.quick else NORMAL)
    text = f"{goal_table(_goals(figures))}\n\n{_tables(figures)}"
    print(f"\n{text}")
    if options.write:
        write_section(options.write, "broker", f"{machine}\n\n{text}")
