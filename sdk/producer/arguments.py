"""Check the arguments that an application passes for records, before anything is buffered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from kafkawire.sdk.client.arguments import MAX_INT32, checked_number, is_several
from kafkawire.sdk.errors import EncodeError, KafkaWireError, LocalProtocolError
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

#: The maximum size in bytes of a record apart from its key, value and headers: the varints of the length, timestamp,
#: offset, key length, value length and number of headers, plus the attributes.
MAX_RECORD_OVERHEAD_BYTES = 5 + 10 + 5 + 5 + 5 + 5 + 1

#: The maximum size in bytes of a header's two lengths.
MAX_HEADER_OVERHEAD_BYTES = 5 + 5

#: Stands in for the partition number of a record with neither a key nor a partition: it goes to the same partition as
#: the previous such record until that partition has received a batch's worth.
FILL_ONE_AFTER_THE_OTHER = -1
#: Stands in for a partition number that must still be chosen from the record's content.
TO_BE_CHOSEN = -2


class Held:
    """A record whose content has been checked, but which is not in a batch yet.

    Args:
        topic: the record's destination.
        key, value: bytes or None.
        headers: pairs of a name and bytes.
        partition: the partition, which the topic may turn out not to have; None to choose one.
        timestamp_ms: milliseconds since the epoch.
        bound_bytes: the maximum number of bytes that the record can take up in a batch.

    Raises:
        LocalProtocolError: the partition number is invalid for any topic.

    Attributes:
        outcome: the record's outcome while its topic is unknown.
        created_ms: when the record was first held.
        deadline_ms: when the record fails if its topic is still unknown.
        term: the accumulator's term when the record was first held.
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
    """The user's partitioner returned no valid partition.

    Args:
        reason: the error to raise or to settle the record with.
    """

    def __init__(self, reason: LocalProtocolError) -> None:
        super().__init__(reason)
        self.reason = reason

    @classmethod
    def of(cls, key: bytes, error: BaseException) -> Self:
        """Return the failure for an exception that the partitioner raised for a record's key."""
        what = f"{quoted(key, 100)}: {quoted(error, 200)}"
        return cls(LocalProtocolError(f"the partitioner returned an invalid partition for key {what}"))


def content(path: str, value: Any) -> bytes:
    """Return a key or value other than None as bytes; see `record_content`."""
    found = record_content(path, value)
    return found if type(found) is bytes else bytes(found or b"")


def header_pairs(headers: HeadersInput) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Return headers as pairs of a name and bytes, and their maximum size in bytes; see `record_headers`."""
    pairs = tuple(
        (name, value if value is None or type(value) is bytes else bytes(value))
        for name, value in record_headers(headers)
    )
    return pairs, sum(len(name.encode()) + len(value or b"") + MAX_HEADER_OVERHEAD_BYTES for name, value in pairs)


def timestamp(given: Any) -> int:
    """Check and return the timestamp of a record, in ms since the epoch, -1 for none.

    Raises:
        EncodeError: the timestamp is a bool, not an integer, below -1, or does not fit 64 bits.
    """
    if isinstance(given, bool):  # as for partitions, a flag in the wrong place
        raise EncodeError("timestamp_ms", f"expected an integer, got {given}")
    return checked_time(given)


def check_callback(name: str, given: object) -> None:
    """Check a delivery callback before anything is buffered.

    Raises:
        LocalProtocolError: the callback is not callable.
    """
    if not callable(given):
        raise LocalProtocolError(f"{name}: expected a callable, got {quoted(given, 100)}")


def checked_values(given: object) -> Iterator[Any]:
    """Return the values of many records; reject text, bytes, mappings and named tuples, whose items are not records.

    Raises:
        LocalProtocolError: the argument is a single value, or not iterable.
    """
    if not is_several(given):
        reason = f"expected an iterable of values, got {quoted(given, 100)}; use send for a single value"
        raise LocalProtocolError(f"values: {reason}")
    return iter(given)


def checked_partition(topic: str, partition: object, count: int) -> int:
    """Check and return a partition number that a topic has.

    Raises:
        LocalProtocolError: the topic has no such partition, or the argument is not an integer.
    """
    number = partition if type(partition) is int else checked_number(f"partition of {topic}", partition, 0, MAX_INT32)
    if not 0 <= number < count:
        raise LocalProtocolError(f"topic {topic} has partitions 0 to {count - 1}, not {digits(number)}")
    return number


def wanted_partition(topic: object, partition: object) -> int:
    """Check and return a partition number that an unknown topic could have.

    Raises:
        LocalProtocolError: the number or the topic's name is invalid.
    """
    if type(partition) is int and 0 <= partition <= MAX_INT32:
        return partition
    return checked_number(f"partition of {checked_topic(topic)}", partition, 0, MAX_INT32)


def is_absent(partition: object, count: int) -> bool:
    """Return whether a record must wait for metadata, because its topic is unknown or its partition may be new.

    Args:
        partition: the record's partition, not checked yet; None for any.
        count: the number of known partitions.
    """
    return not count or (type(partition) is int and count <= partition <= MAX_INT32)


def contents(
    values: Iterator[Any], limit: int, are_plain: Callable[[list[Any]], bool] | None
) -> tuple[list[Any], Exception | None]:
    """Return the next values, and the error that stopped the iteration, if any; values before the error are sent.

    Args:
        values: the remaining values.
        limit: the maximum number of values to return.
        are_plain: the engine's check that values are bytes or None; None if a serializer handles them.
    """
    found: list[Any] = []
    error: Exception | None = None
    try:
        found.extend(islice(values, limit))  # keeps the values before an error
    except Exception as raised:
        error = raised
    if are_plain is not None and not are_plain(found):
        for place, value in enumerate(found):
            try:
                found[place] = None if value is None else content("value", value)
            except KafkaWireError as refused:
                return found[:place], refused
    return found, error
