"""All that a folder of schemas, or the jars of a release, say: what is compared, checked and turned into code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import Problems
from kafkawire.codegen.record_formats import RecordFormat, load_record_formats
from kafkawire.codegen.spec import SchemaFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors

__all__ = ["State", "load_state"]


@dataclass(frozen=True, slots=True)
class State:
    """What schemas say.

    Attributes:
        files: the messages, by path.
        formats: the record formats, by name; None where there are none, as in a jar.
        errors: the error codes, or None.
        enumerations: the enumerations, or None.
        constants: the constants, or None.
    """

    files: Mapping[Path, SchemaFile]
    formats: Mapping[str, RecordFormat] | None = None
    errors: tuple[ErrorSpec, ...] | None = None
    enumerations: tuple[Enumeration, ...] | None = None
    constants: tuple[Constant, ...] | None = None


def load_state(folder: Path) -> State:
    """Read a folder of schemas.

    Raises:
        SchemaError: files are wrong; it lists every problem of every file.
    """
    problems = Problems()
    attempt = problems.attempt
    errors, enumerations = folder / "errors.yaml", folder / "enumerations.yaml"
    files: dict[Path, SchemaFile] = attempt(lambda: load_folder(folder), {})
    formats: dict[str, RecordFormat] = attempt(lambda: load_record_formats(folder), {})
    codes = attempt(lambda: load_errors(errors) if errors.exists() else None, None)
    tables = attempt(lambda: load_enumerations(enumerations) if enumerations.exists() else None, None)
    problems.check()
    return State(files, formats or None, codes, *(tables or (None, None)))
