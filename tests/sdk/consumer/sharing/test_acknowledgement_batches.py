"""Acknowledgements are written in the batches that Apache Kafka's share consumer sends.

Method: check a table of acknowledgements and batches; expand the batches of random acknowledgements again.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.consumer.sharing.acknowledgement_batches import AcknowledgementRange, acknowledgement_batches
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType

GAP, ACCEPT, RELEASE, REJECT = ACKNOWLEDGE_GAP, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Given:
    def __init__(self, first: int, last: int, type: int) -> None:
        self.first, self.last, self.type = first, last, type


@pytest.mark.parametrize(
    ("acknowledged", "batches"),
    [
        ([], []),
        ([(5, 5, ACCEPT)], [(5, 5, (ACCEPT,))]),
        ([(1, 1, ACCEPT), (0, 0, ACCEPT), (2, 4, ACCEPT)], [(0, 4, (ACCEPT,))]),
        ([(0, 0, ACCEPT), (1, 1, RELEASE)], [(0, 1, (ACCEPT, RELEASE))]),
        ([(0, 0, ACCEPT), (2, 2, ACCEPT)], [(0, 0, (ACCEPT,)), (2, 2, (ACCEPT,))]),
        ([(0, 9, ACCEPT), (10, 10, GAP)], [(0, 10, (*[ACCEPT] * 10, GAP))]),
        ([(0, 10, ACCEPT), (11, 11, GAP)], [(0, 10, (ACCEPT,)), (11, 11, (GAP,))]),
        (
            [(0, 0, REJECT), (1, 12, ACCEPT), (13, 13, RELEASE), (14, 14, GAP)],
            [(0, 0, (REJECT,)), (1, 12, (ACCEPT,)), (13, 14, (RELEASE, GAP))],
        ),
        ([(0, 2**62, GAP)], [(0, 2**62, (GAP,))]),
    ],
)
def test_batches(acknowledged: list[tuple[int, int, int]], batches: list[tuple[int, int, tuple[int, ...]]]) -> None:
    assert acknowledgement_batches(Given(*each) for each in acknowledged) == batches


@given(st.dictionaries(st.integers(0, 60), st.sampled_from([GAP, ACCEPT, RELEASE, REJECT])))
def test_every_offset_keeps_its_type(types: dict[int, int]) -> None:
    found: list[tuple[int, int]] = []
    batches = acknowledgement_batches(Given(offset, offset, type) for offset, type in types.items())
    for first, last, written in batches:
        count = last - first + 1
        assert len(written) in (1, count)
        assert len(written) == 1 or len(set(written)) > 1, "one type is enough"
        found += zip(range(first, last + 1), written * count if len(written) == 1 else written, strict=True)
    assert found == sorted(types.items()), "in order, without gaps or overlaps"
    assert all(isinstance(batch, AcknowledgementRange) for batch in batches)
