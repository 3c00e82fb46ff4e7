"""The content of a schema as Python values: messages, structures, fields.

`load.py` creates these values from YAML, and `definitions.py` from the definitions inside a Kafka release; `dump.py`
writes them back. The emitters, the comparison of releases and the documentation read them. This module knows nothing
about files or generated code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkawire.codegen.versions import ALL, NONE, Versions

__all__ = [
    "INTEGERS",
    "NO_DEFAULT",
    "PRIMITIVES",
    "STRING_BYTES_MAX",
    "ApiFile",
    "Default",
    "FieldSpec",
    "MessageSpec",
    "RecordFile",
    "Removal",
    "SchemaFile",
    "SingleFile",
    "StructSpec",
    "snake_case",
    "topic_of",
]

#: Integer types with their lowest and highest values.
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

#: Maximum size of a string in UTF-8: its classic length is an int16, and Kafka keeps this limit in flexible versions.
STRING_BYTES_MAX = INTEGERS["int16"][1]

PRIMITIVES = frozenset({*INTEGERS, "bool", "float64", "uuid", "string", "bytes", "records"})


class _NoDefault:
    """The type of `NO_DEFAULT`, which lets None be a default."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


#: Means that the definition has no default, so the type's default applies: 0, empty, or a new structure.
NO_DEFAULT = _NoDefault()

Default = bool | int | float | str | None | _NoDefault


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a message or structure.

    Attributes:
        name: snake_case.
        type: a primitive or the name of a structure; the type of the elements if `array`.
        array: whether the field is a sequence.
        versions: the versions that have it.
        nullable: the versions in which it may be null.
        tag: its number among the tagged fields; None for an ordinary field.
        tagged: the versions in which it is a tagged field.
        flexible: overrides the message's flexible versions for this field; None follows the message.
        default: the value if none is set.
        ignorable: whether a version that lacks the field drops its value silently.
        map_key: whether it is part of the key that Kafka uses to index the elements.
        zero_copy: whether Kafka reads it without copying it.
        entity: the kind of thing that the value names, such as `topic_name`.
        about: what the name does not express; may be empty.
        fields: the fields of an inline structure.
        line: its line, for errors.
    """

    name: str
    type: str
    array: bool = False
    versions: Versions = ALL
    nullable: Versions = NONE
    tag: int | None = None
    tagged: Versions = NONE
    flexible: Versions | None = None
    default: Default = NO_DEFAULT
    ignorable: bool = False
    map_key: bool = False
    zero_copy: bool = False
    entity: str | None = None
    about: str = ""
    fields: tuple[FieldSpec, ...] | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A structure that several fields of a message share."""

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...]
    about: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Removal:
    """Versions of a message that a release removed; they are obsolete, but their encoding is still known.

    Attributes:
        release: the first release without them, such as `4.0`.
        versions: the versions that it removed.
    """

    release: str
    versions: Versions


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """One message: a request, a response, a header, a record or another piece of data.

    Attributes:
        name: Kafka's name, such as `FetchRequest`.
        kind: `request`, `response`, `header`, `data`, `coordinator-key`, `coordinator-value` or `metadata`.
        key: API key or record type; None for headers and data.
        versions: the current versions, which are advertised and negotiated.
        flexible: the versions with compact lengths and tagged fields, current or not.
        deprecated: versions that a later release will remove.
        unstable: whether the highest version may still change.
        listeners: the listeners that accept a request: `broker`, `controller`.
        removed: the removed versions, oldest first; `versions` directly follows them.
        structs: shared structures.
        fields: the fields in wire order.
        about: its purpose.
        line: its line, for errors.
    """

    name: str
    kind: str
    key: int | None
    versions: Versions
    flexible: Versions = NONE
    deprecated: Versions = NONE
    unstable: bool = False
    listeners: tuple[str, ...] = ()
    removed: tuple[Removal, ...] = ()
    structs: tuple[StructSpec, ...] = ()
    fields: tuple[FieldSpec, ...] = ()
    about: str = ""
    line: int = field(default=0, compare=False)

    @property
    def known(self) -> Versions:
        """All versions since Kafka's first message definitions: the removed and the current ones."""
        if not self.removed:
            return self.versions
        last = self.versions.last if self.versions else self.removed[-1].versions.last
        return Versions(self.removed[0].versions.first, last)

    def removed_in(self, version: int) -> str | None:
        """Return the release that removed a version; None if it is current or never existed."""
        return next((removal.release for removal in self.removed if version in removal.versions), None)

    def struct_fields(self, name: str) -> tuple[FieldSpec, ...]:
        """Return the fields of the structure `name`."""
        for struct, fields, _about in self.all_structs():
            if struct == name:
                return fields
        raise KeyError(f"{self.name} has no structure {name}")

    def all_structs(self) -> Iterator[tuple[str, tuple[FieldSpec, ...], str]]:
        """Yield (name, fields, about) of each structure once, after the structures defined inside it."""
        for struct in self.structs:
            yield from _inner(struct.fields)
            yield struct.name, struct.fields, struct.about
        yield from _inner(self.fields)


def _inner(fields: tuple[FieldSpec, ...]) -> Iterator[tuple[str, tuple[FieldSpec, ...], str]]:
    for item in fields:
        if item.fields is not None:
            yield from _inner(item.fields)
            yield item.type, item.fields, item.about


@dataclass(frozen=True, slots=True)
class ApiFile:
    """A file under `messages/`, with one API's request and response."""

    name: str
    request: MessageSpec
    response: MessageSpec
    #: Version of the response header if it is not 1 in flexible versions and 0 in others; of Kafka's APIs, only
    #: ApiVersions needs it.
    response_header: int | None = None
    #: Version of the request header if it is not 2 in flexible versions and 1 in others; none of Kafka's APIs needs it.
    request_header: int | None = None
    about: str = ""
    #: Version of the request header in version 0 of the request, if it differs from that in the other classic versions.
    first_request_header: int | None = None

    @property
    def messages(self) -> tuple[MessageSpec, ...]:
        """The messages of the file, in order."""
        return self.request, self.response

    def request_headers(self, headers: Mapping[str, MessageSpec]) -> tuple[int, int]:
        """Return the versions of the request header in classic and in flexible versions.

        Args:
            headers: `RequestHeader` and `ResponseHeader`, by name.
        """
        return _header_versions(headers["RequestHeader"], self.request_header)

    def response_headers(self, headers: Mapping[str, MessageSpec]) -> tuple[int, int]:
        """Return the versions of the response header in classic and in flexible versions."""
        return _header_versions(headers["ResponseHeader"], self.response_header)

    def header_version(self, message: MessageSpec, version: int, headers: Mapping[str, MessageSpec]) -> int:
        """Return the header version for one version of a message, which is the request or the response."""
        if message is self.response:
            return self.response_headers(headers)[version in message.flexible]
        if version == 0 and self.first_request_header is not None:
            return self.first_request_header
        return self.request_headers(headers)[version in message.flexible]


def _header_versions(header: MessageSpec, special: int | None) -> tuple[int, int]:
    return (header.flexible.first - 1, header.flexible.first) if special is None else (special, special)


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file under `coordinator/`, with the key and value of one record type in an internal topic."""

    name: str
    topic: str
    key: MessageSpec
    value: MessageSpec
    about: str = ""

    @property
    def messages(self) -> tuple[MessageSpec, ...]:
        """The messages of the file, in order."""
        return self.key, self.value


@dataclass(frozen=True, slots=True)
class SingleFile:
    """A file with any other message: a header, a control record, a metadata record."""

    messages: tuple[MessageSpec, ...]


SchemaFile = ApiFile | RecordFile | SingleFile


def topic_of(path: Path, file: SchemaFile) -> str:
    """Return the topic whose records a file describes; empty if it describes none.

    A coordinator's record file names its topic; metadata records belong to the topic after which their folder is named.

    Args:
        path: path of the file, relative to the folder of schemas.
        file: its content.
    """
    if isinstance(file, RecordFile):
        return file.topic
    is_metadata = any(message.kind == "metadata" for message in file.messages)
    return f"__{path.parent.name}" if is_metadata and path.parent.name else ""


def snake_case(name: str) -> str:
    """Return a CamelCase name in snake_case: `TopicId` becomes `topic_id`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
