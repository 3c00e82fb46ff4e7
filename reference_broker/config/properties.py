"""Java's properties files, read and written as Java does.

    # a comment
    name = a value \\
           that goes on
    name:value

Source: `java.util.Properties.load`, `store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["Property", "parse_properties", "properties_text"]

_BLANKS = " \t\f"

#: Up to the first separator that is not escaped: white space, with or without one of = and :.
_ENTRY = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)(?P<separator>[ \t\f]*[=:]?[ \t\f]*)(?P<value>.*)", re.DOTALL)

_BAD_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")


class Property(NamedTuple):
    """An entry.

    Attributes:
        line: the number of the line where it begins, from 1.
        name: as it was meant, without escapes.
        value: likewise.
        separator: = or : between the two; empty if there is only white space, or no value.
    """

    line: int
    name: str
    value: str
    separator: str


def parse_properties(text: str) -> list[Property]:
    """Return the entries of a properties file, in order; of two with the same name the last counts.

    Raises:
        ValueError: a `\\u` is not followed by four hexadecimal digits; the text names the line.
    """
    found = []
    for number, line in _logical_lines(text):
        if _BAD_UNICODE.search(line):
            raise ValueError(f"line {number}: \\u is not followed by four hexadecimal digits")
        match = _ENTRY.fullmatch(line)
        assert match is not None, "it matches any text"
        name, separator, value = match["name"], match["separator"].strip(_BLANKS), match["value"]
        found.append(Property(number, _unescaped(name), _unescaped(value), separator))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what belongs together, with the number of the first line; no comments, no empty lines."""
    begun: list[str] = []
    start = 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun:
            start = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            begun.append(line[:-1])
            continue
        yield start, "".join([*begun, line])
        begun = []
    if any(begun):
        yield start, "".join(begun)


def properties_text(properties: Mapping[str, object]) -> str:
    """Return the content of a properties file; no value can end its line."""
    entries = sorted(properties.items())
    return "".join(f"{_escaped(name).replace(' ', _SPACE)}={_escaped(str(value))}\n" for name, value in entries)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "=": "\\=", ":": "\\:"}
_SPACE = "\\u0020"
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def _escaped(text: str) -> str:
    """Escape as Java does; a space at either end too, which would be stripped."""
    escaped = "".join(_ESCAPES.get(character) or _visible(character) for character in text)
    if escaped.startswith(("#", "!")):
        escaped = "\\" + escaped
    if escaped.startswith(" "):
        escaped = _SPACE + escaped[1:]
    return escaped[:-1] + _SPACE if escaped.endswith(" ") else escaped


def _visible(character: str) -> str:
    """Return a character that no reader takes for the end of a line."""
    return character if character.isprintable() else "".join(f"\\u{unit:04x}" for unit in _utf16(character))


def _utf16(character: str) -> memoryview:
    data = character.encode("utf-16-le", "surrogatepass")
    return memoryview(data).cast("H")


def _unescaped(text: str) -> str:
    plain = re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else _UNESCAPES.get(match[2], match[2]),
        text,
        flags=re.DOTALL,
    )
    # Two escaped halves are one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
