"""Keep a thread busy, for tests of what other threads do meanwhile."""

from __future__ import annotations

from kafkawire.sdk.clock import monotonic_ns

__all__ = ["spin_ms"]


def spin_ms(duration_ms: int) -> None:
    """Keep this thread busy for at least this long."""
    end_ns = monotonic_ns() + duration_ms * 1_000_000
    while monotonic_ns() < end_ns:
        pass
