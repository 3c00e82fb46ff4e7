"""Faults are planted in a copy, and those that the tests miss are listed, whether they are explained or not.

Method: plant faults in a tree with one source and a test that notices most of them; then check the project's own table.
"""

from __future__ import annotations

import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tools import mutants
from tools.faults import Fault, find_faults
from tools.mutants import Survivor, choose, describe, read_survivors, read_table, stale
from tools.slips import find_slips

ROOT = Path(__file__).parent.parent

TABLE = """
[rooms.sdk]
sources = ["sdk/*.py"]
[rooms.built]
sources = ["sdk/*.pyx"]
default = false
build = true
[[also]]
sources = ["sdk/more.py", "sdk/split.pyx"]
tests = ["tests/sdk/test_split.py"]
engine = "construct"
"""

#: The test below notices a negated condition; with the other fault, `a >= b`, the result is the same.
SPLIT = '''"""Split."""


def largest(a, b):
    return a if a > b else b
'''

TEST = """import os

from sdk.split import largest


def test_split():
    assert (largest(1, 2), largest(2, 1), largest(1, 1)) == (2, 2, 1)
    assert os.environ["KAFKAWIRE_ENGINE"] == "python"
"""

#: The test below never asks twice.
STATEFUL = '''"""Split."""


def rest(start_offset, end_offset, failures):
    failures.clear()
    return end_offset - start_offset
'''

STATEFUL_TEST = """from sdk.split import rest


def test_rest():
    assert rest(2, 7, []) == 5
"""

LOOP = '''"""Split."""


def one(numbers):
    while not numbers:
        numbers.append(0)
    return numbers
'''

LOOP_TEST = """from sdk.split import one


def test_one():
    assert (one([]), one([7])) == ([0], [7])
"""

EQUAL = Survivor("sdk/split.py", "largest", "> -> >=", "equal values are the same")

RESULT = "2 faults, 50.0% killed"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a tree, and make its root the current folder."""
    write(tmp_path, "tools/mutants.toml", TABLE)
    write(tmp_path, "tools/mutants_survivors.toml", "")
    write(tmp_path, "src/kafkawire/__init__.py", "")
    write(tmp_path, "sdk/split.py", SPLIT)
    write(tmp_path, "tests/sdk/test_split.py", TEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mutants, "KILLED_SHARE_MIN", 0.5)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, "utf-8")


def plant_all(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["mutants", "--faults", "1000", *arguments])
    return mutants.main()


@pytest.mark.thorough
def test_copies_keep_the_folders_of_their_tests_apart(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "tests/sdk/test_split.py", "def test_folder(tmp_path):\n    (tmp_path / 'made').touch()\n")
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tree))  # copies inherit this setting, but must not use it
    (plan,) = read_table(tree).values()
    for name in ("one", "other"):
        mutants.Workshop(tree, tree / name).seconds_without_fault(plan)
    made = sorted(path.relative_to(tree).parts[0] for path in tree.rglob("made"))
    assert made == ["one", "other"]


@pytest.mark.thorough
def test_a_survivor_is_named_until_it_is_explained(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plant_all(monkeypatch) == 1
    printed = capsys.readouterr().out
    assert "2 places, 2 faults, seed 1" in printed
    assert "-    return a if a > b else b\n+    return a if a >= b else b\n" in printed
    assert "1 survivors are not explained" in printed
    assert RESULT in printed
    assert [line.split() for line in printed.splitlines() if " planted " in line] == [
        [name, "2", "planted", "1", "killed", "50.0%"] for name in ("sdk", "operators")
    ]
    entry = (tree / "build/mutants/survivors.toml").read_text("utf-8")
    explained = entry.replace('reason = ""', f'reason = "{EQUAL.reason}"')
    write(tree, "tools/mutants_survivors.toml", explained)
    assert read_survivors(tree) == [EQUAL]
    assert plant_all(monkeypatch) == 0
    assert f"explained: {EQUAL.reason}" in capsys.readouterr().out
    assert (tree / "sdk/split.py").read_text("utf-8") == SPLIT
    write(tree, "tools/mutants_survivors.toml", entry)
    assert plant_all(monkeypatch) == 2
    assert "has no reason" in capsys.readouterr().err


@pytest.mark.thorough
def test_an_explanation_does_not_excuse_too_few_kills(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutants, "KILLED_SHARE_MIN", 0.51)
    write(tree, "tools/mutants_survivors.toml", mutants._entry(EQUAL))
    assert plant_all(monkeypatch) == 1
    assert "2 faults, 50.0% killed, at least 51% required" in capsys.readouterr().out


@pytest.mark.thorough
def test_kinds_are_chosen_and_counted(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tree, "sdk/split.py", STATEFUL)
    write(tree, "tests/sdk/test_split.py", STATEFUL_TEST)
    assert plant_all(monkeypatch, "--kind", "names", "--kind", "state") == 1
    printed = capsys.readouterr().out
    assert "places, 3 faults" in printed
    counted = {tuple(line.split()) for line in printed.splitlines() if " planted " in line}
    assert counted == {
        ("sdk", "3", "planted", "2", "killed", "66.7%"),
        ("names", "2", "planted", "2", "killed", "100.0%"),
        ("state", "1", "planted", "0", "killed", "0.0%"),
    }


@pytest.mark.thorough
def test_a_hang_and_a_greedy_fault_count_as_killed(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tree, "sdk/split.py", LOOP)
    write(tree, "tests/sdk/test_split.py", LOOP_TEST)
    monkeypatch.setattr(mutants, "SECONDS_MORE", 1)
    monkeypatch.setattr(mutants, "SECONDS_FACTOR", 1)
    assert plant_all(monkeypatch) == 0
    assert "left out: killed, no end" in (printed := capsys.readouterr().out)
    assert "faults are counted as killed because the tests did not end in time" in printed


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        ("tests/sdk/test_split.py", "assert False", "the tests of sdk/split.py fail without a fault"),
        ("sdk/other.py", SPLIT, "sdk/other.py has no test module"),
        ("sdk/more.py", SPLIT, "the tests of sdk/more.py fail without a fault"),  # with the wrong engine
        ("src/kafkawire/__init__.py", "__file__ = '/elsewhere'", "would not run on the copy"),
    ],
)
def test_a_run_that_is_worth_nothing_is_refused(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    text: str,
    error: str,
) -> None:
    write(tree, path, text)
    assert plant_all(monkeypatch) == 2
    assert error in capsys.readouterr().err


def test_rooms(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree, "sdk/more.py", SPLIT)
    write(tree, "sdk/split.pyx", SPLIT)
    assert list(read_table(tree)) == ["sdk/more.py", "sdk/split.py"]
    assert list(read_table(tree, ["built"])) == ["sdk/split.pyx"]
    assert list(read_table(tree, ["sdk/m*.py"])) == ["sdk/more.py"]
    assert read_table(tree)["sdk/more.py"].engine == "construct"
    assert plant_all(monkeypatch, "--room", "split.py") == 2
    assert "split.py has no sources; the rooms in tools/mutants.toml are sdk, built" in capsys.readouterr().err


def test_what_has_changed(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed sources are included from every room, even from rooms that are otherwise skipped."""
    for path in ("sdk/more.py", "sdk/split.pyx"):
        write(tree, path, SPLIT)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], check=True)
    assert plant_all(monkeypatch, "--since", "HEAD") == 2
    assert "no source has changed since HEAD" in capsys.readouterr().err
    for path in ("sdk/split.py", "sdk/split.pyx", "tests/sdk/test_split.py"):
        write(tree, path, (tree / path).read_text("utf-8") + "\n")
    assert mutants.changed_since(tree, "HEAD") == {"sdk/split.py", "sdk/split.pyx", "tests/sdk/test_split.py"}
    assert list(mutants.plans_of(tree, [], "HEAD")) == ["sdk/split.py", "sdk/split.pyx"]
    assert list(mutants.plans_of(tree, ["sdk"], "HEAD")) == ["sdk/split.py"]
    assert plant_all(monkeypatch, "--since", "no-such-revision") == 2
    assert "cannot determine the changes since no-such-revision" in capsys.readouterr().err


@pytest.mark.thorough
def test_what_cannot_be_built_is_not_counted(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tree, "tools/mutants.toml", TABLE.replace("construct", "python"))
    write(tree, "sdk/split.pyx", "cdef int f(int a):\n    if a < 1:\n")
    write(tree, "setup.py", "import sys\nsys.exit('<=' in open('sdk/split.pyx').read())\n")
    assert plant_all(monkeypatch, "--room", "built") == 1
    printed = capsys.readouterr().out
    assert "operator: cannot be built" in printed
    assert "2 faults, 0.0% killed" in printed


def test_the_sample_is_the_seed_s_and_each_file_has_its_share() -> None:
    faults = {
        name: [Fault(name, "f", line, "operators", "constant", line, line + 1, "1") for line in range(count)]
        for name, count in {"a": 300, "b": 99, "c": 1}.items()
    }
    sample = choose(faults, 40, 1)
    assert [[fault.path for fault in sample].count(name) for name in faults] == [30, 10, 1]
    assert choose(faults, 40, 1) == sample != choose(faults, 40, 2)
    assert [len(choose(faults, few, 1)) for few in (2, 1)] == [2, 1]
    of_names = {"a": [*faults["a"], *(fault._replace(kind="names", start=-fault.start) for fault in faults["a"])]}
    assert Counter(fault.kind for fault in choose(of_names, 20, 1)) == {"operators": 20, "names": 20}
    del faults["a"][-1]
    assert [fault for fault in choose(faults, 40, 1) if fault.path == "b"] == [f for f in sample if f.path == "b"]


@pytest.mark.thorough
def test_every_source_of_the_project_has_tests() -> None:
    rooms = tomllib.loads((ROOT / mutants.TABLE).read_text("utf-8"))["rooms"]
    plans = read_table(ROOT, list(rooms))
    assert {plan.room for plan in plans.values()} == rooms.keys()
    for plan in plans.values():
        has_faults = find_faults(plan.path, (ROOT / plan.path).read_bytes())
        assert plan.tests or not has_faults, plan.path
        assert all((ROOT / test).exists() for test in plan.tests)


def test_every_explanation_of_the_project_is_about_a_fault_that_can_be_planted() -> None:
    survivors = read_survivors(ROOT)
    sources = {path: (ROOT / path).read_bytes() for path in {survivor.path for survivor in survivors}}
    assert stale(sources, survivors) == []


def test_an_explanation_goes_with_its_edit_and_its_function() -> None:
    source = SPLIT.encode()
    (fault,) = [fault for fault in find_faults(EQUAL.path, source) if fault.new == ">="]
    assert describe(source, fault, EQUAL.reason) == EQUAL
    for changed, found in (
        (source, []),
        (source.replace(b"return a if a > b", b"return a if (a) > abs(b)"), []),
        (source.replace(b"a > b", b"b < a"), [EQUAL]),
        (source.replace(b"largest", b"larger"), [EQUAL]),
    ):
        assert stale({EQUAL.path: changed}, [EQUAL]) == found
    assert stale({}, [EQUAL]) == [EQUAL]


def test_an_explanation_outlives_a_reworded_comment() -> None:
    source = "def f(self):\n    self.x = 1\n    # The call {} the value.\n    self.f()\n"
    found = [
        describe(text, fault)
        for text in (source.format(word).encode() for word in ("follows", "comes after"))
        for fault in find_slips("m.py", text)
        if fault.kind == "order"
    ]
    assert [survivor.edit for survivor in found] == ["self.x = 1 self.f() -> self.f() self.x = 1"] * 2
