"""The building blocks of generated message modules: `Message`, `Field` and `Schema`.

A generated class lists its fields once, for all versions; `layout.py` narrows them to one version, from which the
engines work. Field tables are data: nothing in this module reads or writes bytes.

With the extension, message objects have no garbage collector header. If they had one, parsing many small objects would
spend most of its time in the collector. Therefore, a reference cycle through a message is never freed.
"""

from importlib import import_module
from typing import Any, ClassVar, NamedTuple, cast

from kafkawire.sdk.protocol.engines.selection import native
from kafkawire.sdk.protocol.primitives import is_default
from kafkawire.sdk.protocol.values import DEFAULT, NOT_SET, Buffer, UnknownTags, equal, hidden_slot, quoted
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = [
    "DEFAULT",
    "Api",
    "Buffer",
    "Field",
    "Message",
    "MessageType",
    "Schema",
    "UnknownTags",
    "equal",
    "hidden_slot",
]


class Field(NamedTuple):
    """One field of a message, across all its versions.

    Attributes:
        name: the attribute, in snake_case.
        type: a primitive (`bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records`) or the class
            of a structure; the type of the elements if `array`.
        versions: the versions that have the field.
        default: its value if the field is absent; for a structure, `DEFAULT` stands for a new instance.
        array: whether it is a sequence of `type`.
        nullable: the versions in which it may be None.
        tag: its number among the tagged fields.
        tagged: the versions in which it is a tagged field.
        ignorable: whether it is dropped silently when a version lacks it.
        compact: False if the classic encoding is kept even in flexible versions (`client_id` of the request header).
    """

    name: str
    type: "str | type[Message]"
    versions: VersionRange
    default: Any = DEFAULT
    array: bool = False
    nullable: VersionRange | None = None
    tag: int | None = None
    tagged: VersionRange | None = None
    ignorable: bool = False
    compact: bool = True

    def default_value(self) -> Any:
        """Return the value that the field has if it was not set."""
        if self.default is DEFAULT and isinstance(self.type, type):
            return self.type()
        return self.default


#: Ranges of versions, each with the release that removed it.
Removed = tuple[tuple[str, VersionRange], ...]


class Schema(NamedTuple):
    """What is known about a message apart from its fields.

    Attributes:
        name: Kafka's name, such as `FetchRequest`.
        kind: `request`, `response`, `header`, `data`, `coordinator-key`, `coordinator-value` or `metadata`.
        key: API key of a request or response, record type of a coordinator or metadata record, otherwise None.
        versions: the current versions; empty if a release removed them all.
        flexible: the known versions with compact lengths and tagged fields, or None if there are none.
        removed: the removed versions, oldest first, each range with the release that removed it.
    """

    name: str
    kind: str
    key: int | None
    versions: VersionRange
    flexible: VersionRange | None
    removed: Removed = ()

    @property
    def known_versions(self) -> VersionRange:
        """All versions since Kafka's first message definitions; each has a codec."""
        return _known(self.versions, self.removed)

    def removed_in(self, version: int) -> str | None:
        """Return the release that removed a version, such as `4.0`; None if it is current or never existed."""
        return next((release for release, versions in self.removed if version in versions), None)


class Api(NamedTuple):
    """What is known about an API apart from its messages.

    Attributes:
        name: Kafka's name, such as `Fetch`, whose messages are `FetchRequest` and `FetchResponse`.
        key: the number that opens its requests.
        versions: the current versions, which are advertised and negotiated.
        flexible: the known versions with compact lengths and tagged fields, or None if there are none.
        request_headers: the request header's version in classic and in flexible versions.
        response_headers: the response header's version, likewise.
        listeners: which listeners accept its requests: `broker`, `controller`.
        package: the package with the classes of its messages.
        unstable: whether the highest version may still change.
        removed: the removed versions, oldest first, each range with the release that removed it.
        first_request_header: the header version of a request in version 0; None if the general rule applies.
    """

    name: str
    key: int
    versions: VersionRange
    flexible: VersionRange | None
    request_headers: tuple[int, int]
    response_headers: tuple[int, int]
    listeners: tuple[str, ...]
    package: str
    unstable: bool = False
    removed: Removed = ()
    first_request_header: int | None = None

    @property
    def known_versions(self) -> VersionRange:
        """All versions since Kafka's first message definitions; their messages and headers can be read and written."""
        return _known(self.versions, self.removed)

    @property
    def request(self) -> "type[Message]":
        """The class of its requests; its module is loaded on first use."""
        return cast("type[Message]", getattr(import_module(self.package), f"{self.name}Request"))

    @property
    def response(self) -> "type[Message]":
        """The class of its responses; its module is loaded on first use."""
        return cast("type[Message]", getattr(import_module(self.package), f"{self.name}Response"))

    @property
    def stable_versions(self) -> VersionRange:
        """The versions that will no longer change; if there is only one version, that version even if it may change."""
        first, last = self.versions
        return VersionRange(first, last - 1) if self.unstable and last > first else self.versions

    def request_header_version(self, version: int) -> int:
        """Return the version of the header of a request in `version`."""
        if version == 0 and self.first_request_header is not None:
            return self.first_request_header
        return self.request_headers[self.is_flexible(version)]

    def response_header_version(self, version: int) -> int:
        """Return the version of the header of a response in `version`."""
        return self.response_headers[self.is_flexible(version)]

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields."""
        return self.flexible is not None and version in self.flexible


def _known(versions: VersionRange, removed: Removed) -> VersionRange:
    """Return the removed versions and the current ones, which directly follow, as one range."""
    ranges = [*(each for _release, each in removed), *([versions] if versions else [])]
    return VersionRange(ranges[0].first, ranges[-1].last) if ranges else versions


class MessageType(type):
    """Give message classes their slots and, if the extension is built, remove their garbage collector headers.

    A field that defaults to a new structure gets a hidden slot, which holds `DEFAULT` until the field is read. Most
    messages never use these structures, of which each partition in a fetch response would otherwise have three.

    Message classes are final: the engines write exactly the slots that the schema defines.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "MessageType":
        if not bases:
            return super().__new__(mcs, name, bases, namespace)
        if bases != (Message,):
            others = ", ".join(base.__qualname__ for base in bases)
            raise TypeError(f"{name} cannot derive from {others}: message classes are final")
        if "__slots__" not in namespace or "__init__" not in namespace:
            raise TypeError(f"{name} needs __slots__ and __init__, like generated message classes")
        fields: tuple[str, ...] = namespace["__slots__"]
        structures = _defaulted(namespace["__init__"])
        slots = tuple(hidden_slot(field) if field in structures else field for field in fields)
        namespace.setdefault("__match_args__", fields)
        namespace["__slots__"] = slots
        cls: MessageType
        if native is None:
            cls = super().__new__(mcs, name, bases, namespace)
        else:
            cls = native.new_class(mcs, name, bases, namespace)
        for field in structures:
            setattr(cls, field, _structure_property(field, getattr(cls, hidden_slot(field))))
        return cls


def _defaulted(init: Any) -> frozenset[str]:
    """Return the constructor arguments that default to `DEFAULT`."""
    names = init.__code__.co_varnames[1 : init.__code__.co_argcount]
    return frozenset(name for name, default in zip(names, init.__defaults__, strict=True) if default is DEFAULT)


def _structure_property(field: str, slot: Any) -> property:
    """Return the property for a hidden slot; reading it replaces `DEFAULT` by a new structure."""
    read, write = slot.__get__, slot.__set__

    def structure(message: "Message") -> Any:
        value = read(message)
        if value is DEFAULT:
            value = next(known for known in message.FIELDS if known.name == field).default_value()
            write(message, value)
        return value

    return property(structure, write)


#: The fields with passwords, tokens and keys; `repr` shows only their sizes.
_SECRET_FIELDS = frozenset({"auth_bytes", "hmac", "salted_password"})


def _shown(name: str, value: Any) -> str:
    """Return the value of a field as `repr` shows it."""
    if isinstance(value, memoryview):
        return f"<view of {value.nbytes} bytes>"
    if name in _SECRET_FIELDS and isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    return quoted(value, limit=None)


class Message(metaclass=MessageType):
    """The base of all generated messages and of the structures inside them.

    Attributes are the schema's fields plus `unknown_tags`. Messages compare by value; a list and a tuple of equal
    elements are equal. They are mutable and therefore not hashable.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    SCHEMA: ClassVar[Schema]
    __match_args__: ClassVar[tuple[str, ...]] = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable, hence unhashable

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(equal(getattr(self, name), getattr(other, name)) for name in self.__match_args__)

    def __repr__(self) -> str:
        values = []
        for field in self.FIELDS:
            value = getattr(self, field.name, NOT_SET)
            if not is_default(value, field.default_value()):
                values.append(f"{field.name}={_shown(field.name, value)}")
        unknown = getattr(self, "unknown_tags", NOT_SET)
        if not is_default(unknown, ()):
            values.append(f"unknown_tags={quoted(unknown, limit=None)}")
        return f"{type(self).__qualname__}({', '.join(values)})"

    def __reduce__(self) -> "tuple[type[Message], tuple[Any, ...]]":
        return type(self), tuple(_owned(getattr(self, name)) for name in self.__match_args__)


def _owned(value: Any) -> Any:
    """Return `value` in a form that can be pickled: a view is replaced by a copy of its bytes."""
    return bytes(value) if isinstance(value, memoryview) else value
