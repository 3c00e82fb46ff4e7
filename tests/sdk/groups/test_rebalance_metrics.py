"""Members of either protocol count their rebalances, and measure how long they take.

Method: proceed as in `test_classic_group.py` and `test_consumer_group.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.groups.rebalance_metrics import RebalanceMetrics
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.groups.members import Cluster, Member, refusal


def read(registry: Registry, now_ms: int) -> dict[str, float]:
    return {name.name: value for name, value in registry.read(now_ms).items()}


def of(member: Member) -> dict[str, float]:
    """Return a member's metrics, keyed by name."""
    return read(member.router.metrics, member.now_ms)


def test_one_with_two_attempts() -> None:
    registry = Registry("consumer")
    rebalances = RebalanceMetrics(registry)
    rebalances.ended(500)
    rebalances.failed(500)
    assert read(registry, 500)["last-rebalance-seconds-ago"] == -1
    rebalances.begun(1_000)
    rebalances.failed(1_500)
    rebalances.begun(2_000)
    rebalances.ended(3_000)
    found = read(registry, 5_000)
    assert (found["rebalance-total"], found["failed-rebalance-total"], found["rebalance-latency-max"]) == (1, 1, 2_000)
    assert found["last-rebalance-seconds-ago"] == 2


@pytest.mark.parametrize("group", [Cluster.of_classic, Cluster.of_consumers])
def test_members(group: Callable[[], Cluster]) -> None:
    cluster = group()
    first = cluster.member("a")
    cluster.settle(first)
    assert of(first)["rebalance-total"] == 1
    second = cluster.member("b")
    cluster.settle(first, second)
    found = of(first)
    assert (found["rebalance-total"], found["failed-rebalance-total"]) == (2, 0)
    assert 0 < found["rebalance-latency-max"] < 5_000
    assert 0 < found["last-rebalance-seconds-ago"] < 10


def test_one_that_is_refused() -> None:
    cluster = Cluster.of_classic()
    codes = [ErrorCode.GROUP_MAX_SIZE_REACHED]
    cluster.fault = lambda node, request: (
        refusal(request, codes.pop()) if codes and type(request).__name__ == "JoinGroupRequest" else None
    )
    member = cluster.member("a")
    cluster.run(3_000)
    assert (of(member)["failed-rebalance-total"], of(member)["rebalance-total"]) == (1, 0)
