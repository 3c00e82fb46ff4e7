"""The data directory of a broker: its identity, its topics, and the log of every partition.

Layout, Kafka's own apart from the folder `topics`, which stands in for the metadata log of a KRaft controller:

    meta.properties, recovery-point-offset-checkpoint, log-start-offset-checkpoint, .kafka_cleanshutdown
    topics/<name>.topic                 topic id, number of partitions, configurations
    <topic>-<partition>/                segments, leader-epoch-checkpoint, partition.metadata

A topic exists exactly as long as its `.topic` file, which is created and removed atomically, so that a crash never
leaves half a topic.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkawire.reference_broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    clean_shutdown_text,
    partition_metadata_text,
    properties_text,
    read_offsets,
    read_properties,
    write_offsets,
)
from kafkawire.reference_broker.log.config import LogConfig, log_config
from kafkawire.reference_broker.log.file import replace_file
from kafkawire.reference_broker.log.partition_log import PartitionLog
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid

__all__ = ["LogDirectory", "Topic"]

_TOPICS = "topics"
_TOPIC_SUFFIX = ".topic"
_DELETED_SUFFIX = "-delete"
_TOPIC_ID = "topic.id"
_PARTITIONS = "partitions"

#: Version of `meta.properties`.
_META_VERSION = 1


@dataclass(slots=True)
class Topic:
    """A topic and the logs of its partitions.

    Attributes:
        name: unique among the present topics.
        topic_id: 16 bytes, never reused.
        configs: configurations that differ from the defaults, by Kafka's names.
        logs: one per partition, in order of partition number.
    """

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    logs: list[PartitionLog] = field(default_factory=list)


class LogDirectory:
    """The topics on disk; no file is opened elsewhere in the broker.

    Args:
        path: created if it does not exist.
        node_id: the broker's id; must be that of the broker that created the directory.
        new_uuid: returns 16 bytes for cluster, directory and topic ids.
        defaults: topic configurations that apply unless a topic overrides them.

    Raises:
        ConfigurationError: the directory belongs to another broker.

    Attributes:
        cluster_id: in Kafka's text form.
        topics: by name.
        topics_by_id: by topic id.
        was_clean: whether the last shutdown was clean.
    """

    def __init__(
        self, path: Path, node_id: int, new_uuid: Callable[[], bytes], defaults: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self._new_uuid = new_uuid
        self._defaults = dict(defaults or {})
        (path / _TOPICS).mkdir(parents=True, exist_ok=True)
        self.cluster_id = self._identify(node_id)
        marker = path / CLEAN_SHUTDOWN
        self.was_clean = marker.exists()
        self._open_topics()
        marker.unlink(missing_ok=True)

    def _identify(self, node_id: int) -> str:
        file = self.path / META_PROPERTIES
        known = read_properties(file)
        if not known:
            known = {
                "version": str(_META_VERSION),
                "cluster.id": format_uuid(self._new_uuid()),
                "directory.id": format_uuid(self._new_uuid()),
                "node.id": str(node_id),
            }
            replace_file(file, properties_text(known))
        if known.get("node.id") != str(node_id):
            raise ConfigurationError("node_id", node_id, f"{self.path} belongs to node {known.get('node.id')}")
        return known["cluster.id"]

    def _open_topics(self) -> None:
        for folder in self.path.glob(f"*{_DELETED_SUFFIX}"):
            shutil.rmtree(folder, ignore_errors=True)
        starts = read_offsets(self.path / LOG_START_OFFSETS)
        recovery_points = read_offsets(self.path / RECOVERY_POINTS)
        for file in sorted((self.path / _TOPICS).glob(f"*{_TOPIC_SUFFIX}")):
            configs = read_properties(file)
            name = file.name.removesuffix(_TOPIC_SUFFIX)
            topic_id, count = parse_uuid(configs.pop(_TOPIC_ID)), int(configs.pop(_PARTITIONS))
            topic = Topic(name, topic_id, configs)
            for number in range(count):
                self._open_log(topic, number, starts.get((name, number), 0), recovery_points.get((name, number), 0))
            self._register(topic)

    def _register(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic

    def _open_log(self, topic: Topic, number: int, start: int, recovery_point: int) -> None:
        folder = self.path / f"{topic.name}-{number}"
        is_new = not folder.exists()
        log = PartitionLog(
            folder,
            self.config_of(topic.configs),
            is_clean=self.was_clean or is_new,
            log_start_offset=start,
            recovery_point=recovery_point,
        )
        if is_new:
            (folder / PARTITION_METADATA).write_text(partition_metadata_text(topic.topic_id), "utf-8")
        topic.logs.append(log)

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        """Return the log configuration of a topic with these overrides."""
        return log_config({**self._defaults, **configs})

    def logs(self) -> Iterator[tuple[str, int, PartitionLog]]:
        """Yield topic, partition and log of all partitions."""
        for topic in self.topics.values():
            for number, log in enumerate(topic.logs):
                yield topic.name, number, log

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition, None if there is none."""
        known = self.topics.get(topic)
        return known.logs[partition] if known is not None and 0 <= partition < len(known.logs) else None

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Create a topic that does not exist; name and configurations must have been checked.

        Raises:
            OSError: a file could not be written.
        """
        topic = Topic(name, self._new_uuid(), dict(configs))
        content = {**configs, _TOPIC_ID: format_uuid(topic.topic_id), _PARTITIONS: partitions}
        replace_file(self._topic_file(name), properties_text(content))
        for number in range(partitions):
            self._open_log(topic, number, 0, 0)
        self._register(topic)
        return topic

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its files; slices handed out before stay readable."""
        self._topic_file(topic.name).unlink(missing_ok=True)
        del self.topics[topic.name], self.topics_by_id[topic.topic_id]
        for number, log in enumerate(topic.logs):
            # Renamed first, since a folder of this name may be created again before all files are gone.
            doomed = self.path / f"{format_uuid(topic.topic_id)}.{number}{_DELETED_SUFFIX}"
            log.folder.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def checkpoint(self) -> None:
        """Write the checkpoints of recovery points and log start offsets."""
        write_offsets(self.path / RECOVERY_POINTS, {(name, n): log.recovery_point for name, n, log in self.logs()})
        starts = {(name, n): log.log_start_offset for name, n, log in self.logs() if log.log_start_offset}
        write_offsets(self.path / LOG_START_OFFSETS, starts)

    def close(self) -> None:
        """Sync everything, mark a clean shutdown, and release the files."""
        for _, _, log in self.logs():
            log.close()
        self.checkpoint()
        replace_file(self.path / CLEAN_SHUTDOWN, clean_shutdown_text())
        self.topics.clear()
        self.topics_by_id.clear()

    def _topic_file(self, name: str) -> Path:
        return self.path / _TOPICS / f"{name}{_TOPIC_SUFFIX}"
