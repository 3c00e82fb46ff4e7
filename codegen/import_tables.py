"""Update the tables of the schemas to match a Kafka release: error codes, enumerations, constants.

The message definitions in a jar do not include these tables; a program that uses the release's classes prints them
along with the golden vectors' tables. Our own descriptions are kept, and so is the list of errors that are fatal to a
client.

Source: `error_codes.json` and `api_keys.json`, written by `conformance/vector_generator`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkawire.codegen.dump import dump_enumerations, dump_errors
from kafkawire.codegen.located import Problems, SchemaError
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors

__all__ = ["table_texts"]

#: Names that the tables use for the number of an enumeration's member; Kafka's classes use more than one.
_NUMBERS = ("id", "code", "type_id", "value")


def table_texts(tables: Path, schemas: Path) -> dict[Path, str]:
    """Return `errors.yaml` and `enumerations.yaml`, updated with the tables of a release.

    Args:
        tables: a folder with `error_codes.json` and `api_keys.json`.
        schemas: the folder of schemas; enumerations and constants are found by their `source`.

    Returns:
        The text of each file, keyed by path relative to `schemas`.

    Raises:
        SchemaError: a table lacks the value that a `source` names, a table is malformed, or one of the schemas' tables
            is wrong.
    """
    errors, enumerations = schemas / "errors.yaml", schemas / "enumerations.yaml"
    known = {error.name: error for error in load_errors(errors)} if errors.exists() else {}
    texts: dict[Path, str] = {}
    problems = Problems()
    with problems.collect():
        texts[Path(errors.name)] = _converted(
            tables / "error_codes.json", lambda codes: dump_errors(_errors(codes, known))
        )
    if enumerations.exists():
        with problems.collect():
            found, constants = load_enumerations(enumerations)
            texts[Path(enumerations.name)] = _converted(
                tables / "api_keys.json",
                lambda numbers: dump_enumerations(
                    [_enumeration(item, numbers["enumerations"]) for item in found],
                    [_constant(item, numbers["constants"]) for item in constants],
                ),
            )
    problems.check()
    return texts


def _converted(path: Path, convert: Callable[[Any], str]) -> str:
    """Return the result of `convert` for a JSON file; any mistake in the file is a `SchemaError`."""
    try:
        return convert(json.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise SchemaError(path, 0, f"{error} is missing") from error
    except OSError as error:
        raise SchemaError(path, 0, f"cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise SchemaError(path, 0, f"not a valid table: {error}") from error


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
