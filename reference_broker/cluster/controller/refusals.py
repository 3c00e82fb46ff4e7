"""Why the controller refuses client requests, and log lines for brokers' refusals of the controller's requests.

Source: `ApiError` in Apache Kafka.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ACCEPTED", "Refusal", "Refused", "refusal_of", "tell_refusal"]

_log = logging.getLogger("kafkawire.broker")

#: Apache Kafka's client-side texts, for codes that need no further explanation.
_TEXTS: Final = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.FEATURE_UPDATE_FAILED: "Unable to update finalized features due to an unexpected server error.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
}


class Refusal(NamedTuple):
    """The result for one item of a client's request.

    Attributes:
        error_code: NONE if the item was accepted.
        message: details, or None if there are none.
    """

    error_code: ErrorCode
    message: str | None = None


#: The result for an accepted item.
ACCEPTED: Final = Refusal(ErrorCode.NONE)


def refusal_of(error_code: ErrorCode) -> Refusal:
    """Return the refusal with a code and Apache Kafka's text for it."""
    return Refusal(error_code, _TEXTS.get(error_code))


class Refused(KafkaWireError):
    """A client's request cannot be carried out.

    Args:
        code: the error code for the response.
        reason: the text for the response; names the thing, the value and the limit.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(code, reason)


def tell_refusal(broker_id: int, api: str, error_code: int) -> None:
    """Log that a broker refuses a request from the controller.

    A broker whose session has expired registers again, and refuses requests meant for its former registration; the
    controller then repeats them for the new one.

    Args:
        broker_id: the broker's id.
        api: the API of the request.
        error_code: the error code in the response.
    """
    if error_code == ErrorCode.STALE_BROKER_EPOCH:
        _log.info(
            "broker %d has registered again, and rejected %s because it was for the previous registration",
            broker_id,
            api,
        )
    else:
        _log.error("broker %d rejected %s with error code %d", broker_id, api, error_code)
