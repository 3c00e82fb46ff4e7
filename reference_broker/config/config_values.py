"""Values of configurations, parsed and checked as in Apache Kafka, with its error texts.

Source: `ConfigDef.parseType` and its validators, `ThrottledReplicaListValidator` in Apache Kafka.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from kafkawire.reference_broker.config.durations import parse_duration_ns
from kafkawire.sdk.protocol.tables.configs import ConfigKey
from kafkawire.sdk.protocol.tables.enums import ConfigType

__all__ = [
    "INTEGERS",
    "InvalidConfig",
    "check_value",
    "entries_of",
    "parse_decimal",
    "parse_integer",
    "shown_value",
    "trimmed",
]

#: The ranges of Java's integers.
INTEGERS: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}

# Numbers as Java parses them: integers may have digits from any script; underscores are not allowed, and spaces are
# allowed only around the number.
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:NaN|Infinity))[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")

#: More digits than any valid number has. The limit exists because Python refuses to convert 5,000 digits.
_DIGITS_MAX = 100

#: Characters that Java's `trim` removes.
_SPACES = "".join(map(chr, range(ord(" ") + 1)))

_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

#: The allowed values of `share.auto.offset.reset`.
_RESETS = ("latest", "earliest")
_DURATION_FORMAT = "by_duration:<PnDTnHnMn.nS>"
_DURATION_PREFIX = "by_duration:"


class InvalidConfig(ValueError):
    """A configuration has an unknown name, or its value is refused."""


def check_value(key: ConfigKey, value: str) -> None:
    """Check a single value of a configuration.

    Raises:
        InvalidConfig: the value is refused; the text is Kafka's.
    """
    text = trimmed(value)
    match key.type:
        case ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise _invalid(key, value, "Expected value to be either true or false")
        case ConfigType.DOUBLE:
            decimal = parse_decimal(text)
            if decimal is None:
                raise _invalid(key, value, "Not a number of type DOUBLE")
            _check_range(key, decimal, _shown(decimal))
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            low, high = INTEGERS[key.type]
            integer = parse_integer(text)
            if integer is None or not low <= integer <= high:
                raise _invalid(key, value, f"Not a number of type {key.type.name}")
            _check_range(key, integer, str(integer))
        case ConfigType.LIST:
            _check_entries(key, entries_of(text))
        case _:
            _check_text(key, text)


def shown_value(key: ConfigKey, value: str) -> str:
    """Return a value as Java prints it after parsing; return it unchanged if it does not have the type."""
    text = trimmed(value)
    match key.type:
        case ConfigType.BOOLEAN:
            return text.lower()
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            integer = parse_integer(text)
            return value if integer is None else str(integer)
        case ConfigType.DOUBLE:
            decimal = parse_decimal(text)
            # Java and Python print numbers in this range in the same way; others do not occur.
            return value if decimal is None or not 1e-3 <= abs(decimal) < 1e7 else _shown(decimal)
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(entries_of(text)))
        case _:
            return text


def trimmed(value: str) -> str:
    """Return a value without surrounding spaces as defined by Java, which include more characters than in Python."""
    return value.strip(_SPACES)


def parse_integer(text: str) -> int | None:
    """Return the integer, of any size, that Java parses from a trimmed text; None if it is not an integer."""
    return int(text) if len(text) <= _DIGITS_MAX and _INTEGER.fullmatch(text) else None


def parse_decimal(text: str) -> float | None:
    """Return the number that Java parses from a trimmed text; None if it is not a number."""
    if match := _DECIMAL.fullmatch(text):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(text):
        return float.fromhex(match[1])
    return None


def entries_of(value: str) -> list[str]:
    """Return the entries of a list."""
    text = trimmed(value)
    return re.split(r"\s*,\s*", text) if text else []


def _invalid(key: ConfigKey, value: str, reason: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {key.name}: {reason}")


def _shown(number: float) -> str:
    """Return a number as Java prints it, provided that the number is realistic."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _check_range(key: ConfigKey, number: float, shown: str) -> None:
    if key.also is not None:
        if number != key.also and not (key.min or 0) <= number <= (key.max or 0):
            reason = f"Value must be between {key.min} and {key.max} or equal to {key.also}"
            raise _invalid(key, shown, reason)
        return
    # NaN is neither too low nor too high, and Kafka accepts it.
    if key.min is not None and number < key.min:
        raise _invalid(key, shown, f"Value must be at least {key.min}")
    if key.max is not None and number > key.max:
        raise _invalid(key, shown, f"Value must be no more than {key.max}")


def _check_text(key: ConfigKey, text: str) -> None:
    if key.rule == "offset_reset":
        if text not in _RESETS and not _is_duration(text):
            reason = f"The value must be either 'earliest', 'latest' or of the format '{_DURATION_FORMAT}'."
            raise _invalid(key, text, f"Invalid value `{text}` for configuration {key.name}. {reason}")
    elif key.rule == "not_empty" and not text:
        raise _invalid(key, text, "String must be non-empty")
    elif key.any_case and text.upper() not in map(str.upper, key.one_of):
        raise _invalid(key, text, f"String must be one of (case insensitive): {', '.join(key.one_of)}")
    elif key.one_of and not key.any_case and text not in key.one_of:
        raise _invalid(key, text, f"String must be one of: {', '.join(key.one_of)}")


def _is_duration(text: str) -> bool:
    duration_ns = parse_duration_ns(text.removeprefix(_DURATION_PREFIX)) if text.startswith(_DURATION_PREFIX) else None
    return duration_ns is not None and duration_ns >= 0


def _check_entries(key: ConfigKey, entries: list[str]) -> None:
    if key.rule == "partition_replicas":
        if "".join(entries) != "*" and not all(map(_is_replica, entries)):
            reason = f"{key.name} must be the literal '*' or a list of replicas in the following format: {_REPLICAS}"
            raise _invalid(key, _listed(entries), reason)
    elif key.one_of:
        for entry in entries:
            if not entry:
                raise InvalidConfig(f"Configuration '{key.name}' values must not be empty.")
            if entry not in key.one_of:
                raise _invalid(key, entry, f"String must be one of: {', '.join(key.one_of)}")


def _listed(entries: Iterable[str]) -> str:
    return f"[{', '.join(entries)}]"


def _is_replica(entry: str) -> bool:
    return re.fullmatch(r"(?:[0-9]+:[0-9]+)?", entry) is not None
