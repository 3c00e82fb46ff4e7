"""While a test has frozen time, the timers of kafkawire's own threads fire and its clocks advance.

Method: as in freezegun, replace the functions of `time` in every module that has them with functions that always return
the same time.
"""

from __future__ import annotations

import sys
import time
from types import BuiltinFunctionType, ModuleType

import pytest

from kafkawire import sync
from kafkawire.sdk.clock import monotonic_ms, monotonic_ns, monotonic_seconds, now_ms
from kafkawire.sdk.transport.own_loop import own_loop
from kafkawire.testing import Broker

#: The result of each function while time is frozen: 2001-09-09, and a monotonic clock that has jumped to it.
FROZEN: dict[str, float] = {
    "time": 1e9,
    "time_ns": 10**18,
    "monotonic": 1e9,
    "monotonic_ns": 10**18,
    "perf_counter": 1e9,
    "perf_counter_ns": 10**18,
}


def freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    originals = {getattr(time, name): value for name, value in FROZEN.items()}
    for module in list(sys.modules.values()):
        # Modules that wait for threads keep the real time, as with freezegun.
        if not isinstance(module, ModuleType) or module.__name__ in {"threading", "queue"}:
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, BuiltinFunctionType) and value in originals:
                monkeypatch.setattr(module, name, lambda value=originals[value]: value)
    assert time.time() == FROZEN["time"]


def test_the_clocks_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    freeze(monkeypatch)
    loop = own_loop()
    began_ms, began_ns, began, loop_began = monotonic_ms(), monotonic_ns(), monotonic_seconds(), loop.time()
    loop.call_later(0.002, loop.stop)
    loop.run_forever()  # this ends because the timer fires
    assert monotonic_ms() > began_ms
    assert monotonic_ns() > began_ns
    assert monotonic_seconds() > began
    assert loop.time() > loop_began
    assert now_ms() > 1_700_000_000_000
    loop.close()


def test_a_loop_with_a_clock_of_its_own_is_left_alone() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = own_loop(uvloop.new_event_loop)
    assert type(loop).__module__ == "uvloop"
    loop.close()


def test_blocking_clients_and_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lingering, the waiting time of fetches, and group heartbeats need timers on both sides."""
    freeze(monkeypatch)
    with Broker(ephemeral=True) as broker:
        with sync.Producer(broker.bootstrap, linger_ms=1) as producer:
            stored = producer.send("orders", b"order").result(timeout_ms=30_000)
        with sync.Consumer(broker.bootstrap, "orders", group_id="tests", auto_offset_reset="earliest") as consumer:
            assert [len(records) for records in consumer.getmany(timeout_ms=30_000).values()] == [1]
            assert consumer.getmany(timeout_ms=1) == {}
    assert stored.timestamp_ms > 1_700_000_000_000


def test_a_client_that_was_started_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadlines of the client's records do not pass when the time jumps by decades."""
    with Broker(ephemeral=True) as broker, sync.Producer(broker.bootstrap) as producer:
        assert producer.send("orders", b"before").result(timeout_ms=30_000).offset == 0
        freeze(monkeypatch)
        assert producer.send("orders", b"after").result(timeout_ms=30_000).offset == 1
