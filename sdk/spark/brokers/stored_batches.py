"""A partition's batches as its leader stores them, whatever they contain; does not need Spark.

A consumer returns only records for applications, and cannot continue after a damaged batch. Programs that analyse the
log itself also need control batches, aborted transactions and damage; this module reads these from the leader, one
fetch at a time.

Source: `Fetcher`, `LocalLog.read` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, DecodeError, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.enums import FINAL_FETCH_SESSION_EPOCH, NO_PARTITION_LEADER_EPOCH, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.extent import extent
from kafkawire.sdk.records.stored import Damage, Memory, Stored, read_stored
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import check
from kafkawire.sdk.routing.retry import METADATA_OUTDATED, Attempts
from kafkawire.sdk.spark.blocking_client import BlockingClient
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.ranges import PartitionRange
from kafkawire.sdk.spark.data_loss import begins_later, report_loss
from kafkawire.sdk.spark.offset_order import InOrder, first_offset
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.timing import sleep_ms
from kafkawire.sdk.transport.waiting import result_of

__all__ = ["StoredBatches"]

#: How long a broker waits for missing records, since a follower that has just become the leader may lack some.
_WAIT_MS: Final = 500

#: After this many consecutive responses that place the partition's end before the range, a follower's delay is no
#: longer a plausible cause.
_TOO_SHORT_MAX: Final = 6

#: The broker itself finds no batch in its file, so a retry would fail the same way.
_FINAL: Final = frozenset({ErrorCode.CORRUPT_MESSAGE})


class StoredBatches(BlockingClient):
    """Fetches from partition leaders; use it as a context manager.

    Args:
        client: the client options.
        timeout_ms: how long to keep trying to fetch the next batch.
    """

    def __init__(self, client: ClientSettings, timeout_ms: int) -> None:
        super().__init__(client.core, client.api_timeout_ms)
        self._client = client
        self._fetch_bytes = client.fetch_bytes
        self._timeout_ms = timeout_ms

    def read(self, wanted: PartitionRange) -> Iterator[Stored | Damage]:
        """Yield the content of a range in order: batches with an offset in the range, and bytes that are not batches.

        Positions are relative to a fetch and have no meaning. Records that retention removes during reading are skipped
        and logged.

        Raises:
            BrokerError: CORRUPT_MESSAGE if the leader itself finds no batch there.
            DecodeError: the fetched bytes do not show where the next batch begins.
            LocalProtocolError: the partition ends before the range.
            RequestTimedOut: no data arrived in time.
            KafkaWireError: the brokers cannot be reached, or refuse this client.
        """
        offset = wanted.start
        while offset < wanted.end:
            try:
                content = self._content(wanted, offset)
            except BrokerError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                offset = self._first_offset(wanted.partition, offset, error)
                continue
            damaged: list[Damage] = []
            reached = offset
            for found in _decided(content, 0 if offset == wanted.start else offset):
                if isinstance(found, Damage):
                    if reached >= wanted.end:
                        break  # it is beyond the end
                    damaged.append(found)
                    continue
                if first_offset(found.batch) >= wanted.end:
                    reached = wanted.end
                    break
                if found.batch.next_offset <= offset:
                    continue  # a broker's response begins with a whole compressed set
                yield from damaged
                damaged.clear()
                yield found
                reached = found.batch.next_offset
            if reached == offset:
                # Only damage was fetched, so nothing but the headers shows how far the damage extends.
                claimed = extent(content)
                if claimed.next_offset is None or claimed.next_offset <= offset:
                    reason = f"cannot read from offset {offset} onward: {claimed.damage or f'{len(content)} bytes'}"
                    raise DecodeError(str(wanted.partition), 0, reason)
                reached = claimed.next_offset
            elif reached < wanted.end:
                damaged.clear()  # the next fetch begins with the damage and includes the bytes after it
            yield from damaged
            offset = reached

    def _content(self, wanted: PartitionRange, offset: int) -> Buffer:
        """Return batches from an offset onward, of which at least one is complete."""
        deadline_ms = monotonic_ms() + self._timeout_ms
        too_short = 0
        while True:
            found = result_of(self._fetched, wanted.partition, offset, deadline_ms)
            if len(found.content):
                return found.content
            too_short = too_short + 1 if 0 <= found.end < wanted.end else 0
            if too_short >= _TOO_SHORT_MAX:
                raise LocalProtocolError(
                    f"{wanted.partition}: offsets {offset} to {wanted.end - 1} do not exist; "
                    f"the partition ends at {found.end}: "
                    "its leader has lost records, or the topic was recreated"
                )
            if monotonic_ms() >= deadline_ms:
                raise RequestTimedOut(
                    f"{wanted.partition}: no data arrived from offset {offset} onward in {self._timeout_ms} ms, "
                    f"although the range ends at {wanted.end}"
                )

    def _first_offset(self, partition: TopicPartition, offset: int, error: BrokerError) -> int:
        """Return where a partition now begins.

        Raises:
            BrokerError: the original error, if the partition does not begin after the offset.
        """
        with self._client.admin() as admin:
            first = admin.list_offsets({partition: OffsetTimestamp.EARLIEST})[partition].offset
        if first <= offset:
            raise error
        report_loss(begins_later(partition, offset, first), fails=False)
        return first

    async def _fetched(self, partition: TopicPartition, offset: int, deadline_ms: int) -> _Fetched:
        return await self._core.perform(self._fetch(partition, offset, deadline_ms))

    async def _fetch(self, partition: TopicPartition, offset: int, deadline_ms: int) -> _Fetched:
        """Return the leader's data from an offset onward. Runs on the client's I/O thread."""
        metadata = self._core.router.metadata
        attempts = Attempts(self._core.backoff, deadline_ms, final=_FINAL)
        while True:
            try:
                if attempts.failures or metadata.leader(partition) is None:
                    await self._core.operations.describe([partition.topic], deadline_ms=deadline_ms)
                leader = metadata.leader(partition)
                if leader is None:
                    raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, metadata.absence(partition))
                return await self._ask(leader, partition, offset, deadline_ms)
            except KafkaWireError as error:
                now_ms, before = monotonic_ms(), attempts.last_error
                if not attempts.failed(error, now_ms):
                    if not isinstance(error, RequestTimedOut):
                        raise
                    if isinstance(before, BrokerError):
                        raise before from error  # the reason for the retry: time ran out during the last attempt
                    raise RequestTimedOut(f"{partition}, from offset {offset} on: {error}") from error
                await sleep_ms(attempts.not_before_ms - now_ms)

    async def _ask(self, leader: int, partition: TopicPartition, offset: int, deadline_ms: int) -> _Fetched:
        topic_id = self._core.router.metadata.topic_id(partition.topic)
        known = self._core.router.metadata.partition(partition)
        wanted = FetchRequest.FetchPartition(
            partition.partition,
            NO_PARTITION_LEADER_EPOCH if known is None else known.leader_epoch,
            offset,
            partition_max_bytes=self._fetch_bytes,
        )
        request = FetchRequest(
            max_wait_ms=min(_WAIT_MS, max(deadline_ms - monotonic_ms(), 0)),
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            session_epoch=FINAL_FETCH_SESSION_EPOCH,
            topics=[FetchRequest.FetchTopic(partition.topic, topic_id, [wanted])],
        )
        carrying = (FetchRequest.FetchTopic, "topic") if topic_id == ZERO_UUID else None

        def version(versions: Versions) -> tuple[FetchRequest, int]:
            return request, versions.version_for(FetchRequest, carrying)

        def refuse(response: FetchResponse) -> None:
            detail = f"fetch from {partition} at offset {offset}"
            check(response.error_code, detail)
            for topic in response.responses:
                for data in topic.partitions:
                    check(data.error_code, detail)

        response = await self._core.operations.request(
            Node(leader),
            version,
            FetchResponse,
            refuse,
            deadline_ms=deadline_ms + _WAIT_MS,
            final=METADATA_OUTDATED | _FINAL,
        )
        for topic in response.responses:
            for data in topic.partitions:
                return _Fetched(data.records or b"", data.high_watermark)
        return _Fetched()


class _Fetched(NamedTuple):
    """A leader's response.

    Attributes:
        content: batches, or empty bytes if there are none.
        end: the end of the partition for consumers; -1 if the leader does not report it.
    """

    content: Buffer = b""
    end: int = -1


def _decided(content: Buffer, lowest: int) -> list[Stored | Damage]:
    """Return the content of a fetch response, treating batches with impossible offsets as damage.

    If only the bytes after it can show whether the last batch's offset is right, that batch is left to the next fetch,
    which begins with it.

    Args:
        content: the bytes of the batches.
        lowest: the lowest possible offset; 0 if the first batch may begin before the requested offset.
    """
    order = InOrder(read_stored(Memory(content), is_growing=True), lowest, None, is_segment=False)
    found = list(order)
    is_undecided = order.next_offset is None and isinstance(found[-1], Stored)
    if is_undecided and sum(isinstance(each, Stored) for each in found) > 1:
        found.pop()
    return found
