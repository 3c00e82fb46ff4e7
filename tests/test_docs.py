"""The paths, modules, classes and tests named in the documentation exist.

Method: look up in the tree every code span and import in the Markdown pages, and every code span in a source that gives
the path of a folder, a page or another source. `tools/tidy.py` checks links, and `test_readme.py` runs the README's
program.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

#: Pages about this tree alone; other pages also name Java's classes and those of other libraries.
NAMING_PAGES = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]

#: Folders with classes that pages may name.
CODE = ("sdk", "reference_broker", "codegen", "conformance", "src", "examples")

#: Folders that builds create.
BUILT = ("build/", "dist/", ".venv", "audit/")

#: Names that readers replace or write themselves, and files that a cluster keeps in its folder.
EXAMPLES = (
    "list_partition_reassignments.py",
    "ListPartitionReassignments",
    "kafkawire-X.Y.Z.tar.gz",
    "cluster.json",
    "logs/",
    "broker-ID/",
    "zookeeper/",
)

_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?!(?:\.\w+)+$)[\w.-]+(/[\w.-]+)*/?")
_SUFFIX = re.compile(r"\.(py|pyx|pxd|pxi|md|yaml|svg|toml|json|gz|java|sh|html)$")
_TEST = re.compile(r"((?:[\w-]+/)*test_\w+\.py)::(test_\w+)")
_CLASS = re.compile(r"[A-Z][a-z]\w*(\.\w+)?")
#: A path in a docstring or a comment; other spans in these name files that programs write, or other projects' files.
_PATH_IN_SOURCE = re.compile(r"`((?:[\w-]+/)*(?:[\w-]+/|[\w-]+\.(?:py|pyx|pxd|pxi|md|yaml|toml|sh)))`")
_LISTED = re.compile(r"^\| (\d+) \| \[(.*)\]\((.*)\) \|", re.MULTILINE)
_IMPORT = re.compile(r"from (kafkawire[\w.]*) import ([\w, ]+)")


@cache
def files() -> frozenset[str]:
    """Return the paths of the tree's files and folders, relative to its root."""
    found: set[str] = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in (".git", "build", "dist") and not name.startswith(".venv")
        ]
        found |= {(Path(folder) / name).relative_to(ROOT).as_posix() for name in (*folders, *names)}
    return frozenset(found)


@cache
def definitions() -> frozenset[str]:
    """Return the classes of the product, and `Class.member` for their methods and attributes."""
    names: set[str] = set()
    for path in files():
        if path.endswith(".py") and path.split("/")[0] in CODE:
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    members = {
                        each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                    }
                    names |= {node.name} | {f"{node.name}.{member}" for member in members}
    return frozenset(names)


def spans(page: Path) -> list[str]:
    """Return the code spans on a page, outside its code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return _SPAN.findall(text)


def is_missing_path(span: str) -> bool:
    """Return whether a code span is the path of a file or folder that does not exist."""
    if not _PATH.fullmatch(span) or not ("/" in span or _SUFFIX.search(span)) or span.startswith(BUILT):
        return False
    path = span.rstrip("/")
    return path not in files() and not any(known.endswith(f"/{path}") for known in files())


@cache
def functions_in(path: str) -> frozenset[str]:
    """Return the functions of a module below `tests/`; the set is empty if there is no such file."""
    file = ROOT / "tests" / path
    body = ast.parse(file.read_text("utf-8")).body if file.is_file() else []
    return frozenset(each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def missing_tests(named: list[str]) -> list[str]:
    """Return the code spans that name a nonexistent test."""
    found = [(span, _TEST.fullmatch(span)) for span in named if "::" in span]
    return [span for span, test in found if test is None or test[2] not in functions_in(test[1])]


def test_tests(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page):
            assert missing_tests(spans(page)) == []


def test_paths(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page):
            assert [span for span in spans(page) if span not in EXAMPLES and is_missing_path(span)] == []


def test_paths_in_sources() -> None:
    sources = [ROOT / path for path in files() if path.endswith((".py", ".pyx", ".pxd", ".pxi"))]
    assert [
        f"{source.relative_to(ROOT)}: {path}"
        for source in sources
        for path in _PATH_IN_SOURCE.findall(source.read_text("utf-8"))
        if is_missing_path(path)
    ] == []


def test_decisions_are_listed() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = [page.read_text("utf-8").splitlines()[0].removeprefix("# ").split(". ", 1) for page in pages]
    listed = _LISTED.findall((ROOT / "docs" / "decisions" / "README.md").read_text("utf-8"))
    assert sorted(listed, key=lambda row: int(row[0])) == [
        (number, title, page.name) for page, (number, title) in zip(pages, titles, strict=True)
    ]


def test_imports(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page=page):
            for module, names in _IMPORT.findall(page.read_text("utf-8")):
                for name in re.findall(r"\w+", names):
                    # A module is an attribute of its package only after it has been imported.
                    is_there = hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
                    assert is_there, f"{module} has no {name}"


@pytest.mark.parametrize("page", NAMING_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_classes(page: Path) -> None:
    named = [span for span in spans(page) if _CLASS.fullmatch(span) and span not in EXAMPLES]
    assert [span for span in named if span not in definitions()] == []


def test_what_is_not_there_is_noticed() -> None:
    assert is_missing_path("sdk/protocol/nowhere.py")
    assert is_missing_path("nowhere.py")
    assert not is_missing_path("sdk/protocol/connection.py")
    assert not is_missing_path("segments/segment.py")
    assert missing_tests(["test_docs.py::test_tests"]) == []
    wrong = ["test_docs.py::test_nothing", "test_docs.py::missing_tests()", "sdk/test_docs.py::test_tests"]
    assert missing_tests(wrong) == wrong
    assert "Connection" not in definitions()
    assert {"ClientConnection.request", "Producer.send"} <= definitions()
