"""The errors that kafkawire raises.

Three families answer "whose fault was it": `LocalProtocolError` (this program asked for something that the protocol cannot
carry), `RemoteProtocolError` (the peer sent something that is not the protocol) and `BrokerError` (the peer answered with an
error code). Every text names the thing, the value and the limit.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.error_codes import FATAL, RETRIABLE, ErrorCode

__all__ = [
    "BrokerError",
    "DecodeError",
    "EncodeError",
    "KafkaWireError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "UnsupportedVersion",
]


class KafkaWireError(Exception):
    """The base of every error that kafkawire raises on purpose."""

    #: Whether the same call may succeed when it is made again.
    retriable = False
    #: Whether the object that raised it cannot be used any further.
    fatal = False


class LocalProtocolError(KafkaWireError):
    """This program asked for something that the protocol does not allow."""


class RemoteProtocolError(KafkaWireError):
    """The peer sent something that the protocol does not allow."""


class EncodeError(LocalProtocolError):
    """A value cannot be written.

    Args:
        path: the field, as `topics[3].partitions[0].index`; empty for the message itself.
        reason: what is wrong with it, with the value and the limit.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class UnsupportedVersion(LocalProtocolError):
    """A message, or a field of it, does not exist in the version asked for."""


class DecodeError(RemoteProtocolError):
    """Bytes are not what the format asks for.

    Args:
        path: the field that could not be read, as `topics[3].partitions[0].index`.
        offset: where the encoding of that field begins, in bytes from the start of the buffer.
        reason: what is wrong, with the value and the limit.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path or 'message'} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class BrokerError(KafkaWireError):
    """A broker answered with an error code.

    Args:
        code: the number on the wire; one that this release does not know becomes UNKNOWN_SERVER_ERROR, the number stays
            in the text.
        detail: what failed, and the broker's own message if it sent one.
    """

    def __init__(self, code: int, detail: str = "") -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
            detail = f"error code {code}, unknown to this release; {detail}".rstrip("; ")
        super().__init__(f"{self.code.name}: {detail}" if detail else self.code.name)
        self.detail = detail
        self.retriable = self.code in RETRIABLE
        self.fatal = self.code in FATAL
