"""A path is accepted or refused as in ZooKeeper, and split into its parts."""

from __future__ import annotations

import pytest

from kafkawire.sdk.registry.paths import ancestors_of, child_path, parent_of, path_problem


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/b", "/a.b/..c/...", "/consumers/group\u00e9", "/with space", "/\u4e00", "/a\u00a0"]
)
def test_accepted(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "must begin with a slash"),
        ("a", "must begin with a slash"),
        ("/a/", "must not end with a slash"),
        ("//", "must not end with a slash"),
        ("/a//b", "must not contain empty names"),
        ("/a/./b", r"must not contain the relative name '\.'"),
        ("/a/..", r"must not contain the relative name '\.\.'"),
        ("/a\0", r"character '\\x00'"),
        ("/a\n", r"character '\\n'"),
        ("/a\u007f", "character"),
        ("/a\u009f", "character"),
        ("/a\ud800", "character"),
        ("/a\uf8ff", "character"),
        ("/a\ufff0", "character"),
    ],
)
def test_refused(path: str, problem: str) -> None:
    found = path_problem(path)
    assert found is not None
    with pytest.raises(ValueError, match=problem):
        raise ValueError(found)


def test_a_number_will_follow() -> None:
    assert path_problem("/a/", is_sequential=True) is None
    assert path_problem("/a//", is_sequential=True) is not None
    assert path_problem("/", is_sequential=True) is None


@pytest.mark.parametrize(
    ("path", "parent", "ancestors"),
    [("/a", "/", []), ("/a/b", "/a", ["/a"]), ("/a/b/c", "/a/b", ["/a", "/a/b"])],
)
def test_parts(path: str, parent: str, ancestors: list[str]) -> None:
    assert parent_of(path) == parent
    assert ancestors_of(path) == ancestors
    assert child_path(parent, path.rpartition("/")[2]) == path
