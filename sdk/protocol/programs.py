"""Find the program for a message: the engine's code that decodes and encodes one version.

The rest of the package calls this module. `codec.py` wraps programs in construct's interface for users; this module
loads construct only if the construct engine is requested. The modules of messages and engines are loaded on first use.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast, overload

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.values import quoted

__all__ = ["Program", "message_class", "program"]

M = TypeVar("M", bound=Message)


class Program(Protocol[M]):
    """Read and write one message in one version. Every engine has such a class, made from a `Layout`."""

    def decode(self, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
        """Read a message.

        Args:
            buffer: the bytes that contain the message; more may follow. The message's `records` are views of this
                buffer.
            offset: where the message begins, in bytes.

        Returns:
            The message and the offset of its end.

        Raises:
            DecodeError: the bytes are not such a message.
            ValueError: `offset` is outside the buffer.
        """
        ...

    def encode(self, message: M) -> bytes:
        """Return the encoding of a message.

        Raises:
            EncodeError: a value does not fit; the path says where.
            UnsupportedVersion: a field is set that this version does not have.
        """
        ...

    def encode_parts(self, message: M) -> list[Any]:
        """Return the encoding of a message in parts, without copying large `records`.

        A part is bytes, a buffer of at least `APART_BYTES`, or the unchanged value of a `records` field that is not a
        buffer but has a length in bytes (a region of a file, for `sendfile`). Buffers must not change until they are
        sent.

        Raises:
            EncodeError: a value does not fit; the path says where.
            UnsupportedVersion: a field is set that this version does not have.
        """
        ...


@overload
def program(message: type[M], version: int, engine: str | None = None) -> Program[M]: ...
@overload
def program(message: str, version: int, engine: str | None = None) -> Program[Message]: ...
# The cache is typed, because True equals 1 but must neither find the program for 1 nor add one to the cache.
@lru_cache(maxsize=None, typed=True)
def program(message: str | type[M], version: int, engine: str | None = None) -> Program[M] | Program[Message]:
    """Return the program for a message in one version; the same arguments yield the same object.

    Args:
        message: a message class, or its name in Kafka, such as `FetchRequest`.
        version: the version.
        engine: `native`, `python` or `construct`; defaults to the engine in use.

    Raises:
        LocalProtocolError: there is no such message, the version is not an int, or the engine is not available here.
        UnsupportedVersion: the message does not exist in this version.
    """
    if engine is None:
        engine = ENGINE
    if engine not in ENGINES or (engine == "native" and native is None):
        available = [name for name in ENGINES if name != "native" or native is not None]
        raise LocalProtocolError(f"engine {quoted(engine)} is not available; available engines: {', '.join(available)}")
    cls = message_class(message) if isinstance(message, str) else message
    made = import_module(f"kafkawire.sdk.protocol.engines.{engine}").Program(layout(cls, version))
    return cast("Program[M]", made)


def message_class(name: str) -> type[Message]:
    """Return the class of a message.

    Args:
        name: Kafka's name, such as `FetchRequest`.

    Raises:
        LocalProtocolError: there is no such message.
    """
    if not isinstance(name, str):
        raise LocalProtocolError(f"{quoted(name)} is not the name of a message")
    if name not in messages.MODULES:
        raise LocalProtocolError(f"no message is named {quoted(name)}{did_you_mean(name, messages.MODULES)}")
    return cast(type[Message], getattr(messages, name))
