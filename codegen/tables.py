"""Read the tables of the schemas: error codes, enumerations and constants.

Errors name the file, line and entry, and are all reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kafkawire.codegen.located import Located, Problems, read_documents
from kafkawire.codegen.names import constant_problem, field_problem, type_problem
from kafkawire.codegen.spec import INTEGERS, snake_case

__all__ = ["Constant", "Enumeration", "ErrorSpec", "load_enumerations", "load_errors"]


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """An error code, and how a client may react to it."""

    code: int
    name: str
    retriable: bool = False
    invalid_metadata: bool = False
    fatal: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Named numbers.

    Attributes:
        name: our name, in CamelCase.
        about: their purpose.
        values: the numbers, keyed by name.
        source: the Kafka class that defines them; empty if there is none.
    """

    name: str
    about: str
    values: dict[str, int]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A named value.

    Attributes:
        name: our name, in capitals.
        value: the number or text.
        about: its meaning.
        source: Kafka's class and constant; empty if there is none.
    """

    name: str
    value: int | str
    about: str
    source: str = ""


T = TypeVar("T", ErrorSpec, Enumeration, Constant)


def load_errors(path: Path) -> tuple[ErrorSpec, ...]:
    """Read `errors.yaml`; return the error codes in numeric order.

    Raises:
        SchemaError: the file is wrong, or a code or name is used twice.
    """
    problems = Problems()
    codes: set[int] = set()

    def read(item: Located) -> ErrorSpec:
        error = _error(item)
        if error.code in codes:
            problems.add(item.problem(f"the code {error.code} is used twice", "code"))
        codes.add(error.code)
        return error

    errors = _read_all(path, "errors", read, set(), problems)
    problems.check()
    return tuple(sorted(errors, key=lambda error: error.code))


def load_enumerations(path: Path) -> tuple[tuple[Enumeration, ...], tuple[Constant, ...]]:
    """Read `enumerations.yaml`.

    Raises:
        SchemaError: the file is wrong, or a name is used twice.
    """
    problems = Problems()
    names: set[str] = set()
    modules: set[str] = set()

    def read(item: Located) -> Enumeration:
        enumeration = _enumeration(item)
        module = snake_case(enumeration.name)
        if module in modules and enumeration.name not in names:
            problems.add(item.problem(f"the module name {module!r} is already in use", "name"))
        modules.add(module)
        return enumeration

    enumerations = _read_all(path, "enumerations", read, names, problems)
    constants = _read_all(path, "constants", _constant, names, problems)
    problems.check()
    return tuple(enumerations), tuple(constants)


def _error(item: Located) -> ErrorSpec:
    item.only(ErrorSpec.__slots__)
    name = _name(item, constant_problem)
    low, high = INTEGERS["int16"]
    code: int = item.require("code", int)
    if not low <= code <= high:
        raise item.error(f"code: expected {low} to {high}, got {code}", "code")
    flags = {key: item.optional(key, bool, False) for key in ("retriable", "invalid_metadata", "fatal")}
    return ErrorSpec(code, name, about=item.text("about"), **flags)


def _enumeration(item: Located) -> Enumeration:
    item.only(Enumeration.__slots__)
    name = _name(item, _enumeration_problem)
    values: Located = item.require("values", dict)
    values.place = item.place
    numbers: dict[str, int] = {}
    for key in values:
        if reason := constant_problem(key):
            raise values.error(f"value {reason}", key)
        numbers[key] = values.require(key, int)
    if len(set(numbers.values())) < len(numbers):
        raise values.error("values: two names have the same number")
    return Enumeration(name, item.required_text("about"), numbers, item.text("source"))


def _enumeration_problem(name: str) -> str:
    """Return why an enumeration, which gets a module of its name, cannot have this name; empty if it can."""
    return type_problem(name) or field_problem(snake_case(name))


def _constant(item: Located) -> Constant:
    item.only(Constant.__slots__)
    name = _name(item, constant_problem)
    about = item.required_text("about")
    return Constant(name, item.require("value", (int, str)), about, item.text("source"))


def _name(item: Located, problem: Callable[[str], str]) -> str:
    name: str = item.require("name", str)
    if reason := problem(name):
        raise item.error(f"name: {reason}", "name")
    item.place = name
    return name


def _read_all(path: Path, key: str, read: Callable[[Located], T], names: set[str], problems: Problems) -> list[T]:
    """Read each entry of the list `key`.

    Args:
        path: the file.
        key: the key of the list.
        read: reads one entry.
        names: the names used so far, to which new ones are added.
        problems: collects the problems, including names used twice.
    """
    found: list[T] = []
    for item in _entries(path, key, problems):
        with problems.collect():
            entry = read(item)
            if entry.name in names:
                problems.add(item.problem("the name is used twice", "name"))
            names.add(entry.name)
            found.append(entry)
    return found


def _entries(path: Path, key: str, problems: Problems) -> Iterator[Located]:
    """Yield the elements of the list `key` in every document, adding any errors to `problems`."""
    with problems.collect():
        for document in read_documents(path):
            document.require(key, list)
            yield from document.mappings(key)
