"""Acknowledgements reach the I/O side once, and wake it only if nothing else will.

Method: use a ledger, and count how many times it wakes the I/O side.
"""

from __future__ import annotations

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, Acquired, Ledger
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.routing.partitions import TopicIdPartition


def test_a_ledger() -> None:
    woken: list[int] = []
    ledger = Ledger(lambda: woken.append(1), lambda: 0, is_explicit=True)
    acquired = Acquired(TopicIdPartition(b"i" * 16, "t", 0), 1, 10, 30_000, 30_000, ledger)
    ledger.add_range(acquired, 3, 5)
    assert woken == [1]
    ledger.is_awaited = False
    ledger.add_range(acquired, 6, 6, AcknowledgeType.REJECT)
    assert woken == [1]
    ledger.add(Acknowledgement(acquired, 7, 7, AcknowledgeType.RENEW))
    assert woken == [1, 1], "a renewal does not wait"
    assert [(each.first, each.last, each.type, each.count) for each in ledger.given] == [
        (3, 5, ACKNOWLEDGE_GAP, 3),
        (6, 6, AcknowledgeType.REJECT, 1),
        (7, 7, AcknowledgeType.RENEW, 1),
    ]
    assert ledger.given[0].locked_until_ms == 30_000
    ledger.is_over = True
    ledger.add_range(acquired, 8, 8)
    assert len(ledger.given) == 3, "nobody will take it"
