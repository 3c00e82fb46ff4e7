"""Write the Python module for one schema file: for each message, a class, its field table and its schema.

A class covers all versions of its message. The structures of a message are nested in its class. The field tables come
after the classes because a class body cannot refer to the classes that enclose it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from kafkawire.codegen.emit.source import docstring_text, header, literal
from kafkawire.codegen.spec import (
    INTEGERS,
    NO_DEFAULT,
    PRIMITIVES,
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
    SingleFile,
)
from kafkawire.codegen.versions import Versions

__all__ = ["emit_messages", "module_name", "removed_text"]

_LINE = 120
_STEP = "    "
_QUOTES = '"""'

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
    """Return the module of a schema file in the package of messages, like `groups.consumer_protocol_assignment`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "messages" else parts)


def emit_messages(path: Path, file: SchemaFile, digest: str) -> str:
    """Return the module of a schema file.

    Args:
        path: path of the schema, relative to the folder of schemas.
        file: its content.
        digest: the SHA-256 of its text, in hexadecimal.
    """
    messages = [message for message in file.messages if message.known]
    classes = "\n\n\n".join("\n".join(_message_class(file, message)) for message in messages)
    tables = "\n".join(line for message in messages for line in _tables(message))
    used = [name for name in ("DEFAULT", "Buffer", "Field") if name in classes + tables]
    lines = [
        *header(path, digest),
        _module_about(file),
        "",
        "from __future__ import annotations",
        "",
        *(["from collections.abc import Sequence", ""] if "Sequence[" in classes else []),
        f"from kafkawire.sdk.protocol.schema import {', '.join([*used, 'Message', 'Schema', 'UnknownTags'])}",
        "from kafkawire.sdk.protocol.versions import VersionRange as V",
        "",
        f"__all__ = [{', '.join(sorted(json.dumps(message.name) for message in messages))}]",
        "",
        "",
        classes,
        "",
        "",
        tables,
    ]
    return "\n".join(lines) + "\n"


def _module_about(file: SchemaFile) -> str:
    """Return the docstring of the module."""
    match file:
        case ApiFile():
            title, about = f"{file.name}, API key {file.request.key}", file.about
        case RecordFile():
            title, about = f"{file.name}, records of type {file.key.key} in {file.topic}", file.about
        case SingleFile():
            title = ", ".join(message.name for message in file.messages)
            about = file.messages[0].about if len(file.messages) == 1 else ""
    return "\n".join(_wrapped(_sentences(title, about), "", opening=_QUOTES)) + _QUOTES


def _message_about(file: SchemaFile, message: MessageSpec) -> str:
    """Return the description of a message, or a substitute for it."""
    if message.about:
        return message.about
    match file:
        case ApiFile() if message.kind == "request":
            return file.about or f"A request of {file.name}"
        case ApiFile():
            return f"The response to `{file.request.name}`"
        case RecordFile():
            part = "key" if message is file.key else "value"
            return _sentences(f"The {part} of a record in {file.topic}", file.about)
        case _:
            return message.name


def _struct_about(message: MessageSpec, struct: str, about: str) -> str:
    """Return the description of a structure, or a text that names the field or message that uses it."""
    if struct in {shared.name for shared in message.structs}:
        return about or f"A structure that several fields of `{message.name}` share"
    groups = [message.fields, *(fields for _name, fields, _about in message.all_structs())]
    (field,) = (field for fields in groups for field in fields if field.type == struct)
    return f"{'An element' if field.array else 'The value'} of `{field.name}`"


def _sentences(first: str, second: str) -> str:
    return f"{first}. {second}" if second else first


def _wrapped(text: str, margin: str, opening: str = "", hanging: str = "") -> list[str]:
    """Return text as wrapped lines of a docstring, with a full stop at the end.

    Args:
        text: the words.
        margin: the text before every line.
        opening: the text before the first word.
        hanging: the text before every line except the first.
    """
    text = docstring_text(text)
    return textwrap.wrap(
        opening + text if text.endswith((".", "?", "!")) else f"{opening}{text}.",
        _LINE - len(_QUOTES),
        initial_indent=margin,
        subsequent_indent=margin + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _message_class(file: SchemaFile, message: MessageSpec) -> Iterator[str]:
    yield f"class {message.name}(Message):"
    yield from _docstring(_message_about(file, message), message.fields, _STEP)
    for struct, fields, about in message.all_structs():
        yield ""
        yield f"{_STEP}class {struct}(Message):"
        yield from _docstring(_struct_about(message, struct, about), fields, 2 * _STEP)
        yield from _members(message, fields, 2 * _STEP)
    yield from _members(message, message.fields, _STEP)


def _docstring(about: str, fields: tuple[FieldSpec, ...], margin: str) -> Iterator[str]:
    described = [field for field in fields if field.about]
    lines = _wrapped(about[0].upper() + about[1:], margin, opening=_QUOTES)
    if not described:
        yield from lines[:-1]
        yield lines[-1] + _QUOTES
        return
    yield from [*lines, "", f"{margin}Attributes:"]
    for field in described:
        yield from _wrapped(f"{field.name}: {field.about}", margin + _STEP, hanging=_STEP)
    yield margin + _QUOTES


def _members(message: MessageSpec, fields: tuple[FieldSpec, ...], margin: str) -> Iterator[str]:
    # Fields of removed versions come last, because the order of the fields determines the positional arguments.
    history = [field for field in fields if _is_history(message, field)]
    living = [field for field in fields if field not in history]
    names = [*(field.name for field in living), "unknown_tags", *(field.name for field in history)]
    arguments, more = (
        [f"{field.name}: {_annotation(message, field)} = {_argument_default(field)}" for field in group]
        for group in (living, history)
    )
    yield ""
    yield from _call(f"{margin}__slots__ = (", [json.dumps(name) for name in names], ")")
    yield ""
    tags = "unknown_tags: UnknownTags = ()"
    yield from _call(f"{margin}def __init__(", ["self", *arguments, tags, *more], ") -> None:")
    # DEFAULT stays in the slot until the field is read; see `MessageType`.
    yield from (f"{margin}{_STEP}self.{name} = {name}" for name in names)


def _is_history(message: MessageSpec, field: FieldSpec) -> bool:
    """Return whether a field of a current message exists only in removed versions."""
    return bool(message.versions and field.versions & message.known) and not field.versions & message.versions


def _call(opening: str, parts: list[str], closing: str) -> list[str]:
    """Return parts in brackets, on one line if they fit, otherwise one per line."""
    single = f"{', '.join(parts)}{',' if len(parts) == 1 and closing == ')' else ''}"
    line = f"{opening}{single}{closing}"
    if len(line) <= _LINE:
        return [line]
    margin = opening[: len(opening) - len(opening.lstrip())]
    return [opening, *(f"{margin}{_STEP}{part}," for part in parts), margin + closing]


def _annotation(message: MessageSpec, field: FieldSpec) -> str:
    kind = _ANNOTATIONS.get(field.type) or f"{message.name}.{field.type}"
    kind = f"Sequence[{kind}]" if field.array else kind
    return f"{kind} | None" if field.nullable & message.known or _default(field) == "None" else kind


def _argument_default(field: FieldSpec) -> str:
    return _default(field) or "DEFAULT"


def _default(field: FieldSpec) -> str:
    """Return the default as Python source; empty for a new structure."""
    if field.default is not NO_DEFAULT:
        return literal(field.default) if isinstance(field.default, str) else repr(field.default)
    if field.array:
        return "()"
    return _DEFAULTS.get(field.type, "")


def _tables(message: MessageSpec) -> Iterator[str]:
    for struct, fields, _about in message.all_structs():
        yield from _table(message, f"{message.name}.{struct}", fields)
    yield from _table(message, message.name, message.fields)
    flexible = message.flexible & message.known
    yield from _call(
        f"{message.name}.SCHEMA = Schema(",
        [
            json.dumps(message.name),
            json.dumps(message.kind),
            str(message.key),
            _range(message, message.versions),
            _range(message, flexible) if flexible else "None",
            *([f"removed={removed_text(message)}"] if message.removed else []),
        ],
        ")",
    )


def removed_text(message: MessageSpec) -> str:
    """Return the removed versions of a message, with the releases that removed them, as Python source."""
    pairs = [
        f"({json.dumps(each.release)}, V({each.versions.first}, {each.versions.last}))" for each in message.removed
    ]
    return f"({', '.join(pairs)}{',' if len(pairs) == 1 else ''})"


def _table(message: MessageSpec, owner: str, fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    if not fields:
        return
    yield f"{owner}.FIELDS = ("
    for field in fields:
        yield from _call(f"{_STEP}Field(", list(_field(message, field)), "),")
    yield ")"


def _field(message: MessageSpec, field: FieldSpec) -> Iterator[str]:
    """Yield the arguments of a `Field`."""
    yield json.dumps(field.name)
    yield json.dumps(field.type) if field.type in PRIMITIVES else f"{message.name}.{field.type}"
    yield _range(message, field.versions)
    if default := _default(field):
        yield f"default={default}"
    if field.array:
        yield "array=True"
    if field.nullable & message.known:
        yield f"nullable={_range(message, field.nullable)}"
    if field.tag is not None:
        yield f"tag={field.tag}"
        yield f"tagged={_range(message, field.tagged)}"
    if field.ignorable:
        yield "ignorable=True"
    if field.flexible is not None:
        yield "compact=False"


def _range(message: MessageSpec, versions: Versions) -> str:
    """Return a range, limited to versions that the message has or had; an empty range is written as V(0, -1)."""
    both = versions & message.known
    return f"V({both.first}, {both.last})"
