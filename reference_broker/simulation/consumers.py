"""A consumer of all partitions in a topic, which compares the records that it gets with the committed ones."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from kafkawire.reference_broker.simulation.checkers import Checkers, Violation
from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.tables.enums import ControlRecordType, IsolationLevel, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_type
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Consumer", "fetch", "values_of"]

_WAIT_MS: Final = 200
_BYTES: Final = 64 * 1024


def fetch(
    client: Client, partition: TopicPartition, offset: int, isolation: IsolationLevel
) -> Generator[Ask | Pause, Any, FetchResponse.PartitionData | None]:
    """Fetch from the leader; return the partition's part of the response, or None if there is no answer."""
    leader = client.leader(partition)
    known = client.metadata.partition(partition)
    if leader is None or known is None:
        yield Pause(30)
        return None
    topic_id = client.metadata.topic_id(partition.topic)
    asked = FetchRequest.FetchPartition(
        partition.partition, current_leader_epoch=known.leader_epoch, fetch_offset=offset, partition_max_bytes=_BYTES
    )
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_BYTES,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(partition.topic, topic_id, [asked])],
    )
    response = yield from ask(Ask(Node(leader), request), FetchResponse)
    if response is None or response.error_code or not response.responses:
        client.outdated()
        yield Pause(client.chance.randint(10, 50))
        return None
    part = response.responses[0].partitions[0]
    if part.error_code:
        client.outdated()
        yield Pause(client.chance.randint(10, 50))
    return part


def values_of(part: FetchResponse.PartitionData, offset: int) -> tuple[dict[int, bytes], int]:
    """Return the values in a response, keyed by offset and without aborted ones, and the next offset.

    Args:
        part: the partition's part of the response.
        offset: the position of the consumer.
    """
    aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
    open_aborts: set[int] = set()
    values: dict[int, bytes] = {}
    for batch in walk(part.records or b""):
        while aborted and aborted[0][0] <= batch.last_offset:
            open_aborts.add(aborted.pop(0)[1])
        if batch.is_control:
            for record in batch.records():
                if control_type(record).type is ControlRecordType.ABORT:
                    open_aborts.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_aborts):
            for record in batch.records():
                if record.offset >= offset:
                    values[record.offset] = bytes(record.value or b"")
        offset = max(offset, batch.last_offset + 1)
    return values, offset


class Consumer:
    """Reads a topic from its beginning, and repeatedly asks where it ends.

    Args:
        client: sends the requests.
        checkers: know the committed records.
        partitions: the partitions to read.
        isolation: the isolation level, which determines which transactional records are read.

    Attributes:
        values: the values read, keyed by partition and offset.
        is_committed: whether only committed transactions are read.
    """

    def __init__(
        self, client: Client, checkers: Checkers, partitions: Sequence[TopicPartition], isolation: IsolationLevel
    ) -> None:
        self._client = client
        self._checkers = checkers
        self._isolation = isolation
        self.is_committed = isolation is IsolationLevel.READ_COMMITTED
        self._offsets = dict.fromkeys(partitions, 0)
        self._ends = dict.fromkeys(partitions, 0)
        self.values: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in partitions}

    def script(self) -> Script:
        """Read until the client ends."""
        chance = self._client.chance
        while not self._client.is_over:
            partition = chance.choice(list(self._offsets))
            if chance.random() < 0.2:
                yield from self._ask_end(partition)
            else:
                yield from self._read(partition)
            yield Pause(chance.randint(20, 250))

    def _read(self, partition: TopicPartition) -> Generator[Ask | Pause, Any, None]:
        offset = self._offsets[partition]
        leader = self._client.leader(partition)
        start = 0 if leader is None else self._checkers.start_at(leader, partition)
        part = yield from fetch(self._client, partition, offset, self._isolation)
        if part is None:
            return
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._checkers.may_be_deleted(partition, offset):
            yield from self._begin_again(partition)
            return
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation(f"{partition}: {self._client.name} is at {offset}, which is out of range")
        if part.error_code:
            return
        if offset < start:
            raise Violation(f"{partition}: {self._client.name} reads at {offset}, but the log begins at {start}")
        values, self._offsets[partition] = values_of(part, offset)
        committed = self._checkers.committed.get(
            (self._client.metadata.last_topic_id(partition.topic), partition.partition)
        )
        end = 0 if committed is None else committed.end
        if self._offsets[partition] > end:
            raise Violation(
                f"{partition}: {self._client.name} has read up to {self._offsets[partition]}, "
                f"but only records up to {end} are committed"
            )
        self.values[partition].update(values)

    def _begin_again(self, partition: TopicPartition) -> Generator[Ask | Pause, Any, None]:
        """Continue at the start of the log, whose first records have been deleted."""
        start = yield from self._ask_offset(partition, OffsetTimestamp.EARLIEST)
        if start is not None:
            self._offsets[partition] = max(self._offsets[partition], start)

    def _ask_end(self, partition: TopicPartition) -> Generator[Ask | Pause, Any, None]:
        end = yield from self._ask_offset(partition, OffsetTimestamp.LATEST)
        if end is None:
            return
        if end < self._ends[partition]:
            raise Violation(
                f"{partition}: the end seen by {self._client.name} moved back from {self._ends[partition]} to {end}"
            )
        self._ends[partition] = end

    def _ask_offset(
        self, partition: TopicPartition, timestamp: OffsetTimestamp
    ) -> Generator[Ask | Pause, Any, int | None]:
        leader = self._client.leader(partition)
        if leader is None:
            return None
        asked = ListOffsetsRequest.ListOffsetsPartition(partition.partition, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(partition.topic, [asked])
        request = ListOffsetsRequest(-1, self._isolation, [topic])
        response = yield from ask(Ask(Node(leader), request), ListOffsetsResponse)
        if response is None or not response.topics:
            return None
        part = response.topics[0].partitions[0]
        if part.error_code:
            self._client.outdated()
            return None
        return int(part.offset)
