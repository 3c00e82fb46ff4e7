"""Check the arguments that applications pass to the clients' methods, before the clients use them.

The machines rely on these checks: an invalid value that reaches them is a bug and ends the client. Therefore every
public method checks its partitions, offsets, times, limits and names with these functions. A plain tuple is accepted as
a partition, and any integer type except bool as a number.

A method that takes several values of a kind accepts them as separate arguments, `pause(a, b)`, or as one iterable,
`pause([a, b])`: other clients support one form or the other; here, the two are equivalent. A named tuple is never taken
for such an iterable: of a `GroupListing`, only one of the strings is the name of a group.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeGuard

from kafkawire.sdk.client.integers import plain_integer
from kafkawire.sdk.client.times import to_ms
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.near_names import pass_its
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.values import digits, quoted
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.topics import checked_topic

__all__ = [
    "MAX_INT16",
    "MAX_INT32",
    "MAX_INT64",
    "checked_callable",
    "checked_end",
    "checked_mapping",
    "checked_methods",
    "checked_names",
    "checked_number",
    "checked_offset",
    "checked_offsets",
    "checked_partition",
    "checked_partitions",
    "checked_text",
    "checked_timeout_ms",
    "checked_times",
    "given_several",
    "is_several",
    "is_text",
]

#: The largest partition number or node id; both take 4 bytes on the wire.
MAX_INT32: Final = (1 << 31) - 1

#: The largest producer epoch or replication factor; both take 2 bytes on the wire.
MAX_INT16: Final = (1 << 15) - 1

#: The largest offset, producer id or duration; all take 8 bytes on the wire.
MAX_INT64: Final = (1 << 63) - 1

#: The longest time limit; its sum with the current time still fits into 8 bytes.
_MAX_TIMEOUT_MS: Final = 1 << 62

_SPECIAL_TIMES: Final = frozenset(OffsetTimestamp)


def checked_number(what: str, given: object, first: int, last: int) -> int:
    """Check and return an integer.

    Args:
        what: the name of the value, for the error message.
        given: the value to check.
        first, last: the allowed range.

    Raises:
        LocalProtocolError: the value is not an integer from `first` to `last`.
    """
    number = plain_integer(given)
    if number is None:
        raise LocalProtocolError(f"{what}: expected an integer, got {quoted(given, 100)}")
    if not first <= number <= last:
        raise LocalProtocolError(f"{what}: expected {first} to {last}, got {digits(number)}")
    return number


def checked_timeout_ms(given: object) -> int:
    """Check and return a time limit in milliseconds.

    Raises:
        LocalProtocolError: the limit is not an integer, or is negative.
    """
    return checked_number("timeout_ms", given, 0, _MAX_TIMEOUT_MS)


def checked_text(what: str, given: object) -> str:
    """Check and return a string.

    Raises:
        LocalProtocolError: the value is not a string.
    """
    if not isinstance(given, str):
        raise LocalProtocolError(
            f"{what}: expected a string, got {quoted(given, 100)}{pass_its(given, (what, 'name'))}"
        )
    return given


def given_several(given: tuple[Any, ...], is_one: Callable[[Any], bool]) -> list[Any]:
    """Return the values passed to a method, as separate arguments or as one iterable.

    Args:
        given: the positional arguments.
        is_one: returns whether an iterable is itself a single value, such as a string; a named tuple always is.
    """
    if len(given) == 1 and not is_one(given[0]) and not _is_named_tuple(given[0]) and isinstance(given[0], Iterable):
        return list(given[0])
    return list(given)


def is_several(given: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is an iterable of values, and neither text, nor a mapping, nor a named tuple."""
    is_one = is_text(given) or isinstance(given, Mapping) or _is_named_tuple(given)
    return isinstance(given, Iterable) and not is_one


def is_text(given: object) -> bool:
    """Return whether a value is a string, or bytes meant as a string: a single value, not an iterable of characters."""
    return isinstance(given, str | bytes | bytearray | memoryview)


def _is_named_tuple(given: object) -> bool:
    return isinstance(given, tuple) and hasattr(given, "_fields")


def checked_names(what: str, given: tuple[Any, ...]) -> list[str]:
    """Check and return several names.

    Args:
        what: the kind of name, for the error.
        given: the values, as separate arguments or as one iterable, such as a mapping with names as its keys.

    Raises:
        LocalProtocolError: a name is not a string.
    """
    return [checked_text(what, name) for name in given_several(given, is_text)]


def checked_mapping(what: str, given: object) -> Mapping[Any, Any]:
    """Check and return a mapping.

    Raises:
        LocalProtocolError: the value is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise LocalProtocolError(f"{what}: expected a mapping, got {quoted(given, 100)}")
    return given


def checked_partition(given: object) -> TopicPartition:
    """Check and return a partition.

    Raises:
        LocalProtocolError: the value is not a (topic, number) pair, the topic name is invalid, or the number is
            negative.
    """
    if not isinstance(given, tuple) or len(given) != len(TopicPartition._fields):
        many = "; pass several as separate arguments or in a list" if isinstance(given, list | set | frozenset) else ""
        text = f"expected a TopicPartition or (topic, number), got {quoted(given, 100)}{many}"
        raise LocalProtocolError(f"partition: {text}")
    topic = checked_topic(given[0])
    number = checked_number(f"partition of {topic}", given[1], 0, MAX_INT32)
    return TopicPartition(topic, number)


def checked_partitions(given: tuple[Any, ...]) -> list[TopicPartition]:
    """Check and return several partitions.

    Args:
        given: the values, as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: a value is not a partition.
    """
    return [checked_partition(each) for each in given_several(given, _is_partition)]


def checked_offset(partition: TopicPartition, given: object) -> int:
    """Check and return an offset.

    Raises:
        LocalProtocolError: the value is not an integer, is negative, or is larger than any offset.
    """
    return checked_number(f"offset of {partition}", given, 0, MAX_INT64)


def checked_offsets(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check and return offsets to commit, keyed by partition.

    Raises:
        LocalProtocolError: the value is not a mapping of partitions to offsets or to `OffsetAndMetadata`.
    """
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in checked_mapping("offsets", given).items():
        partition = checked_partition(key)
        if not isinstance(value, OffsetAndMetadata):
            checked[partition] = OffsetAndMetadata(checked_offset(partition, value))
            continue
        offset = checked_offset(partition, value.offset)
        metadata = checked_text(f"metadata of {partition}", value.metadata)
        leader_epoch = checked_number(f"leader_epoch of {partition}", value.leader_epoch, -1, MAX_INT32)
        checked[partition] = OffsetAndMetadata(offset, metadata, leader_epoch)
    return checked


def checked_times(given: object, *, special: bool = False) -> dict[TopicPartition, int]:
    """Check and return times in milliseconds since the epoch, keyed by partition.

    Args:
        given: milliseconds since the epoch or datetimes with a time zone, keyed by partition.
        special: whether an `OffsetTimestamp` is also accepted.

    Raises:
        LocalProtocolError: the value is not a mapping of partitions to times.
    """
    checked: dict[TopicPartition, int] = {}
    otherwise = "a datetime, or an OffsetTimestamp such as LATEST" if special else "or a datetime"
    for key, time in checked_mapping("times", given).items():
        partition = checked_partition(key)
        is_special = special and isinstance(time, int) and time in _SPECIAL_TIMES
        checked[partition] = int(time) if is_special else to_ms(time, otherwise)
    return checked


def checked_end(given: object) -> int | dict[TopicPartition, int]:
    """Check and return the end of a read: a time in milliseconds since the epoch, or offsets keyed by partition.

    Raises:
        LocalProtocolError: the value is neither such a time nor a mapping of partitions to offsets.
    """
    if not isinstance(given, Mapping):
        return to_ms(given)
    partitions = {checked_partition(key): offset for key, offset in given.items()}
    return {partition: checked_offset(partition, offset) for partition, offset in partitions.items()}


def checked_callable(option: str, given: object) -> None:
    """Check a callable passed to a constructor; None is allowed.

    Raises:
        ConfigurationError: the value is not callable.
    """
    if given is not None and not callable(given):
        raise ConfigurationError(option, given, "expected a callable")


def checked_methods(option: str, given: object, **methods: int) -> None:
    """Check that an object has the methods that the client calls.

    Args:
        option: the option for which it was passed.
        given: the object.
        methods: the number of arguments passed to each method.

    Raises:
        ConfigurationError: the object is a class, lacks a method, or has a method that takes a different number of
            arguments.
    """
    if isinstance(given, type):
        raise ConfigurationError(option, given, "expected an object, not its class")
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise ConfigurationError(option, given, f"it lacks {' and '.join(missing)}")
    for name, count in methods.items():
        try:
            taken = inspect.signature(getattr(given, name))
        except ValueError:  # Python does not know the method's parameters
            continue
        try:
            taken.bind(*range(count))
        except TypeError:
            text = f"its {name}({', '.join(taken.parameters)}) is called with {count} argument{'s' * (count > 1)}"
            raise ConfigurationError(option, given, text) from None


def _is_partition(given: object) -> bool:
    """Return whether a value was meant as a single partition: a tuple that does not contain partitions."""
    return is_text(given) or (isinstance(given, tuple) and bool(given) and not isinstance(given[0], tuple))
