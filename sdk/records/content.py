"""Check and convert the content of a program's records before any of it is buffered.

Text becomes UTF-8. Numbers are refused, as in confluent-kafka and kafka-python, since readers might expect any of
several encodings. Header names are text; header values are bytes, text or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.values import Buffer, quoted
from kafkawire.sdk.records.engines.shared_arguments import checked_content, checked_name

__all__ = ["HeadersInput", "record_content", "record_headers"]

#: The parts of a record for which a producer has serializers.
_SERIALIZED: Final = ("key", "value")

#: Headers as a program passes them: (name, value) pairs in order, or a mapping if the names are unique.
HeadersInput = Iterable[tuple[str, Buffer | str | None]] | Mapping[str, Buffer | str | None]


def record_content(path: str, value: object) -> Buffer | None:
    """Return a key or a value as bytes.

    Args:
        path: the name of the part, for error messages.
        value: bytes, another contiguous buffer, text, or None.

    Raises:
        EncodeError: the value has the wrong type, or contains half a surrogate pair.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return str.encode(value)  # not a subclass's method
        except UnicodeEncodeError as error:
            raise EncodeError(path, f"{quoted(value)} is not encodable as UTF-8: {error.reason}") from error
    if isinstance(value, int | float):
        raise EncodeError(path, f"expected bytes, text or None, got {quoted(value)}; {_remedy(path)}")
    try:
        memoryview(value)  # type: ignore[arg-type]  # the call checks
    except TypeError:
        reason = f"expected bytes, text or None, got {type(value).__name__}; {_remedy(path)}"
        raise EncodeError(path, reason) from None
    except BufferError:
        pass  # for values that are not buffers
    return checked_content(path, value)


def _remedy(path: str) -> str:
    """Return a hint for content that is neither bytes nor text."""
    serializer = f"pass the producer a {path}_serializer, such as lambda {path}: json.dumps({path}), or "
    return f"{serializer if path in _SERIALIZED else ''}encode it in the way that your readers expect"


def record_headers(headers: HeadersInput) -> tuple[tuple[str, Buffer | None], ...]:
    """Return headers as pairs of a name and bytes.

    Raises:
        EncodeError: the headers are not pairs, a name is not text, or `record_content` refuses a value.
    """
    items: object = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(items, Iterable) or isinstance(items, str | bytes):
        raise EncodeError("headers", f"expected pairs of a name and a value, got {quoted(items)}")
    found = []
    for pair in items:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise EncodeError("headers", f"expected pairs of a name and a value, but one of them is {quoted(pair)}")
        name, value = pair
        checked_name(name)
        found.append((name, record_content(f"headers[{quoted(name)}]", value)))
    return tuple(found)
