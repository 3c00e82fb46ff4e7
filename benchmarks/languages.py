"""Measure the message codecs against those in Go (franz-go's kmsg) and Java (Apache Kafka's own); report the goals.

    python -m benchmarks languages [--quick] [--write docs/benchmarks.md]

The messages are those in `codec.py`. Each language parses identical bytes, builds the message again, and must reproduce
the bytes. The peers are small programs in `programs/`. They read lines, `MESSAGE VERSION parse|build CALLS`, and answer
with the nanoseconds that these calls took. The languages take turns, and the minimum of several rounds is reported.
Java is measured after JIT warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple, Protocol

from benchmarks.codec import CASES, Case, filled
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import native
from tests.kafka.apache import RELEASE, fetch_jars

__all__ = ["Result", "goals", "main", "measure", "tables"]

OURS, GO, JAVA = "kafkawire", "Go", "Java"

_PROGRAMS = Path(__file__).parent / "programs"

#: The programs that must be on the path for each peer, and how to get them.
_NEEDS = {GO: ("go",), JAVA: ("java", "javac", "mvn")}

#: The operation, the peer, and the lowest ratio allowed in any case.
_WANTED = (("parse", GO, 1.0), ("parse", JAVA, 0.5), ("build", GO, 0.8), ("build", JAVA, 0.8))

OPERATIONS = ("parse", "build")

#: Duration of one language's turn, which is long enough for the clock, and short enough for all turns of a round to
#: have equal conditions.
_TURN_SECONDS = 0.02
_ROUNDS = 40
_QUICK_ROUNDS = 5

#: HotSpot compiles a method for the last time after about ten thousand calls, which take longer with large messages.
_WARM_UP_SECONDS = 1.5


class Result(NamedTuple):
    """The nanoseconds for one parse and for one build, keyed by language."""

    case: Case
    parse: dict[str, float]
    build: dict[str, float]


class Language(Protocol):
    """Runs an operation a number of times."""

    def __call__(self, case: Case, operation: str, calls: int) -> int:
        """Return how many nanoseconds the calls took."""
        ...


class _Program:
    """A peer: a process that answers lines."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name, self._process = name, process

    def __call__(self, case: Case, operation: str, calls: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{case.name} {case.version} {operation} {calls}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer.isdigit():
            raise RuntimeError(f"{self._name}, {case}: {answer or 'the program has ended'}")
        return int(answer)


class _Ours:
    """This project's codec, in this process."""

    def __init__(self, data: list[tuple[Case, bytes]]) -> None:
        self._functions: dict[tuple[str, str], Callable[[], object]] = {}
        for case, content in data:
            messages = codec(case.name, case.version)
            message = messages.decode(content)[0]
            if messages.encode(message) != content:
                raise RuntimeError(f"{OURS}, {case}: the codec builds different bytes")
            self._functions[str(case), "parse"] = partial(messages.decode, content)
            self._functions[str(case), "build"] = partial(messages.encode, message)

    def __call__(self, case: Case, operation: str, calls: int) -> int:
        function = self._functions[str(case), operation]
        gc.collect()
        start = perf_counter_ns()
        for _ in range(calls):
            function()
        return perf_counter_ns() - start


def main(arguments: list[str]) -> None:
    """Measure, print the table, and with --write put it into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks languages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="run an eighth of the rounds, for a first look")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this document")
    options = parser.parse_args(arguments)
    missing = missing_tools()
    if missing:
        parser.exit(2, "".join(f"{language} cannot be measured here: {tools}\n" for language, tools in missing))
    machine = description(shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]), _versions())
    print(machine, flush=True)
    results = measure(_QUICK_ROUNDS if options.quick else _ROUNDS)
    text = f"{goal_table(goals(results))}\n\n{tables(results)}"
    print(f"\n{text}")
    if options.write:
        write_section(options.write, "languages", f"{machine}\n\n{text}")


def missing_tools() -> list[tuple[str, str]]:
    """Return the languages that cannot be measured here, with the missing programs."""
    found = {language: [tool for tool in tools if shutil.which(tool) is None] for language, tools in _NEEDS.items()}
    return [(language, f"not on the path: {', '.join(tools)}") for language, tools in found.items() if tools]


def measure(rounds: int = _ROUNDS) -> list[Result]:
    """Measure all messages in all languages, which take turns.

    Args:
        rounds: how many turns each language gets for each operation.

    Raises:
        RuntimeError: a language does not reproduce the bytes that it parsed, or its program has ended.
        subprocess.CalledProcessError: a program cannot be built.
    """
    data = [(case, codec(case.name, case.version).encode(filled(case))) for case in CASES]
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as programs:
        folder = Path(name)
        for case, content in data:
            (folder / f"{case.name}-{case.version}").write_bytes(content)
        languages: dict[str, Language] = {
            OURS: _Ours(data),
            GO: programs.enter_context(_running(GO, [_built_go(folder), name])),
            JAVA: programs.enter_context(_running(JAVA, [*_built_java(folder), name])),
        }
        return [
            Result(case, *(_least(languages, case, operation, rounds) for operation in OPERATIONS)) for case in CASES
        ]


def _least(languages: dict[str, Language], case: Case, operation: str, rounds: int) -> dict[str, float]:
    """Return the minimum time of one call in nanoseconds, keyed by language."""
    calls = {}
    for name, language in languages.items():
        _run_for(language, case, operation, _WARM_UP_SECONDS if name == JAVA else _TURN_SECONDS)
        calls[name] = _run_for(language, case, operation, _TURN_SECONDS)
    least = dict.fromkeys(languages, float("inf"))
    for _ in range(rounds):
        for name, language in languages.items():
            least[name] = min(least[name], language(case, operation, calls[name]) / calls[name])
    return least


def _run_for(language: Language, case: Case, operation: str, seconds: float) -> int:
    """Run for some time; return how many calls fit in a turn at the speed of the last calls."""
    calls, spent, took = 10, 0, 0
    while spent < seconds * 1e9:
        took = max(language(case, operation, calls), 1)
        spent += took
        if took < _TURN_SECONDS * 1e9 / 2:
            calls *= 2
    return max(1, int(calls * _TURN_SECONDS * 1e9 / took))


@contextlib.contextmanager
def _running(name: str, command: list[str]) -> Iterator[_Program]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield _Program(name, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()  # a program ends when its input does
        process.wait()


def _built_go(folder: Path) -> str:
    program = folder / "codecs"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=_PROGRAMS / "go", check=True)
    return str(program)


def _built_java(folder: Path) -> list[str]:
    jars = f"{fetch_jars()}/*"
    subprocess.run(["javac", "-cp", jars, "-d", str(folder), str(_PROGRAMS / "java" / "Codecs.java")], check=True)
    return ["java", "-cp", os.pathsep.join((jars, str(folder))), "Codecs"]


def goals(results: list[Result]) -> list[Goal]:
    """Return the goals with the measured ratios."""
    return [
        Goal(
            f"{operation}: kafkawire over {peer}",
            wanted,
            {str(result.case): _ratio(result, operation, peer) for result in results},
        )
        for operation, peer, wanted in _WANTED
    ]


def tables(results: list[Result]) -> str:
    """Return the results as a Markdown table with nanoseconds, and with each peer's divided by ours."""
    lines = [
        f"| message | operation | {OURS} ns | {GO} ns | {JAVA} ns | over {GO} | over {JAVA} |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for result in results:
        for operation in OPERATIONS:
            times = getattr(result, operation)
            cells = [str(result.case), operation, *(f"{times[name]:,.0f}" for name in (OURS, GO, JAVA))]
            cells += [f"{_ratio(result, operation, peer):.2f}x" for peer in (GO, JAVA)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(result: Result, operation: str, peer: str) -> float:
    times: dict[str, float] = getattr(result, operation)
    return times[peer] / times[OURS]


def _versions() -> dict[str, str]:
    """Return further versions that affect the numbers, for the table that describes the machine."""
    go = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()
    kmsg = next(line.split()[-1] for line in (_PROGRAMS / "go" / "go.mod").read_text().splitlines() if "kmsg" in line)
    return {
        "engine": "native" if native is not None else "python",
        "peers": f"franz-go kmsg {kmsg} on {go}, kafka-clients {RELEASE} on {java[1] if len(java) > 1 else java[0]}",
    }
