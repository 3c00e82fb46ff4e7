"""The data directory of a broker: the logs of its partitions, and the files they share.

The layout is Kafka's, except that the folder `topics` replaces the metadata log of a KRaft controller:

    .lock, meta.properties, recovery-point-offset-checkpoint, log-start-offset-checkpoint, .kafka_cleanshutdown
    dynamic-configs                     see `metadata/local_config_store.py`
    producer-ids                        see `producer_id_file.py`
    topics/                             see `metadata/topic_files.py`
    <topic>-<partition>/                segments, leader-epoch-checkpoint, partition.metadata

Creating and deleting partitions and writing checkpoints happens in the background, one step at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LOCK,
    clean_shutdown_text,
)
from kafkawire.reference_broker.storage.directory.directory_checkpoints import DirectoryCheckpoints
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.directory.producer_id_file import ProducerIdFile
from kafkawire.reference_broker.storage.disk.disk import Disk, Lock, Volume, has_file, replace_file
from kafkawire.reference_broker.storage.log.epochs import read_last_epoch, write_last_epoch
from kafkawire.reference_broker.storage.log.file_work import when_all_quiet
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import Each, one_by_one
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.storage.partitions import Partition, folder_of, has_folder_name

__all__ = ["LogDirectory", "LogPlace", "lock_directory"]

logger = logging.getLogger("kafkawire.broker")


class LogPlace(NamedTuple):
    """A partition that belongs in a data directory.

    Attributes:
        topic: name of the topic.
        number: number of the partition.
        topic_id: the id of the topic, 16 bytes; zeros if it has none.
        config: the configuration of the log (see `LogDirectory.config_of`), shared by all partitions of a topic.
    """

    topic: str
    number: int
    topic_id: bytes
    config: LogConfig

    @property
    def partition(self) -> Partition:
        """The topic and the partition number."""
        return self.topic, self.number


def lock_directory(disk: Disk) -> Lock:
    """Lock a data directory before anything in it is read or changed.

    Args:
        disk: the data directory.

    Raises:
        ConfigurationError: the directory is in use.
        OSError: the disk failed.
    """
    try:
        return disk.lock(LOCK)
    except BlockingIOError:
        raise ConfigurationError(
            "data_dir", disk.describe(""), "the data directory is in use by another broker"
        ) from None


class LogDirectory:
    """The logs on disk, and the files they share.

    The constructor removes the marker of a clean shutdown, so check the identity of the directory first. `open` then
    opens the logs; call no other method before it.

    Args:
        services: the disk is the data directory.
        lock: the lock on the directory (see `lock_directory`); released by `close` and `abandon`.
        defaults: topic configurations that apply unless a topic overrides them.
        is_replicated: whether the broker belongs to a cluster (see `PartitionLog.is_replicated`).

    Raises:
        DamagedFile: the file of dynamic configurations is malformed.
        OSError: the disk failed.

    Attributes:
        services: see above.
        queue: see `BackgroundQueue`.
        folders: see `PartitionFolders`.
        defaults: see above.
        was_clean: whether the last shutdown was clean.
        producer_ids: see `ProducerIdFile`; only a single broker has one.
        checkpoints: see `DirectoryCheckpoints`.
    """

    producer_ids: ProducerIdFile

    def __init__(
        self,
        services: LogServices,
        lock: Lock,
        defaults: Mapping[str, str] | None = None,
        *,
        is_replicated: bool = False,
    ) -> None:
        self.services = services
        #: Called with a log and its new end after a truncation.
        self.when_truncated: list[Callable[[PartitionLog, int], None]] = []
        self._is_replicated = is_replicated
        #: Keyed by topic and partition number, in ascending order of the numbers.
        self._logs: dict[str, dict[int, PartitionLog]] = {}
        self._disk = services.disk
        self._lock = lock
        self.defaults = dict(defaults or {})
        self.queue = BackgroundQueue(services.background)
        self._is_forgetting = False
        #: Truncated logs, their new ends, and the callbacks to call once no checkpoint exceeds those ends.
        self._truncated_waiting: list[tuple[PartitionLog, int, Callable[[BrokerError | None], None]]] = []
        self._checkpoint_waiting: list[Callable[[BrokerError | None], None]] = []
        self.was_clean = self._take_marker()
        self.folders = PartitionFolders(self._disk)
        self.checkpoints = DirectoryCheckpoints(self._disk)

    def _take_marker(self) -> bool:
        """Remove the marker of a clean shutdown, durably, before any write."""
        if not has_file(self._disk, CLEAN_SHUTDOWN):
            return False
        self._disk.remove(CLEAN_SHUTDOWN)
        self._disk.sync_folder("")
        return True

    # Opening.

    def open(self, expected: Iterable[LogPlace]) -> None:
        """Open the logs of the partitions that belong here, and leave other folders untouched. Call this once.

        A log whose folder cannot be used is offline, which does not affect other logs.

        Args:
            expected: the partitions.

        Raises:
            OSError: the disk failed.
        """
        last_epoch = read_last_epoch(self._disk)
        has_new_folders = self._open_logs(expected, last_epoch)
        self._settle_truncations()
        write_last_epoch(self._disk, last_epoch, (log.leader_epoch for _, _, log in self.logs()))
        present = {(name, number) for name, number, _ in self.logs()}
        self.checkpoints.keep_only(present, self.folders.others(present) if self._is_replicated else ())
        self.folders.tell_strays({log.folder for _, _, log in self.logs()})
        if has_new_folders:
            self._disk.sync_folder("")
        if not self._is_replicated:  # in a cluster, the controller assigns producer ids
            known = (producer.producer_id for _, _, log in self.logs() for producer in log.producers)
            self.producer_ids = ProducerIdFile(self._disk, known)
        if retired := self.folders.retired():  # needs no queueing: no other code knows these folders
            self.services.background(partial(self.folders.remove, retired), _removed)

    def _open_logs(self, expected: Iterable[LogPlace], last_epoch: int) -> bool:
        """Open logs; return whether any folder is new and not yet durable."""
        is_checked = self.was_clean and self.checkpoints.are_points_sound
        has_new_folders = False
        present = set(self._disk.names(""))
        for topic, number, topic_id, config in expected:
            place, folder, problem = (topic, number), folder_of(topic, number), None
            try:
                has_new_folders |= self.folders.settle(place, topic_id, is_there=folder in present)
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
            self.take(place, log)
        return has_new_folders

    def _settle_truncations(self) -> None:
        """Lower the checkpoints of logs whose truncation was interrupted by a crash to the ends of these logs."""
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

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        """Return the log configuration of a topic that has these overrides."""
        return log_config({**self.defaults, **configs})

    def logs(self) -> Iterator[tuple[str, int, PartitionLog]]:
        """Yield the topic, number and log of every partition."""
        for topic, hosted in self._logs.items():
            for number, log in hosted.items():
                yield topic, number, log

    def of(self, topic: str) -> Mapping[int, PartitionLog]:
        """Return the logs of a topic by partition number, in ascending order; empty for an unknown topic."""
        return self._logs.get(topic, {})

    def topic_names(self) -> list[str]:
        """Return the names of topics that have partitions here."""
        return [*self._logs]

    @property
    def path(self) -> str:
        """The path of the directory."""
        return self._disk.describe("")

    def measure(self, done: Callable[[Volume | BrokerError | None], None]) -> None:
        """Measure the volume that contains the directory, in the background.

        Args:
            done: called with the volume's size, with None if it has no limit, or with KAFKA_STORAGE_ERROR.
        """
        volume: Volume | None = None

        def work() -> None:
            nonlocal volume
            volume = self._disk.volume()

        self.services.background(work, lambda error: done(volume if error is None else storage_error(error)))

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition, or None if there is none."""
        hosted = self._logs.get(topic)
        return None if hosted is None else hosted.get(partition)

    # Creating and deleting.

    def create(self, places: Collection[LogPlace], done: Callable[[Mapping[Partition, BrokerError]], None]) -> None:
        """Create partitions durably, in the background; a partition that has a log by then is left alone.

        An existing folder of the same name is used if it has the topic's id; it is then checked as after a crash. Any
        other folder in the way is set aside.

        Args:
            places: the partitions.
            done: called with KAFKA_STORAGE_ERROR for each partition that could not be created; a second attempt uses
                the files left by the first.
        """
        missing: list[LogPlace] = []
        logs: dict[Partition, PartitionLog] = {}
        errors: dict[Partition, BrokerError] = {}

        def prepare() -> Callable[[], None]:
            missing.extend(place for place in places if self.log(*place.partition) is None)
            return partial(self._create, missing, logs, errors)

        def created(error: Exception | None) -> None:
            if error is not None:
                logs.clear()
                errors.update((place.partition, storage_error(error)) for place in missing)
            for partition, log in logs.items():
                self.take(partition, log)
                if log.is_unsettled:  # a crash interrupted its truncation
                    log.settle(is_checkpointed=False)
            for partition, reason in errors.items():
                name = folder_of(*partition)
                shown = name if has_folder_name(*partition) else quoted(name)
                logger.error("could not create the partition %s: %s", shown, reason)
            done(errors)

        self.queue.do(prepare, created)

    def _create(
        self, places: Iterable[LogPlace], logs: dict[Partition, PartitionLog], errors: dict[Partition, BrokerError]
    ) -> None:
        """Create the folders and logs of partitions; each partition gets a log or an error."""
        for place in places:
            if not has_folder_name(*place.partition):
                errors[place.partition] = BrokerError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "the partition's name is not a valid folder name"
                )
                continue
            try:
                if self.folders.is_of(place.partition, place.topic_id):
                    logs[place.partition] = self._adopt(place)
                else:
                    logs[place.partition] = self.make(place, is_durable=True)
            except OSError as error:
                errors[place.partition] = storage_error(error)
        self._disk.sync_folder("")

    def _adopt(self, place: LogPlace) -> PartitionLog:
        """Open the log in an existing folder that was not expected at startup.

        The log is checked starting at its recovery point, since a clean shutdown covers only open logs.
        """
        checkpoints, partition = self.checkpoints, place.partition
        checkpoints.adopt(partition)
        return self._sound_log(
            place,
            is_clean=False,
            log_start_offset=checkpoints.start_of(partition),
            recovery_point=checkpoints.recovery_points.get(partition),
            high_watermark=checkpoints.high_watermark_of(partition),
        )

    def identify(
        self, topic_ids: Mapping[Partition, bytes], done: Callable[[Mapping[Partition, BrokerError]], None]
    ) -> None:
        """Store newly assigned topic ids durably, in the background; a log whose id cannot be stored goes offline.

        Args:
            topic_ids: the topic ids of partitions whose logs were created here before the topics had ids.
            done: called with KAFKA_STORAGE_ERROR for each partition whose id could not be stored.
        """
        errors: dict[Partition, OSError] = {}

        def work() -> None:
            for partition, topic_id in topic_ids.items():
                try:
                    self.folders.identify(partition, topic_id)
                except OSError as error:
                    errors[partition] = error

        def noted(error: Exception | None) -> None:
            for partition, reason in errors.items():
                if (log := self.log(*partition)) is not None:
                    log.fail(reason)
            done({partition: storage_error(reason) for partition, reason in errors.items()})

        self.queue.do(lambda: work, noted)

    def make(self, place: LogPlace, *, is_durable: bool = False) -> PartitionLog:
        """Create the folder and the log of a new partition; an existing folder of that name is set aside.

        This method blocks, so it is called from a step in `queue`. That step then syncs the directory; `take` follows
        once the step has ended.

        Args:
            place: the partition.
            is_durable: whether the folder's metadata must survive a crash once the directory is synced.

        Raises:
            OSError: the disk failed.
        """
        self.checkpoints.clear([place.partition])
        self.folders.make(place.partition, place.topic_id, is_durable=is_durable)
        return self._sound_log(place, is_clean=True, log_start_offset=0, recovery_point=0, high_watermark=0)

    def _sound_log(
        self,
        place: LogPlace,
        *,
        is_clean: bool,
        log_start_offset: int,
        recovery_point: int | None,
        high_watermark: int,
    ) -> PartitionLog:
        """Open the log in a folder; see `CheckpointedLog` for the arguments.

        Raises:
            OSError: the disk failed.
        """
        log = PartitionLog(
            self.services,
            folder_of(*place.partition),
            place.config,
            is_clean=is_clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            high_watermark=high_watermark if self._is_replicated else None,
        )
        if log.error is not None:
            raise OSError(str(log.error))
        return log

    def take(self, partition: Partition, log: PartitionLog) -> None:
        """Include a log in checkpoints and upkeep from now on."""
        topic, number = partition
        self._logs.setdefault(topic, {})[number] = log
        log.on_sealed = self.checkpoint
        log.on_truncated = self._truncated

    def delete(
        self,
        partitions: Iterable[Partition],
        end: BrokerError,
        done: Callable[[Mapping[Partition, BrokerError]], None],
    ) -> None:
        """Delete partitions and their files; slices returned earlier stay readable.

        Args:
            partitions: the partitions; those without a log here may have a folder that was not opened at startup.
            end: the error with which waiting operations on the logs fail.
            done: called once the deletion is durable, with KAFKA_STORAGE_ERROR for each partition whose folder still
                exists, or may reappear after a restart.
        """
        places = list(dict.fromkeys(partitions))
        going: list[Partition] = []
        retired: list[str] = []
        errors: dict[Partition, BrokerError] = {}

        def prepare() -> Callable[[], None]:
            for each in places:
                if self.log(*each) is None:
                    going.append(each)
                else:  # by a creation that was in progress
                    errors[each] = BrokerError(
                        ErrorCode.KAFKA_STORAGE_ERROR, "the partition was created while it was being deleted"
                    )
            return work

        def work() -> None:
            for each in going:
                try:
                    if (folder := self.folders.retire_one(each)) is not None:
                        retired.append(folder)
                except OSError as error:
                    errors[each] = storage_error(error)
            self._disk.sync_folder("")

        def deleted(error: Exception | None) -> None:
            if error is not None:
                errors.update((each, storage_error(error)) for each in going)
            for each, reason in errors.items():
                logger.error("could not remove the folder of the deleted partition %s: %s", folder_of(*each), reason)
            done(errors)
            if error is None:  # needs no queueing: no other code knows these folders
                self.services.background(partial(self.folders.remove, retired), _removed)

        self.clear_away(self.drop(places, end), prepare, deleted)

    def drop(
        self, partitions: Collection[Partition], end: BrokerError, unlisted: Callable[[], None] = lambda: None
    ) -> list[PartitionLog]:
        """End the logs of deleted partitions and return these logs; slices returned earlier stay readable.

        Args:
            partitions: the partitions; those without a log here are ignored.
            end: the error with which waiting operations on the logs fail.
            unlisted: called once the logs are no longer listed, before they end.
        """
        logs = self._unlist(partitions)
        self.checkpoints.note_deleted(partitions)
        unlisted()
        for log in logs:
            log.end(end)
        return logs

    def _unlist(self, partitions: Iterable[Partition]) -> list[PartitionLog]:
        """Exclude the logs of partitions from checkpoints and upkeep from now on, and return them."""
        unlisted = []
        for topic, number in partitions:
            hosted = self._logs.get(topic, {})
            if (log := hosted.pop(number, None)) is not None:
                unlisted.append(log)
            if not hosted:
                self._logs.pop(topic, None)
        return unlisted

    def clear_away(
        self,
        logs: Sequence[PartitionLog],
        prepare: Callable[[], Callable[[], None]],
        done: Callable[[Exception | None], None],
    ) -> None:
        """Clear away the folders of dropped logs ahead of all other steps, then remove the logs from the checkpoints.

        A sync or a roll that is still running would write into the folder of the next partition of that name, so other
        steps wait for it to finish.

        Args:
            logs: the logs that `drop` returned.
            prepare: returns the work that renames or removes the folders; see `BackgroundQueue.do`.
            done: see `Background`.
        """
        self.queue.do(prepare, done, place=0, when=partial(when_all_quiet, logs))
        self._forget_dropped()

    def _forget_dropped(self) -> None:
        """Drop the entries of deleted partitions from the checkpoints, in one step for all waiting deletions."""
        if self._is_forgetting:
            return
        self._is_forgetting = True

        def prepare() -> Callable[[], None]:
            self._is_forgetting = False
            return self.checkpoints.forget_if_possible

        self.queue.do(prepare, lambda error: None)

    # Checkpoints and shutdown.

    def checkpoint(self, done: Callable[[BrokerError | None], None] = lambda error: None) -> None:
        """Write the checkpoints of recovery points and log start offsets, in the background.

        Args:
            done: called with None once the current state is durable, or with KAFKA_STORAGE_ERROR.
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
                logger.warning("could not write the checkpoints, so a restart after a crash takes longer: %s", error)
            for waiting_done in waiting:
                waiting_done(None if error is None else storage_error(error))

        self.queue.do(prepare, written, place=1)  # ahead of the thousands of topics that may be queued

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
        """Leave the remaining files of deleted partitions to the next startup."""
        self.folders.is_ending = True

    def close(self, each: Each = one_by_one) -> None:
        """Sync everything, mark a clean shutdown, and release the files.

        Args:
            each: closes the logs; syncing several logs in parallel is faster than syncing them in sequence.
        """
        self.queue.close()
        each(log.close for _, _, log in self.logs())
        try:
            self.checkpoints.work(self.logs())()
            # An offline log has to be checked at the next startup.
            if not any(log.is_offline for _, _, log in self.logs()):
                replace_file(self._disk, CLEAN_SHUTDOWN, clean_shutdown_text().encode())
        except OSError as error:
            logger.error("%s: the shutdown is not clean: %s", self._disk.describe(""), error)
        self.abandon()

    def abandon(self) -> None:
        """Release the directory without further writes, as a crash would."""
        self.begin_end()
        self.queue.close()
        self._logs.clear()
        self._lock.release()


def _removed(error: Exception | None) -> None:
    if error is not None:
        logger.warning("files of deleted partitions remain until the next startup: %s", error)
