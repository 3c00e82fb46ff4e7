"""The time without a read is counted from the last record, and is not counted while a read waits."""

from __future__ import annotations

import pytest

from kafkawire.sdk.groups.poll_interval import PollInterval
from kafkawire.sdk.groups.protocol import GroupSettings
from tests.sdk.groups.readers import MemoryReader


def test_it_counts_from_the_last_record() -> None:
    reader = MemoryReader()
    interval = PollInterval(reader, GroupSettings("g", max_poll_interval_ms=5_000))
    assert (interval.due_ms(), interval.has_passed(10**9)) == (None, False)
    reader.last_handed_out_ms = 1_000
    assert (interval.due_ms(), interval.has_passed(5_999), interval.has_passed(6_000)) == (6_000, False, True)
    reader.last_handed_out_ms = 2_000
    assert not interval.has_passed(6_000)


def test_it_is_logged_with_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    interval = PollInterval(MemoryReader(), GroupSettings("orders", max_poll_interval_ms=5_000))
    assert "max_poll_interval_ms=5000" in str(interval.error())
    assert "group orders: no record was read for max_poll_interval_ms=5000" in caplog.text
