"""The last line of .ci/run counts the targets that passed and failed, and omits no failure.

Method: put a fake `make` on the path; it prints a given text for each target, and fails if the text says so.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).parent.parent / ".ci" / "run"

PASSING = "== tests\n....\n120 passed, 2 skipped in 4.56s\n"
FAILING = "== tests\n== 3 failed, 120 passed, 1 error in 64.56s (0:01:04) ==\nmake: *** [Makefile:9: native] Error 1\n"
LINT = "== lint\nE501\nmake: *** [Makefile:5: lint] Error 1\n"
SKIPPED = "== tests\n7 passed, 1 skipped in 4s\nmake[1]: *** [Makefile:5: core] Error 1\n" + (
    "make: *** [Makefile:4: all] Error 1\n"
)

#: the output of each target, and the last line of the run
RUNS = [
    ({}, "0 passed, 0 failed"),
    ({"test": PASSING, "fuzz": PASSING}, "240 passed, 0 failed"),
    ({"test": PASSING + FAILING}, "240 passed, 4 failed"),
    ({"test": LINT + PASSING}, "120 passed, 1 failed"),
    ({"test": LINT + FAILING + LINT}, "120 passed, 6 failed"),
    ({"fuzz": SKIPPED}, "7 passed, 1 failed"),
    (
        {"wheels": "error: no wheel\nmake: *** [Makefile:5: wheels] Error 1\n", "test-kafka-smoke": FAILING},
        "120 passed, 5 failed",
    ),
    ({"wheels": "make: fail without a word\n"}, "0 passed, 1 failed"),
]


@pytest.mark.parametrize(("printed", "last"), RUNS)
def test_last_line(tmp_path: Path, printed: dict[str, str], last: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("java", "mvn"):
        (folder / name).symlink_to("/bin/true")
    for target, text in printed.items():
        (tmp_path / target).write_text(text, "utf-8")
    make = folder / "make"
    make.write_text(
        '#!/bin/sh\nfor target; do\n  case "$target" in -*|*=*) continue;; esac\n'
        f"  [ -f {tmp_path}/$target ] || continue\n  cat {tmp_path}/$target\n"
        f"  ! grep -q '^make' {tmp_path}/$target || exit 2\ndone\n",
        "utf-8",
    )
    make.chmod(0o755)
    outcome = subprocess.run(
        [shutil.which("bash") or "bash", str(CI)],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.stdout.splitlines()[-1] == last, outcome.stdout + outcome.stderr
    assert (outcome.returncode == 0) == last.endswith(", 0 failed")
