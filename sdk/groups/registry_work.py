"""Run steps on the registry for a machine; results are kept until the machine is polled, and reported with the time.

The registry's callbacks come between two polls and do not include the time. A machine that acts only when polled can be
driven and simulated like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.protocol import Step
from kafkawire.sdk.registry.registry import Registry
from kafkawire.sdk.registry.steps import Run, Steps, run

__all__ = ["RegistryWork", "Work"]

R = TypeVar("R")


class Work(Generic[R]):
    """A sequence of steps that has begun."""

    def __init__(self) -> None:
        self.is_over = False
        self._run: Run[R] | None = None

    def started(self, running: Run[R]) -> None:
        """Keep the run, through which the steps can be cancelled."""
        self._run = running

    def cancel(self) -> None:
        """Stop reporting. Operations that were already submitted are still carried out."""
        self.is_over = True
        if self._run is not None:
            self._run.cancel()


class RegistryWork:
    """The work of a machine on the registry.

    Args:
        registry: carries out the operations.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._inbox: deque[Step] = deque()

    @property
    def has_news(self) -> bool:
        """Whether the next poll has anything to do."""
        return bool(self._inbox)

    def begin(
        self, steps: Steps[R], then: Callable[[R, int], None], failed: Callable[[KafkaWireError, int], None]
    ) -> Work[R]:
        """Begin a sequence of steps.

        Args:
            steps: the steps.
            then: called in a poll with the result and the time.
            failed: called with the error and the time if a step fails. An error that is not a `KafkaWireError` is a
                defect: the poll raises it.
        """
        work: Work[R] = Work()

        def report(step: Step) -> None:
            def unless_cancelled(now_ms: int) -> None:
                if not work.is_over:
                    work.is_over = True
                    step(now_ms)

            self._inbox.append(unless_cancelled)

        def refused(error: Exception, now_ms: int) -> None:
            if not isinstance(error, KafkaWireError):
                raise error
            failed(error, now_ms)

        work.started(
            run(
                self._registry,
                steps,
                lambda result: report(lambda now_ms: then(result, now_ms)),
                lambda error: report(lambda now_ms: refused(error, now_ms)),
            )
        )
        return work

    def note(self, step: Step) -> None:
        """Call a function in the next poll."""
        self._inbox.append(step)

    def poll(self, now_ms: int) -> None:
        """Report the outcomes of ended steps."""
        while self._inbox:
            self._inbox.popleft()(now_ms)
