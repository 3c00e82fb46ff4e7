"""The persister of a standalone broker, which coordinates all share partitions itself.

It creates `__share_group_state` when it is first used, and retries operations that the coordinator cannot serve yet. In
a cluster, another persister would find the coordinator of each share partition and send it requests.

Source: `DefaultStatePersister`, `PersisterStateManager` in Apache Kafka, whose retries and texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.coordinators.shard import Done
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.shares.coordinator import ShareCoordinator
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import SHARE_GROUP_STATE_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LocalPersister"]

R = TypeVar("R")

#: Creates a topic unless it exists; see `TopicController.ensure`.
Ensure = Callable[[str, Callable[[TopicImage | BrokerError], None]], None]

#: Pauses before an operation is tried again. Kafka begins with a second, since its coordinator may be elsewhere.
_AGAIN_MS = (100, 200, 400, 800, 1_600)

#: After these errors, a later attempt may succeed.
_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class LocalPersister:
    """Keeps the state of share partitions in this broker's share coordinator; see `Persister`.

    Args:
        coordinator: the share coordinator.
        ensure: creates a topic.
        timers: the broker's timers.
        clock: returns the time in milliseconds.
    """

    def __init__(self, coordinator: ShareCoordinator, ensure: Ensure, timers: Timers, clock: Callable[[], int]) -> None:
        self._coordinator = coordinator
        self._ensure = ensure
        self._timers = timers
        self._clock = clock

    def initialize(self, share: SharePartitionKey, state_epoch: int, start_offset: int, done: Done[None]) -> None:
        initialize = partial(self._coordinator.initialize, share, state_epoch, start_offset)
        self._attempt("initialize state", initialize, done)

    def read(self, share: SharePartitionKey, leader_epoch: int, done: Done[ShareState]) -> None:
        self._attempt("read state", partial(self._coordinator.read, share, leader_epoch), done)

    def write(self, share: SharePartitionKey, write: Write, done: Done[None]) -> None:
        self._attempt("write state", partial(self._coordinator.write, share, write), done)

    def delete(self, share: SharePartitionKey, done: Done[None]) -> None:
        self._attempt("delete state", partial(self._coordinator.delete, share), done)

    def summary(self, share: SharePartitionKey, done: Done[ShareState | None]) -> None:
        self._attempt("read state summary", partial(self._coordinator.summary, share), done)

    def _attempt(self, name: str, operation: Callable[[Done[R], int], None], done: Done[R], failures: int = 0) -> None:
        """Run an operation once the topic exists; try again after temporary errors."""

        def ended(outcome: R | BrokerError) -> None:
            if not isinstance(outcome, BrokerError):
                done(outcome)
            elif outcome.code not in _PASSING:
                done(BrokerError(outcome.code, f"Error in {name} RPC. {outcome.detail}"))
            elif failures < len(_AGAIN_MS):
                again = partial(self._attempt, name, operation, done, failures + 1)
                self._timers.at(self._clock() + _AGAIN_MS[failures], lambda now_ms: again())
            else:
                reason = f"Exhausted max retries to complete {name} RPC without success."
                done(BrokerError(outcome.code, f"Error in {name} RPC. {reason}"))

        def ensured(made: TopicImage | BrokerError) -> None:
            if isinstance(made, BrokerError):
                ended(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, made.detail))
            else:
                operation(ended, self._clock())

        self._ensure(SHARE_GROUP_STATE_TOPIC, ensured)
