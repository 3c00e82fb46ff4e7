"""Members of a consumer group, as passed to assignors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions

__all__ = ["Subscriber", "Subscribers"]


class Subscriber(NamedTuple):
    """A member's instance id, the ids of its topics, and its partitions in the last assignment."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    current: Partitions


#: Subscribers, keyed by member id.
Subscribers = Mapping[str, Subscriber]
