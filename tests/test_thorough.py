"""A run without the thorough tests prints how many it left out, whether or not xdist workers run the rest.

Method: run pytest on a small module with the plugin, in this process and in one case in an xdist worker.
"""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODULE = """
import pytest
from tests.thorough import sampled

@pytest.mark.thorough
@pytest.mark.parametrize("number", range(3))
def test_everything(number):
    assert number < 3

@pytest.mark.parametrize(("number", "text"), sampled(zip(range(5), "abcde"), 2))
def test_something(number, text):
    assert text == "abcde"[number]
"""


@pytest.mark.parametrize(
    ("arguments", "passed", "line"),
    [
        (["-m", "not thorough"], 3, ["5 thorough tests are left to `make test-all`"]),
        (["-m", "not thorough", "-n", "1"], 3, ["5 thorough tests are left to `make test-all`"]),
        (["-k", "something"], 5, ["3 thorough tests are left to `make test-all`"]),
        ([], 8, []),
    ],
)
def test_what_is_left_is_counted(pytester: pytest.Pytester, arguments: list[str], passed: int, line: list[str]) -> None:
    pytester.makepyfile(MODULE)
    pytester.makeini("[pytest]\nmarkers = thorough: left to test-all")
    outcome = pytester.runpytest_inprocess("-p", "tests.thorough", *arguments)
    outcome.assert_outcomes(passed=passed)
    assert [each for each in outcome.outlines if "thorough tests" in each] == line
