"""Record formats are read exactly, and errors state the file, line and field.

Method: read the project's formats, a small format, and a variant of it for each rule that a format can break.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.record_formats import load_record_format, load_record_formats
from tests.codegen.conftest import Write

FORMAT = """\
    record_format: Parcel
    about: Something with a label.
    magic: 3
    fields:
      - {name: size, type: int32, measures: crc..end}
      - {name: crc, type: uint32, checksum: crc32c, covers: flags..end}
      - name: flags
        type: int16
        bits:
          kind: {at: 0-2, enum: [box, bag]}
          is_fragile: {at: 5, about: handle with care}
      - {name: label, type: bytes?, length: varint}
      - {name: items, type: "[]Item", count: varint, compressed_by: flags.kind}
    """


def test_a_format(write: Write) -> None:
    parcel = load_record_format(write(FORMAT))
    assert (parcel.name, parcel.magic) == ("Parcel", 3)
    assert [field.offset for field in parcel.fields] == [0, 4, 8, 10, None]
    assert [field.name for field in parcel.fixed] == ["size", "crc", "flags"]
    assert (parcel.field("size").measures, parcel.field("crc").covers) == ("crc", "flags")
    kind, fragile = parcel.field("flags").bits
    assert (kind.mask, kind.values, fragile.mask, fragile.values) == (7, ("box", "bag"), 32, ())
    assert parcel.field("label").nullable
    assert parcel.field("items").array


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("type: int32,", "type: int128,", 5, "Parcel: field size: type: unknown type 'int128'"),
        ("crc..end", "parts..end", 5, "field size: measures: unknown field parts"),
        ("crc..end", "crc..flags", 5, "field size: measures: expected FIELD..end, got 'crc..flags'"),
        ("crc32c", "md5", 6, "field crc: checksum 'md5': expected one of crc32, crc32c"),
        ("covers: flags", "covers: labels", 6, "field crc: covers: unknown field labels"),
        (
            "at: 0-2",
            "at: low",
            10,
            "field flags: bits kind: at: expected a bit or a range of bits within 0-15, got 'low'",
        ),
        ("at: 5, about", "at: 5, abuot", 11, "unknown key 'abuot'"),
        ("{at: 5, about: handle with care}", "5", 9, "field flags: bits is_fragile: expected a mapping, got 5"),
        ("name: label", "name: crc", 12, "field crc: the name is used twice"),
        (
            "flags.kind",
            "flags.sort",
            13,
            "compressed_by: no earlier field has bits named flags.sort",
        ),
        ("at: 5", "at: 2", 11, "field flags: bits is_fragile: at: 2 overlaps kind"),
        ("at: 5", "at: 16", 11, "at: expected a bit or a range of bits within 0-15, got 16"),
        ("at: 0-2, enum: [box, bag]", "at: 0, enum: [box, bag, tube]", 10, "enum: expected at most 2 different names"),
        ("length: varint", "lenght: varint", 12, "unknown key 'lenght'"),
        ("type: bytes?, length: varint", "type: bytes?", 12, "length: required for bytes and strings, and not"),
        (
            "length: varint",
            "length: vary",
            12,
            "length: required for bytes and strings, and not allowed otherwise; one of int8, ",
        ),
        (
            "type: bytes?, length: varint",
            "type: int8, length: int8",
            12,
            "length: required for bytes and strings, and not",
        ),
        ("kind: {at", "Kind: {at", 10, "field flags: bits Kind: name: 'Kind' is not snake_case"),
        ("[box, bag]", "[Box, bag]", 10, "field flags: bits kind: enum: expected a name, got 'Box'"),
        ("[box, bag]", "[5, bag]", 10, "field flags: bits kind: enum: expected a name, got 5"),
        ("name: label", "name: Label", 12, "field Label: name: 'Label' is not snake_case"),
        (
            "bytes?, length: varint",
            "bytes?, length: varint, bits: {kind: {at: 0}}",
            12,
            "field label: bits: a bytes cannot have named bits",
        ),
        ("int32,", "int32, default: 2147483648,", 5, "default: expected -2147483648 to 2147483647, got 2147483648"),
        ("int32,", "int32, const: -2147483649,", 5, "const: expected -2147483648 to 2147483647, got -2147483649"),
        (", covers: flags..end", "", 6, "field crc: `checksum` and `covers` must be given together"),
        ("crc..end", "items..end", 5, "field size: measures: the field items has no fixed position"),
        ("count: varint", "count: vary", 13, "count: expected an integer type or an earlier field, got 'vary'"),
        ("    about: Something with a label.\n", "", 1, "'about' is missing"),
        ("about: Something with a label.", 'about: "two\\nlines"', 2, "about: "),
    ],
)
def test_errors_name_line_and_field(write: Write, old: str, new: str, line: int, reason: str) -> None:
    path = write(FORMAT.replace(old, new))
    with pytest.raises(SchemaError) as caught:
        load_record_format(path)
    assert reason in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("type: int16", "type: int128"),
        ("type: bytes?", "type: byte"),
        ("type: int32,", "type: int128, default: 1000,"),
        ("flags..end", "flags"),
        ("checksum: crc32c", "checksum: [crc32c]"),
        ("length: varint", "length: 5"),
    ],
)
def test_what_depends_on_something_wrong_is_no_other_problem(write: Write, old: str, new: str) -> None:
    assert old in FORMAT
    with pytest.raises(SchemaError) as caught:
        load_record_format(write(FORMAT.replace(old, new)))
    assert len(caught.value.problems) == 1


def test_a_missing_name_is_one_problem(write: Write) -> None:
    with pytest.raises(SchemaError) as caught:
        load_record_format(write(FORMAT.replace("name: label, ", "")))
    assert "'name' is missing" in str(caught.value)
    assert "snake_case" not in str(caught.value)


def test_the_formats_of_the_project() -> None:
    formats = load_record_formats(SCHEMAS)
    assert {name: len(format_.fields) for name, format_ in formats.items()} == {
        "AbortedTransaction": 5,
        "OffsetIndexEntry": 2,
        "TimeIndexEntry": 2,
        "ControlRecordKey": 2,
        "MessageV0": 7,
        "MessageV1": 8,
        "Record": 7,
        "RecordBatch": 14,
        "RecordHeader": 2,
    }
    assert formats["RecordBatch"].field("records").offset == 61


def test_a_file_holds_one_format(write: Write) -> None:
    with pytest.raises(SchemaError, match="expected one document with a record format, got 0 documents"):
        load_record_format(write(""))


def test_a_folder_without_formats(tmp_path: Path) -> None:
    assert load_record_formats(tmp_path) == {}
