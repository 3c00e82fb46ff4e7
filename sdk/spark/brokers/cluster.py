"""The driver's requests to the brokers: partitions, their first and last offsets, and offsets by time.

Failed requests are retried with new clients, up to `fetchOffset.numRetries` times; attempts to connect are repeated for
as long as a call may take.

Source: `KafkaOffsetReaderAdmin` in Apache Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from kafkawire.sdk.errors import BrokerError, ConfigurationError, ConnectFailed, KafkaWireError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.brokers.options import WireOptions
from kafkawire.sdk.spark.connecting import connect, pause
from kafkawire.sdk.spark.option_values import there_are
from kafkawire.sdk.spark.selection import EARLIEST, LATEST, Bound, Times
from kafkawire.sdk.sync.admin import Admin
from kafkawire.sdk.sync.consumer import Consumer

__all__ = ["Cluster", "Positions"]

_log = logging.getLogger("kafkawire.spark")

#: Offsets keyed by partition.
Positions = dict[TopicPartition, int]

Found = TypeVar("Found")
Client = TypeVar("Client", Admin, Consumer[bytes, bytes])


class Cluster:
    """The driver's access to a query's brokers, which connects on first use.

    Args:
        options: the options of the query.
    """

    def __init__(self, options: WireOptions) -> None:
        self._options = options
        self._admin: Admin | None = None
        self._consumer: Consumer[bytes, bytes] | None = None

    def partitions(self, known: Container[TopicPartition] | None = None) -> list[TopicPartition]:
        """Return the partitions that the query reads, in order.

        Args:
            known: partitions whose disappearance is handled elsewhere; None if all named partitions must exist.

        Raises:
            ConfigurationError: there is no such topic or partition.
            KafkaWireError: a request to the brokers failed.
        """
        selection = self._options.selection
        try:
            found = self._tried(lambda: self._topics(is_strict=known is None))
        except BrokerError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._check_topics()
            raise
        chosen = [each for each in found if selection.has(each)]
        for missing in sorted((selection.partitions or frozenset()) - set(chosen)):
            if known is None or missing not in known:
                raise ConfigurationError("assign", str(missing), "the cluster has no such partition")
        return chosen

    def earliest(self, partitions: Collection[TopicPartition]) -> Positions:
        """Return the first offset of each partition.

        Raises:
            KafkaWireError: a request to the brokers failed.
        """
        return self._tried(lambda: self._asked().beginning_offsets(partitions)) if partitions else {}

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int] = {}) -> Positions:
        """Return the end of each partition; with `read_committed`, this is the start of its first open transaction.

        Args:
            partitions: the partitions.
            known: offsets that existed earlier. A broker that has just become the leader may not know them yet, in
                which case it is asked again.

        Raises:
            KafkaWireError: a request to the brokers failed.
        """
        if not partitions:
            return {}
        attempts = 1
        while True:
            found = self._tried(lambda: self._asked().end_offsets(partitions))
            behind = [each for each, end in found.items() if end < known.get(each, 0)]
            if not behind or attempts >= self._options.attempts:
                return found
            _log.warning("%s ends at %d, before offset %d", behind[0], found[behind[0]], known[behind[0]])
            pause(self._options.retry_interval_ms)
            attempts += 1

    def place(self, bound: Bound, partitions: Collection[TopicPartition]) -> Positions:
        """Return where a query begins or ends in each partition.

        Args:
            bound: the bound in the options. If there is no record at or after the bound's time, a query ends at the end
                of the partition, and may begin there only if the options allow it.
            partitions: the partitions.

        Raises:
            ConfigurationError: the option does not name exactly these partitions, or no record is recent enough.
            KafkaWireError: a request to the brokers failed.
        """
        named = bound.place.named
        if (named or bound.place.others is None) and named.keys() != set(partitions):
            there = _listed(partitions)
            raise ConfigurationError(bound.option, _listed(named), f"expected exactly the existing partitions: {there}")
        if isinstance(bound.place, Times):
            wanted = self._at(bound, {each: named.get(each, bound.place.others or 0) for each in partitions})
        else:
            wanted = {each: bound.place.of(each) for each in partitions}
        first = self.earliest([each for each, offset in wanted.items() if offset == EARLIEST])
        last = self.latest([each for each, offset in wanted.items() if offset == LATEST])
        return {**wanted, **first, **last}

    def close(self) -> None:
        """Disconnect; later requests connect again."""
        clients, self._admin, self._consumer = (self._admin, self._consumer), None, None
        for client in clients:
            if client is not None:
                with suppress(KafkaWireError):
                    client.close()

    def _at(self, bound: Bound, times: Mapping[TopicPartition, int]) -> Positions:
        places = self._tried(lambda: self._asked().offsets_for_times(times)) if times else {}
        found = {}
        for partition, place in places.items():
            if place is None and bound.option.startswith("starting") and not self._options.takes_latest:
                reason = (
                    f"{partition} has no record of that time or later; "
                    "set startingOffsetsByTimestampStrategy=latest to begin at its end"
                )
                raise ConfigurationError(bound.option, times[partition], reason)
            found[partition] = LATEST if place is None else place.offset
        return found

    def _topics(self, *, is_strict: bool) -> list[TopicPartition]:
        """Return the partitions of topics that may be selected."""
        selection = self._options.selection
        admin = self._asked_admin()
        if selection.pattern is not None:
            topics = admin.list_topics()
        else:
            names = selection.topics or {each.topic for each in selection.partitions or ()}
            try:
                topics = admin.describe_topics(sorted(names))
            except BrokerError as error:
                if is_strict or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                every = admin.list_topics(include_internal=True)
                topics = {name: topic for name, topic in every.items() if name in names}
        return sorted(TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions)

    def _check_topics(self) -> None:
        """Raise an error for names of topics that do not exist, listing the existing topics.

        Raises:
            ConfigurationError: a named topic does not exist.
        """
        selection = self._options.selection
        option, names = "subscribe", selection.topics
        if names is None:
            option, names = "assign", frozenset(each.topic for each in selection.partitions or ())
        try:
            there = self._tried(lambda: self._asked_admin().list_topics(include_internal=True))
        finally:
            self.close()
        if missing := sorted(names - there.keys()):
            raise ConfigurationError(option, ", ".join(missing), there_are(there, asked=missing)) from None

    def _asked_admin(self) -> Admin:
        if self._admin is None:
            self._admin = self._started(self._options.client.admin())
        return self._admin

    def _asked(self) -> Consumer[bytes, bytes]:
        if self._consumer is None:
            self._consumer = self._started(self._options.client.consumer())
        return self._consumer

    def _started(self, client: Client) -> Client:
        connect(client.start, self._options.client.api_timeout_ms)
        return client

    def _tried(self, ask: Callable[[], Found]) -> Found:
        """Return the result of a request, retrying it if necessary."""
        attempts = 0
        while True:
            attempts += 1
            try:
                return ask()
            except KafkaWireError as error:
                self.close()  # new clients may succeed, and if the caller gives up now, nothing closes these later
                # A client that failed to connect has already made all the attempts that its options allow.
                if not error.retriable or attempts >= self._options.attempts or isinstance(error, ConnectFailed):
                    raise
                _log.warning("asking the brokers again: %s", error)
            pause(self._options.retry_interval_ms)


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
