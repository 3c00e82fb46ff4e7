"""Check that generated code can use the names in a schema, and find the known name closest to an unknown one.

Each check returns the problem with a name, or nothing; the caller adds file, line and place.
"""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Iterable

__all__ = [
    "TAKEN_CONSTANTS",
    "TAKEN_FIELDS",
    "TAKEN_TYPES",
    "TAKEN_ZNODE_NAMES",
    "constant_problem",
    "field_problem",
    "near",
    "shown",
    "type_problem",
]

#: Names already taken in the package of constants and enumerations.
TAKEN_CONSTANTS = frozenset({"MODULES", "TYPE_CHECKING"})

#: Attributes of every generated message class other than its fields.
TAKEN_FIELDS = frozenset({"self", "unknown_tags"})

#: Names that generated modules import, and attributes of every message class other than its structures.
TAKEN_TYPES = frozenset(
    {"Buffer", "DEFAULT", "FIELDS", "Field", "Final", "IntEnum", "MODULES", "Message", "SCHEMA", "Schema"}
    | {"Sequence", "UnknownTags", "V"}
)

#: Names that the generated module of znodes imports.
TAKEN_ZNODE_NAMES = frozenset(
    {"ALL_VERSIONS", "Access", "Any", "Field", "Final", "INT8", "INT16", "INT32", "INT64", "JsonArray", "JsonContent"}
    | {"JsonMap", "Mapping", "MappingProxyType", "Mode", "NO_CONTENT", "NO_VERSIONS", "NamedTuple", "SANITIZED"}
    | {"STRING", "Structure", "TEXT_INT64", "TextContent", "UUID", "Version", "Znode"}
)

#: Suffixes of message names, which a query may omit.
_ENDINGS = re.compile("(?:request|response|key|value|record)$")

#: Maximum number of characters in a name to compare: the time grows with their number, and no known name is longer.
_COMPARED_CHARACTERS_MAX = 100

#: Maximum number of characters that an error quotes from a value.
_SHOWN_CHARACTERS_MAX = 60

_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def field_problem(name: str) -> str:
    """Return why a field, a module or bits cannot have a name; empty if they can."""
    return _problem(name, _SNAKE, "snake_case", TAKEN_FIELDS, "every generated class has an attribute of this name")


def type_problem(name: str) -> str:
    """Return why a message, structure or enumeration cannot have a name; empty if it can."""
    return _problem(name, _CAMEL, "CamelCase", TAKEN_TYPES, "generated modules use this name")


def constant_problem(name: str) -> str:
    """Return why a constant, error code or enumeration value cannot have a name; empty if it can."""
    return _problem(name, _CAPITALS, "in capitals, like NO_NODE", TAKEN_CONSTANTS, "generated modules use this name")


def _problem(name: str, form: re.Pattern[str], form_name: str, taken: frozenset[str], by_whom: str) -> str:
    if not form.fullmatch(name):
        return f"{shown(name)} is not {form_name}"
    if keyword.iskeyword(name):
        return f"{name!r} is a Python keyword"
    return f"{name!r} is reserved: {by_whom}" if name in taken else ""


def near(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about a name: the closest known name, ignoring case; empty if none is close.

    Args:
        name: the unknown name.
        names: the known names.
    """
    known: dict[str, str] = {}
    for each in names:
        for form in (each.lower(), _ENDINGS.sub("", each.lower())):
            known.setdefault(form, each)
    found = difflib.get_close_matches(name[:_COMPARED_CHARACTERS_MAX].lower(), known, n=1)
    return f"; did you mean {known[found[0]]}?" if found else ""


def shown(value: object) -> str:
    """Return a value as errors quote it: its repr on one line, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"
