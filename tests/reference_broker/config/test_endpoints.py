"""The buffer size that stands for the system's default is the same as in Kafka."""

from kafkawire.reference_broker.config.endpoints import SYSTEM_BUFFER


def test_choice_of_the_system_is_written_as_in_kafka():
    assert SYSTEM_BUFFER == -1
