"""Check that what a message says fits together: ranges, tags, keys, structures.

Called by `load.py` once a message was read, so that no emitter has to think of a schema that contradicts itself. An
error names the file, the line and the field.

Source: the rules that Apache Kafka's own message generator has for its definitions, and KIP-482 for tagged fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import PRIMITIVES, FieldSpec, MessageSpec
from kafkawire.codegen.versions import NONE, OPEN, Versions

__all__ = ["ENTITIES", "LISTENERS", "check_message"]

#: What a value can name, and the type that it must then have.
ENTITIES = {
    "broker_id": "int32",
    "group_id": "string",
    "producer_id": "int64",
    "topic_name": "string",
    "transactional_id": "string",
}

#: Where a request can be accepted.
LISTENERS = ("broker", "controller")

#: Primitives that have a length, and with it a form for null; structures and arrays have one too.
_WITH_LENGTH = frozenset({"string", "bytes", "records"})

#: The line of a problem and what it is.
_Problem = tuple[int, str]


def check_message(path: Path, message: MessageSpec) -> None:
    """Check one message.

    Args:
        path: the file, for the error.
        message: what was read from it.

    Raises:
        SchemaError: the first thing that does not fit.
    """
    for line, reason in _problems(message):
        raise SchemaError(path, line, f"{message.name}: {reason}")


def _problems(message: MessageSpec) -> Iterator[_Problem]:
    """Yield what is wrong; each step may take for granted that those before it found nothing."""
    yield from _in_ranges(message)
    yield from _in_structures(message)
    yield from _in_recursion(message)
    arrays = {field.type for field in _all_fields(message) if field.array}
    yield from _in_fields(message, message.fields, message.versions, in_array=False)
    for struct in message.structs:
        versions = struct.versions & message.versions
        if not versions:
            yield struct.line, f"structure {struct.name}: no version of {struct.versions} exists"
        yield from _in_fields(message, struct.fields, versions, in_array=struct.name in arrays)


def _in_ranges(message: MessageSpec) -> Iterator[_Problem]:
    versions, flexible = message.versions, message.flexible
    if not versions and message.fields:
        yield message.line, "it has fields but no versions"
    if versions.last == OPEN:
        yield message.line, f"versions: {versions} is open; the newest version must be named"
    if versions and flexible and flexible.first > versions.last:
        yield message.line, f"flexible: {flexible} begins after the versions {versions}"
    if versions and flexible and flexible.last < versions.last:
        yield message.line, f"flexible: {flexible} ends before the versions {versions}"
    if not message.deprecated <= versions:
        yield message.line, f"deprecated: {message.deprecated} is not within the versions {versions}"
    for listener in message.listeners:
        if listener not in LISTENERS:
            yield message.line, f"listeners: {listener!r} is none of {', '.join(LISTENERS)}"


def _in_structures(message: MessageSpec) -> Iterator[_Problem]:
    known: set[str] = set()
    for name, line, _fields in _structures(message):
        if name in known:
            yield line, f"structure {name} is defined twice"
        known.add(name)
    used = set()
    for field in _all_fields(message):
        used.add(field.type)
        if field.type not in PRIMITIVES | known:
            yield field.line, f"field {field.name}: structure {field.type} is not defined"
    for struct in message.structs:
        if struct.name not in used:
            yield struct.line, f"structure {struct.name} is never used"


def _in_recursion(message: MessageSpec) -> Iterator[_Problem]:
    structures = {name: fields for name, _line, fields in _structures(message)}
    sound: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> Iterator[_Problem]:
        for field in structures[name]:
            if field.type in above:
                circle = " > ".join((*above[above.index(field.type) :], field.type))
                yield field.line, f"field {field.name}: a structure cannot hold itself: {circle}"
            elif field.type in structures and field.type not in sound:
                yield from visit(field.type, (*above, field.type))
        sound.add(name)

    for name in structures:
        yield from visit(name, (name,))


def _in_fields(
    message: MessageSpec, fields: tuple[FieldSpec, ...], parent: Versions, *, in_array: bool
) -> Iterator[_Problem]:
    tags = {field.tag for field in fields if field.tag is not None}
    for field in fields:
        reasons = [*_in_field(field, parent), *_in_tag(field, message.flexible, parent)]
        if field.tag is not None and (gaps := set(range(field.tag)) - tags):
            reasons.append(f"tag {field.tag}, but tag {min(gaps)} is not used; tags count from 0 without gaps")
        if field.map_key and not in_array:
            reasons.append("map_key: only the elements of an array have keys")
        yield from ((field.line, f"field {field.name}: {reason}") for reason in reasons)
        if field.fields is not None:
            yield from _in_fields(message, field.fields, field.versions & parent, in_array=field.array)


def _in_field(field: FieldSpec, parent: Versions) -> Iterator[str]:
    present = field.versions & parent
    has_length = field.array or field.type in _WITH_LENGTH
    if not field.versions:
        yield "versions: none; a field that is in no version is left out"
    if parent and field.versions.first > parent.last:
        yield f"versions: {field.versions} begins after {parent}, the versions around it"
    if field.nullable and not has_length and field.type in PRIMITIVES:
        yield f"nullable: a {field.type} has no form for null"
    if field.nullable and not field.nullable & field.versions:
        yield f"nullable: {field.nullable} is outside its versions {field.versions}"
    if field.default is None and not present <= field.nullable:
        yield f"default null, but of its versions {present} only {field.nullable} can be null"
    if field.flexible not in (None, NONE):
        yield f"flexible: {field.flexible}; only `none` is known, a classic length in all versions"
    if field.flexible is not None and not has_length:
        yield f"flexible: a {field.type} has no length"
    if field.zero_copy and (field.array or field.type not in ("bytes", "records")):
        yield "zero_copy: only bytes and records can be read without a copy"
    if field.entity is not None and field.entity not in ENTITIES:
        yield f"entity: {field.entity} is none of {', '.join(ENTITIES)}"
    elif field.entity is not None and ENTITIES[field.entity] != field.type:
        yield f"entity: a {field.entity} is of type {ENTITIES[field.entity]}, not {field.type}"


def _in_tag(field: FieldSpec, flexible: Versions, parent: Versions) -> Iterator[str]:
    if field.tag is None:
        return
    if field.tag < 0:
        yield f"tag {field.tag} is negative"
    if not field.tagged:
        yield f"tag {field.tag}, but it is tagged in no version"
    if not field.tagged <= field.versions:
        yield f"tagged: {field.tagged} is not within its versions {field.versions}"
    if not field.tagged & parent <= flexible:
        yield f"tagged: {field.tagged & parent}, but only the versions {flexible} are flexible"
    if field.map_key:
        yield "map_key: a tagged field cannot be a key"


def _structures(message: MessageSpec) -> Iterator[tuple[str, int, tuple[FieldSpec, ...]]]:
    """Yield name, line and fields of every structure."""
    for struct in message.structs:
        yield struct.name, struct.line, struct.fields
        yield from _in_place(struct.fields)
    yield from _in_place(message.fields)


def _in_place(fields: tuple[FieldSpec, ...]) -> Iterator[tuple[str, int, tuple[FieldSpec, ...]]]:
    for field in fields:
        if field.fields is not None:
            yield field.type, field.line, field.fields
            yield from _in_place(field.fields)


def _all_fields(message: MessageSpec) -> Iterator[FieldSpec]:
    yield from message.fields
    for _name, _line, fields in _structures(message):
        yield from fields
