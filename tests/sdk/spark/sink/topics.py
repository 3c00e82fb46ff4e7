"""Read a topic's content, for tests of the sink."""

from __future__ import annotations

from typing import Any, Literal

from kafkawire import TopicPartition
from kafkawire.sync import Consumer

__all__ = ["committed", "is_open", "row_id", "written"]

#: The number of times that a topic is checked before a transaction is considered open for good.
_LOOKS_MAX = 2_000


def committed(servers: str, topic: str) -> list[Any]:
    """Return what readers of committed records currently see, with each partition in order."""
    with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return list(consumer.records(stop_at_end=True))


def written(servers: str, topic: str) -> list[Any]:
    """Return the committed records once no transaction is open; brokers write markers after responding to EndTxn."""
    for _ in range(_LOOKS_MAX):
        if not is_open(servers, topic):
            return committed(servers, topic)
    raise AssertionError(f"a transaction is open in {topic}")


def is_open(servers: str, topic: str) -> bool:
    """Return whether a transaction is open or its marker has not been written yet."""
    return _ends(servers, topic, "read_committed") != _ends(servers, topic, "read_uncommitted")


def row_id(record: Any) -> str:
    """Return the id that the sink gave to a row."""
    (found,) = [value for name, value in record.headers if name == "spark-row-id"]
    return str(bytes(found), "utf-8")


def _ends(
    servers: str, topic: str, isolation_level: Literal["read_committed", "read_uncommitted"]
) -> dict[TopicPartition, int]:
    with Consumer(servers, isolation_level=isolation_level) as consumer:
        return consumer.end_offsets(consumer.partitions_for(topic))
