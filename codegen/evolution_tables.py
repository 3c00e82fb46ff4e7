"""Compare record formats, error codes, enumerations and constants, which have no versions.

A format, a code or a number means the same to every peer, so any change to its bytes or number breaks the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkawire.codegen.change import Change, Verdict
from kafkawire.codegen.record_formats import Bits, RecordField, RecordFormat
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec

__all__ = ["compare_constants", "compare_enumerations", "compare_errors", "compare_formats"]

#: The names used as subjects of changes to error codes and constants.
_ERRORS = "ErrorCode"
_CONSTANTS = "constants"

_FLAGS = ("retriable", "invalid_metadata", "fatal")


def compare_errors(old: Iterable[ErrorSpec], new: Iterable[ErrorSpec]) -> Iterator[Change]:
    """Yield the changes to the error codes; a renamed code is recognised by its number."""
    before, after = ({error.name: error for error in errors} for errors in (old, new))
    renamed = {error.code: error for error in after.values() if error.name not in before}
    for name, error in before.items():
        other = after.get(name) or renamed.pop(error.code, None)
        if other is None:
            yield Change(_ERRORS, name, f"removed, code {error.code}", Verdict.NOTE)
            continue
        if other.name != name:
            yield Change(_ERRORS, name, f"renamed to {other.name}", Verdict.NOTE)
        if other.code != error.code:
            yield Change(_ERRORS, name, f"code {error.code} became {other.code}", Verdict.BREAKS)
        yield from _flag_changes(error, other)
    for error in renamed.values():
        flags = "".join(f", {flag}" for flag in _FLAGS if getattr(error, flag))
        yield Change(_ERRORS, error.name, f"new, code {error.code}{flags}", Verdict.COMPATIBLE)


def _flag_changes(old: ErrorSpec, new: ErrorSpec) -> Iterator[Change]:
    for flag in _FLAGS:
        if getattr(old, flag) != getattr(new, flag):
            what = f"{'now' if getattr(new, flag) else 'no longer'} {flag}"
            yield Change(_ERRORS, new.name, what, Verdict.NOTE)


def compare_enumerations(old: Iterable[Enumeration], new: Iterable[Enumeration]) -> Iterator[Change]:
    """Yield the changes to the enumerations."""
    before, after = ({item.name: item for item in items} for items in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield Change(name, "", "new enumeration", Verdict.COMPATIBLE)
        elif name not in after:
            yield Change(name, "", "enumeration removed", Verdict.NOTE)
        else:
            yield from _number_changes(name, before[name].values, after[name].values)


def compare_constants(old: Iterable[Constant], new: Iterable[Constant]) -> Iterator[Change]:
    """Yield the changes to the constants."""
    before, after = ({item.name: item.value for item in items} for items in (old, new))
    yield from _number_changes(_CONSTANTS, before, after)


def _number_changes(subject: str, old: Mapping[str, int | str], new: Mapping[str, int | str]) -> Iterator[Change]:
    for name, value in old.items():
        if name not in new:
            yield Change(subject, name, f"removed, {value!r}", Verdict.NOTE)
        elif new[name] != value:
            yield Change(subject, name, f"{value!r} became {new[name]!r}", Verdict.BREAKS)
    for name, value in new.items():
        if name not in old:
            yield Change(subject, name, f"new, {value!r}", Verdict.COMPATIBLE)


def compare_formats(old: Mapping[str, RecordFormat], new: Mapping[str, RecordFormat]) -> Iterator[Change]:
    """Yield the changes to the record formats."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield Change(name, "", "new record format", Verdict.COMPATIBLE)
        elif name not in new:
            yield Change(name, "", "record format removed", Verdict.NOTE)
        else:
            yield from _format_changes(old[name], new[name])


def _format_changes(old: RecordFormat, new: RecordFormat) -> Iterator[Change]:
    name = old.name
    if old.magic != new.magic:
        yield Change(name, "", f"magic {_or_none(old.magic)} became {_or_none(new.magic)}", Verdict.BREAKS)
    before, after = ({field.name: field for field in fields} for fields in (old.fields, new.fields))
    for field in old.fields:
        if field.name not in after:
            yield Change(name, field.name, "removed", Verdict.BREAKS)
        else:
            yield from _field_changes(name, field, after[field.name])
    for field in new.fields:
        if field.name not in before:
            yield Change(name, field.name, f"added, {field.notation}", Verdict.BREAKS)
    stayed = [field for field in before if field in after]
    order = [field for field in after if field in before]
    for one, other in zip(stayed, order, strict=True):
        if one != other:
            yield Change(name, one, "moved", Verdict.BREAKS)
            break


def _field_changes(name: str, old: RecordField, new: RecordField) -> Iterator[Change]:
    if old.notation != new.notation:
        yield Change(name, old.name, f"type {old.notation} became {new.notation}", Verdict.BREAKS)
    for key in ("const", "length", "count", "measures", "checksum", "covers", "compressed_by"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            what = f"{key} {_or_none(before)} became {_or_none(after)}"
            yield Change(name, old.name, what, Verdict.BREAKS)
    if old.default != new.default:
        what = f"default {_or_none(old.default)} became {_or_none(new.default)}"
        yield Change(name, old.name, what, Verdict.NOTE)
    before_bits, after_bits = ({bits.name: bits for bits in field.bits} for field in (old, new))
    for key in before_bits | after_bits:
        yield from _bit_changes(name, f"{old.name}.{key}", before_bits.get(key), after_bits.get(key))


def _bit_changes(name: str, field: str, old: Bits | None, new: Bits | None) -> Iterator[Change]:
    """Compare named bits; programs ignore bits that their own schemas do not define."""
    if old is None or new is None:
        yield Change(name, field, "bits added" if old is None else "bits removed", Verdict.NOTE)
        return
    if old.mask != new.mask:
        yield Change(name, field, f"bits {old.low}-{old.high} became {new.low}-{new.high}", Verdict.BREAKS)
    for number in range(max(len(old.values), len(new.values))):
        before, after = (values[number] if number < len(values) else "" for values in (old.values, new.values))
        if not before:
            yield Change(name, field, f"value {number} added, {after}", Verdict.NOTE)
        elif before != after:
            yield Change(name, field, f"value {number}, {before}, became {after or 'unused'}", Verdict.BREAKS)


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)
