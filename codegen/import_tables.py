"""Bring the tables of the schemas to the state of a Kafka release: error codes, enumerations, constants.

A jar's message definitions do not have them; they come from tables that a program inside the release prints, the same
that stand beside the golden vectors. Descriptions, and which errors are fatal to a client, are ours and stay.

Source: `error_codes.json` and `api_keys.json`, written by `conformance/vector_generator`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkawire.codegen.definitions import DefinitionError
from kafkawire.codegen.dump import dump_enumerations, dump_errors
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors

__all__ = ["import_tables"]

#: What the tables call the number of an enumeration's member; Kafka's classes have it under several names.
_NUMBERS = ("id", "code", "type_id", "value")


def import_tables(tables: Path, schemas: Path) -> tuple[Path, ...]:
    """Write what the tables of a release say into `errors.yaml` and `enumerations.yaml`.

    Args:
        tables: a folder with `error_codes.json` and `api_keys.json`.
        schemas: the folder of schemas; enumerations and constants are found by their `source`.

    Returns:
        The files that changed, relative to `schemas`.

    Raises:
        DefinitionError: a table does not have what a `source` names, or is not such a table.
        SchemaError: a table of the schemas is wrong.
    """
    errors, enumerations = schemas / "errors.yaml", schemas / "enumerations.yaml"
    try:
        codes = json.loads((tables / "error_codes.json").read_text(encoding="utf-8"))
        numbers = json.loads((tables / "api_keys.json").read_text(encoding="utf-8"))
        known = {error.name: error for error in load_errors(errors)} if errors.exists() else {}
        texts = {errors: dump_errors(_errors(codes, known))}
        if enumerations.exists():
            found, constants = load_enumerations(enumerations)
            texts[enumerations] = dump_enumerations(
                [_enumeration(item, numbers["enumerations"]) for item in found],
                [_constant(item, numbers["constants"]) for item in constants],
            )
    except (ValueError, KeyError, TypeError) as error:
        raise DefinitionError(f"{tables}: {type(error).__name__}: {error}") from error
    changed = []
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path.relative_to(schemas))
    return tuple(changed)


def _errors(codes: list[dict[str, Any]], known: dict[str, ErrorSpec]) -> list[ErrorSpec]:
    found = [
        replace(
            known.get(error["name"], ErrorSpec(0, error["name"])),
            code=error["code"],
            retriable=error["retriable"],
            invalid_metadata=error["invalid_metadata"],
        )
        for error in codes
    ]
    return sorted(found, key=lambda error: error.code)


def _enumeration(item: Enumeration, numbers: dict[str, list[dict[str, Any]]]) -> Enumeration:
    if not item.source:
        return item
    values = {member["name"].upper(): _number(member) for member in numbers[item.source]}
    return replace(item, values=dict(sorted(values.items(), key=lambda pair: pair[1])))


def _number(member: dict[str, Any]) -> int:
    found = (member.get(name) for name in _NUMBERS)
    return next(int(value) for value in found if isinstance(value, int))


def _constant(item: Constant, constants: dict[str, dict[str, Any]]) -> Constant:
    if not item.source:
        return item
    owner, _, name = item.source.partition(".")
    return replace(item, value=constants[owner][name])
