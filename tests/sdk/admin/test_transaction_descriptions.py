"""Values about transactions are plain: they can be compared, sorted and pickled, and their fields have names.

Method: make, compare and pickle them.
"""

from __future__ import annotations

import pickle

from kafkawire import ActiveProducer, HangingTransaction, TopicPartition, TransactionListing


def test_values() -> None:
    first, second = TransactionListing("a", 9, "Ongoing", 2), TransactionListing("b", 1, "Empty", 1)
    assert sorted([second, first]) == [first, second]
    producer = ActiveProducer(1, 2, 3, 4, None, 5)
    hanging = HangingTransaction(TopicPartition("t", 0), producer)
    assert pickle.loads(pickle.dumps(hanging)) == hanging
    assert hanging.producer._asdict() == {
        "producer_id": 1,
        "producer_epoch": 2,
        "last_sequence": 3,
        "last_timestamp_ms": 4,
        "coordinator_epoch": None,
        "transaction_start_offset": 5,
    }
