"""Connections leave enough file descriptors for files.

Method: use counts set by the test, and this process's own counts.
"""

from __future__ import annotations

import os
import resource

import pytest

from kafkawire.reference_broker.network.descriptors import Descriptors, open_descriptors
from kafkawire.reference_broker.storage.disk.reserves import few_connections


class Bench:
    """A process with a limit of 100 descriptors; the test sets the number of open ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int = 100) -> None:
        monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))
        self.now_ms = 1_000_000
        self.open: int | None = 50
        self.counts = 0
        self.connections = 20
        self.descriptors = Descriptors(lambda: self.now_ms, self._count)

    def _count(self) -> int | None:
        self.counts += 1
        return self.open

    def accept(self) -> str:
        assert self.open is not None
        self.open += 1
        if reason := self.descriptors.refusal(self.connections):
            self.open -= 1
        return reason


def test_connections_stop_before_the_reserve_and_go_on_when_there_is_room(monkeypatch):
    bench = Bench(monkeypatch)
    reasons = [bench.accept() for _ in range(40)]
    assert [not reason for reason in reasons] == [True] * 25 + [False] * 15
    assert reasons[-1] == "76 of 100 file descriptors are open, and 25 are reserved for files (ulimit -n)"
    assert bench.counts < 10, "a refusal does not need a new count"
    assert bench.open == 75
    bench.open = 60
    bench.now_ms += 100
    assert bench.accept() == ""


def test_files_that_were_opened_since_are_counted(monkeypatch):
    bench = Bench(monkeypatch)
    assert bench.accept() == ""
    bench.open = 90
    bench.now_ms += 100
    assert bench.accept() != ""
    bench.now_ms -= 5_000  # the clock was set back
    bench.open = 50
    assert bench.accept() == ""


def test_files_that_are_opened_at_this_moment_take_half_of_the_room_at_most(monkeypatch):
    bench = Bench(monkeypatch)
    assert bench.accept() == ""
    bench.open = 90
    refused = [bool(bench.accept()) for _ in range(13)]
    assert refused == [False] * 12 + [True]


def test_count_is_good_for_a_moment(monkeypatch):
    bench = Bench(monkeypatch)
    for later_ms, counts in ((0, 1), (99, 1), (1, 2)):
        bench.now_ms += later_ms
        bench.accept()
        assert bench.counts == counts, later_ms


def test_the_first_connections_come_whatever_files_are_open(monkeypatch):
    bench = Bench(monkeypatch)
    bench.open, taken = 88, []
    for bench.connections in range(8):
        taken.append(not bench.accept())
    assert taken == [True] * few_connections(100) + [False] * 2
    assert bench.open < 100


def test_there_may_be_no_limit_or_nobody_knows(monkeypatch):
    unlimited = Bench(monkeypatch, resource.RLIM_INFINITY)
    assert not any(unlimited.accept() for _ in range(100))
    silent = Bench(monkeypatch)
    silent.open = None
    assert silent.descriptors.refusal(20) == ""


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_open_descriptors_of_this_process(monkeypatch):
    before = open_descriptors()
    assert before is not None
    assert before == sum(map(is_open, range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])))
    descriptor = os.dup(0)
    assert open_descriptors() == before + 1
    os.close(descriptor)

    monkeypatch.setattr("kafkawire.reference_broker.network.descriptors._LISTING", "/nowhere")
    assert open_descriptors() is None


def test_last_descriptor_leaves_none_for_the_listing():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(next_descriptor := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_descriptor, hard))
    try:
        assert open_descriptors() == next_descriptor
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
