"""A burst may overdraw the bucket once; then changes are refused, or carried out and throttled in old versions.

Method: take permits at given times; the numbers are those of Kafka's `ControllerMutationQuotaManagerTest`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.quotas.client_quota import Client
from kafkawire.reference_broker.security.quotas.mutations import MutationQuota, Permits
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

ALICE = Client("alice", "app")


class Bench:
    """A quota of ten per second over ten seconds, and a clock."""

    def __init__(self, limit: float | None = 10) -> None:
        self.now_ms = 0
        self.quota = MutationQuota(Window(10, 1_000))
        self.quota.limits.set_limit("alice", None, limit)

    def permits(self, *, is_strict: bool) -> Permits:
        return self.quota.permits(ALICE, lambda: self.now_ms, is_strict=is_strict)


def test_strict() -> None:
    bench = Bench()
    first = bench.permits(is_strict=True)
    first.take(90)
    first.take(10)
    first.take(10)  # the bucket is empty, but lacks nothing yet
    assert first.throttle_ms(0) == 0
    with pytest.raises(BrokerError) as refused:
        first.take(90)
    assert (refused.value.code, refused.value.detail) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")
    assert (first.throttle_ms(0), first.throttle_ms(400), first.throttle_ms(2_000)) == (1_000, 600, 0)
    bench.now_ms = 1_000
    again = bench.permits(is_strict=True)
    again.take(90)
    assert again.throttle_ms(1_000) == 0


def test_permissive() -> None:
    bench = Bench()
    permits = bench.permits(is_strict=False)
    permits.take(90)
    assert permits.throttle_ms(0) == 0
    permits.take(20)
    assert permits.throttle_ms(0) == 1_000
    permits.take(90)
    assert permits.throttle_ms(0) == 10_000
    assert permits.throttle_ms(4_000) == 6_000


def test_without_a_limit() -> None:
    for limit in (None, 10):
        bench = Bench(limit)
        permits = bench.quota.permits(Client("bob", "app"), lambda: 0, is_strict=True)
        for _ in range(5):
            permits.take(10_000)
        assert permits.throttle_ms(0) == 0


def test_a_limit_that_changes() -> None:
    bench = Bench()
    bench.permits(is_strict=False).take(150)
    bench.quota.limits.set_limit("alice", None, 50)
    permits = bench.permits(is_strict=False)
    permits.take(0)
    assert permits.throttle_ms(0) == 1_000
    bench.quota.limits.set_limit("alice", None, None)
    bench.quota.limits.set_limit("alice", None, 10)
    permits = bench.permits(is_strict=False)
    permits.take(100)
    assert permits.throttle_ms(0) == 15_000, "what has been overdrawn before is still lacking"
