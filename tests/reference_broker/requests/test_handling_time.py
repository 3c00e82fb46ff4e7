"""Time is charged to a request while the broker works on it, and only once.

Method: use a clock that the test sets.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.handling_time import HandlingTime


def test_it_counts_what_is_spent() -> None:
    now = [1_000_000]
    time = HandlingTime(lambda: now[0])
    now[0] += 20_000_000
    assert time.take_percent() == 2.0
    assert time.take_percent() == 0.0
    now[0] += 5_000_000
    time.pause()
    now[0] += 10**12
    assert time.take_percent() == 0.5
    time.pause()
    time.resume()
    time.resume()
    now[0] += 10_000_000
    assert time.take_percent() == 1.0
