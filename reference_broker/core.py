"""The broker without sockets, clocks and threads: requests in, responses out.

`handle` returns a response or a `DelayedOperation`; `timers` says when something is due. The server, or a test,
provides bytes, time and threads. What handlers share lives here: topics and logs, groups and offsets, options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kafkawire.reference_broker.apis.registry import Call, load
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.offsets import KeyValue, OffsetStore, offsets_partition
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.log.batches import build_batch, records_in
from kafkawire.reference_broker.log.log_directory import LogDirectory, Topic
from kafkawire.reference_broker.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.options import BrokerOptions
from kafkawire.reference_broker.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.wire import Address

__all__ = ["INTERNAL_TOPICS", "Core"]

#: Topics that the broker writes itself.
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: Configuration of the offsets topic: compacted, in segments that a restart reads quickly.
_OFFSETS_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 1024 * 1024),
}

#: The default of `flush.ms`: never.
_NEVER_MS = 2**63 - 1

#: Runs blocking work: the first function runs elsewhere; the second runs where requests are handled, with the error or
#: None.
Background = Callable[[Callable[[], None], Callable[[Exception | None], None]], None]


class Core:
    """A broker.

    Args:
        directory: topics and logs.
        options: see `BrokerOptions`.
        address: the address advertised to clients.
        new_id: returns the random part of a member id.
        now_ms: the current time.
        background: runs blocking work; None to run it in place.

    Attributes:
        served: the advertised versions of each API.
        timers: pending deadlines.
    """

    def __init__(
        self,
        directory: LogDirectory,
        options: BrokerOptions,
        address: Address,
        new_id: Callable[[], str],
        now_ms: int,
        background: Background | None = None,
    ) -> None:
        self.directory = directory
        self.options = options
        self.address = address
        self.timers = Timers()
        self.background = background or _at_once
        self.offsets = OffsetStore(self._append_group_records)
        limits = GroupLimits(
            options.group_min_session_timeout_ms,
            options.group_max_session_timeout_ms,
            options.group_initial_rebalance_delay_ms,
            options.group_max_size,
        )
        self.groups = GroupCoordinator(self.timers, self.offsets, new_id, limits)
        self._sync_timers: dict[PartitionLog, Timer] = {}
        self._handlers = load()
        self.served = {key: served.versions for key, served in self._handlers.items()}
        self.groups.restore(self.offsets.load(self._stored_group_records()).values(), now_ms)

    def handle(self, request: Request, client_host: str, now_ms: int) -> Message | DelayedOperation | None:
        """Handle a request.

        Args:
            request: of an API and version in `served`.
            client_host: the client's host as Kafka shows it: `/127.0.0.1`.
            now_ms: the current time.

        Returns:
            The response, a delayed operation, or None for a request without a response (acks=0).

        Raises:
            RemoteProtocolError: the request cannot be answered; the connection must be closed.
        """
        call = Call(self, request.version, request.client_id or "", client_host, now_ms)
        return self._handlers[ApiKey(request.api.key)].handle(call, request.message)

    def advance(self, now_ms: int) -> None:
        """Fire the timers that are due at `now_ms`."""
        self.timers.fire(now_ms)

    def close(self) -> None:
        """Sync everything to disk."""
        self.directory.close()

    # Topics.

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Create a topic that does not exist; name, partition count and configurations must have been checked.

        Raises:
            BrokerError: KAFKA_STORAGE_ERROR, it could not be written.
        """
        try:
            return self.directory.create(name, partitions, configs)
        except OSError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def delete_topic(self, topic: Topic, now_ms: int) -> None:
        """Delete a topic, its data and the offsets committed for it."""
        self.directory.delete(topic)
        self.offsets.forget_topic(topic.name, now_ms)
        for log in topic.logs:
            log.complete_delayed_fetches()

    def offsets_topic(self) -> Topic:
        """Return the offsets topic, created when first needed.

        Raises:
            BrokerError: KAFKA_STORAGE_ERROR, it could not be created.
        """
        topic = self.directory.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            partitions = self.options.offsets_topic_num_partitions
            topic = self.create_topic(CONSUMER_OFFSETS_TOPIC, partitions, _OFFSETS_TOPIC_CONFIGS)
        return topic

    # Groups.

    def _append_group_records(self, group_id: str, records: Sequence[KeyValue], now_ms: int) -> None:
        logs = self.offsets_topic().logs
        log = logs[offsets_partition(group_id, len(logs))]
        data, header = build_batch(records, now_ms)
        log.append(data, header, now_ms)

    def _stored_group_records(self) -> Iterator[tuple[Buffer | None, Buffer | None]]:
        topic = self.directory.topics.get(CONSUMER_OFFSETS_TOPIC)
        for log in [] if topic is None else topic.logs:
            yield from records_in(log)

    # Syncing.

    def sync_after(self, log: PartitionLog, appended: Appended, now_ms: int) -> bool:
        """Schedule syncing of what was appended, as the topic's configuration asks.

        Returns:
            Whether the response must wait for `sync`.
        """
        if log.needs_sync:
            return True
        if appended.is_rolled:
            self.sync([log], self._rolled)
        elif log.config.flush_ms < _NEVER_MS and log not in self._sync_timers:
            self._sync_timers[log] = self.timers.at(now_ms + log.config.flush_ms, lambda _: self._sync_in_time(log))
        return False

    def _sync_in_time(self, log: PartitionLog) -> None:
        del self._sync_timers[log]
        self.sync([log], lambda error: None)

    def _rolled(self, error: Exception | None) -> None:
        if error is None:
            self.directory.checkpoint()

    def sync(self, logs: Sequence[PartitionLog], then: Callable[[Exception | None], None]) -> None:
        """Sync logs to disk in the background.

        Args:
            logs: what to sync.
            then: called afterwards with the error, or None.
        """
        work = [(log, *log.unsynced()) for log in logs]

        def sync() -> None:
            for _, _, segments in work:
                for segment in segments:
                    segment.sync()

        def done(error: Exception | None) -> None:
            if error is None:
                for log, offset, _ in work:
                    log.synced(offset)
            then(error)

        self.background(sync, done)


def _at_once(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)
