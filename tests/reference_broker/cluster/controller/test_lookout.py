"""An error that concerns one node is logged; an error that concerns all nodes is raised.

Method: use an in-memory registry that refuses operations on one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each
from kafkawire.sdk.registry.registry import Check, Create, Data, RegistryCode, RegistryError, SetData, WatchEvent
from kafkawire.sdk.registry.steps import CheckFailed, Steps, run
from tests.reference_broker.cluster.controller.scripted_cluster import MemoryRegistry, Tree


class Bench:
    def __init__(self) -> None:
        self.registry = MemoryRegistry(Tree())
        for path in ("/a", "/a/b", "/c"):
            self.registry.tree.change(Create(path, b"1"), 0)
        self.watched: list[WatchEvent] = []
        self.later: list[str] = []
        self.lookout = Lookout(self.watched.append, self.later.append)

    def refuse(self, path: str, code: RegistryCode) -> None:
        self.registry.error_of = lambda operation: code if getattr(operation, "path", "") == path else None

    def do(self, steps: Steps[Any]) -> Any:
        results: list[Any] = []
        errors: list[Exception] = []
        run(self.registry, steps, results.append, errors.append)
        self.registry.tree.settle()
        for error in errors:
            raise error
        return results[0]


READS: list[tuple[str, Callable[[Lookout, str], Steps[Any]]]] = [
    ("names", lambda lookout, path: lookout.names(path)),
    ("stat", lambda lookout, path: lookout.stat(path)),
    ("read_each", lambda lookout, path: lookout.read_each((path,))),
]


@pytest.mark.parametrize("read", [each[1] for each in READS], ids=[each[0] for each in READS])
class TestReads:
    def test_a_refused_read_is_repeated_later(self, read: Callable[[Lookout, str], Steps[Any]]) -> None:
        bench = Bench()
        bench.refuse("/a", RegistryCode.NO_AUTH)
        result = bench.do(read(bench.lookout, "/a"))
        assert result is None or isinstance(result[0], RegistryError)
        assert bench.later == ["/a"]

    def test_the_end_of_the_session_is_raised(self, read: Callable[[Lookout, str], Steps[Any]]) -> None:
        bench = Bench()
        bench.refuse("/a", RegistryCode.SESSION_EXPIRED)
        with pytest.raises(RegistryError):
            bench.do(read(bench.lookout, "/a"))

    def test_a_node_that_does_not_exist(self, read: Callable[[Lookout, str], Steps[Any]]) -> None:
        bench = Bench()
        assert bench.do(read(bench.lookout, "/x")) in (None, (), [None])
        assert not bench.later


def test_what_was_read_is_watched() -> None:
    bench = Bench()
    assert bench.do(bench.lookout.names("/a")) == ("b",)
    (data,) = bench.do(bench.lookout.read_each(("/c",)))
    assert isinstance(data, Data)
    bench.registry.tree.change(Create("/a/d"), 0)
    bench.registry.tree.change(SetData("/c", b""), 0)
    bench.registry.tree.settle()
    assert [each.path for each in bench.watched] == ["/a", "/c"]


#: The node whose deletion is refused, the error, whether all nodes are gone, and the remaining nodes.
DELETIONS = [
    ("", RegistryCode.NO_AUTH, True, []),
    ("/c", RegistryCode.NO_AUTH, False, ["/c"]),
    ("/a/b", RegistryCode.NOT_EMPTY, False, ["/a", "/a/b"]),
]


@pytest.mark.parametrize(("path", "code", "are_gone", "rest"), DELETIONS)
def test_deletions(path: str, code: RegistryCode, are_gone: bool, rest: list[str]) -> None:
    bench = Bench()
    bench.refuse(path, code)
    assert bench.do(delete_each(Check("/", 0), ("/a/b", "/a", "/x", "/c"))) is are_gone
    assert sorted(bench.registry.tree.nodes) == ["/", *rest]


def test_another_controller_ends_deletions() -> None:
    bench = Bench()
    with pytest.raises(CheckFailed):
        bench.do(delete_each(Check("/", 7), ("/c",)))
