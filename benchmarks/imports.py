"""Measure how long a fresh interpreter takes to import the modules that a Kafka program needs.

`import kafkawire` itself loads almost nothing, but a program waits for the names that it uses, so the whole client has
a goal too. The code for connecting is loaded when a client starts, so one case includes it. Each measurement runs in a
fresh process with precompiled bytecode. Cases are interleaved, and the best time is reported.
"""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from benchmarks.goals import Goal
from benchmarks.machine import environment

__all__ = ["Result", "goals", "measure", "tables"]


class Result(NamedTuple):
    """The seconds that the statements of one case take, and the number of modules that they load."""

    seconds: float
    modules: int


_KAFKAWIRE = "import kafkawire"
_CLIENT = "from kafkawire import Admin, Consumer, Producer"
_CONNECTING = (
    f"{_CLIENT}; import kafkawire.sdk.client.core, kafkawire.sdk.producer.sender, kafkawire.sdk.consumer.group"
)
_CODEC = (
    "from kafkawire.protocol import codec; messages = codec('MetadataResponse', 12); messages.build(messages.cls())"
)
_AIOKAFKA = "import aiokafka"

_CASES = (
    _KAFKAWIRE,
    "from kafkawire import Producer",
    _CLIENT,
    _CONNECTING,
    _CODEC,
    "from kafkawire.records import BatchBuilder; BatchBuilder().build()",
    _AIOKAFKA,
    "import kafka",
    "import confluent_kafka",
    "import kio.schema.metadata.v12.response, kio.serial",
    "import construct",
)

_PROGRAM = """
import sys, time
before = len(sys.modules)
start = time.perf_counter()
{statements}
print(time.perf_counter() - start, len(sys.modules) - before)
"""


def measure(rounds: int = 15) -> dict[str, Result]:
    """Return the best time of each case; skip cases whose packages are missing."""
    results: dict[str, Result] = {}
    for case in _CASES:  # the first run compiles the bytecode
        result = _run(case)
        if result is not None:
            results[case] = result
    for _ in range(rounds):
        for case in results:
            result = _run(case)
            if result is not None:
                results[case] = min(results[case], result)
    return results


def tables(results: dict[str, Result]) -> str:
    """Return the results as a Markdown table."""
    base = results.get(_AIOKAFKA)
    lines = ["| statements | ms | modules | as fast as `import aiokafka` |", "|---|--:|--:|--:|"]
    for case, result in results.items():
        ratio = f"{base.seconds / result.seconds:.1f}x" if base else "-"
        lines.append(f"| `{case}` | {result.seconds * 1e3:.1f} | {result.modules} | {ratio} |")
    return "\n".join(lines)


def goals(results: dict[str, Result]) -> list[Goal]:
    """Return the goals with the measured ratios."""
    base = results.get(_AIOKAFKA)
    return [
        Goal(f"{what}: over `{_AIOKAFKA}`", wanted, {f"`{case}`": base.seconds / results[case].seconds} if base else {})
        for what, case, wanted in (("import", _KAFKAWIRE, 1.0), ("import of the whole client", _CLIENT, 1.25))
    ]


def _run(statements: str) -> Result | None:
    program = _PROGRAM.format(statements=statements)
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if result.returncode:
        print(f"{statements}: skipped: {result.stderr.strip().splitlines()[-1]:.100}")
        return None
    seconds, modules = result.stdout.split()
    return Result(float(seconds), int(modules))
