"""What an error says of the next attempt, and when that may begin: for all that is tried again.

`may_pass`, `is_refusal`, `outdates_metadata` and `outdates_coordinator` say what an error means; nothing else reads the
schema's sets of codes. `Attempts` counts the failures of a call, a connection, a batch or a look-up, and says when the
next attempt may begin, or that there will be none. Decision 12 lists who asks them, and what each decides beside that.

Source: KIP-580 (exponential backoff): the pause doubles, with a jitter of 20 % so that clients that failed together do
not retry together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kafkawire.sdk.errors import (
    BrokerError,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.tables.error_codes import INVALID_METADATA, ErrorCode

__all__ = [
    "METADATA_OUTDATED",
    "Attempts",
    "Backoff",
    "is_connection_error",
    "is_refusal",
    "may_pass",
    "outdates_coordinator",
    "outdates_metadata",
]

_JITTER = 0.2

#: More doublings than any pause needs; keeps the shift small.
_MAX_DOUBLINGS = 30

#: Codes after which the metadata must be refreshed: which broker is the controller is a part of it.
METADATA_OUTDATED: Final = INVALID_METADATA | {ErrorCode.NOT_CONTROLLER}

#: Codes after which the coordinator must be looked up again. One that is still loading stays the coordinator.
_COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Backoff(NamedTuple):
    """The pauses between attempts.

    Attributes:
        initial_ms: pause before the first retry.
        longest_ms: upper bound, jitter included.
        fraction: returns a random number in [0, 1).
    """

    initial_ms: int
    longest_ms: int
    fraction: Callable[[], float]

    def pause_ms(self, failures: int) -> int:
        """Return how long to wait before the next attempt.

        Args:
            failures: failed attempts in a row, from 1.
        """
        doubled = self.initial_ms << min(failures - 1, _MAX_DOUBLINGS)
        return int(min(doubled * (1 - _JITTER + 2 * _JITTER * self.fraction()), self.longest_ms))


class Attempts:
    """The attempts at one thing.

    Args:
        backoff: the pauses.
        deadline_ms: after this no attempt begins; None for no end.
        retries: how many attempts may follow the first; None for any number.
        final: retriable codes that end it here.
        pauses: in ms, after these codes instead of the backoff.

    Attributes:
        failures: failed attempts in a row.
        not_before_ms: when the next attempt may begin.
        last_error: why the last attempt failed, None after a success.
    """

    __slots__ = ("_backoff", "_final", "_pauses", "_retries", "deadline_ms", "failures", "last_error", "not_before_ms")

    def __init__(
        self,
        backoff: Backoff,
        deadline_ms: int | None = None,
        retries: int | None = None,
        final: Collection[ErrorCode] = (),
        pauses: Mapping[ErrorCode, int] = MappingProxyType({}),
    ) -> None:
        self._backoff = backoff
        self._retries = retries
        self._final = final
        self._pauses = pauses
        self.deadline_ms = deadline_ms
        self.failures = 0
        self.not_before_ms = 0
        self.last_error: KafkaWireError | None = None

    @property
    def are_spent(self) -> bool:
        """Whether no retry is left, however much time is."""
        return self._retries is not None and self.failures > self._retries

    def failed(self, error: KafkaWireError, now_ms: int, *, is_mended: bool = False) -> bool:
        """Note a failure.

        Args:
            error: what the attempt has met.
            now_ms: the time.
            is_mended: whether the next attempt may succeed because the caller has changed what the error was about.

        Returns:
            Whether there is another attempt, at `not_before_ms`.
        """
        self.failures += 1
        self.last_error = error
        pause_ms = self._pauses.get(error.code) if isinstance(error, BrokerError) else None
        self.not_before_ms = now_ms + (self._backoff.pause_ms(self.failures) if pause_ms is None else pause_ms)
        if self.are_spent or not (is_mended or may_pass(error, self._final)):
            return False
        return self.deadline_ms is None or self.not_before_ms < self.deadline_ms

    def succeeded(self) -> None:
        """Begin anew: the next failure is the first again."""
        self.failures = 0
        self.not_before_ms = 0
        self.last_error = None


def may_pass(error: KafkaWireError, final: Collection[ErrorCode] = (), also: Collection[ErrorCode] = ()) -> bool:
    """Return whether the same attempt may succeed later.

    Args:
        error: what an attempt has met.
        final: codes that are retriable in the schema, and not here.
        also: codes that are retriable here, and not in the schema.
    """
    if isinstance(error, BrokerError) and (error.code in final or error.code in also):
        return error.code in also
    return error.retriable


def is_connection_error(error: KafkaWireError) -> bool:
    """Return whether the broker was not reached, or did not respond."""
    return isinstance(error, ConnectFailed | ConnectionLost | RequestTimedOut)


def is_refusal(error: KafkaWireError | None) -> bool:
    """Return whether a broker does not trust this client, or cannot be trusted: to try again may lock the user out."""
    return isinstance(error, ConnectFailed | ConfigurationError) and not error.retriable


def outdates_metadata(error: KafkaWireError) -> bool:
    """Return whether an error shows that brokers, leaders or topics are no longer as the client knows them."""
    return is_connection_error(error) or (isinstance(error, BrokerError) and error.code in METADATA_OUTDATED)


def outdates_coordinator(error: KafkaWireError) -> bool:
    """Return whether an error shows that the coordinator has moved, or may have."""
    return is_connection_error(error) or (isinstance(error, BrokerError) and error.code in _COORDINATOR_MOVED)
