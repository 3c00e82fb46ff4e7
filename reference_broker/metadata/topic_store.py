"""The topics that a single broker keeps in its data directory, and the logs of their partitions.

    LocalTopics ──▶ TopicStore ──▶ TopicFiles      the existing topics, each complete or absent after a crash
                        └────────▶ LogDirectory    their partitions

Changes are made in the background, one after another, and take effect once they are durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kafkawire.reference_broker.metadata.topic_files import LocalTopic, TopicFiles, UndecidedError
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.directory.identity import take_identity_alone
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace, lock_directory
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["TopicStore", "open_alone"]

logger = logging.getLogger("kafkawire.broker")

#: Called with a topic after a change, or with the error.
TopicChanged = Callable[[LocalTopic | BrokerError], None]


def open_alone(
    services: LogServices, node_id: int, new_uuid: Callable[[], bytes], defaults: Mapping[str, str] | None = None
) -> TopicStore:
    """Open the data directory of a single broker, recovering from a crash if there was one.

    Args:
        services: its disk is the data directory.
        node_id: the broker's id; must match the broker that created the directory.
        new_uuid: returns 16 bytes for cluster, directory and topic ids.
        defaults: topic configurations that apply unless a topic overrides them.

    Raises:
        ConfigurationError: the directory belongs to another broker, is in use, or contains a malformed file.
        OSError: the disk failed.
    """
    disk = services.disk
    lock = lock_directory(disk)
    try:
        # Do this first, since an attempt to start with the wrong id must not make the next startup unclean.
        cluster_id = take_identity_alone(disk, node_id, new_uuid).cluster_id
        return TopicStore(LogDirectory(services, lock, defaults), cluster_id, new_uuid)
    except DamagedFile as error:
        lock.release()
        raise ConfigurationError("data_dir", disk.describe(""), str(error)) from error
    except BaseException:
        lock.release()
        raise


class TopicStore:
    """The topics of a single broker.

    Args:
        directory: holds the logs of the topics' partitions, which are opened here.
        cluster_id: see below.
        new_uuid: returns 16 bytes for topic ids.

    Raises:
        DamagedFile: a file of a topic is malformed.
        OSError: the disk failed.

    Attributes:
        directory: see above.
        cluster_id: the id of the cluster that consists of this broker, in Kafka's text form.
        new_uuid: returns 16 bytes for ids.
        topics: the topics, keyed by name.
        topics_by_id: the topics, keyed by topic id.
    """

    def __init__(self, directory: LogDirectory, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        self.directory = directory
        self.cluster_id = cluster_id
        self.new_uuid = new_uuid
        self._files = TopicFiles(directory.services.disk, directory.folders)
        self.topics = {topic.name: topic for topic in self._files.topics()}
        self.topics_by_id = {topic.topic_id: topic for topic in self.topics.values()}
        directory.open(self._places())

    def _places(self) -> Iterator[LogPlace]:
        """Yield all partitions.

        Raises:
            DamagedFile: the configuration of a topic is malformed.
        """
        for topic in self.topics.values():
            try:
                config = self.directory.config_of(topic.configs)
            except ValueError as error:
                raise DamagedFile(f"the configuration of the topic {topic.name}", str(error)) from None
            for number in range(topic.partitions):
                yield LogPlace(topic.name, number, topic.topic_id, config)

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        """Change configurations for all topics that do not override them."""
        self.directory.defaults = dict(defaults)
        for topic in self.topics.values():
            config = self.directory.config_of(topic.configs)
            for log in self.directory.of(topic.name).values():
                log.configure(config)

    def abandon(self) -> None:
        """Forget all topics, since their directory is closed; changes that finish later will find no topics."""
        self.topics.clear()
        self.topics_by_id.clear()

    def _register(self, topic: LocalTopic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic

    # Creating and deleting.

    def create(self, name: str, partitions: int, configs: Mapping[str, str], done: TopicChanged) -> None:
        """Create a topic, whose name and configurations must have been checked.

        Args:
            name: a name that no existing topic has, and no topic being created.
            partitions: the number of partitions.
            configs: configurations that differ from the defaults.
            done: called with the topic, or with KAFKA_STORAGE_ERROR.
        """
        topic = LocalTopic(name, self.new_uuid(), partitions, dict(configs))
        logs: dict[int, PartitionLog] = {}

        def work() -> None:
            self._files.create(topic, self._maker(topic, logs))

        def created(error: Exception | None) -> None:
            if error is None:
                self._take_all(topic, logs)
                done(topic)
            else:
                logger.error("could not create the topic %s: %s", name, error)
                done(storage_error(error))

        self.directory.queue.do(lambda: work, created)

    def _maker(self, topic: LocalTopic, logs: dict[int, PartitionLog]) -> Callable[[int], None]:
        """Return a function that creates a partition of a topic, and adds its log to `logs`."""
        config = self.directory.config_of(topic.configs)

        def make_partition(number: int) -> None:
            logs[number] = self.directory.make(LogPlace(topic.name, number, topic.topic_id, config))

        return make_partition

    def _take_all(self, topic: LocalTopic, logs: Mapping[int, PartitionLog]) -> None:
        """Add the logs of a topic's new partitions to the directory."""
        config = self.directory.config_of(topic.configs)
        for number, log in logs.items():
            self.directory.take((topic.name, number), log)
            if log.config != config:  # the defaults changed while it was being created
                log.configure(config)
        self._register(topic)

    def delete(
        self, topic: LocalTopic, done: Callable[[BrokerError | None], None], gone: Callable[[], None] = lambda: None
    ) -> None:
        """Delete a topic and its files; slices returned earlier stay readable.

        Args:
            topic: an existing topic.
            done: called with None once the deletion is durable, or with the error: the topic has already been deleted,
                or KAFKA_STORAGE_ERROR.
            gone: called before `done` if the topic is deleted, when it is no longer listed but its logs are still open.
        """

        def deleted(outcome: LocalTopic | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                done(outcome)
                return
            del self.topics[outcome.name], self.topics_by_id[outcome.topic_id]
            end = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {outcome.name} was deleted")
            logs = self.directory.drop(outcome.places(), end, gone)
            self.directory.clear_away(logs, lambda: partial(self._files.finish_delete, outcome), _removed)
            done(None)

        self._change(topic, "deleted", self._files.begin_delete, deleted)

    # Changes to a topic.

    def configure(self, topic: LocalTopic, changes: Mapping[str, str | None], done: TopicChanged) -> None:
        """Change configurations of a topic on disk; the caller configures its logs.

        Args:
            topic: an existing topic.
            changes: the values, already checked, keyed by Kafka's names; None stands for the default.
            done: called with the topic, or with the error: the topic has been deleted, or KAFKA_STORAGE_ERROR. If the
                disk then fails again, the configurations after a restart are unknown.
        """

        def changed(before: LocalTopic) -> LocalTopic:
            merged = {**before.configs, **changes}
            return before._replace(configs={name: value for name, value in merged.items() if value is not None})

        def work(before: LocalTopic) -> None:
            self._files.change(before, changed(before), lambda number: None)

        def configured(outcome: LocalTopic | BrokerError) -> None:
            if isinstance(outcome, LocalTopic):
                self._register(outcome := changed(outcome))
            done(outcome)

        self._change(topic, "configured", work, configured)

    def add_partitions(self, topic: LocalTopic, count: int, done: TopicChanged) -> None:
        """Add partitions to a topic.

        Args:
            topic: an existing topic.
            count: the new total, which must be an increase when the change is made.
            done: called with the topic, or with the error: the topic has been deleted, or KAFKA_STORAGE_ERROR. If the
                disk then fails again, the topic may have the new partitions after a restart, without records.
        """
        logs: dict[int, PartitionLog] = {}

        def work(before: LocalTopic) -> None:
            after = before._replace(partitions=count)
            self._files.change(before, after, self._maker(after, logs))

        def added(outcome: LocalTopic | BrokerError) -> None:
            if isinstance(outcome, LocalTopic):
                self._take_all(outcome := outcome._replace(partitions=count), logs)
            done(outcome)

        self._change(topic, "given more partitions", work, added)

    def _change(self, topic: LocalTopic, changed: str, work: Callable[[LocalTopic], None], done: TopicChanged) -> None:
        """Change the files of a topic in the background, after earlier steps.

        Args:
            topic: an existing topic.
            changed: describes the change, for the log.
            work: makes the change, given the topic as it is at that time.
            done: called with the topic before the change, or with the error: the topic has been deleted, or
                KAFKA_STORAGE_ERROR.
        """

        def prepare() -> Callable[[], None]:
            before = self.topics_by_id.get(topic.topic_id)
            return (lambda: None) if before is None else partial(work, before)

        def worked(error: Exception | None) -> None:
            before = self.topics_by_id.get(topic.topic_id)
            if isinstance(error, UndecidedError):
                for log in [*self.directory.of(topic.name).values()]:
                    log.fail(error)
            if error is not None:
                logger.error("the topic %s cannot be %s: %s", topic.name, changed, error)
                done(storage_error(error))
            elif before is not None:
                done(before)
            else:
                reason = "This server does not host this topic-partition."
                done(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))

        self.directory.queue.do(prepare, worked)


def _removed(error: Exception | None) -> None:
    if error is not None:
        logger.warning("files of a deleted topic remain until the next startup: %s", error)
