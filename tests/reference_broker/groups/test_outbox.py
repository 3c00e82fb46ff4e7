"""An outbox passes on the records of a step exactly once, and reports the result to every writer.

Method: add records and callbacks directly.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.records import group_tombstone


def test_steps_are_apart():
    outbox, told = Outbox(), []
    first, second = group_tombstone("a"), group_tombstone("b")
    outbox.add(first, lambda error: told.append(("a", error)))
    outbox.add(second, lambda error: told.append(("b", error)))
    result = outbox.take(7)
    assert (result.reply, result.records) == (7, [first, second])
    assert result.committed is not None
    result.committed(None)
    assert told == [("a", None), ("b", None)]
    assert outbox.take(8)[:3] == (8, [], None)


def test_a_callback_that_fails_takes_no_other_with_it():
    outbox, told = Outbox(), []
    outbox.on_committed(lambda error: told.append(1))
    outbox.on_committed(lambda error: told[7])
    outbox.on_committed(lambda error: told.append(2))
    committed = outbox.take(None).committed
    assert committed is not None
    with pytest.raises(IndexError):
        committed(None)
    assert told == [1, 2]


def test_records_without_callbacks():
    outbox = Outbox()
    outbox.add(group_tombstone("a"))
    assert outbox.take(None).committed is None
