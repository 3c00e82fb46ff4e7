"""Read the tables of the schemas: error codes, enumerations and constants.

Every error names the file, the line and the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkawire.codegen.located import Located, SchemaError, read_documents

__all__ = ["Constant", "Enumeration", "ErrorSpec", "load_enumerations", "load_errors"]


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """One error code and what a client may do about it."""

    code: int
    name: str
    retriable: bool = False
    invalid_metadata: bool = False
    fatal: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Numbers with names.

    Attributes:
        name: ours, in CamelCase.
        about: what they are for.
        values: the numbers by name.
        source: the class of Kafka that has them; empty where there is none.
    """

    name: str
    about: str
    values: dict[str, int]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """One value with a name.

    Attributes:
        name: ours, in capitals.
        value: the number or text.
        about: what it stands for.
        source: class and constant of Kafka that have it; empty where there are none.
    """

    name: str
    value: int | str
    about: str
    source: str = ""


def load_errors(path: Path) -> tuple[ErrorSpec, ...]:
    """Read `errors.yaml`, in order of the codes.

    Raises:
        SchemaError: it is wrong, or a code or name stands twice.
    """
    errors = []
    for item in _entries(path, "errors"):
        item.only(ErrorSpec.__slots__)
        flags = {key: item.optional(key, bool, False) for key in ("retriable", "invalid_metadata", "fatal")}
        errors.append(
            ErrorSpec(
                code=item.require("code", int),
                name=item.require("name", str),
                about=item.optional("about", str, ""),
                **flags,
            )
        )
        if [error.code for error in errors].count(errors[-1].code) > 1:
            raise item.error(f"code {errors[-1].code} stands twice", "code")
        if [error.name for error in errors].count(errors[-1].name) > 1:
            raise item.error(f"{errors[-1].name} stands twice", "name")
    return tuple(sorted(errors, key=lambda error: error.code))


def load_enumerations(path: Path) -> tuple[tuple[Enumeration, ...], tuple[Constant, ...]]:
    """Read `enumerations.yaml`.

    Raises:
        SchemaError: it is wrong.
    """
    enumerations = []
    for item in _entries(path, "enumerations"):
        item.only(Enumeration.__slots__)
        values: Located = item.require("values", dict)
        numbers = {name: values.require(name, int) for name in values}
        source = item.optional("source", str, "")
        enumerations.append(Enumeration(item.require("name", str), item.require("about", str), numbers, source))
    constants = []
    for item in _entries(path, "constants"):
        item.only(Constant.__slots__)
        constants.append(
            Constant(
                name=item.require("name", str),
                value=item.require("value", (int, str)),
                about=item.require("about", str),
                source=item.optional("source", str, ""),
            )
        )
    return tuple(enumerations), tuple(constants)


def _entries(path: Path, key: str) -> Iterator[Located]:
    for document in read_documents(path):
        for item in document.require(key, list):
            if not isinstance(item, Located):
                raise SchemaError(path, document.lines[key], f"{key}: {item!r} is not a mapping")
            yield item
