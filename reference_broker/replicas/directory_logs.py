"""The logs of a data directory, as the requests of a controller create, find and delete them.

Source: `LogManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from kafkawire.reference_broker.replicas.control_requests import NewLog
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["DirectoryLogs"]

#: Called once with the partitions that failed, and the errors.
_Failed = Callable[[Mapping[Partition, BrokerError]], None]


class DirectoryLogs:
    """The logs of one broker; see `PartitionLogs`.

    Args:
        directory: has them.
        topic_ids: the id of the topic of each log that is open.
    """

    def __init__(self, directory: LogDirectory, topic_ids: Mapping[Partition, bytes]) -> None:
        self._directory = directory
        self._topic_ids = dict(topic_ids)

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        return self._directory.log(topic, partition)

    def topic_id(self, topic: str, partition: int) -> bytes:
        return self._topic_ids.get((topic, partition), ZERO_UUID)

    def create(self, logs: Collection[NewLog], done: _Failed) -> None:
        configs = {new.topic: self._directory.config_of(new.configs) for new in logs}
        places = [LogPlace(new.topic, new.number, new.topic_id, configs[new.topic]) for new in logs]
        self._directory.create(places, partial(self._created, places, done))

    def _created(self, places: Collection[LogPlace], done: _Failed, errors: Mapping[Partition, BrokerError]) -> None:
        self._topic_ids.update((place.partition, place.topic_id) for place in places if place.partition not in errors)
        done(errors)

    def delete(self, partitions: Collection[Partition], end: BrokerError, done: _Failed) -> None:
        for partition in partitions:
            self._topic_ids.pop(partition, None)
        self._directory.delete(partitions, end, done)
