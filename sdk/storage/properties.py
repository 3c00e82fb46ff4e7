"""Read and write properties files, as Java does.

    # a comment
    name = a value \\
           that goes on
    name:value

A broker keeps facts about itself in such files; people write broker and client configurations in the same format.

Source: `java.util.Properties.load`, `store`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkawire.sdk.storage.damage import DamagedContent, OnDamage, refuse, stored_text

__all__ = ["Property", "parse_properties", "properties_content", "stored_properties"]

_BLANKS = " \t\f"

#: The name ends at the first unescaped separator: white space, which may include one = or :, or such a sign alone.
_ENTRY = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)(?P<separator>[ \t\f]*[=:]?[ \t\f]*)(?P<value>.*)", re.DOTALL)

_BAD_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")


class Property(NamedTuple):
    """An entry of a properties file.

    Attributes:
        line: the number of its first line, counting from 1.
        name: the name, without escapes.
        value: the value, without escapes.
        separator: the = or : between the two; empty if there is only white space, or no value.
    """

    line: int
    name: str
    value: str
    separator: str


def stored_properties(content: bytes, on_damage: OnDamage = refuse) -> dict[str, str]:
    """Return the properties in a file written by a broker, in which every line has a name and a value.

    Args:
        content: the content of the file.
        on_damage: called for malformed lines.

    Raises:
        DamagedContent: the content is not text, or a line is malformed, and `on_damage` raises this error.
    """
    try:
        text = stored_text(content)
    except DamagedContent as damage:
        on_damage(damage)
        return {}
    found = {}
    for entry in parse_properties(text, on_damage):
        if entry.name and entry.separator:
            found[entry.name] = entry.value
        else:
            on_damage(DamagedContent(f"no name and value in the line {entry.name!r}"))
    return found


def parse_properties(text: str, on_damage: OnDamage = refuse) -> list[Property]:
    """Return the entries of a properties file in order; the last entry with a given name applies.

    Args:
        text: the text of the file.
        on_damage: called for lines that Java rejects; the reason gives the line number.

    Raises:
        DamagedContent: a `\\u` is not followed by four hexadecimal digits, and `on_damage` raises this error.
    """
    found = []
    for number, line in _logical_lines(text):
        if _BAD_UNICODE.search(line):
            on_damage(DamagedContent(f"line {number}: \\u is not followed by four hexadecimal digits"))
            continue
        match = _ENTRY.fullmatch(line)
        assert match is not None, "it matches any text"
        name, separator, value = match["name"], match["separator"].strip(_BLANKS), match["value"]
        found.append(Property(number, _unescaped(name), _unescaped(value), separator))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with the numbers of their first lines, skipping comments and empty lines."""
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


def properties_content(properties: Mapping[str, object]) -> bytes:
    """Return the content of a properties file, with line ends in values escaped."""
    entries = sorted(properties.items())
    lines = (f"{_escaped(name).replace(' ', _SPACE)}={_escaped(str(value))}\n" for name, value in entries)
    return "".join(lines).encode()


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "=": "\\=", ":": "\\:"}
_SPACE = "\\u0020"
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def _escaped(text: str) -> str:
    """Escape text as Java does; also escape a space at either end, which would otherwise be stripped."""
    escaped = "".join(_ESCAPES.get(character) or _visible(character) for character in text)
    if escaped.startswith(("#", "!")):
        escaped = "\\" + escaped
    if escaped.startswith(" "):
        escaped = _SPACE + escaped[1:]
    return escaped[:-1] + _SPACE if escaped.endswith(" ") else escaped


def _visible(character: str) -> str:
    """Return a character, escaped if a reader could mistake it for a line end."""
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
    # Two escaped surrogates form one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
