"""The broker without sockets, clocks and threads: requests in, responses out.

`handle` returns a response or a `DelayedOperation`; `timers` says when something is due. The server, or a test,
provides bytes, time and threads. What handlers share lives here: topics and logs, groups, offsets,
transactions, fetch sessions, options.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import GeneratorType
from typing import Any

from kafkawire.reference_broker.apis.registry import Answer, Call, Handler, ServedApis, load
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.topics import TopicFacts, Topics
from kafkawire.reference_broker.metadata.internal_topics import plan_topic, warn_of_removal
from kafkawire.reference_broker.replicas.fetch_sessions import FetchSessions
from kafkawire.reference_broker.requests.long_requests import Turns, begin
from kafkawire.reference_broker.requests.request_path import ELEMENTS, chain
from kafkawire.reference_broker.storage.cleaning.upkeep import Upkeep, UpkeepLimits
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, Topic
from kafkawire.reference_broker.storage.services import Each, one_by_one
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.participants import verify_commit, write_marker
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.reference_broker.work.computations import Slices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

__all__ = ["Core"]

_log = logging.getLogger("kafkawire.broker")

#: How often logs forget idle producers, Kafka's `producer.id.expiration.check.interval.ms`.
_PRODUCER_EXPIRATION_CHECK_MS = 600_000


class Core:
    """A broker.

    Args:
        directory: topics and logs; its timers and its background are those of the whole broker.
        options: see `BrokerOptions`.
        new_id: returns a text that is never repeated, for the ids of members and of fetch sessions.
        now_ms: the current time.
        served: what it serves, from `load`; None for its own APIs.

    Attributes:
        groups: see `GroupCoordinator`.
        transactions: see `TransactionCoordinator`.
        fetch_sessions: what consumers fetch.
        producer_ids: gives ids to producers.
        apis: what it knows.
        served: the versions of each API that are served.
        advertised: the versions of each API that clients are told.
        lines: what the parts of the broker write to the log, repetitions held back.
        timers: pending deadlines.
        slices: long computations.
        turns: requests that take long.
        upkeep: see `Upkeep`.
    """

    def __init__(
        self,
        directory: LogDirectory,
        options: BrokerOptions,
        new_id: Callable[[], str],
        now_ms: int,
        served: ServedApis | None = None,
    ) -> None:
        self.directory = directory
        self.options = options
        self.lines = LogLimit(_log)
        self.timers = directory.services.timers
        self.slices = Slices(self.timers)
        self.turns = Turns()
        self.groups = GroupCoordinator(
            self.timers,
            new_id,
            GroupLimits.of(options),
            lambda: self._coordinator_logs(CONSUMER_OFFSETS_TOPIC),
            _TopicsOf(directory),
            partial(verify_commit, self),
            self.slices,
        )
        self.fetch_sessions = FetchSessions(options.max_incremental_fetch_session_cache_slots, new_id, self.slices)
        self.producer_ids = ProducerIds(directory.reserve_producer_ids, directory.services)
        self.transactions = TransactionCoordinator(
            self.timers,
            TransactionLimits.of(options),
            lambda: self._coordinator_logs(TRANSACTION_STATE_TOPIC),
            self.producer_ids,
            partial(write_marker, self),
        )
        #: By name with underscores for periods, which metrics cannot tell apart.
        self._similar_names = {_folded(name): name for name in directory.topics}
        warn_of_removal({name: topic.configs for name, topic in directory.topics.items()}, options, _log)
        self._expire_producers(now_ms)
        upkeep = UpkeepLimits(
            retention_check_delay_ms=options.log_initial_task_delay_ms,
            retention_check_interval_ms=options.log_retention_check_interval_ms,
            # Kafka's cleaner may go on without a pause; here that would be without end.
            cleaner_backoff_ms=max(options.log_cleaner_backoff_ms, 1),
            cleaner_keys_bytes=options.log_cleaner_dedupe_buffer_size,
            is_cleaner_enabled=options.log_cleaner_enable,
        )
        self.upkeep = Upkeep(directory, upkeep, now_ms)
        self.apis, handlers = load() if served is None else served
        self.served = {key: each.versions for key, each in handlers.items()}
        self.advertised = {key: each.advertised for key, each in handlers.items()}
        self._handlers: dict[int, Handler] = {key: each.handle for key, each in handlers.items()}
        self._answer = chain(ELEMENTS, self._dispatch)
        self.groups.load(now_ms)
        self.transactions.load(now_ms)

    def handle(self, call: Call, message: Any) -> Answer:
        """Handle a request.

        Args:
            call: its context; the API and version are in `served`.
            message: the request; None for ApiVersions in an unknown version.

        Returns:
            The response, a delayed operation, or None for a request without a response (acks=0).

        Raises:
            RemoteProtocolError: the request cannot be answered; the connection must be closed.
        """
        return self._answer(call, message)

    def _dispatch(self, call: Call, message: Any) -> Answer:
        outcome: Any = self._handlers[call.api.key](call, message)
        answer: Answer = begin(outcome) if isinstance(outcome, GeneratorType) else outcome
        return answer

    def advance(self, now_ms: int) -> None:
        """Fire the timers that are due at `now_ms`."""
        self.timers.fire(now_ms)

    def begin_end(self) -> None:
        """Start no more work in the background, and end what may be left to the next start."""
        self.upkeep.stop()
        self.directory.begin_end()

    def unload(self) -> None:
        """Answer everything that waits for a coordinator: this broker coordinates nothing any more."""
        self.groups.unload()
        self.transactions.unload()

    def close(self, each: Each = one_by_one) -> None:
        """Sync everything to disk.

        Args:
            each: see `LogDirectory.close`.
        """
        self.begin_end()
        self.directory.close(each)

    # Topics.

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], done: Callable[[Topic | BrokerError], None]
    ) -> None:
        """Create a topic that does not exist; name, partition count and configurations must have been checked.

        `done` is called with the topic, or with KAFKA_STORAGE_ERROR if it could not be written.
        """

        def created(made: Topic | BrokerError) -> None:
            if isinstance(made, BrokerError):
                self._forget_name(name)
            done(made)

        self._similar_names[_folded(name)] = name
        self.directory.create(name, partitions, configs, created)

    def _forget_name(self, name: str) -> None:
        """Forget a name that no topic has any more, or ever got: clients may try any number of them."""
        if self._similar_names.get(_folded(name)) == name and self.similar_topic(name) is None:
            del self._similar_names[_folded(name)]

    def similar_topic(self, name: str) -> str | None:
        """Return the topic, created or being created, whose name is this one or differs in periods and underscores."""
        known = self._similar_names.get(_folded(name))
        is_there = known is not None and (known in self.directory.topics or self.directory.is_creating(known))
        return known if is_there else None

    def delete_topic(self, topic: Topic, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        """Delete a topic, its data and the offsets committed for it; `done` is called with None or the error.

        A coordinator whose topic goes forgets everything.
        """

        def gone() -> None:
            self._forget_name(topic.name)
            # Before its logs end, which would be taken for a failure.
            if topic.name == CONSUMER_OFFSETS_TOPIC:
                self.groups.unload()
            elif topic.name == TRANSACTION_STATE_TOPIC:
                self.transactions.unload()

        def deleted(error: BrokerError | None) -> None:
            if error is not None:
                done(error)
            else:
                self.groups.forget_topic(topic.name, topic.topic_id, lambda: done(None), now_ms)

        self.directory.delete(topic, self.timers.as_of_now(deleted), gone)

    def create_offsets_topic(self, done: Callable[[Topic | BrokerError], None]) -> None:
        """Create the offsets topic, if it does not exist; `done` is called as by `create_topic`."""
        self._create_coordinator_topic(CONSUMER_OFFSETS_TOPIC, done)

    def create_transactions_topic(self, done: Callable[[Topic | BrokerError], None]) -> None:
        """Create the topic of transactions, if it does not exist; `done` is called as by `create_topic`."""
        self._create_coordinator_topic(TRANSACTION_STATE_TOPIC, done)

    def _create_coordinator_topic(self, name: str, done: Callable[[Topic | BrokerError], None]) -> None:
        topic = self.directory.topics.get(name)
        if topic is not None:
            done(topic)
        else:
            self.create_topic(name, *plan_topic(name, self.options), done)

    def _coordinator_logs(self, name: str) -> list[TopicLog]:
        topic = self.directory.topics.get(name)
        return [] if topic is None else [TopicLog(log) for log in topic.logs]

    # Producers.

    def _expire_producers(self, now_ms: int) -> None:
        for _, _, log in self.directory.logs():
            log.producers.expire(now_ms, self.options.producer_id_expiration_ms)
        self.timers.at(now_ms + _PRODUCER_EXPIRATION_CHECK_MS, self._expire_producers)


def _folded(name: str) -> str:
    return name.replace(".", "_")


class _TopicsOf(Topics):
    """The topics of a directory, as coordinators see them."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._topics = directory.topics

    def __getitem__(self, name: str) -> TopicFacts:
        topic = self._topics[name]
        return TopicFacts(topic.topic_id, len(topic.logs))

    def __contains__(self, name: object) -> bool:
        return name in self._topics  # which costs a tenth of asking for what is not there

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def came(self) -> int:
        return self._directory.topics_came

    @property
    def changes(self) -> int:
        # None of them grows, and those that are not there any more have gone.
        return 2 * self._directory.topics_came - len(self._topics)
