"""Look up a group's committed offsets, retrying each partition after its own pauses.

Source: Apache Kafka, `CommitRequestManager.OffsetFetchRequestState`; KIP-447 (UNSTABLE_OFFSET_COMMIT).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError, RequestTimedOut
from kafkawire.sdk.groups.offset_requests import TopicNames, fetch_request, fetch_results
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.requests import lacking
from kafkawire.sdk.routing.retry import Attempts, Backoff, outdates_metadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["CommittedOffsets", "Found"]

#: Retriable codes that end a lookup, because a topic that does not exist must not keep a reader waiting.
_FINAL = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)

#: The result for each partition: its offset, None if nothing is committed, or the error of the lookup.
Found = Mapping[TopicPartition, OffsetAndMetadata | KafkaWireError | None]


class _Wanted:
    """Partitions that a caller is waiting for."""

    __slots__ = ("attempts", "call", "deadline_ms", "names", "on_found", "request")

    def __init__(
        self,
        attempts: dict[TopicPartition, Attempts],
        deadline_ms: int,
        on_found: Callable[[Found, int], None],
    ) -> None:
        self.attempts = attempts
        self.deadline_ms = deadline_ms
        self.on_found = on_found
        self.call: Call | None = None
        self.request = OffsetFetchRequest()
        self.names: TopicNames = {}


class CommittedOffsets:
    """A machine that looks up the committed offsets of one group.

    Args:
        router: sends the requests.
        backoff: the pauses between attempts.
        group_id: the group.
    """

    def __init__(self, router: Router, backoff: Backoff, group_id: str) -> None:
        self._router = router
        self._backoff = backoff
        self._group_id = group_id
        self._wanted: list[_Wanted] = []

    def find(
        self,
        partitions: Collection[TopicPartition],
        deadline_ms: int,
        on_found: Callable[[Found, int], None],
    ) -> Callable[[], None]:
        """Look up the offsets of partitions.

        Args:
            partitions: the partitions to look up.
            deadline_ms: the time by which every partition is reported.
            on_found: called with the results and the time; each partition is reported once.

        Returns:
            A function that ends the lookup, after which nothing more is reported.
        """
        attempts = {partition: Attempts(self._backoff, deadline_ms, final=_FINAL) for partition in partitions}
        wanted = _Wanted(attempts, deadline_ms, on_found)
        self._wanted.append(wanted)
        return partial(_withdraw, wanted)

    def poll(self, now_ms: int) -> None:
        """Send the requests that are due."""
        for wanted in list(self._wanted):
            if wanted.deadline_ms <= now_ms:
                late = {partition: self._late(partition, each, now_ms) for partition, each in wanted.attempts.items()}
                self._report(wanted, late, now_ms)
            elif wanted.call is None:
                due = [partition for partition, each in wanted.attempts.items() if each.not_before_ms <= now_ms]
                if due:
                    self._send(wanted, due, now_ms)
            if not wanted.attempts:
                _withdraw(wanted)
                self._wanted.remove(wanted)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = [wanted.deadline_ms for wanted in self._wanted]
        for wanted in self._wanted:
            if wanted.call is None:
                times += [each.not_before_ms for each in wanted.attempts.values()]
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all lookups."""
        for wanted in self._wanted:
            self._report(wanted, dict.fromkeys(wanted.attempts, error), now_ms)
        self._wanted.clear()

    def _send(self, wanted: _Wanted, partitions: Collection[TopicPartition], now_ms: int) -> None:
        def request(versions: Versions) -> tuple[Message, int]:
            metadata = self._router.metadata
            wanted.request, version, wanted.names = fetch_request(self._group_id, partitions, metadata, versions)
            return wanted.request, version

        wanted.call = Call(
            Coordinator(CoordinatorType.GROUP, self._group_id),
            request,
            OffsetFetchResponse,
            wanted.deadline_ms,
            partial(self._answered, wanted, partitions),
            check=partial(self._group_error, wanted),
            retries=False,
            purpose=Purpose.GROUP,
        )
        self._router.submit(wanted.call, now_ms)

    def _answered(
        self, wanted: _Wanted, asked: Collection[TopicPartition], call: Call[OffsetFetchResponse], now_ms: int
    ) -> None:
        wanted.call = None
        found: dict[TopicPartition, OffsetAndMetadata | KafkaWireError | None] = {}
        if call.error is not None:
            self._refused(wanted, asked, call.error, found, now_ms)
            self._report(wanted, found, now_ms)
            return
        missing = set(asked)
        for partition, code, offset in fetch_results(call.answer, wanted.request, wanted.names)[1]:
            missing.discard(partition)
            if partition not in wanted.attempts:
                continue
            if code == ErrorCode.NONE:
                found[partition] = offset
                continue
            error = BrokerError(code, f"committed offset of {partition} in group {self._group_id}")
            self._refused(wanted, [partition], error, found, now_ms)
        for partition in missing:  # these may still have committed offsets
            self._refused(wanted, [partition], lacking(call.answer, f"partition {partition}"), found, now_ms)
        self._report(wanted, found, now_ms)

    def _refused(
        self,
        wanted: _Wanted,
        partitions: Collection[TopicPartition],
        error: KafkaWireError,
        found: dict[TopicPartition, OffsetAndMetadata | KafkaWireError | None],
        now_ms: int,
    ) -> None:
        for partition in partitions:
            attempts = wanted.attempts.get(partition)
            if attempts is None:
                continue
            if not attempts.failed(error, now_ms):
                found[partition] = error
            elif outdates_metadata(error):
                self._router.metadata.invalidate()

    def _report(self, wanted: _Wanted, found: Found, now_ms: int) -> None:
        known = {partition: result for partition, result in found.items() if partition in wanted.attempts}
        for partition in known:
            del wanted.attempts[partition]
        if known:
            wanted.on_found(known, now_ms)

    def _late(self, partition: TopicPartition, attempts: Attempts, now_ms: int) -> KafkaWireError:
        cause = attempts.last_error or self._router.last_refusal
        text = f"the offset that group {self._group_id} has committed for {partition} was not found in time"
        reason = f"; {cause}" if cause is not None else self._router.throttling(now_ms)
        error = RequestTimedOut(text + reason)
        error.__cause__ = cause
        return error

    def _group_error(self, wanted: _Wanted, response: OffsetFetchResponse) -> KafkaWireError | None:
        try:
            code, _ = fetch_results(response, wanted.request, wanted.names)
        except RemoteProtocolError as error:
            return error
        return BrokerError(code, f"committed offsets of group {self._group_id}") if code else None


def _withdraw(wanted: _Wanted) -> None:
    if wanted.call is not None:
        wanted.call.cancel()
        wanted.call = None
    wanted.attempts.clear()
