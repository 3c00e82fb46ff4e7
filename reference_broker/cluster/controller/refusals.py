"""Why the controller refuses what a client asks for.

Source: `ApiError` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ACCEPTED", "Refusal", "Refused"]


class Refusal(NamedTuple):
    """The result for one thing that a client asked for.

    Attributes:
        error_code: NONE if it was accepted.
        message: more about it, None if the code says all.
    """

    error_code: ErrorCode
    message: str | None = None


#: Nothing was refused.
ACCEPTED: Final = Refusal(ErrorCode.NONE)


class Refused(KafkaWireError):
    """A request of a client cannot be carried out.

    Args:
        code: for the response.
        reason: for the response; names the thing, the value and the limit.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(code, reason)
