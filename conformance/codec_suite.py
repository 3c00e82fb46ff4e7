"""Check the codecs of one engine against a folder of golden vectors, with one suite per file.

Unchecked vectors never count as passed. A file that is damaged, has no checker, or contains no vectors is a failure, as
is a missing file that `coverage.json` lists. `vectors/README.md` describes the files.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from kafkawire.conformance import history_vectors, message_vectors, misc_vectors, records_vectors, table_vectors
from kafkawire.conformance.history_vectors import VECTORS
from kafkawire.conformance.report import Suite
from kafkawire.sdk.clock import monotonic_ms

__all__ = ["VECTORS", "run_vectors"]

Vector = dict[str, Any]
Checker = Callable[..., str | None]


def run_vectors(folder: Path, engine: str) -> Iterator[Suite]:
    """Check every vector in a folder with one engine.

    Args:
        folder: contains `*.jsonl.gz` and the tables, `*.json`.
        engine: `native`, `python` or `construct`.

    Yields:
        One suite per file, in order of the names. `coverage.json`, if it exists, describes the content of the other
        files. The suites for subfolders follow; each subfolder contains the vectors that differ in an older release.

    Raises:
        FileNotFoundError: the folder does not exist or contains no vectors.
    """
    paths = _files(folder)
    if not paths:
        raise FileNotFoundError(f"no vectors in {folder}")
    yield from _run_files(paths, engine, older=False)
    for release in sorted(path for path in folder.iterdir() if path.is_dir()):
        yield from _run_files(_files(release), engine, older=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl.gz", ".json")))


def _run_files(paths: list[Path], engine: str, *, older: bool) -> Iterator[Suite]:
    """Yield a suite for each of one release's files."""
    for path in paths:
        suite = Suite(f"{path.parent.name}/{path.name}" if older else path.name)
        start_ms = monotonic_ms()
        try:
            _run_file(suite, path, engine, older)
        except Exception as error:
            suite.add(path.name, f"cannot be read: {type(error).__name__}: {error}")
        if not suite.passed and not suite.failures:
            suite.add(path.name, "contains no vectors")
        suite.seconds = (monotonic_ms() - start_ms) / 1000
        yield suite


def _run_file(suite: Suite, path: Path, engine: str, older: bool) -> None:
    lines, tables = (_OLDER_LINES, _OLDER_TABLES) if older else (_LINES, _TABLES)
    if path.name == "frames.jsonl.gz":
        bodies = _bodies(path.parent)
        if older:
            bodies = {key: history_vectors.with_new_names(body) for key, body in bodies.items()}
            bodies = _bodies(path.parent.parent) | bodies
        _run_lines(suite, path, partial(message_vectors.check_frame_vector, bodies=bodies, engine=engine), older)
    elif path.name in lines:
        _run_lines(suite, path, partial(lines[path.name], engine=engine), older)
    elif path.name in tables:
        table = json.loads(path.read_text(encoding="utf-8"))
        for case, failure in tables[path.name](table, path.parent):
            suite.add(case, failure)
    else:
        suite.add(path.name, "there is no checker for this file")


def _run_lines(suite: Suite, path: Path, check: Callable[[Vector], str | None], older: bool) -> None:
    for number, vector in enumerate(_vectors(path), 1):
        if older and (vector["name"], vector["version"]) in history_vectors.CHANGED_IN_PLACE:
            suite.changed += 1
            continue
        if message_vectors.stricter(vector) is not None:
            suite.stricter[vector["kind"]] = suite.stricter.get(vector["kind"], 0) + 1
        suite.add(_case(vector, number), _outcome(check, vector))


def _outcome(check: Callable[[Vector], str | None], vector: Vector) -> str | None:
    """Return the result of a check; an unexpected error fails the case, not the run."""
    try:
        return check(vector)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _vectors(path: Path) -> Iterator[Vector]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _bodies(folder: Path) -> dict[tuple[str, int, int], Vector]:
    """Return the vectors for the frames' bodies, keyed by (name, version, index)."""
    return {
        (vector["name"], vector["version"], vector["index"]): vector
        for name in ("requests.jsonl.gz", "responses.jsonl.gz")
        for vector in _vectors(folder / name)
    }


def _case(vector: Vector, number: int) -> str:
    """Return a name that identifies a vector in its file."""
    parts = (vector.get(key) for key in ("name", "version", "kind", "case", "index"))
    return f"line {number} " + " ".join(str(part) for part in parts if part is not None)


def _check_corrupt(vector: Vector, engine: str) -> str | None:
    if vector["target"] == "records":
        return records_vectors.check_corrupt_records_vector(vector, engine)
    return message_vectors.check_corrupt_message_vector(vector, engine)


_LINES: dict[str, Checker] = {
    **dict.fromkeys(history_vectors.MESSAGE_FILES, message_vectors.check_message_vector),
    "write_rules.jsonl.gz": message_vectors.check_write_rule_vector,
    "record_batches.jsonl.gz": records_vectors.check_record_batch_vector,
    "corrupt.jsonl.gz": _check_corrupt,
    "misc.jsonl.gz": misc_vectors.check_misc_vector,
}

_TABLES: dict[str, Callable[[Any, Path], Iterable[tuple[str, str | None]]]] = {
    "schema_parity.json": lambda table, _: table_vectors.check_schema_parity(table),
    "error_codes.json": lambda table, _: table_vectors.check_error_codes(table),
    "api_keys.json": lambda table, _: table_vectors.check_api_keys(table),
    "coverage.json": lambda table, folder: chain(
        table_vectors.check_coverage(table, folder), history_vectors.check_newest_versions(folder)
    ),
}

#: The checks for the folders of older releases, which contain only vectors of messages.
_OLDER_LINES: dict[str, Checker] = {
    **dict.fromkeys(history_vectors.MESSAGE_FILES, history_vectors.check_history_message),
    "write_rules.jsonl.gz": history_vectors.check_history_write_rule,
}

_OLDER_TABLES: dict[str, Callable[[Any, Path], Iterable[tuple[str, str | None]]]] = {
    "schema_parity.json": lambda table, _: history_vectors.check_history_parity(table),
    "coverage.json": lambda table, folder: chain(
        table_vectors.check_coverage(table, folder), history_vectors.check_versions(folder, folder.parent)
    ),
}
