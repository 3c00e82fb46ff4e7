"""Long jobs, split into small pieces. Blocking pieces run in the background, decisions on the request thread.

A job is a generator. It yields functions, each of which begins an operation and takes a callback to call on completion.
The job then resumes with the result or the error. Jobs run one at a time, in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias

from kafkawire.reference_broker.work.background_queue import BackgroundQueue

__all__ = ["BackgroundJobs", "Job", "Wait", "in_background"]

_log = logging.getLogger("kafkawire.broker")

#: Begins an operation, and calls its argument once with the result or the error.
Wait: TypeAlias = Callable[[Callable[[Any], None]], None]

Job: TypeAlias = Generator[Wait, Any, None]


def in_background(
    queue: BackgroundQueue, work: Callable[[], Any], is_wanted: Callable[[], bool] = lambda: True
) -> Wait:
    """Return an operation that runs `work` in the queue.

    Args:
        queue: see `BackgroundQueue`.
        work: blocking work that returns the result.
        is_wanted: checked when the step's turn comes; if False, the work is skipped and the result is None.
    """

    def begin(done: Callable[[Any], None]) -> None:
        results: list[Any] = [None]

        def run() -> None:
            try:
                results[0] = work()
            except Exception as error:
                results[0] = error

        def ended(error: Exception | None) -> None:
            done(results[0] if error is None else error)

        queue.do(lambda: run if is_wanted() else lambda: None, ended)

    return begin


class _Planned(NamedTuple):
    job: Job
    failed: Callable[[Exception], None]


class BackgroundJobs:
    """Jobs that run one at a time."""

    def __init__(self) -> None:
        self._jobs: deque[_Planned] = deque()
        self._is_busy = False
        self._is_stopped = False

    def add(self, job: Job, failed: Callable[[Exception], None]) -> None:
        """Run a job after all those that are waiting.

        Args:
            job: a generator (see above).
            failed: called if an error ends the job, with that error.
        """
        self._jobs.append(_Planned(job, failed))
        if not self._is_busy:
            self._run(None)

    def stop(self) -> None:
        """Stop all jobs."""
        self._is_stopped = True
        self._jobs.clear()

    def _run(self, result: Any) -> None:
        """Run the jobs in order, until one has to wait."""
        self._is_busy = True
        while self._jobs and not self._is_stopped:
            wait = self._advance(result)
            result = None
            if wait is not None:
                arrival = _Arrival()
                wait(arrival)
                if not arrival.values:
                    arrival.go_on = self._run
                    return
                (result,) = arrival.values
        self._is_busy = False

    def _advance(self, result: Any) -> Wait | None:
        """Return the first job's next operation; if the job has ended, remove it and return None."""
        job, failed = self._jobs[0]
        try:
            return job.throw(result) if isinstance(result, Exception) else job.send(result)
        except StopIteration:
            self._jobs.popleft()
        except Exception as error:
            self._jobs.popleft()
            failed(error)
        return None


class _Arrival:
    """Receives the result of an operation, immediately or later."""

    __slots__ = ("go_on", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.go_on: Callable[[Any], None] | None = None

    def __call__(self, value: Any) -> None:
        if self.go_on is not None:
            self.go_on(value)
        else:
            self.values.append(value)
