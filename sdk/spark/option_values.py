"""Options of the data sources: names as Spark spells them, ignoring case, and values as text.

An unknown name is refused, although Spark would ignore it. Each `parse_` function parses one value: it takes the
option's name for the error message, and raises a `ConfigurationError` that says what was expected.

Source: `JavaUtils.timeStringAs`, `ByteUnit` in Apache Spark.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean, nearest
from kafkawire.sdk.options import INT64_MAX, Options
from kafkawire.sdk.spark import schema

__all__ = [
    "CLIENT_PREFIX",
    "OptionTable",
    "Parser",
    "client_error",
    "client_reason",
    "one_of",
    "parse_columns",
    "parse_duration",
    "parse_flag",
    "parse_names",
    "parse_number",
    "parse_size",
    "parse_time",
    "parse_topics",
    "split_client_options",
    "there_are",
    "warn_of_streams",
]

_log = logging.getLogger("kafkawire.spark")

#: The prefix of options for a query's clients.
CLIENT_PREFIX: Final = "kafka."

#: A parser for a value; it is passed the name of an option and its text.
Parser = Callable[[str, str], object]

#: The maximum number of names that an error shows.
_NAMED_MAX = 10

#: The maximum number of suggestions for an unknown name.
_NEAR_MAX = 3

#: Possible option names in a sentence; a single word may be an ordinary one, unless its position shows that it is a
#: name.
_NAMES = re.compile(r"\b[a-z0-9]+(?:[._][a-z0-9]+)+\b|\b[a-z]+(?=[?=])|(?<=here it is )[a-z]+\b", re.ASCII)

_SIZE = re.compile(r"([0-9]{1,19})\s*([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}

_DURATION = re.compile(r"([0-9]{1,19})\s*(ms|s|m|min|h|d)?", re.ASCII | re.IGNORECASE)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionTable:
    """The options of a data source.

    Args:
        parsers: the parser for each option's value, keyed by option name.
        clients: the options of the query's clients, which users may give without the prefix.
        advice: what to do instead, keyed by lower-case names that are often mistaken for options.
        hint: text to add if no known name is similar.
    """

    def __init__(
        self,
        parsers: Mapping[str, Parser],
        clients: type[Options] | None = None,
        advice: Mapping[str, str] = {},
        hint: str = "",
    ) -> None:
        self._known = {name.lower(): (name, parse) for name, parse in parsers.items()}
        self._clients = clients
        self._advice = advice
        self._hint = hint

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return values, keyed by option name in our spelling.

        Args:
            given: text by names in any case.

        Raises:
            ConfigurationError: an option is unknown, or its value is refused.
        """
        if (provider := next((text for name, text in given.items() if name.lower() == "provider"), None)) is not None:
            reason = (
                "Spark does not pass a table's options to its readers and writers: use CREATE TEMPORARY VIEW … USING"
            )
            raise ConfigurationError("provider", provider, reason)
        values: dict[str, Any] = {}
        for name, text in given.items():
            known = self._known.get(name.lower())
            if known is None:
                raise ConfigurationError(name, text, self._unknown(name))
            values[known[0]] = known[1](known[0], text)
        return values

    def _unknown(self, name: str) -> str:
        if (advice := self._advice.get(name.lower())) is not None:
            return f"no such option; {advice}"
        names = [known for known, _ in self._known.values()]
        if self._clients is not None:
            dotted = name.lower().replace("_", ".")
            of_clients = nearest(dotted, self._clients.KAFKA_NAMES)
            if of_clients == [dotted] or (of_clients and not nearest(name, names)):
                return f"no such option; did you mean {CLIENT_PREFIX}{of_clients[0]}?"
        return f"no such option{did_you_mean(name, names) or self._hint}"


def client_error(error: ConfigurationError, options: type[Options], given: Mapping[str, object]) -> ConfigurationError:
    """Return a client's error with options named as in queries.

    Args:
        error: the client's error.
        options: the class of the client's options.
        given: values, keyed by the client's or Kafka's names, without the prefix.
    """
    option = options.OPTIONS.get(error.option)
    name = error.option if option is None or option.kafka_name is None else option.kafka_name
    reason = client_reason(error.reason, options)
    return ConfigurationError(f"{CLIENT_PREFIX}{name}", given.get(name, given.get(error.option)), reason)


def client_reason(reason: str, options: type[Options]) -> str:
    """Return a client's reason for refusing an option with options named as in queries.

    Args:
        reason: text that may name options as programs do (`ssl_key_password`) or as Kafka does.
        options: the class of the client's options.
    """

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        option = options.OPTIONS.get(options.KAFKA_NAMES.get(name, name))
        return name if option is None else f"{CLIENT_PREFIX}{option.kafka_name or name}"

    return _NAMES.sub(renamed, reason)


def split_client_options(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a query's client options, keyed by lower-case names without the prefix, and its data source options."""
    of_clients: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, text in given.items():
        if name.lower().startswith(CLIENT_PREFIX):
            of_clients[name[len(CLIENT_PREFIX) :].lower()] = text
        else:
            own[name] = text
    return of_clients, own


def one_of(values: Mapping[str, Any], given: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return which of several alternative options was given; None if none was given.

    Args:
        values: the parsed values.
        given: text by names in any case.
        names: the names of the options.

    Raises:
        ConfigurationError: two of them were given.
    """
    found = [name for name in names if name in values]
    if len(found) > 1:
        text = next(text for name, text in given.items() if name.lower() == found[0].lower())
        raise ConfigurationError(found[0], text, f"{found[1]} is also given; expected only one")
    return found[0] if found else None


def parse_names(option: str, text: str) -> tuple[str, ...]:
    """Return comma-separated names; at least one is expected."""
    names = tuple(name for name in map(str.strip, text.split(",")) if name)
    if not names:
        raise ConfigurationError(option, text, "expected names, separated by commas")
    return names


def parse_topics(option: str, text: str) -> frozenset[str]:
    """Return topic names."""
    return frozenset(parse_names(option, text))


def parse_columns(option: str, text: str) -> tuple[str, ...]:
    """Return the names of extra columns, ignoring case."""
    known = {name.lower(): name for name in schema.EXTRAS}
    return tuple(known.get(name.lower(), name) for name in parse_names(option, text))


def parse_flag(option: str, text: str) -> bool:
    """Return true or false."""
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(option, text, "expected true or false")
    return text.lower() == "true"


def parse_size(low: int, high: int = INT64_MAX) -> Parser:
    """Return a parser of sizes in bytes, such as 64m."""

    def parse(option: str, text: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        size = -1 if match is None else int(match[1]) * _UNITS[match[2].lower()]
        if not low <= size <= high:
            raise ConfigurationError(option, text, f"expected {low} to {high} bytes, such as 64m")
        return size

    return parse


def parse_number(low: int, high: int = INT64_MAX) -> Parser:
    """Return a parser of integers."""

    def parse(option: str, text: str) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text.strip(), re.ASCII) else low - 1
        if not low <= number <= high:
            raise ConfigurationError(option, text, f"expected {low} to {high}")
        return number

    return parse


def parse_time(option: str, text: str) -> int:
    """Return a time in milliseconds since 1970, as in the connector."""
    if not re.fullmatch("[0-9]{1,19}", text.strip(), re.ASCII) or int(text) > INT64_MAX:
        raise ConfigurationError(option, text, "expected milliseconds since 1970, such as 1767225600000")
    return int(text)


def parse_duration(option: str, text: str) -> int:
    """Return a duration such as 15m in milliseconds; a number without a unit means milliseconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(option, text, "expected a time, such as 500ms, 30s or 15m")
    return int(match[1]) * _MILLISECONDS[(match[2] or "ms").lower()]


def warn_of_streams(values: Mapping[str, object]) -> None:
    """Log a warning for options that only streams use, as the connector does.

    Args:
        values: values, keyed by option name; None for an option that was not given.
    """
    for option, value in values.items():
        if value is not None:
            _log.warning("%s=%s is only for streams and has no effect here", option, value)


def there_are(found: Iterable[Any], kind: str = "topics", asked: Iterable[Any] = ()) -> str:
    """Return text for an error message about the names that exist: the first ten in order, and the most similar ones.

    Args:
        found: names, in any order.
        kind: the kind of thing named.
        asked: requested names that do not exist.
    """
    names = list(map(str, sorted(found)))
    if not names:
        return f"there are no {kind}"
    near = dict.fromkeys(found for name in asked for found in nearest(str(name), names, _NEAR_MAX))
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"available {kind}: {', '.join(names[:_NAMED_MAX])}{', …' if len(names) > _NAMED_MAX else ''}{hint}"
