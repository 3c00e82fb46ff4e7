"""Count requests: times and errors by API, and bytes by topic.

A `RequestObserver`: it is called for every answered request, and only counts. What it looks at in a request or a
response is limited, and so is the number of topics with counters of their own.

Source: `RequestMetrics`, `BrokerTopicMetrics` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metrics.exposition import Measured, Sample
from kafkawire.reference_broker.metrics.families import FAMILIES
from kafkawire.reference_broker.metrics.histogram import NS_PER_SECOND, Histogram
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.request_times import RequestTimes
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES, BATCH_RECORDS_COUNT_AT

__all__ = ["ITEMS_MAX", "TOPICS_MAX", "RequestMetrics"]

#: The maximum number of items of a response whose error codes are counted; examining them takes a fraction of a
#: millisecond.
ITEMS_MAX: Final = 1_000

#: The maximum number of topics with counters of their own, as in the clients; the totals count all topics.
TOPICS_MAX: Final = 400

_NO_ERROR: Final = int(ErrorCode.NONE)
_ERROR_CODE: Final = "error_code"
_RECORDS_COUNT_END: Final = BATCH_RECORDS_COUNT_AT + 4

#: Converted once, since every request is compared with them.
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)

#: The names of errors, keyed by code.
_ERRORS: Final[Mapping[int, str]] = {int(code): code.name for code in ErrorCode}


class _Place(NamedTuple):
    """Where a structure has error codes.

    Attributes:
        has_code: whether the structure itself has one.
        inner: the arrays whose structures have some, by attribute.
    """

    has_code: bool
    inner: tuple[tuple[str, _Place], ...]


class _ApiCounts:
    """What is counted for one API."""

    __slots__ = ("errors", "local_ns", "queue_ns", "remote_ns", "requests", "response_ns", "size_bytes", "throttle_ms",
                 "total")  # fmt: skip

    def __init__(self) -> None:
        self.requests = self.size_bytes = 0
        self.queue_ns = self.local_ns = self.remote_ns = self.response_ns = self.throttle_ms = 0
        self.total = Histogram()
        self.errors: Counter[int] = Counter()


class _TopicCounts:
    """What is counted for one topic, or for all."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self) -> None:
        self.bytes_in = self.messages_in = self.bytes_out = 0


class RequestMetrics:
    """Counters of requests.

    Args:
        topics_by_id: returns the topics by id, since requests may identify topics only by id.
    """

    def __init__(self, topics_by_id: Callable[[], Mapping[bytes, TopicImage]]) -> None:
        self._topics_by_id = topics_by_id
        self._apis: dict[str, _ApiCounts] = {}
        self._topics: dict[str, _TopicCounts] = {}
        self._all_topics = _TopicCounts()
        self._replication_bytes_out = 0
        self._places: dict[type[Message], _Place | None] = {}

    def __call__(self, request: Request, call: Call, response: Message | None, times: RequestTimes) -> None:
        """Count a request."""
        counts = self._apis.get(request.api.name)
        if counts is None:
            counts = self._apis[request.api.name] = _ApiCounts()
        begun_ns, handled_ns, answered_ns = times.begun_ns, times.handled_ns, times.answered_ns
        counts.requests += 1
        counts.size_bytes += request.size_bytes
        counts.queue_ns += begun_ns - times.arrived_ns
        counts.local_ns += handled_ns - begun_ns
        counts.remote_ns += answered_ns - handled_ns
        counts.response_ns += times.sent_ns - answered_ns
        counts.throttle_ms += call.throttle_ms
        counts.total.add(times.sent_ns - times.arrived_ns)
        key = request.api.key
        if key == _PRODUCE:
            self._produced(request.message, response, counts.errors)
        elif key == _FETCH and response is not None:
            self._fetched(request.message, response, counts.errors)
        elif response is not None:
            kind = type(response)
            place = self._places[kind] if kind in self._places else self._places.setdefault(kind, _place_of(kind))
            if place is not None:
                _count_errors(response, place, counts.errors, ITEMS_MAX)

    # Topics.

    def _produced(self, request: ProduceRequest, response: Any, errors: Counter[int]) -> None:
        """Count the batches that were appended, and the errors of others; without a response, all batches."""
        topics = () if response is None else response.responses
        for number, data in enumerate(request.topic_data):
            answers = topics[number].partition_responses if number < len(topics) else ()
            size_bytes = messages = 0
            for place, partition in enumerate(data.partition_data):
                if place < len(answers) and (code := answers[place].error_code):
                    errors[code] += 1
                    continue
                records = partition.records
                if records is not None:
                    size_bytes += len(records)
                    if len(records) >= BATCH_HEADER_BYTES:
                        messages += int.from_bytes(records[BATCH_RECORDS_COUNT_AT:_RECORDS_COUNT_END], "big")
            total, own = self._all_topics, self._topics.get(data.name) or self._counts_of(data.name, data.topic_id)
            total.bytes_in += size_bytes
            total.messages_in += messages
            if own is not None:
                own.bytes_in += size_bytes
                own.messages_in += messages

    def _fetched(self, request: FetchRequest, response: Any, errors: Counter[int]) -> None:
        """Count the batches that were read, and the errors."""
        if response.error_code:
            errors[response.error_code] += 1
        is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
        for topic in response.responses:
            size_bytes = 0
            for partition in topic.partitions:
                if partition.records:
                    size_bytes += len(partition.records)
                elif partition.error_code:
                    errors[partition.error_code] += 1
            if is_follower:
                self._replication_bytes_out += size_bytes
            elif size_bytes:
                self._all_topics.bytes_out += size_bytes
                own = self._topics.get(topic.topic) or self._counts_of(topic.topic, topic.topic_id)
                if own is not None:
                    own.bytes_out += size_bytes

    def _counts_of(self, name: str, topic_id: bytes) -> _TopicCounts | None:
        """Return the counters for a topic, which has a name or an id; None if it is unknown or there is no room."""
        if not name:
            topic = self._topics_by_id().get(topic_id)
            if topic is None:
                return None
            name = topic.name
        counts = self._topics.get(name)
        if counts is None and len(self._topics) < TOPICS_MAX:
            counts = self._topics[name] = _TopicCounts()
        return counts

    def forget_missing(self, existing: Mapping[str, TopicImage]) -> None:
        """Drop the counters of topics that do not exist, to make room for others."""
        for name in [name for name in self._topics if name not in existing]:
            del self._topics[name]

    # Reading.

    def measured(self) -> Iterator[Measured]:
        """Yield the current values."""
        apis = sorted(self._apis.items())
        yield _each("requests", ((name, each.requests) for name, each in apis))
        errors = [
            Sample(count, (name, _ERRORS.get(code, str(code))))
            for name, each in apis
            for code, count in sorted(each.errors.items())
        ]
        yield Measured(FAMILIES["errors"], tuple(errors))
        histograms = tuple(sample for name, each in apis for sample in each.total.samples(name))
        yield Measured(FAMILIES["total_time"], histograms)
        for key in ("queue", "local", "remote", "response"):
            sums = [(name, each.requests, getattr(each, f"{key}_ns") / NS_PER_SECOND) for name, each in apis]
            yield _summary(f"{key}_time", sums)
        yield _summary("throttle_time", [(name, each.requests, each.throttle_ms / 1000) for name, each in apis])
        yield _summary("request_bytes", [(name, each.requests, each.size_bytes) for name, each in apis])
        yield from self._measured_topics()

    def _measured_topics(self) -> Iterator[Measured]:
        topics = sorted(self._topics.items())
        for key in ("bytes_in", "messages_in", "bytes_out"):
            yield Measured(FAMILIES[key], (Sample(getattr(self._all_topics, key)),))
            yield _each(f"topic_{key}", ((name, getattr(each, key)) for name, each in topics))
        yield Measured(FAMILIES["replication_bytes_out"], (Sample(self._replication_bytes_out),))


def _each(key: str, values: Iterator[tuple[str, int]]) -> Measured:
    return Measured(FAMILIES[key], tuple(Sample(value, (name,)) for name, value in values))


def _summary(key: str, values: list[tuple[str, int, float]]) -> Measured:
    samples = ((Sample(count, (name,), "_count"), Sample(total, (name,), "_sum")) for name, count, total in values)
    return Measured(FAMILIES[key], tuple(sample for pair in samples for sample in pair))


def _place_of(kind: type[Message]) -> _Place | None:
    """Return where a structure has error codes; None if it has none."""
    has_code, inner = False, []
    for field in kind.FIELDS:
        if field.name == _ERROR_CODE:
            has_code = True
        elif field.array and isinstance(field.type, type) and (place := _place_of(field.type)) is not None:
            inner.append((field.name, place))
    return _Place(has_code, tuple(inner)) if has_code or inner else None


def _count_errors(message: Any, place: _Place, errors: Counter[int], left: int) -> int:
    """Count the error codes in a structure; return how many more items may be examined."""
    if place.has_code and (code := message.error_code) != _NO_ERROR:
        errors[code] += 1
    for name, inner in place.inner:
        for item in getattr(message, name) or ():
            if left <= 0:
                return 0
            left = _count_errors(item, inner, errors, left - 1)
    return left
