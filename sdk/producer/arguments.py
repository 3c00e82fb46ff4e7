"""What applications pass to a producer for its records, checked before anything is buffered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from kafkawire.sdk.client.arguments import MAX_INT32, checked_number
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.values import digits, quoted
from kafkawire.sdk.records import HeadersLike
from kafkawire.sdk.records.content import HeadersInput, record_content, record_headers
from kafkawire.sdk.records.engines.shared_arguments import checked_time
from kafkawire.sdk.routing.topics import checked_topic

if TYPE_CHECKING:
    from kafkawire.sdk.producer.outcome import Outcome

__all__ = [
    "FILL_ONE_AFTER_THE_OTHER",
    "MAX_HEADER_OVERHEAD_BYTES",
    "MAX_RECORD_OVERHEAD_BYTES",
    "TO_BE_CHOSEN",
    "Held",
    "PartitionerFailed",
    "check_callback",
    "checked_partition",
    "checked_values",
    "content",
    "contents",
    "header_pairs",
    "is_absent",
    "timestamp",
    "wanted_partition",
]

#: Most bytes of a record beside its key, its value and its headers: the varints of length, timestamp, offset, key
#: length, value length and number of headers, and the attributes.
MAX_RECORD_OVERHEAD_BYTES = 5 + 10 + 5 + 5 + 5 + 5 + 1

#: Most bytes of the two lengths of a header.
MAX_HEADER_OVERHEAD_BYTES = 5 + 5

#: Instead of the number of a partition: the record has neither a key nor a partition, and goes where the last such one
#: went until there is a batch's worth.
FILL_ONE_AFTER_THE_OTHER = -1
#: Instead of the number of a partition: it must still be chosen, by what the record holds.
TO_BE_CHOSEN = -2

timestamp = checked_time


class Held:
    """A record that no batch has taken yet, and its checked contents.

    Args:
        topic: its destination.
        key, value: bytes or None.
        headers: pairs of a name and bytes.
        partition: None to choose it; whether its topic has it may not be known yet.
        timestamp_ms: milliseconds since the epoch.
        bound_bytes: the most bytes that it takes in a batch.

    Raises:
        LocalProtocolError: no topic can have the partition.

    Attributes:
        outcome: of the record, while its topic is not known.
        created_ms: when it was held.
        deadline_ms: when it fails if its topic is still not known.
        term: of the accumulator when it was held.
    """

    __slots__ = (
        "bound_bytes",
        "created_ms",
        "deadline_ms",
        "headers",
        "key",
        "outcome",
        "partition",
        "term",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: HeadersLike,
        partition: int | None,
        timestamp_ms: int,
        bound_bytes: int,
    ) -> None:
        self.topic = topic
        self.key = key
        self.value = value
        self.headers = headers
        self.partition = None if partition is None else wanted_partition(topic, partition)
        self.timestamp_ms = timestamp_ms
        self.bound_bytes = bound_bytes
        self.outcome: Outcome | None = None
        self.created_ms = self.deadline_ms = 0
        self.term = 0


class PartitionerFailed(Exception):
    """A function of the user gave no partition.

    Args:
        reason: what becomes of its record.
    """

    def __init__(self, reason: LocalProtocolError) -> None:
        super().__init__(reason)
        self.reason = reason

    @classmethod
    def of(cls, key: bytes, error: BaseException) -> Self:
        """Return the failure for the key of a record, given what was raised."""
        what = f"{quoted(key, 100)}: {quoted(error, 200)}"
        return cls(LocalProtocolError(f"the partitioner gave no partition for key {what}"))


def content(path: str, value: Any) -> bytes:
    """Return a key or a value, which is not None, as bytes; see `record_content`."""
    found = record_content(path, value)
    return found if type(found) is bytes else bytes(found or b"")


def header_pairs(headers: HeadersInput) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Return headers as pairs of a name and bytes, and the most bytes that they take; see `record_headers`."""
    pairs = tuple(
        (name, value if value is None or type(value) is bytes else bytes(value))
        for name, value in record_headers(headers)
    )
    return pairs, sum(len(name.encode()) + len(value or b"") + MAX_HEADER_OVERHEAD_BYTES for name, value in pairs)


def check_callback(name: str, given: object) -> None:
    """Check what is to be called with a delivery, before anything is buffered.

    Raises:
        LocalProtocolError: it cannot be called.
    """
    if not callable(given):
        raise LocalProtocolError(f"{name}: expected something that can be called, got {quoted(given, 100)}")


def checked_values(given: object) -> Iterator[Any]:
    """Return the values of many records: text, bytes and mappings are iterable, but nobody wants to send their parts.

    Raises:
        LocalProtocolError: it is one value, or no iterable.
    """
    if isinstance(given, str | bytes | bytearray | memoryview | Mapping) or not isinstance(given, Iterable):
        reason = f"expected several, got {quoted(given, 100)}; one goes to send, or into a list"
        raise LocalProtocolError(f"values: {reason}")
    return iter(given)


def checked_partition(topic: str, partition: object, count: int) -> int:
    """Return the number of a partition that a topic has.

    Raises:
        LocalProtocolError: it has no such partition, or what was given is no integer.
    """
    number = partition if type(partition) is int else checked_number(f"partition of {topic}", partition, 0, MAX_INT32)
    if not 0 <= number < count:
        raise LocalProtocolError(f"topic {topic} has partitions 0 to {count - 1}, not {digits(number)}")
    return number


def wanted_partition(topic: object, partition: object) -> int:
    """Return the number of a partition that a topic may have, as far as anybody knows.

    Raises:
        LocalProtocolError: no topic can have it, or the name.
    """
    if type(partition) is int and 0 <= partition <= MAX_INT32:
        return partition
    return checked_number(f"partition of {checked_topic(topic)}", partition, 0, MAX_INT32)


def is_absent(partition: object, count: int) -> bool:
    """Return whether a record must wait for metadata: of its topic, or of a partition that the topic may have by now.

    Args:
        partition: that the record is for, None for any; not checked yet.
        count: of the partitions that are known.
    """
    return not count or (type(partition) is int and count <= partition <= MAX_INT32)


def contents(
    values: Iterator[Any], limit: int, are_plain: Callable[[list[Any]], bool] | None
) -> tuple[list[Any], Exception | None]:
    """Return the next values and the error that ended them: those before it are sent.

    Args:
        values: that are left.
        limit: the most values to return.
        are_plain: of the engine, for values as bytes or None; None leaves them to a serializer.
    """
    found: list[Any] = []
    error: Exception | None = None
    try:
        found.extend(islice(values, limit))  # what came before an error stays
    except Exception as raised:
        error = raised
    if are_plain is not None and not are_plain(found):
        for place, value in enumerate(found):
            try:
                found[place] = None if value is None else content("value", value)
            except KafkaWireError as refused:
                return found[:place], refused
    return found, error
