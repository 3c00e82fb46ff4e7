"""Write the Python module of one schema file: a class per message, its field table and its schema.

A class covers all versions of its message. The structures of a message are nested in its class. The tables come after
the classes because a class body cannot see its neighbours.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from kafkawire.codegen.emit.source import header
from kafkawire.codegen.spec import (
    INTEGERS,
    NO_DEFAULT,
    PRIMITIVES,
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
)
from kafkawire.codegen.versions import Versions

__all__ = ["emit_messages", "module_name"]

_ANNOTATIONS = {
    **dict.fromkeys(INTEGERS, "int"),
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "Buffer",
    "records": "Buffer",
}
_DEFAULTS = {
    **dict.fromkeys(INTEGERS, "0"),
    "bool": "False",
    "float64": "0.0",
    "uuid": "bytes(16)",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
}


def module_name(path: Path) -> str:
    """Return the module of a schema file below the package of messages, as `groups.consumer_protocol_assignment`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "messages" else parts)


def emit_messages(path: Path, file: SchemaFile, digest: str) -> str:
    """Return the module of a schema file.

    Args:
        path: of the schema, relative to the folder of schemas.
        file: its content.
        digest: SHA-256 of its text, in hexadecimal.
    """
    messages = [message for message in file.messages if message.versions]
    classes = "\n\n\n".join("\n".join(_message_class(message)) for message in messages)
    tables = "\n".join(line for message in messages for line in _tables(message))
    names = sorted(message.name for message in messages)
    imports = [
        *(["from collections.abc import Sequence"] if "Sequence[" in classes else []),
        "",
        "from kafkawire.sdk.protocol.schema import "
        + ", ".join(
            name
            for name in ("DEFAULT", "Buffer", "Field", "Message", "Schema", "UnknownTags")
            if name in ("Message", "Schema", "UnknownTags") or f"{name}" in classes + tables
        ),
    ]
    return "\n".join(
        [
            *header(path, digest),
            f'"""{_module_about(file)}"""',
            "",
            "from __future__ import annotations",
            "",
            *imports,
            "",
            f"__all__ = [{', '.join(map(json.dumps, names))}]",
            "",
            "",
            classes,
            "",
            "",
            tables,
            "",
        ]
    ).replace("\n\n\n\n", "\n\n\n")


def _module_about(file: SchemaFile) -> str:
    match file:
        case ApiFile():
            title = f"{file.name}, API key {file.request.key}"
        case RecordFile():
            title = f"{file.name}, records of {file.topic}"
        case _:
            title = ", ".join(message.name for message in file.messages)
    about = file.messages[0].about if len(file.messages) == 1 else getattr(file, "about", "")
    return _sentence(f"{title}: {about}" if about else title)


def _sentence(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    text = text if text.endswith(".") else f"{text}."
    return "\n".join(textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False))


def _message_class(message: MessageSpec) -> Iterator[str]:
    name = message.name
    yield f"class {name}(Message):"
    yield from _docstring(message.about or f"{name}.", message.fields)
    for struct, fields, about in message.all_structs():
        yield ""
        yield f"    class {struct}(Message):"
        yield from (f"    {line}" if line else "" for line in _docstring(about or f"{struct} of {name}.", fields))
        yield from (f"    {line}" if line else "" for line in _members(message, fields))
    yield from _members(message, message.fields)


def _docstring(about: str, fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    described = [field for field in fields if field.about]
    about = _sentence(about)
    if not described:
        yield from f'    """{about}"""'.replace("\n", "\n    ").split("\n")
        return
    yield from f'    """{about}'.replace("\n", "\n    ").split("\n")
    yield ""
    yield "    Attributes:"
    for field in described:
        text = _sentence(f"{field.name}: {field.about}")
        yield from textwrap.wrap(
            text.replace("\n", " "),
            112,
            initial_indent="        ",
            subsequent_indent="            ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    yield '    """'


def _members(message: MessageSpec, fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    names = [field.name for field in fields] + ["unknown_tags"]
    slots = f"    __slots__ = ({', '.join(map(json.dumps, names))}{',' if len(names) == 1 else ''})"
    yield ""
    if len(slots) <= 116:
        yield slots
    else:
        yield "    __slots__ = ("
        yield from (f"        {json.dumps(name)}," for name in names)
        yield "    )"
    yield ""
    yield "    def __init__("
    yield "        self,"
    for field in fields:
        yield f"        {field.name}: {_annotation(message, field)} = {_argument_default(field)},"
    yield "        unknown_tags: UnknownTags = (),"
    yield "    ) -> None:"
    # DEFAULT stays in the slot until the structure is read, see `MessageType`.
    yield from (f"        self.{field.name} = {field.name}" for field in fields)
    yield "        self.unknown_tags = unknown_tags"


def _annotation(message: MessageSpec, field: FieldSpec) -> str:
    kind = _ANNOTATIONS.get(field.type) or f"{message.name}.{field.type}"
    kind = f"Sequence[{kind}]" if field.array else kind
    return f"{kind} | None" if field.nullable & message.versions or _default(field) == "None" else kind


def _argument_default(field: FieldSpec) -> str:
    return _default(field) or "DEFAULT"


def _default(field: FieldSpec) -> str:
    """Return the default as Python source; empty for a new structure."""
    if field.default is not NO_DEFAULT:
        return json.dumps(field.default) if isinstance(field.default, str) else repr(field.default)
    if field.array:
        return "()"
    return _DEFAULTS.get(field.type, "")


def _tables(message: MessageSpec) -> Iterator[str]:
    for struct, fields, _about in message.all_structs():
        yield from _table(message, f"{message.name}.{struct}", fields)
    yield from _table(message, message.name, message.fields)
    key = None if message.key is None else message.key
    flexible = message.flexible & message.versions
    yield (
        f"{message.name}.SCHEMA = Schema({json.dumps(message.name)}, {json.dumps(message.kind)}, {key}, "
        f"{_range(message, message.versions)}, {_range(message, flexible) if flexible else None})"
    )


def _table(message: MessageSpec, owner: str, fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    if not fields:
        return
    yield f"{owner}.FIELDS = ("
    yield from (f"    {_field(message, field)}," for field in fields)
    yield ")"


def _field(message: MessageSpec, field: FieldSpec) -> str:
    kind = json.dumps(field.type) if field.type in PRIMITIVES else f"{message.name}.{field.type}"
    parts = [json.dumps(field.name), kind, _range(message, field.versions)]
    default = _default(field)
    if default:
        parts.append(f"default={default}")
    if field.array:
        parts.append("array=True")
    if field.nullable & message.versions:
        parts.append(f"nullable={_range(message, field.nullable)}")
    if field.tag is not None:
        parts += [f"tag={field.tag}", f"tagged={_range(message, field.tagged)}"]
    if field.ignorable:
        parts.append("ignorable=True")
    if field.flexible is not None:
        parts.append("compact=False")
    return f"Field({', '.join(parts)})"


def _range(message: MessageSpec, versions: Versions) -> str:
    """Return the versions that the message really has; an empty range is written as (0, -1)."""
    both = versions & message.versions
    return f"({both.first}, {both.last})"
