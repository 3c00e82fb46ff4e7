"""The generated Cython reads, measures and writes a record's fields in the order given by the schema.

Method: check the positions of the fields in the emitted text, for the unchanged schemas and for another field order.
The record tests show that the extension is built from this text and agrees with the other engines.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kafkawire.codegen import OUT, SCHEMAS
from kafkawire.codegen.emit.records_native import emit_native_record_codec
from kafkawire.codegen.record_formats import load_record_formats

FORMATS = load_record_formats(SCHEMAS)


def body(text: str, function: str) -> str:
    """Return the lines of a function."""
    found = re.search(rf"^cdef [^\n]*\b{function}\((?:.|\n)*?(?=\n\n\n|\Z)", text, re.MULTILINE)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("function", ["read_record", "record_bytes", "write_record"])
@pytest.mark.parametrize(
    "order",
    [
        ["timestamp_delta", "offset_delta", "key", "value", "headers"],
        ["headers", "value", "offset_delta", "key", "timestamp_delta"],
    ],
)
def test_order(function: str, order: list[str]) -> None:
    record = FORMATS["Record"]
    fields = (*record.fields[:2], *(record.field(name) for name in order))
    text = emit_native_record_codec({**FORMATS, "Record": replace(record, fields=fields)}, "digest")
    places = [body(text, function).index(f"parts.{name}") for name in order]
    assert places == sorted(places)


def test_every_field_of_the_header_is_read_and_written_where_it_is() -> None:
    text = emit_native_record_codec(FORMATS, "digest")
    for field in FORMATS["RecordBatch"].fixed:
        for function in ("read_batch_header", "write_batch_header"):
            lines = [line for line in body(text, function).splitlines() if f"header.{field.name}" in line]
            assert len(lines) == 1
            assert f"BATCH_{field.name.upper()}_AT" in lines[0]
            width = {"int8": "p[", "int16": "16(", "int32": "32(", "uint32": "32(", "int64": "64("}[field.type]
            assert width in lines[0]


def test_it_is_what_the_extension_includes() -> None:
    included = (OUT.parent / "records" / "engines" / "native.pyx").read_text()
    assert 'include "../../protocol/tables/record_codec.pxi"' in included
    assert (OUT / "tables" / "record_codec.pxi").exists()
