"""The content of nodes: JSON and plain text, as Kafka writes and reads them.

`schemas/registry.yaml` describes the content of each node; `tables/znodes.py`, generated from it, builds a `Content` of
fields and `Kind`s, and `znodes.py` pairs it with a path. Decoding accepts what Kafka accepts, with three exceptions:
size and nesting are limited, text must be UTF-8, and invalid JSON is an error everywhere.

Source: `ZkData`, `DecodeJson` in Apache Kafka; Jackson's `UTF8JsonGenerator` and `ObjectMapper.readTree`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from kafkawire.sdk.errors import EncodeError, KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid
from kafkawire.sdk.protocol.values import digits, quoted
from kafkawire.sdk.registry.map_order import MapOrder, as_inserted
from kafkawire.sdk.registry.sanitizer import desanitize, sanitize

__all__ = [
    "ALL_VERSIONS",
    "CONTENT_BYTES_MAX",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "NESTING_MAX",
    "NO_CONTENT",
    "NO_VERSIONS",
    "SANITIZED",
    "STRING",
    "TEXT_INT64",
    "UUID",
    "Content",
    "DamagedZnode",
    "Field",
    "JsonArray",
    "JsonContent",
    "JsonMap",
    "Kind",
    "Structure",
    "TextContent",
    "Version",
]

T = TypeVar("T")

#: ZooKeeper's limit for a whole request or response (`jute.maxbuffer`). It therefore also limits the number of entries.
CONTENT_BYTES_MAX: Final = 0xFFFFF

#: The maximum nesting of objects and arrays. Kafka's own content has four levels; only fields unknown to Kafka can have
#: more.
NESTING_MAX: Final = 64

#: The versions for a field that is always present, and for one that never is.
ALL_VERSIONS: Final = range(1 << 15)
NO_VERSIONS: Final = range(0)

#: The name of the version field in JSON content.
_VERSION: Final = "version"

#: Matches JSON strings, which may contain brackets, and the brackets outside them. An unterminated string extends to
#: the end.
_NESTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\n\r]*")

#: A number as read by Java's `parseInt`.
_DECIMAL: Final = re.compile("[+-]?[0-9]+")
#: The maximum length of a number in characters: only leading zeros can make an int64 longer.
_DECIMAL_CHARACTERS_MAX: Final = 40

#: Characters that Jackson escapes when it writes bytes; a character outside the Basic Multilingual Plane becomes a pair
#: of escapes.
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip


class DamagedZnode(KafkaWireError):
    """Kafka would not accept the path or the content of a node.

    The content comes from another program or from a newer release of Kafka. Treat this node as unreadable, and log the
    error.

    Args:
        path: the node.
        field: the field in the content, for example `partitions.0[1]`; empty for the content as a whole.
        reason: what is wrong, with the actual and the expected value.
    """

    def __init__(self, path: str, field: str, reason: str) -> None:
        super().__init__(f"{path}: {field}: {reason}" if field else f"{path}: {reason}")
        self.path = path
        self.field = field
        self.reason = reason


class _Fault(Exception):
    """What is wrong with a value; as the fault propagates, each enclosing level adds its part of the field's path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.places: list[str] = []

    @property
    def field(self) -> str:
        """The path of the value within the content."""
        return "".join(reversed(self.places)).removeprefix(".")


class Kind(Protocol):
    """A kind of JSON value."""

    def read(self, found: object, version: int) -> Any:
        """Return the value that the parsed JSON represents.

        Raises:
            _Fault: the JSON is not of this kind.
        """
        ...

    def write(self, value: Any, version: int) -> str:
        """Return the JSON text of a value.

        Raises:
            _Fault: the value is not of this kind.
        """
        ...


class _Integer:
    """An integer with a given number of bits."""

    def __init__(self, bits: int) -> None:
        self._name = f"an int{bits}"
        self._values = range(-(1 << bits - 1), 1 << bits - 1)

    def read(self, found: object, version: int = 0) -> int:
        if type(found) is not int or found not in self._values:
            raise _Fault(f"{quoted(found)} is not {self._name}")
        return found

    def write(self, value: object, version: int = 0) -> str:
        if not isinstance(value, int) or isinstance(value, bool) or value not in self._values:
            raise _Fault(f"{quoted(value)} is not {self._name}")
        return digits(value)

    def parse(self, text: str) -> int:
        """Return the number that Java would read from a text."""
        if not _DECIMAL.fullmatch(text) or len(text) > _DECIMAL_CHARACTERS_MAX or int(text) not in self._values:
            raise _Fault(f"{quoted(text)} is not {self._name} in decimal digits")
        return int(text)


class _Text:
    """Any text."""

    def read(self, found: object, version: int = 0) -> str:
        if not isinstance(found, str):
            raise _Fault(f"{quoted(found)} is not text")
        return found

    def write(self, value: object, version: int = 0) -> str:
        return _json_text(self.read(value))

    def parse(self, text: str) -> str:
        return text


class _Sanitized:
    """A name that Kafka writes in sanitized form."""

    def read(self, found: object, version: int) -> str:
        text = STRING.read(found)
        try:
            return desanitize(text)
        except ValueError as error:
            raise _Fault(f"{quoted(text)} is not a sanitized name: {error}") from None

    def write(self, value: object, version: int) -> str:
        try:
            return _json_text(sanitize(STRING.read(value)))
        except ValueError:
            raise _Fault(f"{quoted(value)} has an unpaired surrogate, which a sanitized name cannot contain") from None


class _TextInt64:
    """A number that Kafka writes as text."""

    def read(self, found: object, version: int) -> int:
        if not isinstance(found, str):
            raise _Fault(f"{quoted(found)} is not text with an int64")
        return INT64.parse(found)

    def write(self, value: object, version: int) -> str:
        return f'"{INT64.write(value)}"'


class _Uuid:
    """A UUID of 16 bytes, which Kafka writes as base64."""

    def read(self, found: object, version: int) -> bytes:
        try:
            return parse_uuid(STRING.read(found))
        except LocalProtocolError as error:
            raise _Fault(str(error)) from None

    def write(self, value: Any, version: int) -> str:
        try:
            return f'"{format_uuid(value)}"'
        except LocalProtocolError as error:
            raise _Fault(str(error)) from None


INT8: Final = _Integer(8)
INT16: Final = _Integer(16)
INT32: Final = _Integer(32)
INT64: Final = _Integer(64)
STRING: Final = _Text()
SANITIZED: Final = _Sanitized()
TEXT_INT64: Final = _TextInt64()
UUID: Final = _Uuid()


class Version(NamedTuple):
    """The version field, which is part of all JSON content.

    Attributes:
        is_text: whether it is written as text.
    """

    is_text: bool = False

    def read(self, found: object, version: int) -> int:
        """Return the version, which has already been read."""
        return version

    def write(self, value: object, version: int) -> str:
        """Return the version that is being written."""
        return f'"{version}"' if self.is_text else str(version)


class JsonArray(NamedTuple):
    """An array whose elements are all of one kind; a tuple in Python."""

    kind: Kind

    def read(self, found: object, version: int) -> tuple[Any, ...]:
        """Return the elements."""
        if not isinstance(found, list):
            raise _Fault(f"{quoted(found)} is not an array")
        read, items = self.kind.read, []
        try:
            for item in found:
                items.append(read(item, version))
        except _Fault as fault:
            fault.places.append(f"[{len(items)}]")
            raise
        return tuple(items)

    def write(self, value: object, version: int) -> str:
        """Return the JSON text of the elements."""
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _Fault(f"{quoted(value)} is not a sequence")
        write, texts = self.kind.write, []
        try:
            for item in value:
                texts.append(write(item, version))
        except _Fault as fault:
            fault.places.append(f"[{len(texts)}]")
            raise
        return f"[{','.join(texts)}]"


class JsonMap(NamedTuple):
    """An object with arbitrary keys.

    Attributes:
        keys: the kind of its keys, `STRING` or `INT32`; in JSON, all keys are text.
        kind: the kind of its values.
        order: the order in which Kafka writes the keys.
    """

    keys: _Text | _Integer
    kind: Kind
    order: MapOrder = as_inserted

    def read(self, found: object, version: int) -> dict[Any, Any]:
        """Return the entries in the order in which they were written."""
        if not isinstance(found, dict):
            raise _Fault(f"{quoted(found)} is not an object")
        parse, read = self.keys.parse, self.kind.read
        entries: dict[Any, Any] = {}
        key = ""
        try:
            for key, value in found.items():
                entries[parse(key)] = read(value, version)
        except _Fault as fault:
            fault.places.append(_place(key))
            raise
        return entries

    def write(self, value: object, version: int) -> str:
        """Return the JSON text of the entries, in Kafka's order."""
        if not isinstance(value, Mapping):
            raise _Fault(f"{quoted(value)} is not a mapping")
        read, write = self.keys.read, self.kind.write
        texts: dict[str, str] = {}
        key: object = ""
        try:
            for key, item in value.items():
                texts[str(read(key))] = write(item, version)
        except _Fault as fault:
            fault.places.append(_place(key))
            raise
        return f"{{{','.join(f'{_json_text(key)}:{texts[key]}' for key in self.order(texts.keys()))}}}"


class Field(NamedTuple):
    """A field of a structure.

    Attributes:
        name: the name of its attribute in Python.
        key: its name in JSON.
        kind: the kind of its value.
        versions: the versions in which it is written.
        required: the versions in which content without it is refused.
        read: the versions in which Kafka reads it; in other versions, any value is accepted.
        default: its value if it is missing or not read.
        is_nullable: whether it may be null in versions that do not require it; null is read as the default.
        is_omitted: whether it is left out when it has its default value.
        min: the lowest value that Kafka accepts; None for no limit.
        one_of: the only values that Kafka accepts; empty if it accepts all.
    """

    name: str
    key: str
    kind: Kind
    versions: range = ALL_VERSIONS
    required: range = NO_VERSIONS
    read: range = ALL_VERSIONS
    default: Any = None
    is_nullable: bool = False
    is_omitted: bool = False
    min: int | None = None
    one_of: tuple[Any, ...] = ()

    def value(self, found: Mapping[str, object], version: int) -> Any:
        """Return the value of the field in a parsed object."""
        if self.key not in found:
            if version in self.required:
                raise _Fault("is missing")
            return self.default
        content = found[self.key]
        if version not in self.read:
            return self._if_readable(content, version)
        if content is None and self.is_nullable and version not in self.required:
            return self.default
        value = self.kind.read(content, version)
        if self.min is not None and value < self.min:
            raise _Fault(f"{quoted(value)} is less than {self.min}")
        if self.one_of and value not in self.one_of:
            raise _Fault(f"{quoted(value)} is not one of {', '.join(map(str, self.one_of))}")
        return value

    def _if_readable(self, content: object, version: int) -> Any:
        try:
            return self.kind.read(content, version)
        except _Fault:
            return self.default

    def text(self, value: object, version: int) -> str | None:
        """Return the JSON text of a value; None if it is left out."""
        if version not in self.versions:
            if value != self.default:
                raise _Fault(f"{quoted(value)} cannot be written in version {version}, which lacks this field")
            return None
        if self.is_omitted and value == self.default:
            return None
        if value is None and self.is_nullable:
            return "null"
        return self.kind.write(value, version)


class Structure(Generic[T]):
    """An object with fixed fields; a named tuple in Python.

    Args:
        make: the class of the named tuple.
        fields: the fields, in the order in which Kafka writes them.
        refuses_unknown: whether Kafka refuses unknown fields, rather than ignoring them.
    """

    def __init__(self, make: type[T], *fields: Field, refuses_unknown: bool = False) -> None:
        self._make = make
        self._fields = fields
        self._refuses_unknown = refuses_unknown
        attributes = getattr(make, "_fields", ())
        self._attributes = [field for field in fields if field.name in attributes]

    def read(self, found: object, version: int) -> T:
        """Return the named tuple."""
        if not isinstance(found, dict):
            raise _Fault(f"{quoted(found)} is not an object")
        if self._refuses_unknown and (unknown := found.keys() - {field.key for field in self._fields}):
            raise _Fault(f"has the unknown field {quoted(min(unknown))}, which Kafka does not accept")
        values = {}
        key = ""
        try:
            for field in self._attributes:
                key = field.key
                values[field.name] = field.value(found, version)
        except _Fault as fault:
            fault.places.append(_place(key))
            raise
        return self._make(**values)

    def write(self, value: object, version: int) -> str:
        """Return the JSON text of the named tuple."""
        if not isinstance(value, self._make):
            raise _Fault(f"{quoted(value)} is not a {self._make.__name__}")
        texts = []
        name = ""
        try:
            for field in self._fields:
                name = field.name
                text = field.text(getattr(value, name, field.default), version)
                if text is not None:
                    texts.append(f'"{field.key}":{text}')
        except _Fault as fault:
            fault.places.append(_place(name))
            raise
        return f"{{{','.join(texts)}}}"


class Content(Protocol[T]):
    """The content of a node."""

    def decode(self, content: bytes | None, path: str) -> T:
        """Return the decoded value.

        Args:
            content: the bytes as read; None is the same as no bytes.
            path: the node, for errors.

        Raises:
            DamagedZnode: Kafka does not accept the content.
        """
        ...

    def encode(self, value: T) -> bytes:
        """Return the bytes that Kafka writes.

        Raises:
            EncodeError: the value does not fit.
        """
        ...


class _NoContent:
    """The content of a node of which only the existence matters; like Kafka, ignore it."""

    def decode(self, content: bytes | None, path: str) -> None:
        return None

    def encode(self, value: None) -> bytes:
        if value is not None:
            raise EncodeError("", f"expected no content, got {quoted(value)}")
        return b""


NO_CONTENT: Final = _NoContent()


class TextContent(Generic[T]):
    """Plain text, for example a decimal number.

    Args:
        kind: `INT32`, `INT64` or `STRING`.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def decode(self, content: bytes | None, path: str) -> T:
        """Return the decoded value."""
        text = _decoded(content, path)
        try:
            found: T = self._kind.parse(text)
        except _Fault as fault:
            raise DamagedZnode(path, "", fault.reason) from None
        return found

    def encode(self, value: T) -> bytes:
        """Return the encoded text of a value."""
        try:
            return _encoded(str(self._kind.read(value)))
        except _Fault as fault:
            raise EncodeError("", fault.reason) from None


class JsonContent(Generic[T]):
    """A JSON object with a version.

    Args:
        structure: the object.
        accepted: the versions that Kafka accepts; None if it ignores the version.
        written: the versions that can be written. If there are several, the value contains the version to write.
        empty: returns the value for a node without content; None if content is required.
    """

    def __init__(
        self,
        structure: Structure[T],
        *,
        accepted: range | None,
        written: range,
        empty: Callable[[], T] | None = None,
    ) -> None:
        self._structure = structure
        self._accepted = accepted
        self._written = written
        self._empty = empty

    def decode(self, content: bytes | None, path: str) -> T:
        """Return the decoded value."""
        if not content and self._empty is not None:
            return self._empty()
        found = _parsed(content, path)
        try:
            return self._structure.read(found, self._version(found))
        except _Fault as fault:
            raise DamagedZnode(path, fault.field, fault.reason) from None

    def encode(self, value: T) -> bytes:
        """Return the JSON text of a value."""
        latest = self._written[-1]
        version = getattr(value, _VERSION, latest) if len(self._written) > 1 else latest
        try:
            if type(version) is not int or version not in self._written:
                _refuse_version(version, self._written)
            return _encoded(self._structure.write(value, version))
        except _Fault as fault:
            raise EncodeError(fault.field, fault.reason) from None

    def _version(self, found: object) -> int:
        version = found.get(_VERSION) if isinstance(found, dict) else None
        if self._accepted is None:
            return self._written[-1]
        if not isinstance(found, dict):
            return self._written[-1]  # the structure refuses it later
        if _VERSION not in found:
            fault = _Fault("is missing")
            fault.places.append(f".{_VERSION}")
            raise fault
        if type(version) is not int or version not in self._accepted:
            _refuse_version(version, self._accepted)
        return version


def _refuse_version(version: object, known: range) -> NoReturn:
    last = "and later ones" if known[-1] == ALL_VERSIONS[-1] else f"to {known[-1]}"
    expected = str(known[0]) if len(known) == 1 else f"{known[0]} {last}"
    fault = _Fault(f"{quoted(version)} is not a known version; expected {expected}")
    fault.places.append(f".{_VERSION}")
    raise fault


def _place(key: object) -> str:
    """Return a key in the form that it has in a field's path."""
    text = quoted(key)
    return f".{text[1:-1] if isinstance(key, str) else text}"


def _json_text(text: str) -> str:
    """Return the JSON string that Jackson writes for a text."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04X}" for at in range(0, len(units), 2))


def _encoded(text: str) -> bytes:
    """Return a node's whole content as bytes."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise _Fault(f"{quoted(text)} has an unpaired surrogate at character {error.start}") from None
    if len(content) > CONTENT_BYTES_MAX:
        raise _Fault(f"there are {len(content)} bytes, but ZooKeeper accepts only {CONTENT_BYTES_MAX}")
    return content


def _decoded(content: bytes | None, path: str) -> str:
    """Return content as text; it must not be missing."""
    if not content:
        raise DamagedZnode(path, "", "has no content")
    if len(content) > CONTENT_BYTES_MAX:
        raise DamagedZnode(path, "", f"there are {len(content)} bytes, but the limit is {CONTENT_BYTES_MAX}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DamagedZnode(path, "", f"not UTF-8: {error.reason} at byte {error.start}") from None


def _parsed(content: bytes | None, path: str) -> object:
    """Return the JSON value at the start of the content; like Kafka, ignore the rest.

    An unpaired surrogate, which can only come from an escape, becomes `?`, as it does when Kafka passes the text on.
    """
    text = _decoded(content, path).removeprefix("\ufeff")
    if (depth := _depth(content or b"")) > NESTING_MAX:
        raise DamagedZnode(path, "", f"objects and arrays are nested {depth} levels deep; the limit is {NESTING_MAX}")
    start = _SPACE.match(text)
    try:
        found = _DECODER.raw_decode(text, start.end() if start else 0)[0]
    except json.JSONDecodeError as error:  # the content is not shown, since it may contain a secret
        raise DamagedZnode(path, "", f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise DamagedZnode(path, "", f"not JSON: {error}") from None
    return _sendable(found) if "\\u" in text else found


def _sendable(found: object) -> object:
    """Return a parsed value after replacing whatever UTF-8 cannot represent."""
    if isinstance(found, str):
        return found.encode("utf-8", "replace").decode()
    if isinstance(found, list):
        return [_sendable(each) for each in found]
    if isinstance(found, dict):
        return {_sendable(key): _sendable(each) for key, each in found.items()}
    return found


def _depth(content: bytes) -> int:
    """Return how deeply JSON objects and arrays are nested, or a lower number if the limit cannot be exceeded."""
    if content.count(b"[") + content.count(b"{") <= NESTING_MAX:
        return 0
    depth = deepest = 0
    for token in _NESTED.findall(content):
        if token in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token in (b"]", b"}"):
            depth -= 1
    return deepest


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
