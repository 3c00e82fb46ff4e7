"""The generated Python reads and writes records as the schemas define them, even after a schema changes.

Method: execute the emitted text, for the unchanged schemas and with two fields swapped; read its output with the
construct engine's form of the same schemas, and with the emitted code itself.
"""

from __future__ import annotations

import io
import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import OUT, SCHEMAS
from kafkawire.codegen.emit.records import emit_record_formats
from kafkawire.codegen.emit.records_python import emit_record_codec
from kafkawire.codegen.generate import drift, generated_tree
from kafkawire.codegen.record_formats import RecordFormat, load_record_formats
from kafkawire.sdk.protocol.engines.construct_primitives import new_context
from kafkawire.sdk.records.engines import construct

RECORDS: list[dict[str, Any]] = [
    {"headers": [], "key": None, "offset_delta": 0, "timestamp_delta": 0, "value": None},
    {"headers": [(b"h", b"x"), (b"", None)], "key": b"k", "offset_delta": -3, "timestamp_delta": 2**62, "value": b""},
    {
        "headers": [(b"n", b"y" * 70)] * 64,
        "key": b"k" * 64,
        "offset_delta": 2**30,
        "timestamp_delta": -1,
        "value": b"v",
    },
]


def swapped(folder: Path, first: str, second: str) -> Path:
    """Return a copy of the schemas with two fields of the record, or of its headers, swapped."""
    schemas = folder / "schemas"
    shutil.copytree(SCHEMAS, schemas)
    name = "record_header.yaml" if (first, second) == ("header key", "header value") else "record.yaml"
    path = schemas / "records" / name
    lines = path.read_text().splitlines(keepends=True)
    at = [
        next(index for index, line in enumerate(lines) if f"name: {field.removeprefix('header ')}," in line)
        for field in (first, second)
    ]
    lines[at[0]], lines[at[1]] = lines[at[1]], lines[at[0]]
    path.write_text("".join(lines))
    return schemas


def run(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "kafkawire.sdk.protocol.tables.record_formats"}
    exec(compile(text, "generated", "exec"), namespace)
    return namespace


def read_by_construct(monkeypatch: pytest.MonkeyPatch, formats: dict[str, RecordFormat], data: bytes) -> Any:
    """Return the record as the construct engine reads it with the given formats."""
    generated = run(emit_record_formats(formats, "digest"))
    monkeypatch.setattr(construct, "FORMATS", generated["FORMATS"])
    construct.form.cache_clear()
    found = construct.form("Record")._parsereport(io.BytesIO(data), new_context(), "(parsing)")
    monkeypatch.undo()
    construct.form.cache_clear()
    return found


SWAPS = [
    None,
    ("key", "value"),
    ("timestamp_delta", "offset_delta"),
    ("header key", "header value"),
]


@pytest.mark.parametrize("swap", SWAPS)
def test_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swap: tuple[str, str] | None) -> None:
    formats = load_record_formats(SCHEMAS if swap is None else swapped(tmp_path, *swap))
    codec = run(emit_record_codec(formats, "digest"))
    for record in RECORDS:
        data = bytes(codec["write_record"](**record))
        names = sorted(record)
        *parts, end = codec["read_record"](b"before" + data, 6)
        expected = {**record, "headers": tuple((name.decode(), value) for name, value in record["headers"])}
        assert dict(zip(names, parts, strict=True)) == expected
        assert end == 6 + len(data)
        by_construct = read_by_construct(monkeypatch, formats, data)
        headers = tuple((header.key, header.value) for header in by_construct.headers)
        assert {**{name: by_construct[name] for name in names}, "headers": headers} == expected


def test_cut_and_broken_records() -> None:
    codec = run(emit_record_codec(load_record_formats(SCHEMAS), "digest"))
    data = bytes(codec["write_record"](**RECORDS[1]))
    for size in range(len(data)):
        with pytest.raises((IndexError, ValueError)):
            codec["read_record"](data[:size], 0)
    for at, wrong in itertools.product(range(len(data)), (0x00, 0x01, 0x7F, 0xFF)):
        try:
            *_, end = codec["read_record"](data[:at] + bytes([wrong]) + data[at + 1 :], 0)
        except (IndexError, ValueError):
            continue
        assert end <= len(data)


def test_headers_of_batches() -> None:
    names = run(emit_record_codec(load_record_formats(SCHEMAS), "digest"))
    fields = {name: index for index, name in enumerate(names["BatchHeader"].__slots__)}
    batch = names["BatchHeader"]()
    batch.read_header(b"xx" + names["pack_batch_header"](**fields), 2)
    assert {name: getattr(batch, name) for name in fields} == fields


@pytest.mark.parametrize("swap", [each for each in SWAPS if each is not None])
def test_a_changed_schema_is_drift_of_every_engine(tmp_path: Path, swap: tuple[str, str]) -> None:
    changed = drift(generated_tree(swapped(tmp_path, *swap)), OUT).changed
    engines = {"tables/record_codec.pxi", "tables/record_codec.py", "tables/record_formats.py"}
    assert engines <= {path.as_posix() for path in changed}
