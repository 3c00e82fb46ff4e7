"""Feed damaged bytes to all code that reads external bytes, for a given time, and keep the failures.

`python -m tools.fuzz [--seconds N] [--seed N] [--target NAME]` divides the time among the targets of `fuzz_targets.py`.
Each target runs in its own process, with bounded memory. A crash or a hang affects only that process, and is a finding
like any other. A finding is shortened as far as possible, printed with its seed, and written to `build/fuzz/`;
`--replay FILE` runs it again. The same seed gives the same cases in the same order on any machine.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import traceback
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

from tools.fuzz_cases import Case, Target
from tools.fuzz_targets import TARGETS

__all__ = ["Finding", "main", "make_case", "run_case", "shorten"]

SECONDS_DEFAULT = 60.0

FINDINGS_FOLDER = Path("build/fuzz")

#: Address space of a target's process, which is far more than any case needs, and far less than a length prefix can
#: demand.
MEMORY_BYTES_MAX = 2 << 30

#: A case normally takes milliseconds; one that takes this long is stuck, even on a busy machine.
CASE_SECONDS_MAX = 30.0

#: The interval between checks of a target's process.
_POLL_SECONDS = 0.5

#: The maximum number of findings of different kinds shown per target; the others are counted.
FINDINGS_SHOWN_MAX = 10

#: Time for shortening one finding. This is less than `CASE_SECONDS_MAX` because it is part of the case's time.
SHORTENING_SECONDS_MAX = 5.0

_HEX_SHOWN_MAX = 200


class Finding(NamedTuple):
    """A failed case.

    Attributes:
        kind: a text that is equal for cases that fail in the same way.
        what: a description of the failure.
    """

    kind: str
    what: str


class Progress(ctypes.Structure):
    """The progress of a target's process, in shared memory, which its supervisor reads and which outlives the process.

    Attributes:
        index: the index of the running case, or of the next one.
        findings: the number of failed cases.
    """

    _fields_ = [("index", ctypes.c_int64), ("findings", ctypes.c_int64)]


def main(arguments: list[str] | None = None) -> int:
    """Run the targets, and return the exit status, which is 1 if there was a finding."""
    parser = argparse.ArgumentParser(description="Feed damaged bytes to everything that reads bytes from outside.")
    parser.add_argument("--seconds", type=float, default=SECONDS_DEFAULT, help="time for all targets together")
    parser.add_argument("--seed", type=int, help="seed of the cases; a different one each time by default")
    parser.add_argument(
        "--target", choices=sorted(TARGETS), action="append", help="run only this target; may be repeated"
    )
    parser.add_argument("--replay", type=Path, help="rerun the case in a file from build/fuzz")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    names = options.target or list(TARGETS)
    print(f"seed {seed}", flush=True)
    return 1 if sum(_fuzz(name, seed, options.seconds / len(names)) for name in names) else 0


def make_case(target: Target, name: str, seed: int, index: int) -> Case:
    """Return one case of a run, which depends only on the arguments."""
    return target.damage(Random(f"{seed} {name} {index}"), target.inputs())


def run_case(target: Target, case: Case) -> Finding | None:
    """Check one case; an exception is a finding."""
    message = case.label.split()[0]
    try:
        difference = target.check(case)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{message} {type(error).__name__} {Path(place.filename).name}:{place.lineno}"
        return Finding(kind, "".join(traceback.format_exception(error, limit=-4)).rstrip())
    if difference is None:
        return None
    # Leave out numbers and values, which vary between cases of the same kind.
    return Finding(f"{message} {' '.join(re.findall('[a-z]{3,}', difference)[:3])}", difference)


def shorten(target: Target, case: Case, finding: Finding) -> Case:
    """Return the shortest variant of a case that still gives a finding of the same kind."""
    deadline = monotonic() + SHORTENING_SECONDS_MAX
    size = len(case.data) // 2
    while size:
        start = 0
        while start < len(case.data) and monotonic() < deadline:
            shorter = Case(case.label, case.data[:start] + case.data[start + size :])
            found = run_case(target, shorter)
            if found is not None and found.kind == finding.kind:
                case = shorter
            else:
                start += size
        size //= 2
    return case


def _fuzz(name: str, seed: int, seconds: float) -> int:
    """Run one target for a given time, and return the number of findings."""
    TARGETS[name].inputs()
    progress: Progress = RawValue(Progress)
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        process = multiprocessing.get_context("fork").Process(target=_work, args=(name, seed, deadline, progress))
        process.start()
        fate = _watch(process, progress)
        if fate is None:
            break
        progress.findings += 1
        case = make_case(TARGETS[name], name, seed, progress.index)
        _keep(name, seed, progress.index, case, Finding("death", fate))
        progress.index += 1
    print(f"{name}: {progress.index} cases, {progress.findings} findings", flush=True)
    return progress.findings


def _watch(process: BaseProcess, progress: Progress) -> str | None:
    """Wait for a target's process to exit; return how it ended if it ended prematurely, otherwise None."""
    index, since = -1, monotonic()
    while True:
        process.join(_POLL_SECONDS)
        if process.exitcode is not None:
            break
        if progress.index != index:
            index, since = progress.index, monotonic()
        if monotonic() - since > CASE_SECONDS_MAX:
            process.kill()
            process.join()
            return f"the case takes more than {CASE_SECONDS_MAX:g} s"
    if process.exitcode < 0:
        return f"the process was killed by {signal.Signals(-process.exitcode).name}"
    return None if process.exitcode == 0 else f"the process ended with status {process.exitcode}"


def _work(name: str, seed: int, deadline: float, progress: Progress) -> None:
    """Run cases until the deadline, in the process of a target."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    target = TARGETS[name]
    kinds: set[str] = set()
    while monotonic() < deadline:
        case = make_case(target, name, seed, progress.index)
        finding = run_case(target, case)
        if finding is not None:
            progress.findings += 1
            if finding.kind not in kinds and len(kinds) < FINDINGS_SHOWN_MAX:
                kinds.add(finding.kind)
                case = shorten(target, case, finding)
                _keep(name, seed, progress.index, case, run_case(target, case) or finding)
        progress.index += 1


def _keep(name: str, seed: int, index: int, case: Case, finding: Finding) -> None:
    """Print a finding, and write it to a file for `--replay`."""
    FINDINGS_FOLDER.mkdir(parents=True, exist_ok=True)
    path = FINDINGS_FOLDER / f"{name}-{seed}-{index}.json"
    place = {"target": name, "seed": seed, "case": index, "label": case.label}
    content = {**place, "hex": case.data.hex(), "finding": finding.what}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    shown = case.data.hex()
    if len(shown) > _HEX_SHOWN_MAX:
        shown = f"{shown[:_HEX_SHOWN_MAX]}… ({len(case.data)} bytes)"
    print(f"FINDING {name}, seed {seed}, case {index}, {case.label}: {finding.what}")
    print(f"  bytes: {shown}\n  again: python -m tools.fuzz --replay {path}", flush=True)


def _replay(path: Path) -> int:
    """Run the case in a file, and return the exit status."""
    content = json.loads(path.read_text("utf-8"))
    case = Case(content["label"], bytes.fromhex(content["hex"]))
    finding = run_case(TARGETS[content["target"]], case)
    print("the case passes now" if finding is None else finding.what)
    return 0 if finding is None else 1


if __name__ == "__main__":
    sys.exit(main())
