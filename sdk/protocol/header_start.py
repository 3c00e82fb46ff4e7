"""What headers begin with in every version, so that it can be read before the version is known."""

from struct import Struct
from typing import Final

from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import FIXED

__all__ = ["CORRELATION_ID_BYTES", "HEADER_START", "correlation_id_of"]

#: What every request header begins with: API key, version, correlation id.
HEADER_START: Final = Struct(">" + "".join(FIXED[field.kind].format for field in layout(RequestHeader, 1).fields[:3]))

#: The size of what every response header begins with.
CORRELATION_ID_BYTES: Final = Struct(">" + FIXED[layout(ResponseHeader, 0).fields[0].kind].format).size


def correlation_id_of(response: bytes | bytearray | memoryview) -> int:
    """Return the correlation id of a response, of which `CORRELATION_ID_BYTES` must be there."""
    return int.from_bytes(response[:CORRELATION_ID_BYTES], "big", signed=True)
