"""Every kind of fault is found, each leaves a source that parses, and changes that no test could notice are excluded.

Method: edit one line for each kind of fault, in Python and in Cython, and parse every faulty version of the project's
own sources.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.faults import Fault, diff, find_faults, plant

ROOT = Path(__file__).parent.parent

#: a function's body, and the lines that result from faults
EDITS = [
    ("return a < b", {"return a <= b"}),
    ("return a >= b", {"return a > b"}),
    ("return a == b", {"return a != b"}),
    ("return a not in b", {"return a in b"}),
    ("return a is not None", {"return a is None"}),
    ("return a < b <= c", {"return a <= b <= c", "return a < b < c"}),
    ("return (a) + (b)", {"return (a) - (b)"}),
    ("return a // b << c", {"return a * b << c", "return a // b >> c"}),
    ("return a and b", {"return a or b"}),
    ("return not a", {"return a"}),
    ("return 5", {"return 6", "return 4"}),
    ("return -1", {"return -2"}),
    ("return True", {"return False"}),
    ("return min(a)", {"return max(a)"}),
    ("return f(a, b, c)", {"return f(b, a, c)"}),
    ("return max(a, b)", {"return min(a, b)"}),
    ("return zip(a, b, strict=True)", {"return zip(b, a, strict=True)"}),
    ("return a[b:c]", {"return a[(b) + 1:c]", "return a[b:(c) + 1]"}),
    ("return a if b else c", {"return a if (not (b)) else c"}),
    ("return [a for a in b if c]", {"return [a for a in b if (not (c))]"}),
    ("raise a", {"pass"}),
    ("f(a)", {"pass"}),
    ("a.b = c", {"pass"}),
    ("a[b] = c", {"pass"}),
    ("a: int = 1", {"a: int = 2"}),
    ("a += b", {"pass", "a -= b"}),
    ("while a: pass", {"while (not (a)): pass"}),
    ("if a: return b", {"if a: pass", "if (not (a)): return b"}),
]

#: a module in which nothing is a fault
HARMLESS = [
    '"""1 + 1."""\n',
    "__all__ = [1]\n",
    "FRAMES_MAX = 100\nMAX_FRAME_BYTES: int = 4 * 1024\n",
    "Buffer = bytes | bytearray\n",
    "T = TypeVar('T', a, b)\n",
    "def f(a: 'A[1]' = b) -> 'B[2]':\n    '''1.'''\n    assert a\n",
    "def f(a):\n    return f'{a - 1}'\n",
    "class A:\n    def __repr__(self):\n        return 1\n",
    "if TYPE_CHECKING:\n    a = 1\n",
    "def f(a):\n    return isinstance(a, b)\n",
]

#: a line in a Cython function, and the lines that result from faults
CYTHON_EDITS = [
    ("if a < b:", {"if a <= b:", "if not (a < b):"}),
    ("return a - <int64_t>b", {"return a + <int64_t>b", "pass"}),
    ("p = get(&a, 4)", {"pass", "p = get(&a, 5)"}),
    ("raise failed(a)", {"pass"}),
    ("return -1", {"pass"}),
    ("count += 1", {"count -= 1", "count += 2", "pass"}),
    ("if a or b:", {"if a and b:", "if not (a or b):"}),
    ("# a < 1", set()),
    ("cdef int64_t a", set()),
]


def edited(path: str, source: str) -> set[str]:
    data = source.encode()
    changes = [diff(data, fault) for fault in find_faults(path, data)]
    return {line[1:].strip() for change in changes for line in change if line[0] == "+"}


@pytest.mark.parametrize(("line", "faults"), EDITS)
def test_edits(line: str, faults: set[str]) -> None:
    assert edited("x.py", f"def f():\n    {line}\n") == faults


@pytest.mark.parametrize("source", HARMLESS)
def test_harmless(source: str) -> None:
    assert edited("x.py", source) == set()


@pytest.mark.parametrize(("line", "faults"), CYTHON_EDITS)
def test_cython_edits(line: str, faults: set[str]) -> None:
    assert edited("x.pxi", f"cdef int f(int a) except -1:\n    {line}\n") == faults


def test_cython_docstrings_are_left_alone() -> None:
    assert edited("x.pyx", '"""a < b\n    a < b\n"""\ncdef int f():\n    """a < b."""\n    g(a)\n') == set()


def test_a_fault_knows_its_place() -> None:
    source = "class A:\n    def f(self):\n        # é\n        return self.a  <  (\n            1)\n".encode()
    comparison, constant = find_faults("a/x.py", source)
    assert comparison == Fault(
        "a/x.py", "A.f", 4, "operators", "comparison", source.index(b"<"), source.index(b"<") + 1, "<="
    )
    assert diff(source, constant) == ["-            1)", "+            2)"]
    assert diff(b"1", Fault("x.py", "<module>", 1, "operators", "constant", 0, 1, "2")) == ["-1", "+2"]
    assert plant(source, comparison) == source.replace(b"<", b"<=")


@pytest.mark.thorough
def test_each_fault_of_a_real_source_parses_and_is_another_program() -> None:
    path = "sdk/protocol/connection.py"
    source = (ROOT / path).read_bytes()
    faults = find_faults(path, source)
    planted = {ast.unparse(ast.parse(plant(source, fault))) for fault in faults}
    assert len(faults) > 50
    assert len(planted) == len(faults)
    assert ast.unparse(ast.parse(source)) not in planted


def test_each_kind_is_found_in_the_cython_sources() -> None:
    found = {
        fault.edit
        for source in ROOT.glob("sdk/*/engines/*.p[xy]*")
        if source.suffix in (".pyx", ".pxi")
        for fault in find_faults(source.relative_to(ROOT).as_posix(), source.read_bytes())
    }
    assert found == {"constant", "condition", "dropped statement", "operator"}
