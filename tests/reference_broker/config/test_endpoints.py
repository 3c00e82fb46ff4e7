"""What listeners and buffers are called is what Kafka calls them."""

from kafkawire.reference_broker.config.endpoints import SYSTEM_BUFFER


def test_choice_of_the_system_is_written_as_in_kafka():
    assert SYSTEM_BUFFER == -1
