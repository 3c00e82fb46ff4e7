"""What a coordinator's error means for a membership under any protocol.

| Error | Consequence |
|---|---|
| retriable | another attempt after a pause; the application is not told |
| about a member id, an epoch or a generation | the partitions are lost, and the member joins again |
| final | the membership ends: only a change to the program or the configuration can help |
| any other, such as a refused login | the next read raises it, and the membership continues |

After an error of the last kind, a member that has to join waits until a read has raised the error.

Source: Apache Kafka, `AbstractCoordinator.joinGroupIfNeeded`, `AbstractHeartbeatRequestManager`.
"""

from __future__ import annotations

from typing import Final

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError
from kafkawire.sdk.groups.protocol import Reads
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.retry import Attempts, is_refusal

__all__ = ["ReportedErrors", "is_final", "is_news", "refusal_of", "unresolved"]

_FINAL: Final = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

#: Errors that can happen in a rebalance; the next attempt resolves them.
_OF_REBALANCES: Final = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


def refusal_of(group_id: str, response: Message) -> BrokerError | None:
    """Return the error in a response to a member; None if there is none."""
    code = getattr(response, "error_code", 0)
    if not code:
        return None
    detail = f"{response.SCHEMA.name.removesuffix('Response')} in group {group_id}"
    message = getattr(response, "error_message", None)
    return BrokerError(code, f"{detail}: {message}" if message else detail)


def is_final(error: KafkaWireError) -> bool:
    """Return whether an error ends a membership; most errors not sent by a broker do, but refused logins do not."""
    if isinstance(error, BrokerError):
        return error.code in _FINAL
    return not (error.retriable or is_refusal(error) or isinstance(error, Closed))


def is_news(error: KafkaWireError) -> bool:
    """Return whether to report a non-final error to the application."""
    return not (error.retriable or _is_of_rebalance(error) or isinstance(error, Closed))


def unresolved(*attempts: Attempts) -> KafkaWireError | None:
    """Return the error of an attempt that has not succeeded since, unless such errors are part of a rebalance."""
    errors = [each.last_error for each in attempts]
    return next((error for error in errors if error is not None and not _is_of_rebalance(error)), None)


def _is_of_rebalance(error: KafkaWireError) -> bool:
    return isinstance(error, BrokerError) and error.code in _OF_REBALANCES


class ReportedErrors:
    """The errors that a member reports to its application, one at a time.

    Args:
        reader: raises the errors.
    """

    def __init__(self, reader: Reads) -> None:
        self._reader = reader
        self._error: KafkaWireError | None = None

    @property
    def waits(self) -> bool:
        """Whether the last error has not been raised yet."""
        return self._error is not None and self._reader.is_unread(self._error)

    def add(self, error: KafkaWireError) -> None:
        """Report an error if the application needs it, unless an earlier one is waiting."""
        if is_news(error) and not self.waits:
            self._error = error
            self._reader.report(error)

    def forget(self) -> None:
        """Stop waiting because the application has reacted to the error."""
        self._error = None
