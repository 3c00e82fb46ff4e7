"""Decide, for every kind of retry, whether an error allows another attempt and when that attempt may begin.

`may_pass`, `is_denial`, `is_refusal`, `outdates_metadata` and `outdates_coordinator` classify errors using the schema's
sets of codes, which also define `BrokerError.retriable`. `Attempts` counts the failures of a call, a connection, a
batch or a lookup, and decides when the next attempt may begin, or that there will be none. Decision 12 lists their
callers, and what else each caller decides.

Source: KIP-580 (exponential backoff): the pause doubles, with 20 % jitter to keep clients that failed together from
retrying together.
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
    "DENIALS",
    "METADATA_OUTDATED",
    "Attempts",
    "Backoff",
    "is_connection_error",
    "is_denial",
    "is_refusal",
    "may_pass",
    "outdates_coordinator",
    "outdates_metadata",
]

_JITTER = 0.2

#: The maximum number of doublings: more than any pause needs, but few enough to keep the shift small.
_MAX_DOUBLINGS = 30

#: Codes after which the metadata, which includes the controller, must be refreshed.
METADATA_OUTDATED: Final = INVALID_METADATA | {ErrorCode.NOT_CONTROLLER}

#: Codes after which the coordinator must be looked up again. A coordinator that is still loading stays valid.
_COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

#: Codes that last until an administrator grants this client an ACL. They do not count as retriable, since no call can
#: wait for that, but work that has no end, such as reading a partition, goes on afterwards. Of all the codes in the
#: responses to metadata requests, fetches and lookups of offsets and coordinators, only these can end without a change
#: to the program, and without skipping or repeating a record.
DENIALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)

#: The pauses between attempts that are denied: the application is told of each, and an administrator takes a while.
_DENIAL_PAUSE_MS: Final = 1_000
_DENIAL_PAUSE_MAX_MS: Final = 30_000


class Backoff(NamedTuple):
    """The pauses between attempts.

    Attributes:
        initial_ms: the pause before the first retry.
        longest_ms: the maximum pause, including jitter.
        fraction: returns a random number in [0, 1).
    """

    initial_ms: int
    longest_ms: int
    fraction: Callable[[], float]

    def pause_ms(self, failures: int) -> int:
        """Return how long to wait before the next attempt.

        Args:
            failures: the number of consecutive failed attempts, at least 1.
        """
        doubled = self.initial_ms << min(failures - 1, _MAX_DOUBLINGS)
        return int(min(doubled * (1 - _JITTER + 2 * _JITTER * self.fraction()), self.longest_ms))

    def after_denials(self) -> Backoff:
        """Return the pauses after denials (see `is_denial`)."""
        return Backoff(
            max(self.initial_ms, _DENIAL_PAUSE_MS), max(self.longest_ms, _DENIAL_PAUSE_MAX_MS), self.fraction
        )


class Attempts:
    """The attempts at one operation.

    Args:
        backoff: the pauses.
        deadline_ms: the time after which no attempt begins; None for no deadline.
        retries: the number of attempts that may follow the first; None for no limit.
        final: retriable codes that end the attempts here.
        pauses: the pause in ms, keyed by error code, that replaces the backoff.

    Attributes:
        failures: the number of consecutive failed attempts.
        not_before_ms: when the next attempt may begin.
        last_error: why the last attempt failed; None after a success.
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
        """Whether all retries have been used up, regardless of the deadline."""
        return self._retries is not None and self.failures > self._retries

    def failed(self, error: KafkaWireError, now_ms: int, *, is_mended: bool = False) -> bool:
        """Record a failure.

        Args:
            error: the error of the attempt.
            now_ms: the time.
            is_mended: whether the next attempt may succeed because the caller has fixed the cause of the error.

        Returns:
            Whether there will be another attempt, at `not_before_ms`.
        """
        self.failures += 1
        self.last_error = error
        pause_ms = self._pauses.get(error.code) if isinstance(error, BrokerError) else None
        self.not_before_ms = now_ms + (self._backoff.pause_ms(self.failures) if pause_ms is None else pause_ms)
        if self.are_spent or not (is_mended or may_pass(error, self._final)):
            return False
        return self.deadline_ms is None or self.not_before_ms < self.deadline_ms

    def denied(self, error: KafkaWireError, now_ms: int) -> None:
        """Record a failure that lasts until an administrator ends it: the pauses are long, and attempts never end."""
        if not is_denial(self.last_error):
            self.failures = 0
        self.failures += 1
        self.last_error = error
        self.not_before_ms = now_ms + self._backoff.after_denials().pause_ms(self.failures)

    def succeeded(self) -> None:
        """Start over: the next failure counts as the first."""
        self.failures = 0
        self.not_before_ms = 0
        self.last_error = None


def may_pass(error: KafkaWireError, final: Collection[ErrorCode] = (), also: Collection[ErrorCode] = ()) -> bool:
    """Return whether the same attempt may succeed later.

    Args:
        error: the error of an attempt.
        final: codes that are retriable in the schema but not here.
        also: codes that are retriable here but not in the schema.
    """
    if isinstance(error, BrokerError) and (error.code in final or error.code in also):
        return error.code in also
    return error.retriable


def is_connection_error(error: KafkaWireError) -> bool:
    """Return whether the broker was not reached or did not respond."""
    return isinstance(error, ConnectFailed | ConnectionLost | RequestTimedOut)


def is_denial(error: KafkaWireError | None) -> bool:
    """Return whether a broker denied access to a topic, a group or the cluster, which an administrator can grant."""
    return isinstance(error, BrokerError) and error.code in DENIALS


def is_refusal(error: KafkaWireError | None) -> bool:
    """Return whether a broker refused the login, cannot be trusted, or was not asked, because an option is unusable.

    `Refusals` decides when the login is tried again.
    """
    return isinstance(error, ConnectFailed | ConfigurationError) and not error.retriable


def outdates_metadata(error: KafkaWireError) -> bool:
    """Return whether an error shows that the client's metadata about brokers, leaders or topics is outdated."""
    return is_connection_error(error) or (isinstance(error, BrokerError) and error.code in METADATA_OUTDATED)


def outdates_coordinator(error: KafkaWireError) -> bool:
    """Return whether an error shows that the coordinator has moved or may have moved."""
    return is_connection_error(error) or (isinstance(error, BrokerError) and error.code in _COORDINATOR_MOVED)
