"""The engines have code for the fields of today's records, and refuse any other field with an error that names it.

Method: try the formats in the schemas, then fields that differ from them in one respect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.emit.record_parts import Part, part, passed
from kafkawire.codegen.record_formats import load_record_formats

RECORD = load_record_formats(SCHEMAS)["Record"]


def test_parts_of_a_record() -> None:
    assert [part(RECORD, field) for field in RECORD.fields] == [
        Part.LENGTH,
        Part.RESERVED,
        Part.NUMBER,
        Part.NUMBER,
        Part.CONTENT,
        Part.CONTENT,
        Part.ELEMENTS,
    ]


def test_what_is_passed_is_sorted_by_name() -> None:
    names = [field.name for field in passed(RECORD)]
    assert names == ["headers", "key", "offset_delta", "timestamp_delta", "value"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("length", {"type": "int32"}),
        ("length", {"measures": "timestamp_delta"}),
        ("attributes", {"default": None}),
        ("attributes", {"type": "int16"}),
        ("offset_delta", {"type": "int64"}),
        ("key", {"length": "int32"}),
        ("headers", {"count": "int32"}),
    ],
)
def test_refused(name: str, changed: dict[str, Any]) -> None:
    fields = tuple(replace(field, **changed) if field.name == name else field for field in RECORD.fields)
    format_ = replace(RECORD, fields=fields)
    with pytest.raises(ValueError, match=rf"^Record\.{name}: the record engines do not support such a field "):
        part(format_, format_.field(name))
