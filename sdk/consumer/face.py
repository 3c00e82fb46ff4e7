"""What the faces of a consumer share: everything that does not wait.

Partitions and positions change at once on the user's side, and the I/O side learns of it. Reading, which waits, is in
each face: `consumer.py` awaits, a blocking face blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic

from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.topics import checked_topics
from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from typing import Unpack

    from kafkawire.sdk.client.keywords import ConsumerKeywords
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.handout import RecordStream
    from kafkawire.sdk.consumer.hooks import ConsumerHooks, ConsumerInterceptor
    from kafkawire.sdk.consumer.listener import BlockingListenerCalls, ListenerCalls, RebalanceListener

__all__ = ["ConsumerFace"]


class ConsumerFace(Generic[Key, Value]):
    """The part of a consumer that does not wait; see `Consumer` for the arguments."""

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *topics: str,
        listener: RebalanceListener | None = None,
        key_deserializer: Callable[[bytes], Key] | None = None,
        value_deserializer: Callable[[bytes], Value] | None = None,
        interceptors: Iterable[ConsumerInterceptor[Key, Value]] | None = None,
        network: Network | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        self._options = read_options(ConsumerOptions, servers, options)
        self._network = network
        self._listener = listener
        self._hooks: ConsumerHooks[Key, Value] | None = None
        if key_deserializer is not None or value_deserializer is not None or interceptors is not None:
            from kafkawire.sdk.consumer.hooks import ConsumerHooks  # few programs have hooks

            self._hooks = ConsumerHooks(key_deserializer, value_deserializer, interceptors or ())
        self._topics = checked_topics(topics)
        self._by_hand: list[TopicPartition] = []
        self._core: ConsumerCore | None = None
        self._calls: ListenerCalls | BlockingListenerCalls | None = None
        self._raised: Exception | None = None
        self._is_closing = False
        self._stream: RecordStream[Key, Value] | None = None
        self._seen = 0

    # Which partitions.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned now."""
        return frozenset(self._by_hand) if self._core is None else self._core.assignment.assigned

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group membership.

        Args:
            partitions: replace those assigned before.

        Raises:
            LocalProtocolError: the consumer subscribes to topics.
        """
        if self._topics:
            raise LocalProtocolError("assign: this consumer subscribes to topics; create one without topics")
        self._by_hand = [TopicPartition(*partition) for partition in partitions]
        if self._core is not None:
            self._core.assignment.assign(self._by_hand)

    def pause(self, *partitions: TopicPartition) -> None:
        """Suspend reading of these partitions; they stay assigned to this consumer.

        Raises:
            LocalProtocolError: one is not assigned.
        """
        self._started().assignment.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume reading of paused partitions, and of those that an error has stopped.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        self._started().assignment.resume(partitions)

    # Positions.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition from `offset`.

        Raises:
            LocalProtocolError: the offset is negative, or the partition is not assigned.
        """
        self._started().seek_to_offset(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the first record of each partition; of all assigned ones if none is given."""
        self._started().seek(partitions, OffsetTimestamp.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of each partition; of all assigned ones if none is given."""
        self._started().seek(partitions, OffsetTimestamp.LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Continue from the first record at or after a time, or else after the last record.

        Args:
            timestamp_ms: milliseconds since the epoch.
            partitions: all assigned ones if none is given.
        """
        self._started().seek(partitions, timestamp_ms)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are between the position and the end of a partition, as far as both are known.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        return self._started().lag(partition)

    def _started(self) -> ConsumerCore:
        if self._core is None:
            raise Closed("the consumer is not started, or is closed")
        return self._core
