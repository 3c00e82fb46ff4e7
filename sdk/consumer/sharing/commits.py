"""Commits that wait until brokers have handled the acknowledgements given so far."""

from __future__ import annotations

from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut
from kafkawire.sdk.transport.promise import Promise

__all__ = ["Commit"]


class Commit:
    """One call to `commit`.

    Args:
        promise: fulfilled with the outcomes.
        timeout_ms: the time limit, for the error.
        deadline_ms: when the commit fails; acknowledgements that are on their way are not withdrawn.

    Attributes:
        deadline_ms: as given.
        left: the number of acknowledgements that it still waits for.
    """

    def __init__(self, promise: Promise[list[AcknowledgeOutcome]], timeout_ms: int, deadline_ms: int) -> None:
        self._promise = promise
        self._timeout_ms = timeout_ms
        self._outcomes: list[AcknowledgeOutcome] = []
        self.deadline_ms = deadline_ms
        self.left = 0

    @property
    def is_over(self) -> bool:
        """Whether the commit has ended."""
        return self._promise.done

    def acknowledged(self, count: int) -> None:
        """Count acknowledgements that no longer have to be waited for."""
        self.left -= count

    def report(self, outcome: AcknowledgeOutcome) -> None:
        """Add an outcome."""
        self._outcomes.append(outcome)

    def poll(self, now_ms: int) -> None:
        """End the commit if there is nothing left to wait for, or if it has taken too long."""
        if not self.left:
            self._promise.keep(sorted(self._outcomes, key=lambda outcome: (outcome.partition, outcome.offsets)))
        elif now_ms >= self.deadline_ms:
            text = f"commit: brokers did not handle all acknowledgements within {self._timeout_ms} ms"
            self._promise.fail(RequestTimedOut(f"{text}; {self.left} are still on their way"))

    def fail(self, error: KafkaWireError) -> None:
        """End the commit, because the client has ended."""
        self._promise.fail(error)
