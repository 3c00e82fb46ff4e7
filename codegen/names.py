"""Which names a schema may use: those that generated code can carry.

Each function says what is wrong with a name, or nothing; the caller adds file, line and place.
"""

from __future__ import annotations

import keyword
import re

__all__ = ["TAKEN_CONSTANTS", "TAKEN_FIELDS", "TAKEN_TYPES", "constant_problem", "field_problem", "type_problem"]

#: What the package of constants and enumerations has besides them.
TAKEN_CONSTANTS = frozenset({"MODULES", "TYPE_CHECKING"})

#: What every generated message class has besides its fields.
TAKEN_FIELDS = frozenset({"self", "unknown_tags"})

#: What generated modules import, and what every message class has besides its structures.
TAKEN_TYPES = frozenset(
    {"Buffer", "DEFAULT", "FIELDS", "Field", "Final", "IntEnum", "MODULES", "Message", "SCHEMA", "Schema"}
    | {"Sequence", "UnknownTags", "V"}
)

_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def field_problem(name: str) -> str:
    """Say why a field, a module or a few bits cannot have this name; empty if they can."""
    return _problem(name, _SNAKE, "snake_case", TAKEN_FIELDS, "every generated class has one")


def type_problem(name: str) -> str:
    """Say why a message, structure or enumeration cannot have this name; empty if it can."""
    return _problem(name, _CAMEL, "CamelCase", TAKEN_TYPES, "generated modules use it")


def constant_problem(name: str) -> str:
    """Say why a constant, error code or enumeration value cannot have this name; empty if it can."""
    return _problem(name, _CAPITALS, "in capitals, as NO_NODE", TAKEN_CONSTANTS, "generated modules use it")


def _problem(name: str, form: re.Pattern[str], form_name: str, taken: frozenset[str], by_whom: str) -> str:
    if not form.fullmatch(name):
        return f"{name!r} is not {form_name}"
    if keyword.iskeyword(name):
        return f"{name!r} is a keyword of Python"
    return f"{name!r} is taken: {by_whom}" if name in taken else ""
