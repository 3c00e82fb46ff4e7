"""Plant small faults in the sources, one at a time, and check whether the tests notice them.

`python -m tools.mutants [--room ROOM] [--since REVISION] [--kind KIND] [--faults N] [--seed S]` samples the faults that
`faults.py` and `slips.py` find in a room of `tools/mutants.toml`, or in the changes since a revision: the same number
of each kind, distributed over files by size. The file's tests are run in a copy of the tree; a fault that no test
notices is a survivor. The exit status is 1 if fewer than 90 % are killed, or if a survivor is not explained in
`tools/mutants_survivors.toml`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Literal, NamedTuple, get_args

from tools.faults import Fault, Kind, diff, find_faults, plant, sorted_faults
from tools.slips import find_slips
from tools.tidy import Tree, own_test

__all__ = [
    "Plan",
    "Survivor",
    "Workshop",
    "changed_since",
    "choose",
    "explain",
    "plans_of",
    "read_survivors",
    "read_table",
    "stale",
]

KILLED_SHARE_MIN = 0.9

KINDS: tuple[Kind, ...] = get_args(Kind)

#: The default of `make mutants`; 150 faults take ten to twenty minutes on two cores.
FAULTS = 150

#: A run is considered stuck if it takes the first number times as long as without a fault, plus the second number in
#: seconds.
SECONDS_FACTOR, SECONDS_MORE = 5, 20

#: A test is considered stuck if it takes this long; the slowest tests take 10 s.
TEST_SECONDS_MAX = 60

#: Address space of a run, limited because a fault in a length could exhaust the machine's memory.
ADDRESS_SPACE_KIB = 8 * 1024 * 1024

#: Untracked files that the copy needs.
BUILT = ("sdk/**/*.so",)

#: The folder for temporary files of a copy's tests; if runs shared a folder, they would remove each other's files.
TEMPORARY = Path("build/pytest")

FOLDER = Path("build/mutants")
TABLE = Path("tools/mutants.toml")
SURVIVORS = Path("tools/mutants_survivors.toml")

#: A program that fails unless the tested code is that of the copy.
_IS_COPY = "import kafkawire, sys; sys.exit(0 if kafkawire.__file__.startswith(sys.argv[1]) else kafkawire.__file__)"

#: Matches the output of a run that was stopped by pytest or `Workshop`.
_NO_END = re.compile(r"^E +Failed: Timeout|^no end after", re.MULTILINE)

_TIMEOUT = f"--timeout={TEST_SECONDS_MAX}"

Verdict = Literal["SURVIVED", "killed", "killed, no end", "cannot be built"]


class MutantsError(Exception):
    """The run proves nothing, for the reason in the text."""


class Plan(NamedTuple):
    """The tests of a source.

    Attributes:
        path: the path of the source.
        room: its room in the table.
        tests: the test files or folders that must notice a fault in it, beginning with its own test module.
        engine: the engine to use for the tests.
        build: whether a fault requires rebuilding the extensions.
    """

    path: str
    room: str
    tests: tuple[str, ...]
    engine: str
    build: bool


class Survivor(NamedTuple):
    """A fault that no test has to notice.

    Attributes:
        path, place: its position; see `Fault`.
        edit: the replaced text and its replacement, such as `77 -> 78`, without the rest of the line.
        reason: why it has no visible effect, or why its effect is acceptable.
    """

    path: str
    place: str
    edit: str
    reason: str


def read_table(root: Path, rooms: Sequence[str] = ()) -> dict[str, Plan]:
    """Return the plan for every source in some rooms.

    Args:
        root: the folder of the checkout.
        rooms: names of rooms in the table, or path patterns; empty for the default rooms.

    Raises:
        MutantsError: the table has no such room or path.
    """
    table = tomllib.loads((root / TABLE).read_text("utf-8"))
    tree = Tree(root)
    known = {path.as_posix() for path in tree.paths}
    plans: dict[str, Plan] = {}
    for source in tree.sources:
        for name, room in table["rooms"].items():
            wanted = room.get("default", True) if not rooms else name in rooms or _matches(source.path, rooms)
            if source.generated or not wanted or not _matches(source.path, room["sources"]):
                continue
            mirror = own_test(source)
            more = [rule for rule in table["also"] if _matches(source.path, rule["sources"])]
            tests = [mirror] * (mirror in known) + [test for rule in more for test in rule.get("tests", ())]
            engine = next((rule["engine"] for rule in more if "engine" in rule), room.get("engine", "python"))
            path = source.path.as_posix()
            plans[path] = Plan(path, name, tuple(dict.fromkeys(tests)), engine, room.get("build", False))
    if not plans:
        raise MutantsError(f"{', '.join(rooms)} has no sources; the rooms in {TABLE} are {', '.join(table['rooms'])}")
    return plans


def read_survivors(root: Path) -> list[Survivor]:
    """Return the explained survivors.

    Raises:
        MutantsError: a survivor has no reason.
    """
    found = [Survivor(**entry) for entry in tomllib.loads((root / SURVIVORS).read_text("utf-8")).get("survivors", [])]
    for survivor in found:
        if not survivor.reason.strip():
            raise MutantsError(f"{SURVIVORS}: {survivor.path} {survivor.place}: {survivor.edit!r} has no reason")
    return found


def find(path: str, source: bytes, kinds: Iterable[Kind] = KINDS) -> list[Fault]:
    """Return all faults of the given kinds that can be planted in a source."""
    found = (*find_faults(path, source), *find_slips(path, source))
    return sorted_faults(fault for fault in found if fault.kind in kinds)


def choose(faults: Mapping[str, Sequence[Fault]], count: int, seed: int) -> list[Fault]:
    """Return a sample of the faults, which is determined by a seed.

    Args:
        faults: all faults, keyed by path.
        count: the approximate number of each kind. Each file contributes at least one, unless there are more files than
            that.
        seed: the seed of the sample. A file's sample depends only on the file's own faults and share.
    """
    kinds = sorted({fault.kind for of_file in faults.values() for fault in of_file})
    chosen = []
    for kind in kinds:
        found = {path: [fault for fault in of_file if fault.kind == kind] for path, of_file in faults.items()}
        chosen += _choose_of_kind({path: of_file for path, of_file in found.items() if of_file}, count, seed)
    return sorted(chosen, key=lambda fault: (fault.path, fault.start))


def _choose_of_kind(faults: Mapping[str, Sequence[Fault]], count: int, seed: int) -> list[Fault]:
    total = sum(map(len, faults.values()))
    # A file's chance of being among the first is proportional to its number of faults.
    paths = sorted(faults, key=lambda path: Random(f"{seed} {path}").random() ** (1 / len(faults[path])), reverse=True)
    chosen = []
    for path in paths[:count]:
        share = 1 if count < len(paths) else min(len(faults[path]), max(1, round(count * len(faults[path]) / total)))
        chosen += Random(f"{seed} {path}").sample(faults[path], share)
    return chosen


def describe(source: bytes, fault: Fault, reason: str = "") -> Survivor:
    """Return a fault in the form used in the table of survivors."""
    old, new = _code(source[fault.start : fault.end].decode()), _code(fault.new)
    return Survivor(fault.path, fault.place, f"{old} -> {new}", reason)


def _code(text: str) -> str:
    """Return code on one line, without comment lines, so an explanation survives a reworded comment."""
    lines = map(str.strip, text.splitlines())
    return " ".join(word for line in lines if not line.startswith("#") for word in line.split())


def explain(source: bytes, fault: Fault, survivors: Iterable[Survivor]) -> str | None:
    """Return the reason given for a survivor; None if the table does not list it."""
    wanted = describe(source, fault)
    return next((survivor.reason for survivor in survivors if survivor[:3] == wanted[:3]), None)


def stale(sources: Mapping[str, bytes], survivors: Iterable[Survivor]) -> list[Survivor]:
    """Return the survivors whose fault can no longer be planted because the source has changed."""
    faults = {describe(source, fault)[:3] for path, source in sources.items() for fault in find(path, source)}
    return [survivor for survivor in survivors if survivor[:3] not in faults]


class Workshop:
    """A copy of the tree, in which one fault at a time is planted.

    Args:
        root: the tree to copy; it is not changed.
        folder: the folder of the copy.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder.resolve()
        self._temporary = self.folder / TEMPORARY
        self._temporary.mkdir(parents=True)
        paths = [*Tree(root).paths, *(path.relative_to(root) for pattern in BUILT for path in root.glob(pattern))]
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, folder / path, follow_symlinks=False)
        where = self._run("python", [sys.executable, "-c", _IS_COPY, str(self.folder)], 60)
        if where is not None:
            raise MutantsError(f"the tests would not run on the copy in {folder}:\n{where}")

    def seconds_without_fault(self, plan: Plan) -> float:
        """Run the tests for an unchanged source, and return how long they take.

        Raises:
            MutantsError: the tests fail.
        """
        started = time.monotonic()
        if (failed := self._run(plan.engine, self._test_command(plan.tests), 600)) is not None:
            raise MutantsError(f"the tests of {plan.path} fail without a fault:\n{failed}")
        return time.monotonic() - started

    def verdict(self, plan: Plan, fault: Fault, seconds_max: float) -> Verdict:
        """Plant a fault, run all tests of a plan, and return the result."""
        source = self.folder / fault.path
        original = source.read_bytes()
        try:
            self._write(source, plant(original, fault))
            if plan.build and self.build(plan) is not None:
                return "cannot be built"
            output = self._run(plan.engine, self._test_command(plan.tests), seconds_max)
            if output is None:
                return "SURVIVED"
            return "killed, no end" if _NO_END.search(output) else "killed"
        finally:
            self._write(source, original)

    def build(self, plan: Plan) -> str | None:
        """Build the extensions without optimisation; return the error, if there is one."""
        return self._run(plan.engine, [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], 600)

    def _test_command(self, tests: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", _TIMEOUT, *tests]

    def _run(self, engine: str, command: list[str], seconds_max: float) -> str | None:
        """Run a command in the copy; if it fails or takes too long, return its output, otherwise None."""
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "src"),
            "KAFKAWIRE_ENGINE": engine,
            "PYTEST_DEBUG_TEMPROOT": str(self._temporary),
            "CI": "1",  # makes random tests repeatable
            "KAFKAWIRE_TEST_EXAMPLES": "unshrunk",
            "CFLAGS": "-O0 -w",
        }
        limited = ["sh", "-c", f'ulimit -v {ADDRESS_SPACE_KIB} && exec "$@"', "sh", *command]
        with subprocess.Popen(
            limited,
            cwd=self.folder,
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds_max)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"no end after {seconds_max:.0f} s"
        return output if process.returncode else None

    def _write(self, path: Path, content: bytes) -> None:
        """Write a source, and remove its compiled form, because two edits within a second have the same timestamp."""
        path.write_bytes(content)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()


def run(
    root: Path, folder: Path, plans: Mapping[str, Plan], faults: Sequence[Fault], processes: int
) -> tuple[list[Fault], list[Fault]]:
    """Plant the faults, one at a time, in copies of the tree below `folder`.

    Returns:
        The faults that survived, and those with which the extension could not be built.

    Raises:
        MutantsError: a source has no tests, tests fail without a fault, or they run code outside the copy.
    """
    for path in {fault.path for fault in faults}:
        if not plans[path].tests:
            raise MutantsError(f"{path} has no test module, and {TABLE} names no other tests for it")
    workshops: SimpleQueue[Workshop] = SimpleQueue()
    for number in range(processes):
        workshops.put(Workshop(root, folder / str(number)))
    done = 0
    measured: dict[tuple[str, ...], Future[float]] = {}
    is_measuring = Lock()

    def seconds_without_fault(workshop: Workshop, plan: Plan) -> float:
        """Return how long tests take, which is measured on first use."""
        with is_measuring:
            is_known = (key := _covering(plan)) in measured
            seconds = measured.setdefault(key, Future())
        if not is_known:
            try:
                seconds.set_result(workshop.seconds_without_fault(plan))
            except MutantsError as error:
                seconds.set_exception(error)
        return seconds.result()

    def test(fault: Fault) -> Verdict:
        nonlocal done
        verdict: Verdict = "SURVIVED"
        workshop = workshops.get()
        try:
            for plan in _stages(plans[fault.path]):
                seconds_max = SECONDS_MORE + SECONDS_FACTOR * seconds_without_fault(workshop, plan)
                verdict = workshop.verdict(plan, fault, seconds_max)
                if verdict != "SURVIVED":
                    break
        finally:
            workshops.put(workshop)
        done += 1
        print(f"{done}/{len(faults)} {fault.path}:{fault.line} {fault.place}: {fault.edit}: {verdict}", flush=True)
        return verdict

    workshop = workshops.get()
    for plan in {plans[fault.path] for fault in faults if plans[fault.path].build}:
        seconds_without_fault(workshop, plan)  # measured before anything is built with a fault
    workshops.put(workshop)
    with ThreadPoolExecutor(processes) as pool:
        try:
            verdicts = dict(zip(faults, pool.map(test, faults), strict=True))
        except MutantsError:
            pool.shutdown(cancel_futures=True)
            raise
    if hung := sum(verdict == "killed, no end" for verdict in verdicts.values()):
        print(f"{hung} faults are counted as killed because the tests did not end in time; is the machine busy?")
    survivors = [fault for fault, verdict in verdicts.items() if verdict == "SURVIVED"]
    unbuildable = [fault for fault, verdict in verdicts.items() if verdict == "cannot be built"]
    return survivors, unbuildable


def report(
    sources: Mapping[str, bytes],
    plans: Mapping[str, Plan],
    planted: Sequence[Fault],
    survived: Sequence[Fault],
    table: Sequence[Survivor],
) -> int:
    """Print the survivors, and a line for each room; return the exit status."""
    unexplained = []
    for fault in survived:
        source = sources[fault.path]
        reason = explain(source, fault, table)
        print(f"\nsurvived: {fault.path}:{fault.line} {fault.place}: {fault.edit}", *diff(source, fault), sep="\n")
        if reason is None:
            unexplained.append(describe(source, fault))
        else:
            print(f"explained: {reason}")
    print()
    groups: tuple[Callable[[Fault], str], ...] = (lambda fault: plans[fault.path].room, lambda fault: fault.kind)
    for group in groups:
        alive = Counter(map(group, survived))
        for name, count in Counter(map(group, planted)).items():
            killed = count - alive[name]
            print(f"{name:16} {count:5} planted {killed:5} killed {killed / count:8.1%}")
    if unexplained:
        entries = FOLDER / "survivors.toml"
        entries.write_text("\n".join(map(_entry, unexplained)), "utf-8")
        print(f"{len(unexplained)} survivors are not explained; kill them, or move them from {entries} to {SURVIVORS}")
    gone = stale(sources, [survivor for survivor in table if survivor.path in plans])
    for survivor in gone:
        print(
            f"{SURVIVORS} explains a fault that no longer exists: {survivor.path} {survivor.place}: {survivor.edit!r}"
        )
    share = 1 - len(survived) / len(planted)
    print(f"{len(planted)} faults, {share:.1%} killed, at least {KILLED_SHARE_MIN:.0%} required")
    return 1 if unexplained or gone or share < KILLED_SHARE_MIN else 0


def plans_of(root: Path, rooms: Sequence[str], since: str | None) -> dict[str, Plan]:
    """Return the plans for rooms; with `since`, only those for changed files, in all rooms if none is named."""
    if since is None:
        return read_table(root, rooms)
    everywhere = tuple(tomllib.loads((root / TABLE).read_text("utf-8"))["rooms"])
    changed = changed_since(root, since)
    plans = {path: plan for path, plan in read_table(root, rooms or everywhere).items() if path in changed}
    if not plans:
        raise MutantsError(f"no source has changed since {since}")
    return plans


def changed_since(root: Path, revision: str) -> set[str]:
    """Return the paths of the files that differ from a revision.

    Raises:
        MutantsError: git does not know the revision.
    """
    command = ["git", "-C", str(root), "diff", "--name-only", revision, "--"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise MutantsError(f"cannot determine the changes since {revision}: {found.stderr.strip()}")
    return set(found.stdout.splitlines())


def _stages(plan: Plan) -> list[Plan]:
    """Return the tests in the order in which they run.

    The first tests are fast and kill most faults. If a fault requires a build, all of its tests run after that build.
    """
    if plan.build:
        return [plan]
    return [plan._replace(tests=tests) for tests in (plan.tests[:1], plan.tests[1:]) if tests]


def _covering(plan: Plan) -> tuple[str, ...]:
    """Return the key for a plan's running time: the engine, and the tests that are not in another test's folder."""
    paths = [PurePosixPath(test) for test in plan.tests]
    return plan.engine, *(str(path) for path in paths if not any(other in path.parents for other in paths))


def _matches(path: PurePosixPath, patterns: Iterable[str]) -> bool:
    """Return whether a path matches a pattern, in which `*` stops at a slash; PurePath.match matches only the end."""
    return any(path.match(pattern) and len(path.parts) == pattern.count("/") + 1 for pattern in patterns)


def _entry(survivor: Survivor) -> str:
    return "[[survivors]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in survivor._asdict().items())


def main() -> int:
    """Plant faults, and return the exit status."""
    parser = argparse.ArgumentParser(description="Plant small faults and see whether the tests notice them.")
    parser.add_argument("--room", action="append", default=[], help="a room in the table, or a path pattern")
    parser.add_argument(
        "--since", metavar="REVISION", help="only files that have changed since this revision, in any room"
    )
    parser.add_argument(
        "--kind", action="append", default=[], choices=KINDS, help="kind of faults to plant; all by default"
    )
    parser.add_argument("--faults", type=int, default=FAULTS, help="number of faults, divided among the kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    root = Path.cwd()
    started = time.monotonic()
    try:
        plans, table = plans_of(root, arguments.room, arguments.since), read_survivors(root)
        sources = {path: (root / path).read_bytes() for path in plans}
        kinds = arguments.kind or KINDS
        found = {path: find(path, source, kinds) for path, source in sources.items()}
        faults = choose(found, arguments.faults // len(kinds), arguments.seed)
        print(f"{sum(map(len, found.values()))} places, {len(faults)} faults, seed {arguments.seed}", flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=FOLDER) as folder:
            survived, unbuildable = run(root, Path(folder), plans, faults, arguments.processes)
        status = report(sources, plans, [fault for fault in faults if fault not in unbuildable], survived, table)
    except MutantsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{time.monotonic() - started:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
