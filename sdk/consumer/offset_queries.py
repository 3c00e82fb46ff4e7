"""Answer questions of the application about offsets: the first, the last, the first after a time.

A machine: each question goes to the leaders in charge, is repeated where that may help, and ends by its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kafkawire.sdk.client.call import Call, Node
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.client.partitions import OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.retry import Attempts, Backoff
from kafkawire.sdk.client.router import Router
from kafkawire.sdk.consumer.offset_requests import list_answers, list_request
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.tables.error_codes import INVALID_METADATA, ErrorCode
from kafkawire.sdk.transport.promise import Promise

__all__ = ["OffsetQueries"]

Answer = Promise[dict[TopicPartition, OffsetAndTimestamp]]


class _Query:
    """One question; `left` was not answered yet, `in_flight` calls are."""

    def __init__(self, times: Mapping[TopicPartition, int], answer: Answer, attempts: Attempts) -> None:
        self.left = dict(times)
        self.found: dict[TopicPartition, OffsetAndTimestamp] = {}
        self.answer = answer
        self.attempts = attempts
        self.in_flight = 0


class OffsetQueries:
    """Answer the questions of one consumer.

    Args:
        router: carries the requests.
        options: of the consumer.
        backoff: the pauses between attempts.
    """

    def __init__(self, router: Router, options: ConsumerOptions, backoff: Backoff) -> None:
        self._router = router
        self._options = options
        self._backoff = backoff
        self._queries: list[_Query] = []

    def ask(self, times: Mapping[TopicPartition, int], answer: Answer, now_ms: int) -> None:
        """Look up the first record at or after a time, for each partition.

        Args:
            times: ms since the epoch, or an `OffsetTimestamp`.
            answer: is kept with all of them, or fails with the first error that lasts.
            now_ms: the time.
        """
        attempts = Attempts(self._backoff, now_ms + self._options.api_timeout_ms)
        self._queries.append(_Query(times, answer, attempts))

    def poll(self, now_ms: int) -> None:
        """Send what is due."""
        for query in list(self._queries):
            if query.answer.done or not query.left:
                query.answer.keep(query.found)
                self._queries.remove(query)
            elif not query.in_flight and query.attempts.not_before_ms <= now_ms:
                self._send(query, now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before."""
        waiting = [query.attempts.not_before_ms for query in self._queries if not query.in_flight]
        return min(waiting, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail every question."""
        for query in self._queries:
            query.answer.fail(error)
        self._queries.clear()

    def _send(self, query: _Query, now_ms: int) -> None:
        metadata = self._router.metadata
        leaders: dict[int, dict[TopicPartition, int]] = {}
        for partition, time_ms in query.left.items():
            leader = metadata.leader(partition)
            if leader is None:
                if metadata.wanted is not None:
                    metadata.wanted.add(partition.topic)
                metadata.invalidate()
                known = metadata.partition(partition) is not None
                code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                code = metadata.errors.get(partition.topic, code)
                self._failed(query, BrokerError(code, f"partition {partition}"), now_ms)
                return
            leaders.setdefault(leader, {})[partition] = time_ms
        deadline_ms = query.attempts.deadline_ms or now_ms
        for leader, times in leaders.items():
            level, timeout_ms = self._options.isolation_level, self._options.request_timeout_ms
            request = list_request(metadata, times, level, timeout_ms)
            query.in_flight += 1
            call = Call(
                Node(leader),
                lambda _, request=request: (request, None),  # type: ignore[misc]  # a default binds the loop's value
                ListOffsetsResponse,
                deadline_ms,
                partial(self._answered, query),
                retries=False,
            )
            self._router.submit(call, now_ms)

    def _answered(self, query: _Query, call: Call, now_ms: int) -> None:
        query.in_flight -= 1
        if call.error is not None:
            self._failed(query, call.error, now_ms)
            return
        assert isinstance(call.result, ListOffsetsResponse)
        for partition, answer in list_answers(call.result).items():
            if isinstance(answer, KafkaWireError):
                if answer.code in INVALID_METADATA:
                    self._router.metadata.invalidate()
                self._failed(query, answer, now_ms)
            elif query.left.pop(partition, None) is not None:
                query.found[partition] = OffsetAndTimestamp(answer.offset, answer.timestamp_ms)

    def _failed(self, query: _Query, error: KafkaWireError, now_ms: int) -> None:
        """Try again later, or end a question."""
        if not query.attempts.failed(error, now_ms):
            query.answer.fail(error)
