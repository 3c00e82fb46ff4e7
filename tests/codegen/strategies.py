"""Hypothesis strategies for random schema files without contradictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

from hypothesis import strategies as st

from kafkawire.codegen.consistency import ENTITIES
from kafkawire.codegen.names import field_problem
from kafkawire.codegen.spec import (
    INTEGERS,
    NO_DEFAULT,
    PRIMITIVES,
    ApiFile,
    Default,
    FieldSpec,
    MessageSpec,
    RecordFile,
    Removal,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.versions import ALL, NONE, OPEN, Versions

__all__ = ["schema_files"]

LAST = 4

#: Field names, including words that YAML reads as other types unless quoted.
names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,4}){0,2}", fullmatch=True),
    st.sampled_from(["no", "yes", "on", "off", "null", "true", "false", "y", "n", "e1", "x0", "inf", "nan"]),
).filter(lambda name: not field_problem(name))
#: Text that people might write, with quotes, colons, braces, several alphabets and words that YAML would misread.
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" "), max_size=40).map(
    str.strip
)
abouts = texts | st.sampled_from(
    [
        "null",
        "true",
        "-1 for a consumer",
        "a: b",
        "No",
        "1",
        "# no",
        "'x'",
        "{a}",
        "- a",
        "1e3",
        "~",
        "0x1",
        "2024-01-01",
    ]
)


def within(outer: Versions) -> st.SearchStrategy[Versions]:
    """Return ranges that begin inside the closed range `outer`."""
    first = st.integers(outer.first, outer.last)
    return first.flatmap(lambda low: st.sampled_from([OPEN, *range(low, outer.last + 1)]).map(partial(Versions, low)))


@st.composite
def fields(
    draw: st.DrawFn, written: Versions, present: Versions, flexible: Versions, depth: int, in_array: bool
) -> tuple[FieldSpec, ...]:
    """Draw the fields of one structure; nested structures get unique names.

    Args:
        draw: hypothesis's function.
        written: the versions of the enclosing structure, as written in the schema.
        present: the versions in `written` that exist.
        flexible: the versions in `present` that are flexible.
        depth: the number of structures that may be nested inside.
        in_array: whether the fields are those of an array's elements.
    """
    found = []
    tags = 0
    for name in draw(st.lists(names, unique=True, max_size=4)):
        field = draw(one_field(name, written, present, flexible, depth, in_array))
        tagged = field.versions & flexible
        can_be_tagged = field.versions.last == OPEN and not field.map_key and not _has_records(field)
        if tagged and can_be_tagged and draw(st.booleans()):
            field = replace(field, tag=tags, tagged=Versions(tagged.first, OPEN))
            tags += 1
        found.append(field)
    return tuple(found)


def _has_records(field: FieldSpec) -> bool:
    return field.type == "records" or any(map(_has_records, field.fields or ()))


@st.composite
def one_field(
    draw: st.DrawFn, name: str, written: Versions, present: Versions, flexible: Versions, depth: int, in_array: bool
) -> FieldSpec:
    """Draw a field without a tag."""
    structure = depth > 0 and draw(st.booleans())
    kind = f"S{draw(st.uuids()).hex}" if structure else draw(st.sampled_from(sorted(PRIMITIVES)))
    array = draw(st.booleans())
    versions = draw(st.just(written) | within(present))
    can_be_null = array or structure or kind in ("string", "bytes", "records")
    nullable = draw(st.sampled_from([NONE, versions]) | within(versions & present)) if can_be_null else NONE
    inner = None
    if structure:
        inner = draw(fields(versions, versions & present, versions & flexible, depth - 1, array))
    entity = draw(st.none() | st.sampled_from(sorted(ENTITIES)))
    return FieldSpec(
        name=name,
        type=kind,
        array=array,
        versions=versions,
        nullable=nullable,
        flexible=draw(st.sampled_from([None, NONE])) if array or kind in ("string", "bytes", "records") else None,
        default=draw(defaults(kind, array, nullable == versions)),
        ignorable=draw(st.booleans()),
        map_key=in_array and draw(st.booleans()),
        zero_copy=not array and kind in ("bytes", "records") and draw(st.booleans()),
        entity=entity if entity is not None and ENTITIES[entity] == kind else None,
        about=draw(abouts),
        fields=inner,
    )


def defaults(kind: str, array: bool, nullable: bool) -> st.SearchStrategy[Default]:
    """Return the defaults that a field can have."""
    found: list[st.SearchStrategy[Default]] = [st.just(NO_DEFAULT)]
    if nullable:
        found.append(st.none())
    if not array and kind in INTEGERS:
        found.append(st.integers(*INTEGERS[kind]))
    elif not array and kind in ("bool", "float64", "string"):
        floats = st.floats(allow_nan=False, allow_infinity=False)
        found.append({"bool": st.booleans(), "float64": floats, "string": texts}[kind])
    return st.one_of(found)


@st.composite
def removals(draw: st.DrawFn, versions: Versions) -> tuple[Removal, ...]:
    """Draw releases that removed the versions before the current ones."""
    before = versions.first if versions else draw(st.integers(0, LAST))
    cuts = sorted(draw(st.sets(st.integers(0, before - 1), max_size=2))) if before else []
    runs = [Versions(first, last - 1) for first, last in pairwise([*cuts, before])]
    return tuple(Removal(f"4.{number}", run) for number, run in enumerate(runs))


@st.composite
def messages(
    draw: st.DrawFn, name: str, kind: str, key: int | None, living: Versions, removed: tuple[Removal, ...]
) -> MessageSpec:
    """Draw a message."""
    versions = MessageSpec(name, kind, key, living, removed=removed).known
    first = draw(st.none() | st.integers(0, LAST))
    flexible = NONE if first is None or not versions or first > versions.last else Versions(first, OPEN)
    structs: tuple[StructSpec, ...] = ()
    own = draw(fields(ALL, versions, flexible & versions, 2, in_array=False)) if versions else ()
    if versions and draw(st.booleans()):
        inner = draw(fields(ALL, versions, NONE, 0, in_array=True))
        structs = (StructSpec("Shared", ALL, inner, draw(abouts)),)
        own = (*own, FieldSpec(name="shared_by_all", type="Shared", array=True))
    return MessageSpec(
        name=name,
        kind=kind,
        key=key,
        versions=living,
        flexible=flexible,
        deprecated=draw(st.just(NONE) | st.just(Versions(living.first, living.first))) if living else NONE,
        unstable=draw(st.booleans()),
        listeners=(),
        removed=removed,
        structs=structs,
        fields=own,
        about=draw(abouts),
    )


@st.composite
def schema_files(draw: st.DrawFn) -> SchemaFile:
    """Draw the content of a schema file of any kind."""
    closed = st.just(NONE) | st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(sorted).map(
        lambda two: Versions(*two)
    )
    versions = draw(closed)
    removed = draw(removals(versions))
    key = draw(st.integers(0, 2**15 - 1))
    match draw(st.sampled_from(["api", "record", "single"])):
        case "api":
            request = draw(messages("SampleRequest", "request", key, versions, removed))
            listeners = tuple(draw(st.lists(st.sampled_from(["broker", "controller"]), unique=True)))
            request = replace(request, listeners=listeners)
            response = draw(messages("SampleResponse", "response", key, versions, removed))
            header = st.none() | st.integers(0, 1)
            return ApiFile("Sample", request, response, draw(header), draw(header), draw(abouts), draw(header))
        case "record":
            left = draw(messages("SampleKey", "coordinator-key", key, versions, removed))
            right = draw(messages("SampleValue", "coordinator-value", key, draw(closed), ()))
            return RecordFile("Sample", "__sample", left, right, draw(abouts))
        case _:
            return SingleFile(
                (
                    draw(messages("Sample", "metadata", key, versions, removed)),
                    draw(messages("Other", "data", None, draw(closed), ())),
                )
            )
