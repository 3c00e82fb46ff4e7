"""`serve` runs with adjusted interpreter settings until a signal arrives, and restores the process afterwards.

Method: run `serve` in this process, which sends itself the signal once clients can connect.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.reference_broker.process import serve
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.raw_client import TIMEOUT_SECONDS

ANYWHERE = Address("127.0.0.1", 0)


@pytest.fixture(autouse=True)
def hangup_ends_a_process() -> Iterator[None]:
    """This is needed because the tests may run under `nohup`, which ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_it_runs_until_a_signal(tmp_path: Path) -> None:
    found = []
    before, interval = signal.getsignal(signal.SIGTERM), sys.getswitchinterval()

    def started(broker: Broker) -> None:
        found.append(broker.bootstrap)
        assert sys.getswitchinterval() < interval, "threads switch quickly while it runs"
        os.kill(os.getpid(), signal.SIGTERM)

    serve(ANYWHERE, tmp_path, {"num.partitions": "2"}, started)
    assert signal.getsignal(signal.SIGTERM) is before
    assert sys.getswitchinterval() == interval
    (bootstrap,) = found
    host, _, port = bootstrap.rpartition(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), TIMEOUT_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_any_signal_all_end_the_process_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers: list[object] = []
    stop = Broker.stop

    async def observed(broker: Broker) -> None:
        handlers.extend(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
        await stop(broker)

    monkeypatch.setattr(Broker, "stop", observed)
    serve(ANYWHERE, tmp_path, {}, lambda broker: os.kill(os.getpid(), number))
    assert handlers == [signal.SIG_DFL] * 3
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_signal_gives_a_start_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def wait(broker: Broker) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(signal.getsignal(signal.SIGTERM))

    monkeypatch.setattr(Broker, "start", wait)
    serve(ANYWHERE, tmp_path, {}, lambda broker: ended.append("started"))
    assert ended == [signal.SIG_DFL], "a second signal ends the process"


def test_a_second_signal_does_not_wait_for_the_event_loop(tmp_path: Path) -> None:
    def busy(broker: Broker) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    serve(ANYWHERE, tmp_path, {}, busy)


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def started(broker: Broker) -> None:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)

    serve(ANYWHERE, tmp_path, {}, started)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("collects", [True, False])
def test_collections_pass_over_what_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collects: bool) -> None:
    seen = []
    start = Broker.start

    async def observed(broker: Broker) -> None:
        seen.append(gc.isenabled())
        await start(broker)

    def started(broker: Broker) -> None:
        seen.append(gc.isenabled())
        assert not any(found is broker or found is broker.core for found in gc.get_objects()), (
            "both processes are frozen"
        )
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Broker, "start", observed)
    if not collects:
        gc.disable()
    try:
        serve(ANYWHERE, tmp_path, {}, started)
        assert (seen, gc.isenabled()) == ([False, collects], collects)
    finally:
        gc.enable()
    assert gc.get_freeze_count() == 0


def test_a_start_that_fails_leaves_the_process_as_it_was() -> None:
    interval = sys.getswitchinterval()
    with pytest.raises(OSError, match="Cannot assign requested address"):
        serve(Address("192.0.2.1", 0), None, {})
    assert (gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval()) == (True, 0, interval)


class Exited(Exception):
    """Stands in for the end of the process."""


def test_a_disk_that_hangs_does_not_keep_the_process_whose_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, may_end = MemoryDisk(), threading.Event()

    def hang(call: DiskCall) -> None:
        may_end.wait(TIMEOUT_SECONDS)

    def started(broker: Broker) -> None:
        disk.plan = hang
        os.kill(os.getpid(), signal.SIGTERM)

    def end(status: int) -> None:
        may_end.set()
        raise Exited(status)

    monkeypatch.setattr("kafkawire.reference_broker.server._LAST_SYNC_SECONDS", 0)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Exited) as ended:
        serve(ANYWHERE, disk, {}, started)
    assert ended.value.args == (1,)


def test_limit_of_open_files_that_may_not_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr("resource.setrlimit", refuse)
    serve(ANYWHERE, tmp_path, {}, lambda broker: os.kill(os.getpid(), signal.SIGTERM))
    assert (tmp_path / ".kafka_cleanshutdown").exists()
