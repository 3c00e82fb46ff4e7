"""mypy and pyright accept every program in the documentation, and infer the types in users' code.

Method: run each checker once on everything: the programs of the pages, the examples, and the programs of the modules
that mark, line by line, the errors to report. The programs are only type-checked here; `tests/test_guide.py` runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import guide
from tests.sdk.client import test_keywords
from tests.sdk.records import test_type_variables
from tests.type_checkers import check_with_mypy, check_with_pyright

EXAMPLES = Path(__file__).parents[1] / "examples"


def programs() -> dict[str, str]:
    """Return all programs, by file name."""
    pages = [page for page in guide.PAGES if page not in guide.FRAGMENTS and page != "testing"]
    return {
        "keywords.py": test_keywords.PROGRAM,
        "type_variables.py": test_type_variables.PROGRAM,
        **{f"page_{page.replace('-', '_')}.py": guide.program(page) for page in pages},
        **guide.files("testing"),
        **guide.files("security"),
        **{path.name: path.read_text("utf-8") for path in EXAMPLES.glob("*.py")},
    }


def test_mypy(tmp_path: Path) -> None:
    check_with_mypy(programs(), tmp_path)


@pytest.mark.thorough
def test_pyright(tmp_path: Path) -> None:
    check_with_pyright(programs(), tmp_path)


@pytest.mark.thorough
def test_what_is_wrongly_accepted_or_refused_is_noticed(tmp_path: Path) -> None:
    given = {"one.py": "x: int = 'x'  # refused\ny: int = 5  # refused\n", "two.py": "z: int = 'z'\n"}
    for check in (check_with_mypy, check_with_pyright):
        with pytest.raises(AssertionError, match=r"two\.py', 1.*accepted: \[\('one\.py', 2\)\]"):
            check(given, tmp_path)
