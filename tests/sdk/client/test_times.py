"""A time means the same instant in every form; a value that does not name an instant is rejected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafkawire.sdk.client.times import to_ms
from kafkawire.sdk.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("time", "time_ms"),
    [
        (0, 0),
        (1_700_000_000_123, 1_700_000_000_123),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2023, 11, 14, 22, 13, 20, 123_999, tzinfo=UTC), 1_700_000_000_123),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), 1_700_000_000_000),
    ],
)
def test_times(time: int | datetime, time_ms: int) -> None:
    assert to_ms(time) == time_ms


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (datetime(2023, 11, 14), "time 2023-11-14 00:00:00: expected a time zone"),
        (-1, "time -1: expected 1970 or later"),
        (datetime(1969, 1, 1, tzinfo=UTC), "time 1969-01-01 00:00:00.00:00: expected 1970 or later"),
        (1 << 63, f"time {1 << 63}: expected at most {(1 << 63) - 1} ms"),
        pytest.param(10**5_000, "time a number of 16610 bits: expected at most", id="long"),
        pytest.param(-(10**5_000), "time a number of 16610 bits: expected 1970 or later", id="long ago"),
    ],
)
def test_what_names_no_time(time: int | datetime, message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        to_ms(time)
