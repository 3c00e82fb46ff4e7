"""The application's function receives the metrics at each interval and at the end, and cannot break anything.

Method: run the state machine alone, then a whole client on the caller's event loop or on a thread's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.metrics_report import MetricsReport
from kafkawire.sdk.client.options import ProducerOptions, read_options
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.metrics.registry import Registry
from tests.sdk.scripted_broker import BROKER, ScriptedBroker


def test_the_times() -> None:
    registry = Registry("producer")
    registry.gauge("producer-metrics", "requests-in-flight", lambda now_ms: now_ms)
    seen: list[float] = []
    report = MetricsReport(registry, lambda metrics: seen.extend(metrics.values()), 1_000)
    for now_ms in (500, 1_499, 1_500, 1_501, 2_500):
        report.poll(now_ms)
    assert report.due_ms(2_500) == 3_500
    report.fail(Closed("the end"), 2_700)
    assert seen == [1_500, 2_500, 2_700]


@pytest.mark.parametrize("raised", [ValueError("mine"), asyncio.CancelledError()])
def test_one_that_raises(raised: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail(metrics: Mapping[MetricName, float]) -> None:
        raise raised

    report = MetricsReport(Registry("producer"), fail, 1_000)
    for now_ms in range(0, 5_000, 500):
        report.poll(now_ms)
    assert caplog.messages == [f"the metrics_reporter raised {raised!r}"]


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_whole_client(io: Any) -> None:
    async def run() -> None:
        seen: list[Mapping[MetricName, float]] = []
        options = read_options(ProducerOptions, str(BROKER), {"io": io, "metrics_reporter": seen.append})
        client = ClientCore("producer", options, ScriptedBroker().network)
        await client.start()
        await client.finish()
        assert seen[-1][MetricName("producer-metrics", "request-total")] >= 1

    asyncio.run(run())
