"""Answer offset queries from consumers: for the first offset, the last one, or the first one after a time.

This machine sends each query to the partitions' leaders, retries it if that may help, and ends it by its deadline. It
requests missing metadata separately, to avoid requesting a nonexistent topic forever.

A consumer waits for a topic or a partition that does not exist; `sdk/admin/records.py` answers an admin, which does
not wait for a topic, and has an answer for each partition.

Source: Apache Kafka, `OffsetFetcher`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError, RequestTimedOut
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Node
from kafkawire.sdk.routing.list_offsets import list_answers, list_request, list_version
from kafkawire.sdk.routing.partitions import OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.requests import MetadataQuestion
from kafkawire.sdk.routing.retry import Attempts, Backoff, outdates_metadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise

__all__ = ["OffsetQueries"]

logger = logging.getLogger("kafkawire.client")

Answer = Promise[dict[TopicPartition, OffsetAndTimestamp]]


class _Query:
    """One query.

    Attributes:
        left: the times of the partitions that have not been answered yet.
        in_flight: calls that have not ended.
        doubtful: topics whose metadata must be requested before the leaders are asked again.
        error: the error of the current attempt; None if there is none.
    """

    def __init__(self, times: Mapping[TopicPartition, int], answer: Answer, attempts: Attempts) -> None:
        self.left = dict(times)
        self.found: dict[TopicPartition, OffsetAndTimestamp] = {}
        self.answer = answer
        self.attempts = attempts
        self.in_flight = 0
        self.doubtful: set[str] = set()
        self.error: KafkaWireError | None = None


class OffsetQueries:
    """Answer the queries of one client.

    Args:
        router: sends the requests.
        options: the client's options.
        backoff: the pauses between attempts.
        isolation_level: with READ_COMMITTED, the last offset is the last stable offset.
    """

    def __init__(
        self,
        router: Router,
        options: ClientOptions,
        backoff: Backoff,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> None:
        self._router = router
        self._options = options
        self._backoff = backoff
        self._isolation_level = isolation_level
        self._queries: list[_Query] = []
        self._lines = LogLimit(logger)

    def ask(self, times: Mapping[TopicPartition, int], answer: Answer, now_ms: int) -> None:
        """Look up the first record at or after a time, for each partition.

        Args:
            times: the times, in ms since the epoch or as an `OffsetTimestamp`.
            answer: kept with all results, or fails with the first final error.
            now_ms: the time.
        """
        if not times:
            answer.keep({})
            return
        attempts = Attempts(self._backoff, now_ms + self._options.api_timeout_ms)
        self._queries.append(_Query(times, answer, attempts))

    def poll(self, now_ms: int) -> None:
        """Send the requests that are due."""
        for query in list(self._queries):
            if query.answer.done:
                self._queries.remove(query)
            elif not query.in_flight and query.attempts.not_before_ms <= now_ms:
                self._send(query, now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if not self._queries:
            return None
        waiting = [query.attempts.not_before_ms for query in self._queries if not query.in_flight]
        return min(waiting, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail all queries."""
        for query in self._queries:
            query.answer.fail(error)
        self._queries.clear()

    def _send(self, query: _Query, now_ms: int) -> None:
        """Request the doubtful topics or, if there are none, ask the leaders."""
        leaders: dict[int, dict[TopicPartition, int]] = {}
        doubtful = {*query.doubtful}
        for partition, time_ms in query.left.items():
            leader = self._router.metadata.leader(partition)
            if leader is None:
                doubtful.add(partition.topic)
            else:
                leaders.setdefault(leader, {})[partition] = time_ms
        if doubtful:
            self._describe(query, doubtful, now_ms)
            return
        for leader, times in leaders.items():
            self._list(query, leader, times, now_ms)

    def _describe(self, query: _Query, topics: Iterable[str], now_ms: int) -> None:
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        question = MetadataQuestion(self._router.metadata, request)

        def described(call: Call[MetadataResponse], now_ms: int) -> None:
            query.in_flight -= 1
            query.doubtful.clear()
            if call.error is not None:
                query.error = call.error
            else:
                declined = question.take(call.answer, now_ms)
                query.error = declined or self._missing(query)
            if query.error is None:
                self._send(query, now_ms)
            else:
                self._attempted(query, now_ms)

        query.in_flight += 1
        call = Call(ANY_BROKER, question, MetadataResponse, _deadline_ms(query), described, retries=False)
        self._router.submit(call, now_ms)

    def _missing(self, query: _Query) -> KafkaWireError | None:
        """Return why a partition has no leader; None if all partitions have a leader."""
        metadata = self._router.metadata
        for partition in query.left:
            if metadata.leader(partition) is not None:
                continue
            known = metadata.partition(partition) is not None
            code = ErrorCode.LEADER_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            text = ": ".join(filter(None, (f"partition {partition}", metadata.absence(partition))))
            return BrokerError(metadata.errors.get(partition.topic, code), text)
        return None

    def _list(self, query: _Query, leader: int, times: Mapping[TopicPartition, int], now_ms: int) -> None:
        timeout_ms = self._options.request_timeout_ms
        request = list_request(self._router.metadata, times, self._isolation_level, timeout_ms)
        query.in_flight += 1
        call = Call(
            Node(leader),
            lambda versions: (request, list_version(times, leader, versions)),
            ListOffsetsResponse,
            _deadline_ms(query),
            partial(self._listed, query, times),
            retries=False,
        )
        self._router.submit(call, now_ms)

    def _listed(
        self, query: _Query, times: Mapping[TopicPartition, int], call: Call[ListOffsetsResponse], now_ms: int
    ) -> None:
        query.in_flight -= 1
        if call.error is not None:
            self._doubt(query, times, call.error)
        else:
            for partition, answer in list_answers(call.answer).items():
                if isinstance(answer, KafkaWireError):
                    self._doubt(query, [partition], answer)
                elif query.left.pop(partition, None) is not None:
                    query.found[partition] = OffsetAndTimestamp(*answer)
        if not query.in_flight:
            self._attempted(query, now_ms)

    def _doubt(self, query: _Query, partitions: Iterable[TopicPartition], error: KafkaWireError) -> None:
        """Record an attempt's error; a final error takes precedence."""
        if query.error is None or query.error.retriable:
            query.error = error
        if outdates_metadata(error):
            query.doubtful.update(partition.topic for partition in partitions)

    def _attempted(self, query: _Query, now_ms: int) -> None:
        """End a query, or try again later."""
        error, query.error = query.error, None
        if error is None and query.left:
            error = RemoteProtocolError(f"the responses to ListOffsets lack {', '.join(map(str, query.left))}")
        former = query.attempts.last_error
        if error is None:
            query.answer.keep(query.found)
        elif query.attempts.failed(error, now_ms):
            left_ms = _deadline_ms(query) - now_ms
            self._lines.warning("retried", now_ms, "offsets are looked up again for up to %d ms: %s", left_ms, error)
        else:
            if isinstance(error, RequestTimedOut) and former is not None:  # it is more specific than a timeout
                error, error.__cause__ = former, error
            query.answer.fail(error)


def _deadline_ms(query: _Query) -> int:
    assert query.attempts.deadline_ms is not None
    return query.attempts.deadline_ms
