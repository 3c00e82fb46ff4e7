"""Parts are complete when all are there, in their order.

Method: parts put in by hand.
"""

from __future__ import annotations

from kafkawire.reference_broker.gathering import Gathering


def test_parts_come_in_any_order():
    found = []
    parts = Gathering[str](3, found.append)
    parts.put(2, "c")
    parts.put(0, "a")
    assert not found
    parts.put(1, "b")
    assert found == [["a", "b", "c"]]


def test_nothing_to_wait_for():
    found = []
    Gathering[str](0, found.append)
    assert found == [[]]
