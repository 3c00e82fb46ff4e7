"""Run a folder of golden vectors against the codecs: one suite a file, on one engine.

Every file of the folder must have a checker: a file that nobody knows is a failure, not a gap. What the files hold is
described in `vectors/README.md`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from kafkawire.conformance import message_vectors, misc_vectors, records_vectors, table_vectors
from kafkawire.conformance.report import Suite

__all__ = ["VECTORS", "run_vectors"]

#: The vectors that ship with the package.
VECTORS = Path(__file__).parent / "vectors"

Vector = dict[str, Any]
Checker = Callable[[Vector, str], str | None]


def run_vectors(folder: Path, engine: str) -> Iterator[Suite]:
    """Check every vector of a folder.

    Args:
        folder: with `*.jsonl.gz` and the tables.
        engine: `native`, `python` or `construct`.

    Yields:
        A suite for each file.

    Raises:
        FileNotFoundError: the folder does not exist or holds no vectors.
    """
    paths = sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl.gz", ".json")))
    if not paths:
        raise FileNotFoundError(f"{folder}: no vectors here")
    for path in paths:
        suite = Suite(path.name)
        start = perf_counter()
        if path.name in _LINES:
            _run_lines(suite, path, engine, _LINES[path.name])
        elif path.name in _TABLES:
            table = json.loads(path.read_text(encoding="utf-8"))
            for case, failure in _TABLES[path.name](table, folder):
                suite.add(case, failure)
        else:
            suite.add(path.name, "no checker knows this file")
        suite.seconds = perf_counter() - start
        yield suite


def _run_lines(suite: Suite, path: Path, engine: str, check: Checker) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            vector = json.loads(line)
            reason = message_vectors.stricter(vector)
            if reason is not None:
                suite.stricter[reason] = suite.stricter.get(reason, 0) + 1
            suite.add(_case(vector, number), check(vector, engine))


def _case(vector: Vector, number: int) -> str:
    """Return a name by which a person finds the vector again."""
    parts = (vector.get(key) for key in ("name", "version", "kind", "case", "index"))
    return f"line {number} " + " ".join(str(part) for part in parts if part is not None)


def _check_corrupt(vector: Vector, engine: str) -> str | None:
    if vector["target"] == "records":
        return records_vectors.check_corrupt_records_vector(vector, engine)
    return message_vectors.check_corrupt_message_vector(vector, engine)


_LINES: dict[str, Checker] = {
    **{
        f"{name}.jsonl.gz": message_vectors.check_message_vector
        for name in ("requests", "responses", "headers", "data", "coordinator", "metadata")
    },
    "frames.jsonl.gz": message_vectors.check_frame_vector,
    "write_rules.jsonl.gz": message_vectors.check_write_rule_vector,
    "record_batches.jsonl.gz": records_vectors.check_record_batch_vector,
    "corrupt.jsonl.gz": _check_corrupt,
    "misc.jsonl.gz": misc_vectors.check_misc_vector,
}

_TABLES: dict[str, Callable[[Any, Path], Iterable[tuple[str, str | None]]]] = {
    "schema_parity.json": lambda table, _: table_vectors.check_schema_parity(table),
    "error_codes.json": lambda table, _: table_vectors.check_error_codes(table),
    "api_keys.json": lambda table, _: table_vectors.check_api_keys(table),
    "coverage.json": table_vectors.check_coverage,
}
