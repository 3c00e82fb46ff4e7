"""Producers in virtual time have each batch stored once, and their batches and requests are well formed."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.producers import batch_of, produce_request
from kafkawire.reference_broker.simulation.simulation import Simulation
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.records import walk
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition


def test_every_value_is_stored_once(calm: Simulation) -> None:
    sent = sorted(value for producer in calm.producers for value in producer.sent)
    stored = sorted(value for committed in calm.checkers.of_topic("in").values() for _, value in committed.values())
    assert sent == stored
    assert all(producer.is_done for producer in calm.producers)
    acknowledged = [
        value for committed in calm.checkers.of_topic("in").values() for value in committed.acknowledged.values()
    ]
    assert sorted(acknowledged) == sent


def test_a_batch_and_its_request() -> None:
    batch = batch_of((b"a", b"b"), 5, (7, 1), 30, is_transactional=True)
    (walked,) = walk(batch)
    assert (walked.producer_id, walked.producer_epoch, walked.base_sequence) == (7, 1, 30)
    assert walked.is_transactional
    question = produce_request(2, TopicPartition("t", 3), batch, "id")
    assert question.target == Node(2)
    request = question.request
    assert isinstance(request, ProduceRequest)
    assert (request.transactional_id, request.acks) == ("id", Acks.ALL)
