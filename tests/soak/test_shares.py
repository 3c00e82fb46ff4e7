"""The soak test finds records that are lost, or delivered or acknowledged too often, and what the protocol allows.

Method: judge what members could have written down; run the whole soak on a small scale.
"""

from __future__ import annotations

import pytest

from tools.soak import shares
from tools.soak.share_member import Event
from tools.soak.shares import DELIVERIES_MAX, LATE_SECONDS, Entry, Restart, judged

#: A restart that is so long after the first entries that these cannot be about a later life of the broker.
RESTART = Restart(100.0, 101.0)
LATER = RESTART.up + LATE_SECONDS + 1


def entry(event: Event, count: int, at: float, offset: int = 0) -> Entry:
    return Entry(0, offset, event, count, at)


GOOD = [entry(Event.DELIVERED, 1, 1.0), entry(Event.ACCEPTED, 1, 1.1), entry(Event.ENDED, 1, 1.2)]


@pytest.mark.parametrize(
    ("entries", "count", "fault"),
    [
        (GOOD, "acknowledged once", None),
        (GOOD[:2], "acknowledged, without an answer", None),
        ([entry(Event.DELIVERED, number + 1, 1.0 + number) for number in range(DELIVERIES_MAX)], "given up", None),
        ([entry(Event.DELIVERED, 1, 1.0), entry(Event.RELEASED, 1, 1.1)], None, "lost"),
        ([], None, "lost"),
        ([*GOOD, entry(Event.ENDED, 1, 2.0)], "acknowledged once", "acknowledged twice"),
        ([*GOOD, entry(Event.DELIVERED, 2, 2.0)], "acknowledged once", "delivered after the end"),
        # A member that was stopped accepts after another one has.
        (
            [entry(Event.DELIVERED, 2, 0.5), entry(Event.ACCEPTED, 2, 0.6), entry(Event.ENDED, 2, 0.7), *GOOD],
            "acknowledged late",
            None,
        ),
        ([*GOOD, entry(Event.DELIVERED, DELIVERIES_MAX + 1, 0.5)], None, "delivered beyond the limit"),
        ([*GOOD, entry(Event.DELIVERED, 1, 2.0)], "acknowledged once", "delivered with the same count"),
        ([entry(Event.DELIVERED, 1, 50.0), *(each._replace(at=LATER) for each in GOOD)], "acknowledged once", None),
        ([*GOOD, entry(Event.DELIVERED, 1, 0.5, offset=9)], None, "delivered, but never written"),
        # A lock has run out, but a crash came before that was stored, and the record had its first delivery again.
        ([entry(Event.DELIVERED, 2, 50.0), *(each._replace(at=LATER) for each in GOOD)], "acknowledged once", None),
        (
            [entry(Event.DELIVERED, 1, LATER), *(each._replace(at=LATER + 1) for each in GOOD)],
            "acknowledged once",
            "delivered with the same count",
        ),
    ],
)
def test_a_record_is_judged(entries: list[Entry], count: str | None, fault: str | None) -> None:
    counts, faults = judged(entries, {0: 1}, [RESTART])
    assert fault is None or faults[fault]
    assert fault is not None or not faults
    assert count is None or counts[count] == 1


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_members_crash(capsys: pytest.CaptureFixture[str]) -> None:
    assert shares.main(["--records", "50000", "--seconds", "60", "--seed", "3"]) == 0
    shown = capsys.readouterr().out
    assert "each record ended once" in shown
    assert "brokers killed 1" in shown
