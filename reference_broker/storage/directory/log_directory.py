"""The data directory of a broker: its identity, its topics, and the log of every partition.

Layout, Kafka's own apart from the folder `topics`, which stands in for the metadata log of a KRaft controller:

    .lock, meta.properties, recovery-point-offset-checkpoint, log-start-offset-checkpoint, .kafka_cleanshutdown
    dynamic-configs                     see `metadata/dynamic_configs.py`
    producer-ids                        see `producer_id_file.py`
    topics/                             see `topic_files.py`
    <topic>-<partition>/                segments, leader-epoch-checkpoint, partition.metadata

Creation and deletion of topics and writes of checkpoints run in the background, one after another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    DYNAMIC_CONFIGS,
    LOCK,
    DamagedFile,
    clean_shutdown_text,
    read_properties,
)
from kafkawire.reference_broker.storage.directory.directory_checkpoints import DirectoryCheckpoints
from kafkawire.reference_broker.storage.directory.identity import take_identity_alone
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.directory.producer_id_file import ProducerIdFile
from kafkawire.reference_broker.storage.directory.topic_files import TopicFile, TopicFiles, UndecidedError
from kafkawire.reference_broker.storage.disk.disk import Volume, has_file, replace_file
from kafkawire.reference_broker.storage.log.epochs import read_last_epoch, write_last_epoch
from kafkawire.reference_broker.storage.log.file_work import when_all_quiet
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import Each, one_by_one
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition, folder_of

__all__ = ["LogDirectory", "Topic"]

logger = logging.getLogger("kafkawire.broker")


@dataclass(slots=True)
class Topic:
    """A topic.

    Attributes:
        name: unique among the present topics.
        topic_id: 16 bytes, never reused.
        partitions: their number.
        configs: configurations that differ from the defaults, by Kafka's names.
    """

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]

    def as_file(self) -> TopicFile:
        """Return its file content."""
        return TopicFile(self.name, self.topic_id, self.partitions, self.configs)


class LogDirectory:
    """The topics on disk, and the files that concern all of them.

    Args:
        services: the disk is the data directory.
        node_id: the broker's id; must be that of the broker that created the directory.
        new_uuid: returns 16 bytes for cluster, directory and topic ids.
        defaults: topic configurations that apply unless a topic overrides them.
        is_replicated: whether the broker belongs to a cluster, see `PartitionLog.is_replicated`.

    Raises:
        ConfigurationError: the directory belongs to another broker, is in use, or has a malformed file.
        OSError: the disk failed.

    Attributes:
        services: see above.
        queue: see `BackgroundQueue`.
        cluster_id: in Kafka's text form.
        topics: by name.
        topics_by_id: by topic id.
        was_clean: whether the last shutdown was clean.
        producer_ids: see `ProducerIdFile`.
        dynamic_configs: content of the file of that name at startup.
        checkpoints: see `DirectoryCheckpoints`.
    """

    def __init__(
        self,
        services: LogServices,
        node_id: int,
        new_uuid: Callable[[], bytes],
        defaults: Mapping[str, str] | None = None,
        *,
        is_replicated: bool = False,
    ) -> None:
        self.services = services
        #: Called with a log and its new end after a truncation.
        self.when_truncated: list[Callable[[PartitionLog, int], None]] = []
        self._is_replicated = is_replicated
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        #: By topic and partition number, in order of the numbers.
        self._logs: dict[str, dict[int, PartitionLog]] = {}
        self._disk = services.disk
        self._new_uuid = new_uuid
        self._defaults = dict(defaults or {})
        self.queue = BackgroundQueue(services.background)
        self._is_forgetting = False
        #: Truncated logs, their new ends, and what to call once no checkpoint says more.
        self._truncated_waiting: list[tuple[PartitionLog, int, Callable[[BrokerError | None], None]]] = []
        self._checkpoint_waiting: list[Callable[[BrokerError | None], None]] = []
        try:
            self._lock = self._disk.lock(LOCK)
        except BlockingIOError:
            raise ConfigurationError("data_dir", self._disk.describe(""), "another broker uses it") from None
        try:
            self.cluster_id = take_identity_alone(self._disk, node_id, new_uuid).cluster_id
            self.was_clean = self._take_marker()
            self._folders = PartitionFolders(self._disk)
            self._files = TopicFiles(self._disk, self._folders)
            self.checkpoints = DirectoryCheckpoints(self._disk)
            self.dynamic_configs = read_properties(self._disk, DYNAMIC_CONFIGS)
            self._open_topics()
            known = (producer.producer_id for _, _, log in self.logs() for producer in log.producers)
            self.producer_ids = ProducerIdFile(self._disk, known)
            if retired := self._folders.retired():  # need not be queued: no other code knows these folders
                self.services.background(partial(self._folders.remove, retired), self._removed)
        except DamagedFile as error:
            self._lock.release()
            raise ConfigurationError("data_dir", self._disk.describe(""), str(error)) from error
        except BaseException:
            self._lock.release()
            raise

    def _take_marker(self) -> bool:
        """Remove the marker of a clean shutdown, durably, before any write."""
        if not has_file(self._disk, CLEAN_SHUTDOWN):
            return False
        self._disk.remove(CLEAN_SHUTDOWN)
        self._disk.sync_folder("")
        return True

    def _open_topics(self) -> None:
        is_checked = self.was_clean and self.checkpoints.are_points_sound
        last_epoch = read_last_epoch(self._disk)
        has_new_folders = False
        present = set(self._disk.names(""))
        for file in self._files.topics():
            config = self._config_in(file)
            for place in file.places():
                folder, problem = folder_of(*place), None
                try:
                    has_new_folders |= self._folders.settle(place, file.topic_id, is_there=folder in present)
                except OSError as error:
                    problem = error  # does not affect other partitions
                log = PartitionLog(
                    self.services,
                    folder,
                    config,
                    problem=problem,
                    is_clean=is_checked,
                    log_start_offset=self.checkpoints.start_of(place),
                    recovery_point=self.checkpoints.recovery_point_of(place),
                    last_epoch=last_epoch,
                    high_watermark=self.checkpoints.high_watermark_of(place) if self._is_replicated else None,
                )
                self._take(place, log)
            self._register(Topic(*file))
        self._settle_truncations()
        write_last_epoch(self._disk, last_epoch, (log.leader_epoch for _, _, log in self.logs()))
        self.checkpoints.keep_only((name, number) for name, number, _ in self.logs())
        self._folders.tell_strays({log.folder for _, _, log in self.logs()})
        if has_new_folders:
            self._disk.sync_folder("")

    def _settle_truncations(self) -> None:
        """Let no checkpoint say more than the logs have whose truncation a crash has interrupted."""
        unsettled = [(name, number, log) for name, number, log in self.logs() if log.is_unsettled]
        try:
            if unsettled:
                self.checkpoints.lower_cleaned({(name, number): log.next_offset for name, number, log in unsettled})
                self.checkpoints.work(self.logs())()
        except OSError as error:
            for _, _, log in unsettled:
                log.fail(error)  # a full disk does not affect other partitions
        for _, _, log in unsettled:
            log.settle()

    def _config_in(self, file: TopicFile) -> LogConfig:
        try:
            return self.config_of(file.configs)
        except ValueError as error:
            raise DamagedFile(f"the configuration of the topic {file.name}", str(error)) from None

    def _register(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic

    def _take(self, place: Partition, log: PartitionLog) -> None:
        """Let a log take part in checkpoints and upkeep from now on."""
        topic, number = place
        self._logs.setdefault(topic, {})[number] = log
        log.on_sealed = self.checkpoint
        log.on_truncated = self._truncated

    def _unlist(self, places: Iterable[Partition]) -> list[PartitionLog]:
        """Let the logs of partitions take no further part in checkpoints and upkeep, and return them."""
        unlisted = []
        for topic, number in places:
            hosted = self._logs.get(topic, {})
            if (log := hosted.pop(number, None)) is not None:
                unlisted.append(log)
            if not hosted:
                self._logs.pop(topic, None)
        return unlisted

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        """Change the topic configurations for topics that do not override them."""
        self._defaults = dict(defaults)
        for topic in self.topics.values():
            config = self.config_of(topic.configs)
            for log in self.of(topic.name).values():
                log.configure(config)

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        """Return the log configuration of a topic with these overrides."""
        return log_config({**self._defaults, **configs})

    def logs(self) -> Iterator[tuple[str, int, PartitionLog]]:
        """Yield topic, partition and log of all partitions."""
        for topic, hosted in self._logs.items():
            for number, log in hosted.items():
                yield topic, number, log

    def of(self, topic: str) -> Mapping[int, PartitionLog]:
        """Return the logs of a topic by partition number, in order of the numbers; empty for an unknown topic."""
        return self._logs.get(topic, {})

    def topic_names(self) -> list[str]:
        """Return the names of topics that have partitions here."""
        return [*self._logs]

    @property
    def path(self) -> str:
        """The path of the directory."""
        return self._disk.describe("")

    def measure(self, done: Callable[[Volume | BrokerError | None], None]) -> None:
        """Measure the volume that the directory is on, in the background.

        Args:
            done: called with its size, None if it has no limit; or with KAFKA_STORAGE_ERROR.
        """
        volume: Volume | None = None

        def work() -> None:
            nonlocal volume
            volume = self._disk.volume()

        self.services.background(work, lambda error: done(volume if error is None else storage_error(error)))

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition, None if there is none."""
        hosted = self._logs.get(topic)
        return None if hosted is None else hosted.get(partition)

    # Creating and deleting.

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str], done: Callable[[Topic | BrokerError], None]
    ) -> None:
        """Create a topic; name and configurations must have been checked.

        Args:
            name: the name, unused by existing topics and those being created.
            partitions: their number.
            configs: configurations that differ from the defaults.
            done: called with the topic, or with KAFKA_STORAGE_ERROR.
        """
        topic = Topic(name, self._new_uuid(), partitions, dict(configs))
        logs: dict[int, PartitionLog] = {}

        def work() -> None:
            file = topic.as_file()
            self.checkpoints.clear(file.places())
            self._files.create(file, self._maker(file, logs))

        def created(error: Exception | None) -> None:
            if error is None:
                self._take_all(name, logs)
                self._register(topic)
                done(topic)
            else:
                logger.error("the topic %s cannot be created: %s", name, error)
                done(storage_error(error))

        self.queue.do(lambda: work, created)

    def _take_all(self, topic: str, logs: Mapping[int, PartitionLog]) -> None:
        for number, log in logs.items():
            self._take((topic, number), log)

    def _maker(self, file: TopicFile, logs: dict[int, PartitionLog]) -> Callable[[int], None]:
        """Return a function that creates a partition of a topic, and adds its log to others."""
        config = self.config_of(file.configs)

        def make_partition(number: int) -> None:
            high_watermark = 0 if self._is_replicated else None
            log = PartitionLog(self.services, folder_of(file.name, number), config, high_watermark=high_watermark)
            if log.error is not None:
                raise OSError(str(log.error))
            logs[number] = log

        return make_partition

    def delete(
        self, topic: Topic, done: Callable[[BrokerError | None], None], gone: Callable[[], None] = lambda: None
    ) -> None:
        """Delete a topic and its files; slices returned before stay readable.

        Args:
            topic: an existing topic.
            done: called with None once the deletion is durable, or with the error: it was deleted before, or
                KAFKA_STORAGE_ERROR.
            gone: called before `done` if the topic is deleted: it is no longer listed, but its logs have not ended yet.
        """

        def deleted(outcome: Topic | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                done(outcome)
                return
            del self.topics[topic.name], self.topics_by_id[topic.topic_id]
            file = topic.as_file()
            logs = self._unlist(file.places())
            self.checkpoints.note_deleted(file.places())
            gone()
            end = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} was deleted")
            for log in logs:
                log.end(end)
            # A running sync or roll would write into the folder of the next topic of this name.
            remove = partial(self._files.finish_delete, file)
            self.queue.do(lambda: remove, self._removed, place=0, when=partial(when_all_quiet, logs))
            self._forget_deleted()
            done(None)

        self._change(topic, "deleted", self._files.begin_delete, deleted)

    def configure(
        self, topic: Topic, changes: Mapping[str, str | None], done: Callable[[Topic | BrokerError], None]
    ) -> None:
        """Change configurations of a topic on disk; the caller configures its logs.

        Args:
            topic: an existing topic.
            changes: values by Kafka's names, checked; None stands for the default.
            done: called with the topic, or with the error: it was deleted before, or KAFKA_STORAGE_ERROR; if the disk
                fails again then, its configurations after a restart are unknown.
        """

        def merged() -> Mapping[str, str]:
            return {name: value for name, value in {**topic.configs, **changes}.items() if value is not None}

        def work(file: TopicFile) -> None:
            self._files.change(file, file._replace(configs=merged()), lambda number: None)

        def configured(outcome: Topic | BrokerError) -> None:
            if isinstance(outcome, Topic):
                topic.configs = merged()
            done(outcome)

        self._change(topic, "configured", work, configured)

    def add_partitions(self, topic: Topic, count: int, done: Callable[[Topic | BrokerError], None]) -> None:
        """Add partitions to a topic.

        Args:
            topic: an existing topic.
            count: the new total, more than when this step's turn comes.
            done: called with the topic, or with the error: it was deleted before, or KAFKA_STORAGE_ERROR; if the disk
                fails again then, it may have the partitions after a restart, without records.
        """
        logs: dict[int, PartitionLog] = {}

        def work(file: TopicFile) -> None:
            after = file._replace(partitions=count)
            self.checkpoints.clear(after.places(file.partitions))
            self._files.change(file, after, self._maker(file, logs))

        def added(outcome: Topic | BrokerError) -> None:
            if isinstance(outcome, Topic):
                self._take_all(topic.name, logs)
                topic.partitions = count
            done(outcome)

        self._change(topic, "given more partitions", work, added)

    def _change(
        self,
        topic: Topic,
        changed: str,
        work: Callable[[TopicFile], None],
        done: Callable[[Topic | BrokerError], None],
    ) -> None:
        """Change the files of a topic in the background, after earlier steps.

        Args:
            topic: an existing topic.
            changed: the change, for the log.
            work: makes the change, given the current file content of the topic.
            done: called with the topic, or with the error: it was deleted before, or KAFKA_STORAGE_ERROR.
        """

        def prepare() -> Callable[[], None]:
            return partial(work, topic.as_file()) if topic.topic_id in self.topics_by_id else lambda: None

        def worked(error: Exception | None) -> None:
            if isinstance(error, UndecidedError):
                for log in [*self.of(topic.name).values()]:
                    log.fail(error)
            if error is not None:
                logger.error("the topic %s cannot be %s: %s", topic.name, changed, error)
                done(storage_error(error))
            elif topic.topic_id in self.topics_by_id:
                done(topic)
            else:
                reason = "This server does not host this topic-partition."
                done(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))

        self.queue.do(prepare, worked)

    def _forget_deleted(self) -> None:
        """Drop the entries of deleted topics from the checkpoints, once for all waiting deletions."""
        if self._is_forgetting:
            return
        self._is_forgetting = True

        def prepare() -> Callable[[], None]:
            self._is_forgetting = False
            return self.checkpoints.forget_if_possible

        self.queue.do(prepare, lambda error: None)

    def _removed(self, error: Exception | None) -> None:
        if error is not None:
            logger.warning("files of a deleted topic stay until the next startup: %s", error)

    # Checkpoints and shutdown.

    def checkpoint(self, done: Callable[[BrokerError | None], None] = lambda error: None) -> None:
        """Write the checkpoints of recovery points and log start offsets, in the background.

        Args:
            done: called with None once their current state is durable, or with KAFKA_STORAGE_ERROR.
        """
        self._checkpoint_waiting.append(done)
        if len(self._checkpoint_waiting) > 1:
            return
        waiting: list[Callable[[BrokerError | None], None]] = []

        def prepare() -> Callable[[], None]:
            waiting[:], self._checkpoint_waiting = self._checkpoint_waiting, []
            return self.checkpoints.work(self.logs())

        def written(error: Exception | None) -> None:
            if error is not None:
                logger.warning("the checkpoints cannot be written, a restart after a crash takes longer: %s", error)
            for waiting_done in waiting:
                waiting_done(None if error is None else storage_error(error))

        self.queue.do(prepare, written, place=1)  # ahead of thousands of topics that may be queued, too

    def _truncated(self, log: PartitionLog, offset: int, done: Callable[[BrokerError | None], None]) -> None:
        for callback in self.when_truncated:
            callback(log, offset)
        self._truncated_waiting.append((log, offset, done))
        if len(self._truncated_waiting) > 1:
            return
        waiting: list[tuple[PartitionLog, int, Callable[[BrokerError | None], None]]] = []

        def prepare() -> Callable[[], None]:
            waiting[:], self._truncated_waiting = self._truncated_waiting, []
            truncated = {each: end for each, end, _ in waiting}
            ends = {(name, number): truncated[each] for name, number, each in self.logs() if each in truncated}
            write = self.checkpoints.work(self.logs())

            def work() -> None:
                self.checkpoints.lower_cleaned(ends)
                write()

            return work

        def written(error: Exception | None) -> None:
            for _, _, waiting_done in waiting:
                waiting_done(None if error is None else storage_error(error))

        self.queue.do(prepare, written, place=1)

    def begin_end(self) -> None:
        """Leave the remaining files of deleted topics to the next startup."""
        self._folders.is_ending = True

    def close(self, each: Each = one_by_one) -> None:
        """Sync everything, mark a clean shutdown, and release the files.

        Args:
            each: closes the logs; a disk syncs several at once faster than one after another.
        """
        self.queue.close()
        each(log.close for _, _, log in self.logs())
        try:
            self.checkpoints.work(self.logs())()
            # A log that is offline has to be checked at the next startup.
            if not any(log.is_offline for _, _, log in self.logs()):
                replace_file(self._disk, CLEAN_SHUTDOWN, clean_shutdown_text().encode())
        except OSError as error:
            logger.error("%s: the shutdown is not clean: %s", self._disk.describe(""), error)
        self.abandon()

    def abandon(self) -> None:
        """Release the directory as a crash would, without further writes."""
        self.begin_end()
        self.queue.close()
        self.topics.clear()
        self.topics_by_id.clear()
        self._logs.clear()
        self._lock.release()
