"""Read `registry.yaml`, which describes the data that Kafka keeps in ZooKeeper: nodes, content types and structures.

Errors name the file, the line and the node (or the content type and field), and are all reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from kafkawire.codegen.located import Located, Problems, read_documents
from kafkawire.codegen.names import TAKEN_ZNODE_NAMES, constant_problem, field_problem, type_problem
from kafkawire.codegen.spec import INTEGERS
from kafkawire.codegen.versions import ALL, NONE, Versions

__all__ = [
    "ACCESS",
    "MODES",
    "ORDERS",
    "PARAMETER_KINDS",
    "SCALARS",
    "TEXT_CONTENTS",
    "ContentSpec",
    "RegistrySpec",
    "StructureSpec",
    "ZnodeFieldSpec",
    "ZnodeSpec",
    "ZnodeType",
    "load_registry",
]

#: How a node is created.
MODES: Final = ("persistent", "ephemeral", "persistent_sequential")

#: Who may access a node when Kafka protects its nodes.
ACCESS: Final = ("open", "readable", "secret")

#: The kinds of parameters in paths; `?` marks a kind that may be `<default>`.
PARAMETER_KINDS: Final = ("int32", "int32?", "string", "sanitized", "sanitized?", "sequence")

#: The types of plain text content.
TEXT_CONTENTS: Final = ("int32", "int64", "string")

#: The types of fields that are neither structures, arrays nor maps.
SCALARS: Final = (
    "int8", "int16", "int32", "int64", "string", "sanitized", "text_int64", "uuid", "version", "text_version",
)  # fmt: skip

#: The kinds of maps from which Kafka writes objects; each has its own iteration order.
ORDERS: Final = ("as_inserted", "java_hash_map", "java_properties", "scala_hash_map", "scala_map")

_TYPE: Final = re.compile(
    r"(\{(?P<keys>string|int32)\})?(?P<array>\[\])?(?P<name>[A-Za-z]\w*)(?P<nullable>\?)?", re.ASCII
)
_PATH: Final = re.compile(r"(/[a-z_-]*(\{[a-z_]+\})?)+")
_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")

_ZNODE: Final = ("name", "path", "parameters", "mode", "content", "startup", "acl", "about")
_CONTENT: Final = ("name", "versions", "accepts", "writes", "empty", "unknown_fields", "about", "fields")
_STRUCTURE: Final = ("name", "unknown_fields", "about", "fields")
_FIELD: Final = (
    "name", "key", "type", "versions", "required", "read", "default", "omitted", "min", "one_of", "order", "about",
)  # fmt: skip

Spec = TypeVar("Spec")


@dataclass(frozen=True, slots=True)
class ZnodeType:
    """The type of a field.

    Attributes:
        name: one of `SCALARS`, or a structure.
        is_array: whether it is an array, or a map whose values are arrays.
        keys: the type of a map's keys, `string` or `int32`; empty if it is not a map.
        is_nullable: whether it may be null.
    """

    name: str
    is_array: bool = False
    keys: str = ""
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class ZnodeFieldSpec:
    """A field of a content type or a structure.

    Attributes:
        name: its name in Python.
        key: its name in JSON.
        type: its type.
        versions: the versions in which it is written.
        required: the versions in which Kafka refuses content without it.
        read: the versions in which Kafka reads it.
        has_default: whether it has a default.
        default: the value if it is missing: a number, a text, None, `[]` or `{}`.
        is_omitted: whether it is omitted when it has its default value.
        min: the lowest value; None for the lowest value of its type.
        one_of: the only allowed values; empty if any value is allowed.
        order: one of `ORDERS`.
        about: its meaning, in one line.
    """

    name: str
    key: str
    type: ZnodeType
    versions: Versions = ALL
    required: Versions = NONE
    read: Versions = ALL
    has_default: bool = False
    default: object = None
    is_omitted: bool = False
    min: int | None = None
    one_of: tuple[int | str, ...] = ()
    order: str = ORDERS[0]
    about: str = ""


@dataclass(frozen=True, slots=True)
class StructureSpec:
    """A structure inside content.

    Attributes:
        name: the name of its class.
        about: its purpose, as a sentence.
        fields: its fields, in the order in which Kafka writes them.
        refuses_unknown: whether Kafka refuses an unknown field.
    """

    name: str
    about: str
    fields: tuple[ZnodeFieldSpec, ...]
    refuses_unknown: bool = False


@dataclass(frozen=True, slots=True)
class ContentSpec:
    """A type of JSON content.

    Attributes:
        name: the name of its class.
        about: its purpose, as a sentence.
        fields: its fields, in the order in which Kafka writes them.
        versions: the known versions.
        accepts: the versions that Kafka reads; None if it does not check the version.
        writes: the versions that can be written.
        is_default_if_empty: whether a node without content means that all fields have their defaults.
        refuses_unknown: whether Kafka refuses an unknown field.
    """

    name: str
    about: str
    fields: tuple[ZnodeFieldSpec, ...]
    versions: Versions
    accepts: Versions | None
    writes: Versions
    is_default_if_empty: bool = False
    refuses_unknown: bool = False


@dataclass(frozen=True, slots=True)
class ZnodeSpec:
    """A node.

    Attributes:
        name: its name in capitals.
        path: its path, with the names of parameters in braces.
        about: its purpose.
        parameters: the kinds of its parameters, keyed by name and in path order.
        mode: one of `MODES`.
        content: one of `TEXT_CONTENTS`, or the name of a content type; empty if the node has no content.
        is_made_at_startup: whether a broker creates it when it starts.
        access: one of `ACCESS`.
    """

    name: str
    path: str
    about: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    mode: str = MODES[0]
    content: str = ""
    is_made_at_startup: bool = False
    access: str = ACCESS[1]


@dataclass(frozen=True, slots=True)
class RegistrySpec:
    """All nodes, content types and structures, in file order."""

    znodes: tuple[ZnodeSpec, ...]
    contents: tuple[ContentSpec, ...]
    structures: tuple[StructureSpec, ...]


def load_registry(path: Path) -> RegistrySpec:
    """Read `registry.yaml`.

    Raises:
        SchemaError: the file is invalid, a name or a path is used twice, or a name refers to nothing in it.
    """
    documents = read_documents(path)
    if len(documents) != 1:
        raise Located(path, 0).error(f"expected one document, got {len(documents)}")
    document = documents[0]
    document.only(("znodes", "contents", "structures"))
    problems = Problems()
    structures = {str(item.get("name")) for item in _mappings(document, "structures", problems)}
    contents = {str(item.get("name")) for item in _mappings(document, "contents", problems)}
    names: set[str] = set()
    paths: set[str] = set()

    def znode(item: Located) -> ZnodeSpec:
        spec = _znode(item, contents)
        form = _PARAMETER.sub("{}", spec.path)
        if form in paths:
            raise item.error(f"path: {spec.path} is used twice", "path")
        paths.add(form)
        return spec

    found = RegistrySpec(
        tuple(_read_all(document, "znodes", znode, names, problems)),
        tuple(_read_all(document, "contents", lambda item: _content(item, structures), names, problems)),
        tuple(_read_all(document, "structures", lambda item: _structure(item, structures), names, problems)),
    )
    problems.check()
    return found


def _mappings(document: Located, key: str, problems: Problems) -> list[Located]:
    return problems.attempt(lambda: document.mappings(key), [])


def _read_all(
    document: Located, key: str, read: Callable[[Located], Spec], names: set[str], problems: Problems
) -> Iterator[Spec]:
    """Yield each entry of the list `key`, adding any errors to `problems`."""
    for item in _mappings(document, key, problems):
        with problems.collect():
            spec = read(item)
            if item["name"] in names:
                problems.add(item.problem("the name is used twice", "name"))
            names.add(item["name"])
            yield spec


def _name(item: Located, problem: Callable[[str], str]) -> str:
    name: str = item.require("name", str)
    if reason := problem(name):
        raise item.error(f"name: {reason}", "name")
    if name in TAKEN_ZNODE_NAMES:
        raise item.error(f"name: {name!r} is reserved: the generated module imports this name", "name")
    item.place = name
    return name


def _znode(item: Located, contents: set[str]) -> ZnodeSpec:
    item.only(_ZNODE)
    name = _name(item, constant_problem)
    path = item.required_text("path")
    if not _PATH.fullmatch(path):
        raise item.error(f"path: expected the form /name/{{parameter}}/prefix_{{parameter}}, got {path!r}", "path")
    kinds: dict[str, object] = item.optional("parameters", dict, {})
    if _PARAMETER.findall(path) != list(kinds):
        raise item.error("parameters: expected the parameters of the path, in the same order", "parameters")
    for parameter, kind in kinds.items():
        if kind not in PARAMETER_KINDS:
            raise item.error(
                f"parameters: unknown kind {parameter}; expected one of {', '.join(PARAMETER_KINDS)}", "parameters"
            )
    mode = _one_of(item, "mode", MODES, MODES[0])
    if (mode == MODES[2]) != ("sequence" in kinds.values()):
        raise item.error(
            "mode: a parameter of the kind sequence is required for sequential nodes, and not allowed otherwise", "mode"
        )
    content = item.text("content")
    if content and content not in TEXT_CONTENTS and content not in contents:
        raise item.error(
            f"content: expected a content type or one of {', '.join(TEXT_CONTENTS)}, got {content}", "content"
        )
    return ZnodeSpec(
        name,
        path,
        item.required_text("about"),
        {parameter: str(kind) for parameter, kind in kinds.items()},
        mode,
        content,
        item.optional("startup", bool, False),
        _one_of(item, "acl", ACCESS, ACCESS[1]),
    )


def _content(item: Located, structures: set[str]) -> ContentSpec:
    item.only(_CONTENT)
    name = _name(item, type_problem)
    about = item.required_text("about")
    versions = _versions(item, "versions", NONE)
    if not versions:
        raise item.error("versions: missing", "versions")
    accepts = None if item.get("accepts") == "any" else _versions(item, "accepts", versions)
    writes = _versions(item, "writes", Versions(versions.last, versions.last))
    if not writes or writes.first not in versions or writes.last not in versions:
        raise item.error(f"writes: {writes} is not within {versions}", "writes")
    fields = _fields(item, structures)
    if not any(each.name == "version" and each.type.name in ("version", "text_version") for each in fields):
        raise item.error("fields: a field named version, of type version or text_version, is required", "fields")
    is_default = _one_of(item, "empty", ("default", "refused"), "refused") == "default"
    if is_default and not all(each.has_default or each.name == "version" for each in fields):
        raise item.error("empty: every field must have a default", "empty")
    return ContentSpec(name, about, fields, versions, accepts, writes, is_default, _refuses_unknown(item))


def _structure(item: Located, structures: set[str]) -> StructureSpec:
    item.only(_STRUCTURE)
    name = _name(item, type_problem)
    return StructureSpec(name, item.required_text("about"), _fields(item, structures), _refuses_unknown(item))


def _refuses_unknown(item: Located) -> bool:
    return _one_of(item, "unknown_fields", ("ignored", "refused"), "ignored") == "refused"


def _fields(item: Located, structures: set[str]) -> tuple[ZnodeFieldSpec, ...]:
    item.require("fields", list)
    problems = Problems()
    found: dict[str, ZnodeFieldSpec] = {}
    for each in item.mappings("fields"):
        with problems.collect():
            spec = _field(each, item.place, structures)
            if spec.name in found:
                problems.add(each.problem("the name is used twice", "name"))
            found[spec.name] = spec
    problems.check()
    if not found:
        raise item.error("fields: empty", "fields")
    return tuple(found.values())


def _field(item: Located, place: str, structures: set[str]) -> ZnodeFieldSpec:
    item.place = place
    item.only(_FIELD)
    name = _name(item, field_problem)
    item.place = f"{place}: field {name}"
    kind = _type(item, structures)
    versions = _versions(item, "versions", ALL)
    has_default = "default" in item
    if versions != ALL and not has_default:
        raise item.error("default: required, because some versions lack the field", "default")
    default = _default(item, kind) if has_default else None
    is_omitted = item.optional("omitted", bool, False)
    if is_omitted and not has_default:
        raise item.error("omitted: only allowed for a field with a default", "omitted")
    order = _one_of(item, "order", ORDERS, ORDERS[0])
    if "order" in item and not kind.keys:
        raise item.error("order: only allowed for maps", "order")
    values: list[int | str] = item.optional("one_of", list, [])
    if not all(isinstance(value, int | str) and not isinstance(value, bool) for value in values):
        raise item.error("one_of: expected numbers or text", "one_of")
    return ZnodeFieldSpec(
        name,
        item.text("key") or name,
        kind,
        versions,
        _versions(item, "required", NONE if has_default else ALL),
        _versions(item, "read", ALL),
        has_default,
        default,
        is_omitted,
        item.optional("min", int, None),
        tuple(values),
        order,
        item.text("about"),
    )


def _type(item: Located, structures: set[str]) -> ZnodeType:
    text = item.required_text("type")
    form = _TYPE.fullmatch(text)
    if form is None:
        raise item.error(
            f"type: {text!r}: expected a name, optionally prefixed by {{string}}, {{int32}} or [], or followed by ?",
            "type",
        )
    name = form["name"]
    if name not in SCALARS and name not in structures:
        raise item.error(f"type: expected a structure or one of {', '.join(SCALARS)}, got {name}", "type")
    return ZnodeType(name, bool(form["array"]), form["keys"] or "", bool(form["nullable"]))


def _default(item: Located, kind: ZnodeType) -> object:
    default = item["default"]
    if default is None:
        return None
    if kind.keys or kind.is_array:
        empty: object = {} if kind.keys else []
        if default != empty:
            raise item.error(f"default: only {empty} is allowed for this type", "default")
        return empty
    if kind.name in INTEGERS or kind.name == "text_int64":
        number: object = item.require("default", int)
        return number
    if kind.name in ("string", "sanitized"):
        text: object = item.require("default", str)
        return text
    raise item.error(f"default: must be null for a {kind.name}", "default")


def _versions(item: Located, key: str, default: Versions) -> Versions:
    if key not in item:
        return default
    try:
        return Versions.parse(str(item.require(key, (int, str))))
    except ValueError as error:
        raise item.error(f"{key}: {error}", key) from None


def _one_of(item: Located, key: str, values: tuple[str, ...], default: str) -> str:
    value: str = item.optional(key, str, default)
    if value not in values:
        raise item.error(f"{key}: expected one of {', '.join(values)}, got {value!r}", key)
    return value
