"""The generated record formats equal the schemas, in Python and for the extension.

Method: execute the emitted text, and compare its numbers with `struct` and with known facts about the formats.
"""

from __future__ import annotations

import re
from struct import calcsize
from typing import Any

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.emit.records import emit_record_constants, emit_record_formats
from kafkawire.codegen.record_formats import load_record_formats

FORMATS = load_record_formats(SCHEMAS)


def run() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": __name__}  # dataclasses look it up, as in a loaded module
    exec(compile(emit_record_formats(FORMATS, "digest"), "generated", "exec"), namespace)
    return namespace


def test_numbers() -> None:
    names = run()
    assert names["BATCH_HEADER"].size == names["BATCH_HEADER_BYTES"] == calcsize(">qiibIhiqqqhii")
    assert (names["BATCH_CRC_AT"], names["BATCH_CRC_COVERS_FROM"], names["BATCH_BATCH_LENGTH_COUNTS_FROM"]) == (
        17,
        21,
        12,
    )
    assert (names["BATCH_MAGIC"], names["MESSAGE_V0_MAGIC"], names["MESSAGE_V1_MAGIC"]) == (2, 0, 1)
    assert (names["BATCH_COMPRESSION_MASK"], names["BATCH_IS_CONTROL_MASK"]) == (7, 32)
    assert (names["RECORD_MIN_BYTES"], names["RECORD_HEADER_MIN_BYTES"]) == (7, 2)
    assert (names["MESSAGE_V0_MIN_BYTES"], names["MESSAGE_V1_MIN_BYTES"]) == (26, 34)
    assert [member.name for member in names["Compression"]] == ["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"]
    assert sorted(names["__all__"]) == sorted(name for name in names["__all__"] if name in names)


def test_fields() -> None:
    formats = run()["FORMATS"]
    assert {name: [field.name for field in fields] for name, fields in formats.items()} == {
        name: [field.name for field in format_.fields] for name, format_ in FORMATS.items()
    }
    (attributes,) = [field for field in formats["MessageV1"] if field.name == "attributes"]
    assert attributes.bits[1] == ("timestamp_type", 8, ("create_time", "log_append_time"))


def test_the_extension_has_the_same_numbers() -> None:
    names = run()
    constants = dict(re.findall(r"    (\w+) = (\d+)", emit_record_constants(FORMATS, "digest")))
    assert len(constants) > 20
    assert {name: names[name] for name in constants} == {name: int(value) for name, value in constants.items()}
