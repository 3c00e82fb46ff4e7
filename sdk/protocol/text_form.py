"""A message as a single line of limited length, for logs and for the reprs of requests and responses.

Fields with default values are left out, long values are truncated, and bytes are replaced by their number, because they
are unreadable and may be passwords or keys. Text whose name suggests a secret, such as `sasl.jaas.config` among the
configurations that AlterConfigs sets, is hidden. A message's repr, by contrast, shows everything. The work is limited
too: values that do not fit on the line are never converted to text.

Source: Apache Kafka, `RequestChannel.loggableRequest`, which hides configurations in its request log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkawire.sdk.protocol.primitives import is_default
from kafkawire.sdk.protocol.schema import Field, Message
from kafkawire.sdk.protocol.values import NOT_SET
from kafkawire.sdk.secret import HIDDEN, may_be_secret

__all__ = ["TEXT_CHARACTERS_MAX", "to_text", "value_text"]

#: The line fits on a screen or two; programs that need more can use the message itself.
TEXT_CHARACTERS_MAX = 400

#: Maximum number of elements shown of one list: enough to see what kind of elements it contains.
_ELEMENTS_MAX = 3

#: Maximum number of characters shown of one string: a topic name may have 249 characters, but most have fewer than
#: this.
_STRING_CHARACTERS_MAX = 60

#: Maximum number of bits of a shown integer; no field has more.
_INTEGER_BITS_MAX = 64

#: Fields that contain the name of the `value` in the same structure, for example the name of a configuration.
_NAMES_OF_VALUES = ("name", "key")

#: Fields of Kafka's messages that are not secret although their names suggest it: group, user and token names.
_HARMLESS = frozenset({"key", "token_id", "token_requester_principal_name", "token_requester_principal_type"})


def to_text(message: Message, limit: int = TEXT_CHARACTERS_MAX) -> str:
    """Return a message on one line.

    Args:
        message: the message.
        limit: the maximum number of characters; an ellipsis replaces the rest.
    """
    return _bounded(_pieces(message), limit)


def value_text(value: Any, limit: int = TEXT_CHARACTERS_MAX) -> str:
    """Return the value of a field on one line; see `to_text`."""
    return _bounded(_pieces(value), limit)


def _bounded(pieces: Iterator[str], limit: int) -> str:
    shown: list[str] = []
    for piece in pieces:
        if len(piece) > limit:
            return "".join((*shown, piece[:limit], "…"))
        shown.append(piece)
        limit -= len(piece)
    return "".join(shown)


def _pieces(value: Any) -> Iterator[str]:
    match value:
        case _ if value is NOT_SET:
            yield repr(value)
        case Message():
            yield from _message_pieces(value)
        case list() | tuple():
            yield from _sequence_pieces(value)
        case str():
            yield repr(value[:_STRING_CHARACTERS_MAX])
            if len(value) > _STRING_CHARACTERS_MAX:
                yield "…"
        case memoryview():
            yield f"<{value.nbytes} bytes>"
        case bytes() | bytearray():
            yield f"<{len(value)} bytes>"
        case None | bool() | float():
            yield repr(value)
        case int() if value.bit_length() <= _INTEGER_BITS_MAX:
            yield str(int(value))
        case _:
            yield f"<{type(value).__name__}>"


def _message_pieces(message: Message) -> Iterator[str]:
    yield f"{type(message).__qualname__}("
    separator = ""
    for field in message.FIELDS:
        value = getattr(message, field.name, NOT_SET)
        if not is_default(value, field.default_value()):
            yield f"{separator}{field.name}="
            if _is_secret(message, field):
                yield HIDDEN
            else:
                yield from _pieces(value)
            separator = ", "
    unknown = getattr(message, "unknown_tags", NOT_SET)
    if isinstance(unknown, list | tuple):
        yield f"{separator}{len(unknown)} unknown tags" if unknown else ""
    else:
        yield f"{separator}unknown_tags="
        yield from _pieces(unknown)
    yield ")"


def _is_secret(message: Message, field: Field) -> bool:
    """Return whether text in a message may be secret; bytes are never shown."""
    if field.type != "string":
        return False
    if field.name != "value":
        return field.name not in _HARMLESS and may_be_secret(field.name)
    names = [name for known in _NAMES_OF_VALUES if isinstance(name := getattr(message, known, None), str)]
    return getattr(message, "is_sensitive", False) is True or any(map(may_be_secret, names))


def _sequence_pieces(values: list[Any] | tuple[Any, ...]) -> Iterator[str]:
    yield "["
    for number, value in enumerate(values[:_ELEMENTS_MAX]):
        yield ", " if number else ""
        yield from _pieces(value)
    if len(values) > _ELEMENTS_MAX:
        yield f", … {len(values) - _ELEMENTS_MAX} more"
    yield "]"
