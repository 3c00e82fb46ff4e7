"""The part of a header that is the same in every version and can be read before the version is known."""

from struct import Struct
from typing import Final

from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import FIXED

__all__ = ["CORRELATION_ID_BYTES", "HEADER_START", "correlation_id_of"]

#: The beginning of every request header: API key, version, correlation id.
HEADER_START: Final = Struct(">" + "".join(FIXED[field.kind].format for field in layout(RequestHeader, 1).fields[:3]))

#: The size of the correlation id, with which every response header begins.
CORRELATION_ID_BYTES: Final = Struct(">" + FIXED[layout(ResponseHeader, 0).fields[0].kind].format).size


def correlation_id_of(response: bytes | bytearray | memoryview) -> int:
    """Return the correlation id of a response, which must be at least `CORRELATION_ID_BYTES` long."""
    return int.from_bytes(response[:CORRELATION_ID_BYTES], "big", signed=True)
