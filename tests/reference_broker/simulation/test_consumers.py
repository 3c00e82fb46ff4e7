"""Consumers in virtual time read committed records, and no aborted ones."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.consumers import values_of
from kafkawire.reference_broker.simulation.producers import batch_of
from kafkawire.reference_broker.simulation.simulation import Simulation
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.records import place


def test_consumers_have_read_what_is_there(calm: Simulation) -> None:
    for consumer in calm.consumers:
        for partition, values in consumer.values.items():
            committed = calm.checkers.of_topic(partition.topic)[partition.partition]
            there = dict(committed.values(is_committed=consumer.is_committed))
            assert values.items() <= there.items()
    assert sum(len(values) for consumer in calm.consumers for values in consumer.values.values()) > 20


def test_aborted_values_are_left_out() -> None:
    batches = bytearray()
    for offset, batch in (
        (0, batch_of((b"a",), 1, (1, 0), 0, is_transactional=True)),
        (1, batch_of((b"b",), 1, (2, 0), 0, is_transactional=True)),
        (2, bytes(build_marker(Marker(1, 0, is_commit=False, coordinator_epoch=0), 1)[0])),
        (3, batch_of((b"c", b"d"), 1, (1, 0), 1, is_transactional=True)),
    ):
        moved = bytearray(batch)
        place(moved, offset, 0)
        batches += moved
    part = FetchResponse.PartitionData(
        records=bytes(batches), aborted_transactions=[FetchResponse.AbortedTransaction(1, 0)]
    )
    assert values_of(part, 0) == ({1: b"b", 3: b"c", 4: b"d"}, 5)
    assert values_of(part, 4) == ({4: b"d"}, 5)
