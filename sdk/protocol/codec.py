"""A message in one version as a `construct.Construct`, with `parse` and `build`; it can be part of any other construct.

`decode` and `encode` work on buffers and skip construct's streams. An engine's program (`programs.py`) does the work;
this package's own code calls the program directly and thus need not load construct.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any, BinaryIO, Generic, Never, TypeVar, cast, final, overload

from construct import Construct, Container, SizeofError

from kafkawire.sdk.errors import DecodeError, LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.values import quoted

__all__ = ["Codec", "codec"]

M = TypeVar("M", bound=Message)

#: Size of the first read from a stream: enough for most messages, but too small to read a whole file of small messages.
_FIRST_READ_BYTES = 1024


@final
class Codec(Construct, Generic[M]):
    """Read and write one message in one version.

    A stream must be seekable; only the message is consumed from it. A codec cannot be subclassed: to extend it, wrap it
    in another construct such as `construct.Adapter`.

    Args:
        cls: the message class.
        version: a version of the message.
        engine: one of `ENGINES`.

    Raises:
        LocalProtocolError: `cls` is not a message class, or the engine is not available here.
        UnsupportedVersion: the message does not exist in this version.
    """

    def __init__(self, cls: type[M], version: int, engine: str) -> None:
        super().__init__()
        made = program(cls, version, engine)
        self.layout = layout(cls, version)
        self.cls = cls
        self.version = version
        self.engine = engine
        # Bound once: an extra call would take a tenth of the time needed to decode a small message.
        self.decode = made.decode  # type: ignore[method-assign]  # the methods below are for readers and types
        self.encode = made.encode  # type: ignore[method-assign]  # as above
        self.encode_parts = made.encode_parts  # type: ignore[method-assign]  # as above

    def __init_subclass__(cls, **arguments: object) -> Never:
        # Overridden methods would not be called, and a copy would not be an instance of the subclass.
        raise TypeError(f"{cls.__qualname__} cannot derive from Codec: use a codec, or wrap one in a construct.Adapter")

    def __copy__(self) -> Codec[M]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Once unpickled, a codec of the default engine uses the default engine of the new process.
        return codec, (self.cls, self.version, None if self.engine == ENGINE else self.engine)

    def __repr__(self) -> str:
        return f"<codec of {self.layout.name} version {self.version}, engine {self.engine}>"

    def decode(self, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
        """Read a message; see `Program.decode`."""
        raise NotImplementedError  # replaced in __init__

    def encode(self, message: M) -> bytes:
        """Return the encoding of a message; see `Program.encode`."""
        raise NotImplementedError  # replaced in __init__

    def encode_parts(self, message: M) -> list[Any]:
        """Return the encoding of a message in parts; see `Program.encode_parts`."""
        raise NotImplementedError  # replaced in __init__

    def parse(self, data: Buffer, **contextkw: object) -> M:
        """Return the message at the beginning of `data`.

        Args:
            data: bytes that begin with the message; more may follow.
            contextkw: accepted and ignored, as construct's interface requires.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        return self.decode(data, 0)[0]

    def build(self, obj: M, **contextkw: object) -> bytes:
        """Return the encoding of a message.

        Args:
            obj: the message.
            contextkw: accepted and ignored, as construct's interface requires.

        Raises:
            EncodeError: a value does not fit.
            UnsupportedVersion: a field is set that this version does not have.
        """
        return self.encode(obj)

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> M:
        if type(stream) is io.BytesIO:
            # The bytes are shared with the stream, not copied, and the stream is not locked, as it would be by
            # getbuffer().
            data, start = stream.getvalue(), stream.tell()
            message, end = self.decode(data, start)
            stream.seek(end)
            return message
        if not stream.seekable():
            raise LocalProtocolError(
                f"{self!r} reads ahead, but {quoted(stream)} is not seekable: read the bytes, then parse them"
            )
        data = stream.read(_FIRST_READ_BYTES)
        while True:
            try:
                message, end = self.decode(data, 0)
                break
            except DecodeError:
                more = stream.read(len(data))  # the size doubles, so even a long message needs few attempts
                if not more:
                    raise
                data += more
        stream.seek(end - len(data), io.SEEK_CUR)
        return message

    def _build(self, obj: M, stream: BinaryIO, context: Container, path: str) -> M:
        stream.write(self.encode(obj))
        return obj

    def _sizeof(  # pyright: ignore[reportIncompatibleMethodOverride]  # construct's own only raises: NoReturn
        self, context: Container, path: str
    ) -> int:
        if self.layout.size is None:
            raise SizeofError(f"the size of {self.layout.name} version {self.version} depends on its values", path=path)
        return self.layout.size


@overload
def codec(message: type[M], version: int, engine: str | None = None) -> Codec[M]: ...
@overload
def codec(message: str, version: int, engine: str | None = None) -> Codec[Message]: ...
def codec(message: str | type[M], version: int, engine: str | None = None) -> Codec[M] | Codec[Message]:
    """Return the codec for a message in one version; the same arguments yield the same object.

    Args:
        message: a message class, or its name in Kafka, such as `FetchRequest`.
        version: the version.
        engine: `native`, `python` or `construct`; defaults to the engine in use.

    Raises:
        LocalProtocolError: there is no such message, the version is not an int, or the engine is not available here.
        UnsupportedVersion: the message does not exist in this version.
    """
    if isinstance(message, str):
        cls = cast("type[M]", message_class(message))
    elif isinstance(message, type):
        cls = message
    else:
        raise LocalProtocolError(f"{quoted(message)} is neither a message class nor the name of one")
    if not isinstance(version, int) or isinstance(version, bool):
        raise LocalProtocolError(f"{cls.__qualname__}: version {quoted(version)} is not an int")
    if not isinstance(engine, str | None):
        raise LocalProtocolError(f"{quoted(engine)} is not the name of an engine")
    return _codec(cls, int(version), ENGINE if engine is None else engine)


@cache
def _codec(cls: type[M], version: int, engine: str) -> Codec[M]:
    return Codec(cls, version, engine)
