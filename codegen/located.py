"""YAML documents whose mappings remember their lines, so that an error can name the file, line and key.

This is the first step of loading; `load.py` turns the documents into specs. Plain scalars follow the core schema of
YAML 1.2, so `no` is text. Tags, anchors and aliases are refused, and depth and size are limited: reading any file takes
time proportional to its size and yields documents or a `SchemaError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kafkawire.codegen.names import near, shown

__all__ = ["FILE_BYTES_MAX", "NESTING_MAX", "Located", "Problem", "Problems", "SchemaError", "parse", "read_documents"]

T = TypeVar("T")

#: libyaml's loader; the pure-Python loader refuses `string?` inside braces, which YAML 1.2 allows.
_Loader: type | None = getattr(yaml, "CSafeLoader", None)

#: Maximum size of a schema; Kafka's largest is 20 kB.
FILE_BYTES_MAX = 1 << 20
#: Maximum nesting of mappings and lists; Kafka's schemas use 12 levels.
NESTING_MAX = 64
#: Maximum number of characters in a number: the longest int64 has 20, and no float needs more than 25.
_NUMBER_CHARACTERS_MAX = 40

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a schema.

    Attributes:
        path: the file.
        line: the line, counted from 1; 0 if unknown.
        reason: the problem, including the message, field and value.
    """

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


class SchemaError(Exception):
    """Schemas are wrong; the text has one line for each problem.

    Args:
        path: the file of the first problem.
        line: its line.
        reason: its description.
        more: the other problems.
    """

    def __init__(self, path: Path, line: int, reason: str, *more: Problem) -> None:
        super().__init__(path, line, reason, *more)
        self.path, self.line, self.reason = path, line, reason
        self.problems = (Problem(path, line, reason), *more)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> SchemaError:
        """Return the error for one or more problems."""
        first, *more = problems
        return cls(first.path, first.line, first.reason, *more)


class Problems:
    """Collects problems, to keep one from hiding the next."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, *problems: Problem) -> None:
        """Add problems, skipping those already added."""
        self._found.update(dict.fromkeys(problems))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Catch a `SchemaError` raised by a block, and add its problems."""
        try:
            yield
        except SchemaError as error:
            self.add(*error.problems)

    def attempt(self, read: Callable[[], T], fallback: T) -> T:
        """Return the result of `read`; after a `SchemaError`, add its problems and return `fallback`."""
        try:
            return read()
        except SchemaError as error:
            self.add(*error.problems)
            return fallback

    def __bool__(self) -> bool:
        """Return whether there are any problems."""
        return bool(self._found)

    def check(self) -> None:
        """Raise an error if there are any problems.

        Raises:
            SchemaError: there are problems; the error lists all of them.
        """
        if self._found:
            raise SchemaError.of(self._found)


class Located(dict[str, Any]):
    """A YAML mapping with the file and the line where it begins, and with the line of each key.

    Attributes:
        place: the name that errors use, such as `FetchRequest: field topics.partitions`; empty for a whole document.
    """

    def __init__(self, path: Path, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.lines: dict[str, int] = {}
        self.place = ""

    def problem(self, reason: str, key: str | None = None) -> Problem:
        """Return a problem that points here, or at `key`."""
        line = self.lines.get(key or "", self.line)
        return Problem(self.path, line, f"{self.place}: {reason}" if self.place else reason)

    def error(self, reason: str, key: str | None = None) -> SchemaError:
        """Return an error that points here, or at `key`."""
        return SchemaError.of([self.problem(reason, key)])

    def require(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """Return the value of `key`.

        Raises:
            SchemaError: the key is missing, or its value has the wrong type.
        """
        if key not in self:
            raise self.error(f"{key!r} is missing")
        return self.optional(key, kind, None)

    def optional(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """Return the value of `key`, or `default` if it is missing.

        Raises:
            SchemaError: the value has the wrong type.
        """
        if key not in self:
            return default
        value = self[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(_TYPE_NAMES[item] for item in kinds)
            raise self.error(f"{key}: expected {names}, got {shown(value)}", key)
        return value

    def mappings(self, key: str) -> list[Located]:
        """Return the elements of the list `key`; none if it is missing.

        Raises:
            SchemaError: the value is not a list, or elements are not mappings.
        """
        items: list[Any] = self.optional(key, list, [])
        wrong = [item for item in items if not isinstance(item, Located)]
        if wrong:
            raise SchemaError.of(self.problem(f"{key}: expected a mapping, got {shown(item)}", key) for item in wrong)
        return items

    def only(self, allowed: Iterable[str]) -> None:
        """Check that the mapping has only allowed keys.

        Raises:
            SchemaError: a key is not allowed; the error names each such key, and the allowed keys.
        """
        allowed = sorted(allowed)
        unknown = [key for key in self if key not in allowed]
        if unknown:
            known = ", ".join(allowed)
            raise SchemaError.of(
                self.problem(f"unknown key {shown(key)}; supported keys: {known}{near(key, allowed)}", key)
                for key in unknown
            )

    def required_text(self, key: str) -> str:
        """Return a required one-line text.

        Raises:
            SchemaError: the key is missing, or its value is refused by `text`.
        """
        self.require(key, str)
        return self.text(key)

    def text(self, key: str) -> str:
        """Return a one-line text, such as a description; empty if it is missing.

        Raises:
            SchemaError: the value is not text, is empty, or has unprintable characters.
        """
        text: str = self.optional(key, str, "")
        if key in self and not text.strip():
            raise self.error(f"{key}: empty; leave it out if there is nothing to say", key)
        for character in text:
            if not character.isprintable():
                raise self.error(f"{key}: U+{ord(character):04X} is not printable; expected one line of text", key)
        return text


_TYPE_NAMES: dict[type, str] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}


def read_documents(path: Path) -> list[Located]:
    """Return the documents of a YAML file.

    Raises:
        SchemaError: the file cannot be read, is not YAML, has a tag, anchor or alias, does not consist of mappings, or
            repeats a key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SchemaError(path, 0, f"cannot be read: {error.strerror}") from error
    return list(parse(path, content))


def parse(path: Path, content: bytes, *, repeated_keys: bool = False) -> Iterator[Located]:
    """Yield the documents in YAML text, each as soon as it is complete.

    Args:
        path: the file, for errors.
        content: the text in UTF-8.
        repeated_keys: whether a key may be repeated; the last value is used, as in most JSON readers.

    Raises:
        SchemaError: as for `read_documents`.
    """
    if _Loader is None:
        raise SchemaError(path, 0, "PyYAML was built without libyaml; install one of its wheels, which include it")
    if len(content) > FILE_BYTES_MAX:
        raise SchemaError(path, 0, f"larger than {FILE_BYTES_MAX} bytes, the limit for a schema")
    try:
        events = yaml.parse(content.decode(), Loader=_Loader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Reader(path, events, repeated_keys).document()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SchemaError(path, line, f"not UTF-8: {error.reason} 0x{content[error.start]:02x}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = (getattr(error, "problem", None) or str(error)).replace("\n", " ")
        raise SchemaError(path, mark.line + 1 if mark else 0, f"not YAML: {reason}") from error


class _Reader:
    """Builds the values in one document from its events."""

    def __init__(self, path: Path, events: Iterator[yaml.Event], repeated_keys: bool) -> None:
        self._path = path
        self._events = events
        self._repeated_keys = repeated_keys

    def document(self) -> Located:
        event = next(self._events)
        if not isinstance(event, yaml.MappingStartEvent):
            raise self._error(event, "a schema must be a mapping")
        self._check_properties(event)
        return self._mapping(event, 1)

    def _mapping(self, start: yaml.Event, depth: int) -> Located:
        mapping = Located(self._path, _line(start))
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check_properties(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be a single word")
            key = event.value
            if key in mapping and not self._repeated_keys:
                raise self._error(event, f"key {shown(key)} is used twice")
            mapping.lines[key] = _line(event)
            mapping[key] = self._value(next(self._events), depth)
        return mapping

    def _value(self, event: yaml.Event, depth: int) -> Any:
        self._check_properties(event)
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else self._scalar(event)
        if depth == NESTING_MAX:
            raise self._error(event, f"mappings and lists are nested more than {NESTING_MAX} levels deep")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth + 1)
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _check_properties(self, event: yaml.Event) -> None:
        """Refuse anchors and aliases, which let a small file expand to a huge one, and tags, which would need code."""
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"alias *{event.anchor}: schemas must not contain anchors or aliases")
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            if event.anchor is not None:
                raise self._error(event, f"anchor &{event.anchor}: schemas must not contain anchors or aliases")
            if event.tag is not None:
                raise self._error(event, f"tag {event.tag!r}: schemas must not contain YAML tags")

    def _scalar(self, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        """Return a plain scalar as the core schema of YAML 1.2 reads it."""
        text: str = event.value
        if text in _WORDS:
            return _WORDS[text]
        kind = int if _INTEGER.fullmatch(text) else float if _FLOAT.fullmatch(text) else None
        if kind is None:
            return text
        if len(text) > _NUMBER_CHARACTERS_MAX:
            raise self._error(event, f"a number has {len(text)} characters; the limit is {_NUMBER_CHARACTERS_MAX}")
        if kind is float:
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)

    def _error(self, event: yaml.Event, reason: str) -> SchemaError:
        return SchemaError(self._path, _line(event), reason)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
