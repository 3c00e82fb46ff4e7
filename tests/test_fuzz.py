"""The fuzzer finds planted bugs of every kind, shortens their inputs, and finds the same bugs with the same seed.

Method: run targets with a bug that damaged bytes can reach. Targets that crash, hang or exhaust memory run in a
separate fuzzer process, where only one case in many is fatal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.thorough import sampled
from tools import fuzz
from tools.fuzz import make_case, run_case, shorten
from tools.fuzz_targets import Case, Target
from tools.mutation import mutate

ROOT = Path(__file__).parent.parent

INPUTS = [Case("planted", bytes(30)), Case("planted", bytes(range(100)))]

#: A fuzzer with an extra target for bugs that no process survives.
SCRIPT = """
import sys, os, signal
from tools import fuzz
from tools.fuzz_targets import Case, Target
from tools.mutation import mutate
def check(case):
    if case.data[:1] == b"\\xff":
        {bug}
fuzz.CASE_SECONDS_MAX = 1.0
fuzz.TARGETS["planted"] = Target(
    lambda: [Case("planted", bytes(4))],
    lambda random, inputs: Case("planted", mutate(random, inputs[0].data)),
    check,
)
sys.exit(fuzz.main(["--target", "planted", "--seconds", "{seconds}", "--seed", "3"]))
"""


def damage(random: Random, inputs: object) -> Case:
    case = random.choice(INPUTS)
    return Case(case.label, mutate(random, case.data))


def check(case: Case) -> str | None:
    if b"\x80" in case.data:
        return f"a high byte in {case.data.hex()}"
    return str(case.data[20]) if len(case.data) == 20 else None


PLANTED = Target(lambda: INPUTS, damage, check)


def findings(seed: int) -> list[tuple[int, bytes, str]]:
    """Return the findings of the first cases of a run."""
    found = []
    for index in range(500):
        case = make_case(PLANTED, "planted", seed, index)
        finding = run_case(PLANTED, case)
        if finding is not None:
            found.append((index, case.data, finding.kind))
    return found


def test_planted_bugs_are_found() -> None:
    kinds = {kind for _, _, kind in findings(1)}
    assert "planted high byte" in kinds
    assert any(kind.startswith("planted IndexError test_fuzz.py:") for kind in kinds)


def test_run_comes_again_from_its_seed() -> None:
    assert findings(1) == findings(1)
    assert findings(1) != findings(2)


def test_finding_is_made_short() -> None:
    case = Case("planted", bytes(50) + b"\x80" + bytes(50))
    finding = run_case(PLANTED, case)
    assert finding is not None
    assert shorten(PLANTED, case, finding).data == b"\x80"


def test_finding_is_written_and_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(fuzz.TARGETS, "planted", PLANTED)
    monkeypatch.setattr(fuzz, "FINDINGS_FOLDER", tmp_path)
    case = Case("planted", b"\x80")
    finding = run_case(PLANTED, case)
    assert finding is not None
    fuzz._keep("planted", 7, 12, case, finding)
    assert "planted, seed 7, case 12, planted: a high byte in 80" in capsys.readouterr().out
    assert fuzz.main(["--replay", str(tmp_path / "planted-7-12.json")]) == 1
    assert "a high byte in 80" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bug", "seconds", "what"),
    sampled(
        [
            ("os.kill(os.getpid(), signal.SIGSEGV)", 0.3, "the process was killed by SIGSEGV"),
            ("while True: pass", 1.5, "the case takes more than 1 s"),
            ("os._exit(9)", 0.3, "the process ended with status 9"),
            ("bytearray(4 << 30)", 0.3, "MemoryError"),
            ("return 'a wrong answer'", 0.3, "a wrong answer"),
        ],
        4,
    ),
)
def test_any_end_of_a_process_is_a_finding(bug: str, seconds: float, what: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(bug=bug, seconds=seconds)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert what in run.stdout
    assert list((tmp_path / "build" / "fuzz").glob("planted-3-*.json"))


def test_clean_target_passes(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(bug="pass", seconds=0.2)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert ", 0 findings" in run.stdout
