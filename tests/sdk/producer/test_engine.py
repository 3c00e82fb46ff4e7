"""The producer is built from the classes of the engine in use."""

from kafkawire.sdk.producer import engine
from kafkawire.sdk.producer.accumulator import ProducerTopic
from kafkawire.sdk.producer.partition_queue import ProducerBatch


def test_the_producer_is_made_of_them() -> None:
    assert issubclass(ProducerBatch, engine.Batch)
    assert issubclass(ProducerTopic, engine.Topic)
