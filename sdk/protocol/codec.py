"""Find the codec of a message: one `construct.Construct` per (message, version).

This is what the rest of the program calls. `decode` and `encode` work on buffers and skip construct's streams;
`parse`, `build` and nesting inside other constructs work as with any construct. Which engine does the work is chosen
in `engine.py`; the modules of messages and engines are loaded when they are first needed."""

from __future__ import annotations

import difflib
import io
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO, Generic, Protocol, TypeVar, cast, overload

from construct import Construct, Container, SizeofError

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native
from kafkawire.sdk.protocol.layout import Layout, layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.schema import Buffer, Message

__all__ = ["Codec", "codec", "message_class"]

M = TypeVar("M", bound=Message)


class Codec(Construct, Generic[M]):
    """Read and write one message in one version.

    Args:
        cls: the message class.
        version: a version of it.
        engine: one of `ENGINES`.

    Raises:
        UnsupportedVersion: the message does not exist in this version.
    """

    def __init__(self, cls: type[M], version: int, engine: str) -> None:
        super().__init__()
        self.layout = layout(cls, version)
        self.cls = cls
        self.version = version
        self.engine = engine
        program = _program(self.layout, engine)
        # Bound once: one more call costs a tenth of decoding a small message.
        self.decode = program.decode  # type: ignore[method-assign]  # the methods below are for readers and types
        self.encode = program.encode  # type: ignore[method-assign]  # as above
        self.encode_parts = program.encode_parts  # type: ignore[method-assign]  # as above

    def __repr__(self) -> str:
        return f"<codec of {self.layout.name} version {self.version}, engine {self.engine}>"

    def decode(self, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
        """Read a message.

        Args:
            buffer: bytes that hold it; more may follow. `records` of the message are views of it.
            offset: where the message begins, in bytes.

        Returns:
            The message and where it ends.

        Raises:
            DecodeError: the bytes are not such a message.
            ValueError: `offset` is outside the buffer.
        """
        raise NotImplementedError  # replaced in __init__

    def encode(self, message: M) -> bytes:
        """Return the encoding of a message.

        Raises:
            EncodeError: a value does not fit; the path says where.
            UnsupportedVersion: a field is set that this version does not have.
        """
        raise NotImplementedError  # replaced in __init__

    def encode_parts(self, message: M) -> list[Any]:
        """Return the encoding of a message in parts, so that large `records` are not copied.

        A part is bytes, a buffer of at least `APART_BYTES`, or a value of a `records` field that is no buffer but has
        a length in bytes, given back as it is (a region of a file, for `sendfile`). Buffers must not change until
        they are sent.

        Raises:
            EncodeError: a value does not fit; the path says where.
            UnsupportedVersion: a field is set that this version does not have.
        """
        raise NotImplementedError  # replaced in __init__

    def parse(self, data: Buffer, **contextkw: object) -> M:
        """Return the message that `data` begins with.

        Args:
            data: bytes that hold it; more may follow.
            contextkw: taken and not used, as construct's interface asks.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        return self.decode(data, 0)[0]

    def build(self, obj: M, **contextkw: object) -> bytes:
        """Return the encoding of a message.

        Args:
            obj: the message.
            contextkw: taken and not used, as construct's interface asks.

        Raises:
            EncodeError: a value does not fit.
            UnsupportedVersion: a field is set that this version does not have.
        """
        return self.encode(obj)

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> M:
        if type(stream) is io.BytesIO:
            # Shared with the stream, not copied, and unlike getbuffer() without a lock on it.
            data, start = stream.getvalue(), stream.tell()
            message, end = self.decode(data, start)
            stream.seek(end)
            return message
        data = stream.read()
        message, end = self.decode(data, 0)
        if stream.seekable():
            stream.seek(end - len(data), io.SEEK_CUR)
        return message

    def _build(self, obj: M, stream: BinaryIO, context: Container, path: str) -> M:
        stream.write(self.encode(obj))
        return obj

    # construct's own method only raises, its type says so.
    def _sizeof(  # pyright: ignore[reportIncompatibleMethodOverride]  # see above
        self, context: Container, path: str
    ) -> int:
        if self.layout.size is None:
            raise SizeofError(f"the size of {self.layout.name} version {self.version} depends on its values", path=path)
        return self.layout.size


@overload
def codec(message: type[M], version: int, engine: str | None = None) -> Codec[M]: ...
@overload
def codec(message: str, version: int, engine: str | None = None) -> Codec[Message]: ...
@cache
def codec(message: str | type[M], version: int, engine: str | None = None) -> Codec[M] | Codec[Message]:
    """Return the codec of a message in one version; the same object for the same arguments.

    Args:
        message: a message class, or Kafka's name of one, as `FetchRequest`.
        version: a version of it.
        engine: `native`, `python` or `construct`; the one in use by default.

    Raises:
        LocalProtocolError: there is no such message, or the engine is not available here.
        UnsupportedVersion: the message does not exist in this version.
    """
    if engine is None:
        engine = ENGINE
    if engine not in ENGINES or (engine == "native" and native is None):
        available = [name for name in ENGINES if name != "native" or native is not None]
        raise LocalProtocolError(f"engine {engine!r} is not available, {', '.join(available)} are")
    cls = cast("type[M]", message_class(message)) if isinstance(message, str) else message
    return Codec(cls, version, engine)


@cache
def message_class(name: str) -> type[Message]:
    """Return the class of a message.

    Args:
        name: Kafka's name, as `FetchRequest`.

    Raises:
        LocalProtocolError: there is no such message.
    """
    if name not in MODULES:
        near = difflib.get_close_matches(name, MODULES, n=1)
        raise LocalProtocolError(f"no message is named {name!r}" + (f"; is it {near[0]}?" if near else ""))
    module = import_module(f"kafkawire.sdk.protocol.messages.{MODULES[name]}")
    return cast(type[Message], getattr(module, name))


class _Program(Protocol):
    """What an engine makes of a layout."""

    def decode(self, buffer: Any, offset: int = 0) -> tuple[Any, int]: ...
    def encode(self, message: Any) -> bytes: ...
    def encode_parts(self, message: Any) -> list[Any]: ...


def _program(layout: Layout, engine: str) -> _Program:
    return cast("_Program", import_module(f"kafkawire.sdk.protocol.engines.{engine}").Program(layout))
