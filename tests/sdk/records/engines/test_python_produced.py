"""Both engines find the same problems in produced records, even if time differences overflow.

Method: check records of every shape, whole and damaged, and times at the limits of their range, computed by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records.engines import python_produced
from kafkawire.sdk.records.engines import selection as engines
from tests.sdk.records.conftest import ROWS, batch_of

ENGINES = [python_produced, *([engines.built] if engines.built is not None else [])]
LOWEST, HIGHEST = -(2**63), 2**63 - 1

PAYLOAD = batch_of()[BATCH_HEADER_BYTES:]
COUNT = len(ROWS)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("header", "arguments", "expected"),
    [
        ((1000, None, COUNT), (False, None, 9), (1005, True, [])),
        ((1000, 77, COUNT), (False, None, 9), (77, True, [])),
        ((-5000, None, COUNT), (False, None, 9), (-1, True, [])),
        ((1000, None, COUNT), (True, None, 9), (1005, True, [0])),
        ((1000, None, COUNT), (False, (1001, 1, 3), 9), (1005, True, [1, 2])),
        ((1000, None, COUNT), (True, (1001, 1, 3), 9), (1005, True, [0, 1, 2])),
        ((1000, None, COUNT), (True, (1001, 1, 3), 2), (1005, True, [0, 1])),
        ((1000, None, COUNT - 1), (False, None, 9), None),
        ((1000, None, COUNT + 1), (False, None, 9), None),
        ((1000, None, 0), (False, None, 9), None),
        ((1000, None, -1), (False, None, 9), None),
        ((1000, None, 2**31 - 1), (False, None, 9), None),
    ],
)
def test_what_is_found(engine: Any, header: Any, arguments: Any, expected: Any) -> None:
    assert engine.scan_records(PAYLOAD, header, *arguments) == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("times", "timestamp", "is_allowed"),
    [
        ((0, HIGHEST, 0), LOWEST, True),
        ((1, HIGHEST, HIGHEST), LOWEST, True),
        ((1, HIGHEST, HIGHEST - 1), LOWEST, False),
        ((1, HIGHEST, HIGHEST - 1), LOWEST + 1, True),
        ((2, HIGHEST, HIGHEST - 1), LOWEST + 1, False),
        ((0, 0, HIGHEST), HIGHEST, True),
        ((0, HIGHEST, HIGHEST - 1), HIGHEST, False),
        ((0, 0, 0), -1, True),
        ((0, 1, 0), -2, False),
        ((0, 2, 0), -2, True),
    ],
)
def test_times_at_the_ends(engine: Any, times: Any, timestamp: int, is_allowed: bool) -> None:
    payload = batch_of([(0, None, None)])[BATCH_HEADER_BYTES:]
    _, _, bad = engine.scan_records(payload, (timestamp, None, 1), False, times, 1)
    assert bad == ([] if is_allowed else [0])
    assert python_produced.is_within(times, timestamp) == is_allowed
