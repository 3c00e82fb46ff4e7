"""Apache Kafka's wire and storage formats from one set of declarative schemas.

The names below are loaded when they are first used: `import kafkawire` itself imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.sdk.admin.admin import Admin
    from kafkawire.sdk.admin.descriptions import NewTopic
    from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
    from kafkawire.sdk.consumer.batch import ConsumerBatch
    from kafkawire.sdk.consumer.consumer import Consumer
    from kafkawire.sdk.consumer.membership import RebalanceListener
    from kafkawire.sdk.errors import BrokerError, BufferFull, KafkaWireError
    from kafkawire.sdk.producer.engine import Delivery
    from kafkawire.sdk.producer.outcome import RecordMetadata
    from kafkawire.sdk.producer.producer import Producer
    from kafkawire.sdk.records import Record
    from kafkawire.sdk.version import __version__

__all__ = [
    "Admin",
    "BrokerError",
    "BufferFull",
    "Consumer",
    "ConsumerBatch",
    "Delivery",
    "KafkaWireError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "TopicPartition",
    "__version__",
]

#: Where each name is defined.
_HOMES = {
    "Admin": "sdk.admin.admin",
    "BrokerError": "sdk.errors",
    "BufferFull": "sdk.errors",
    "Consumer": "sdk.consumer.consumer",
    "ConsumerBatch": "sdk.consumer.batch",
    "Delivery": "sdk.producer.engine",
    "KafkaWireError": "sdk.errors",
    "NewTopic": "sdk.admin.descriptions",
    "OffsetAndMetadata": "sdk.client.partitions",
    "OffsetAndTimestamp": "sdk.client.partitions",
    "Producer": "sdk.producer.producer",
    "RebalanceListener": "sdk.consumer.membership",
    "Record": "sdk.records",
    "RecordMetadata": "sdk.producer.outcome",
    "TopicPartition": "sdk.client.partitions",
    "__version__": "sdk.version",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
