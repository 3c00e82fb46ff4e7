"""The controller is told about failed logs, once for logs that fail together, and again for later failures.

Method: use the embedded registry, and a timer that the test fires.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.cluster.embedded_registry import Fault
from kafkawire.reference_broker.cluster.log_failures import BURST_MS, LogFailures
from kafkawire.sdk.protocol.tables.znodes import LOG_DIR_EVENT, LogDirEvent
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at


class Bench(ClusterBench):
    """Broker 3, whose logs fail."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.failures = LogFailures(self.one, 3, self.later)

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        self.timers.append((delay_ms, action))
        return self.timers.clear

    def fire(self) -> None:
        ((delay_ms, action),) = self.timers
        assert delay_ms == BURST_MS
        self.timers.clear()
        action()
        self.owner.run_all()

    def told(self) -> list[LogDirEvent]:
        paths = [LOG_DIR_EVENT.path(number) for number in range(3)]
        contents = [self.data(path) for path in paths]
        return [LOG_DIR_EVENT.decode(content.encode()) for content in contents if content is not None]


def test_failures_together_and_later() -> None:
    bench = Bench()
    for number in range(5):
        bench.failures.lost("t", number)
    bench.fire()
    assert bench.told() == [LogDirEvent(3)]
    bench.failures.lost("t", 9)
    bench.fire()
    assert bench.told() == [LogDirEvent(3)] * 2


def test_session_that_ends_meanwhile() -> None:
    bench = Bench()
    met = fault_at(bench, 1, Fault.EXPIRE_BEFORE)
    bench.failures.lost("t", 0)
    bench.fire()
    assert (len(met), bench.told()) == (1, [LogDirEvent(3)])


def test_nothing_is_told_after_the_end() -> None:
    bench = Bench()
    bench.failures.lost("t", 0)
    bench.failures.close()
    assert not bench.timers, "the timer is cancelled"
    bench.failures.lost("t", 1)
    assert not bench.timers
