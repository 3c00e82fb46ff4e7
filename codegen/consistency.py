"""Check that a message is consistent: ranges, tags, keys, structures.

`load.py` checks each message that it reads, and `definitions.py` each message of a release, so no emitter has to handle
contradictory schemas. Every problem names the line, the message and the field.

Source: the rules that Apache Kafka's message generator applies to its definitions, and KIP-482 for tagged fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

from kafkawire.codegen.located import Problem
from kafkawire.codegen.spec import PRIMITIVES, FieldSpec, MessageSpec
from kafkawire.codegen.versions import NONE, OPEN, Versions

__all__ = ["ENTITIES", "FIELDS_MAX", "LISTENERS", "STRUCTURE_DEPTH_MAX", "VERSIONS_MAX", "problems_of"]

#: The kinds of things that a value can name, and the type that such a value must have.
ENTITIES = {
    "broker_id": "int32",
    "group_id": "string",
    "producer_id": "int64",
    "topic_name": "string",
    "transactional_id": "string",
}

#: The listeners that can accept a request.
LISTENERS = ("broker", "controller")

#: Maximum number of versions of one message. Each adds a layout and a page to the reference; Kafka's messages have at
#: most 18.
VERSIONS_MAX = 128
#: Maximum nesting of structures, including shared ones; Kafka's messages use 5. Python allows at most 20 nested loops,
#: and the Python engine's code has two for each tagged array, which is enough for nine nested arrays of structures and
#: one more array inside the innermost.
STRUCTURE_DEPTH_MAX = 9
#: Maximum number of fields of one message, counting those of a shared structure at each use, because layouts repeat
#: them. Kafka's messages have at most 73.
FIELDS_MAX = 1024

#: Primitives with a length, which can encode null, as can structures and arrays.
_WITH_LENGTH = frozenset({"string", "bytes", "records"})

#: The line of a problem and its description.
_Problem = tuple[int, str]


def problems_of(path: Path, message: MessageSpec) -> list[Problem]:
    """Return the inconsistencies of a message.

    Args:
        path: the message's file, for the problems to name.
        message: the message read from that file.
    """
    found = [*_in_ranges(message), *_in_structures(message)]
    if not found:
        found = [*_in_size(message)] or [*_in_all_fields(message)]
    return [Problem(path, line, f"{message.name}: {reason}") for line, reason in found]


def _in_ranges(message: MessageSpec) -> Iterator[_Problem]:
    versions, flexible = message.known, message.flexible
    if not versions and message.fields:
        yield message.line, "the message has fields but no versions"
    yield from _in_removed(message)
    if versions.last == OPEN:
        yield message.line, f"versions: {versions} is open-ended; specify the newest version"
    elif versions.last - versions.first >= VERSIONS_MAX:
        yield message.line, f"versions: {versions} exceeds the limit of {VERSIONS_MAX} versions"
    if versions and flexible and flexible.first > versions.last:
        yield message.line, f"flexible: {flexible} begins after the last of the versions {versions}"
    if versions and flexible and flexible.last < versions.last:
        yield message.line, f"flexible: {flexible} ends before the last of the versions {versions}"
    if not message.deprecated <= message.versions:
        yield message.line, f"deprecated: {message.deprecated} is not within the versions {message.versions}"
    for listener in message.listeners:
        if listener not in LISTENERS:
            yield message.line, f"listeners: unknown listener {listener!r}; expected one of {', '.join(LISTENERS)}"


def _in_removed(message: MessageSpec) -> Iterator[_Problem]:
    """Yield the problems of removed versions that leave a gap before the current ones."""
    runs = [removal.versions for removal in message.removed]
    runs += [message.versions] if message.versions and runs else []
    for before, after in pairwise(runs):
        if before.last + 1 != after.first:
            yield message.line, f"removed: expected versions {before} to be followed by {before.last + 1}, got {after}"
    if not all(runs):
        yield message.line, "removed: must not be none; leave out a release that removed no version"


def _in_structures(message: MessageSpec) -> Iterator[_Problem]:
    known: set[str] = set()
    for name, line, _fields in _structures(message):
        if name in known:
            yield line, f"structure {name} is defined twice"
        if name == message.name:
            yield line, f"structure {name} has the same name as its message"
        known.add(name)
    used = set()
    for place, field in _all_fields(message):
        used.add(field.type)
        if field.type not in PRIMITIVES | known:
            yield field.line, f"field {place}: structure {field.type} is not defined"
    for struct in message.structs:
        if struct.name not in used:
            yield struct.line, f"structure {struct.name} is never used"


def _in_size(message: MessageSpec) -> Iterator[_Problem]:
    """Yield structures that contain themselves or nest too deeply, and messages that expand to too many fields."""
    structures = {name: fields for name, _line, fields in _structures(message)}
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}

    def measure(name: str, above: tuple[str, ...]) -> Iterator[_Problem]:
        """Measure the structure `name` and the structures inside it, each just once."""
        for field in structures[name]:
            inner = field.type
            if inner in above:
                circle = " > ".join((*above[above.index(inner) :], inner))
                yield field.line, f"field {field.name}: a structure cannot hold itself: {circle}"
            elif inner in structures and inner not in sizes and len(above) < STRUCTURE_DEPTH_MAX:
                yield from measure(inner, (*above, inner))
            if len(above) + depths.get(inner, inner in structures) > STRUCTURE_DEPTH_MAX:
                yield (
                    field.line,
                    f"field {field.name}: structures are nested more than {STRUCTURE_DEPTH_MAX} levels deep",
                )
        sizes[name] = expanded(structures[name])
        depths[name] = 1 + max((depths.get(field.type, 0) for field in structures[name]), default=0)

    def expanded(fields: tuple[FieldSpec, ...]) -> int:
        return sum(1 + sizes.get(field.type, 0) for field in fields)

    for name in structures:
        if name not in sizes:
            yield from measure(name, (name,))
    if (size := expanded(message.fields)) > FIELDS_MAX:
        yield message.line, f"{size} fields, including those of its structures; the limit is {FIELDS_MAX}"


def _in_all_fields(message: MessageSpec) -> Iterator[_Problem]:
    arrays = {field.type for _place, field in _all_fields(message) if field.array}
    yield from _in_fields(message, message.fields, message.known, "", in_array=False)
    for struct in message.structs:
        versions = struct.versions & message.known
        if not versions:
            yield struct.line, f"structure {struct.name}: none of its versions {struct.versions} exists in the message"
        yield from _in_fields(message, struct.fields, versions, f"{struct.name}.", in_array=struct.name in arrays)
    with_records = _with_records(message)
    for place, field in _all_fields(message):
        if field.tag is not None and field.type in with_records:
            yield field.line, f"field {place}: a tagged field cannot hold records"


def _with_records(message: MessageSpec) -> set[str]:
    """Return `records` and the names of the structures that contain records at any depth."""
    found: set[str] = set()
    more = {"records"}
    while more:
        found |= more
        more = {name for name, _line, fields in _structures(message) if any(field.type in found for field in fields)}
        more -= found
    return found


def _in_fields(
    message: MessageSpec, fields: tuple[FieldSpec, ...], parent: Versions, prefix: str, *, in_array: bool
) -> Iterator[_Problem]:
    tags = {field.tag for field in fields if field.tag is not None}
    gap = next(tag for tag in count() if tag not in tags)
    for field in fields:
        place = prefix + field.name
        reasons = [*_in_field(field, parent), *_in_tag(field, message.flexible, parent)]
        if field.tag is not None and field.tag > gap:
            reasons.append(f"tag {field.tag}, but tag {gap} is not used; tags must be numbered from 0 without gaps")
        if field.map_key and not in_array:
            reasons.append("map_key: only allowed for fields of array elements")
        yield from ((field.line, f"field {place}: {reason}") for reason in reasons)
        if field.fields is not None:
            yield from _in_fields(message, field.fields, field.versions & parent, f"{place}.", in_array=field.array)


def _in_field(field: FieldSpec, parent: Versions) -> Iterator[str]:
    present = field.versions & parent
    has_length = field.array or field.type in _WITH_LENGTH
    if not field.versions:
        yield "versions: must not be none; leave out a field that exists in no version"
    if parent and field.versions.first > parent.last:
        yield f"versions: {field.versions} begins after the last of the enclosing versions {parent}"
    if field.nullable and not has_length and field.type in PRIMITIVES:
        yield f"nullable: a field of type {field.type} cannot be null"
    if field.nullable and not field.nullable & field.versions:
        yield f"nullable: {field.nullable} is not within the field's versions {field.versions}"
    if field.default is None and not present <= field.nullable:
        yield f"default: null is allowed only in versions {field.nullable}, but the field exists in {present}"
    if field.flexible not in (None, NONE):
        yield f"flexible: expected `none` (a classic length in all versions), got {field.flexible}"
    if field.flexible is not None and not has_length:
        yield f"flexible: not allowed for a field of type {field.type}, which has no length"
    if field.zero_copy and (field.array or field.type not in ("bytes", "records")):
        yield "zero_copy: only allowed for fields of type bytes or records"
    if field.entity is not None and field.entity not in ENTITIES:
        yield f"entity: unknown entity {field.entity}; expected one of {', '.join(ENTITIES)}"
    elif field.entity is not None and ENTITIES[field.entity] != field.type:
        yield f"entity: a {field.entity} must be of type {ENTITIES[field.entity]}, got {field.type}"


def _in_tag(field: FieldSpec, flexible: Versions, parent: Versions) -> Iterator[str]:
    if field.tag is None:
        return
    if field.tag < 0:
        yield f"tag: must be at least 0, got {field.tag}"
    if not field.tagged:
        yield f"tag {field.tag}, but the field is not tagged in any version"
    if not field.tagged <= field.versions:
        yield f"tagged: {field.tagged} is not within the field's versions {field.versions}"
    if not field.tagged & parent <= flexible:
        yield f"tagged: {field.tagged & parent} is not within the flexible versions {flexible}"
    if field.map_key:
        yield "map_key: a tagged field cannot be a key"


def _structures(message: MessageSpec) -> Iterator[tuple[str, int, tuple[FieldSpec, ...]]]:
    """Yield name, line and fields of every structure."""
    for struct in message.structs:
        yield struct.name, struct.line, struct.fields
    for _place, field in _all_fields(message):
        if field.fields is not None:
            yield field.type, field.line, field.fields


def _all_fields(message: MessageSpec) -> Iterator[tuple[str, FieldSpec]]:
    """Yield every field with its path in the message, such as `topics.partitions` or `SharedStructure.partitions`."""
    yield from _below("", message.fields)
    for struct in message.structs:
        yield from _below(f"{struct.name}.", struct.fields)


def _below(prefix: str, fields: tuple[FieldSpec, ...]) -> Iterator[tuple[str, FieldSpec]]:
    for field in fields:
        yield prefix + field.name, field
        yield from _below(f"{prefix}{field.name}.", field.fields or ())
