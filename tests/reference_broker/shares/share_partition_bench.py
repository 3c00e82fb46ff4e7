"""A share partition whose persister is in memory, with shortcuts for its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange
from kafkawire.reference_broker.shares.acquisition import Fetched, Wanted
from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch
from kafkawire.reference_broker.shares.in_flight import InFlight
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_partition import SharePartition
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.shares.state_batches import StateBatch, combined
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, DeliveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["KEY", "LOCK_MS", "MemoryPersister", "SharePartitionBench", "new_limits", "shown"]

KEY = SharePartitionKey("g", b"t" * 16, 0)

#: The default time for which a record stays acquired.
LOCK_MS = 30_000

_LETTERS = {
    DeliveryState.AVAILABLE: "available",
    DeliveryState.ACQUIRED: "acquired",
    DeliveryState.ACKNOWLEDGED: "acknowledged",
    DeliveryState.ARCHIVED: "archived",
}


def new_limits(configs: dict[str, str] | None = None, **options: object) -> ShareLimits:
    """Return limits, given the configurations of the group `g` and the broker's options."""
    return ShareLimits(read_options(options), {"g": configs or {}})


def shown(flight: InFlight) -> str:
    """Return the deliveries as a text: ranges of offsets with their state and the number of deliveries."""
    runs: list[tuple[int, int, str]] = []
    for batch in flight.batches:
        parts = (
            [(batch.first_offset, batch.last_offset, batch.whole)]
            if batch.whole is not None
            else [(offset, offset, delivery) for offset, delivery in batch.each.items()]
        )
        for first, last, delivery in parts:
            word = f"{_LETTERS[delivery.state]}/{delivery.count}"
            if runs and runs[-1][1] + 1 == first and runs[-1][2] == word:
                runs[-1] = (runs[-1][0], last, word)
            else:
                runs.append((first, last, word))
    return " ".join(f"{first}-{last}:{word}" for first, last, word in runs)


class MemoryPersister:
    """Keeps the state of one share partition.

    Attributes:
        state: the stored state, or the error that `read` returns.
        refusal: the error that `write` returns; None if it stores.
        writes: what was written.
        held: the answers that wait for `answer`, while `is_holding`.
    """

    def __init__(self, state: ShareState | BrokerError) -> None:
        self.state = state
        self.refusal: BrokerError | None = None
        self.writes: list[Write] = []
        self.is_holding = False
        self.held: list[Callable[[], None]] = []

    def read(
        self, share: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState | BrokerError], None]
    ) -> None:
        """Return the state."""
        self._answer(lambda: done(self.state))

    def write(self, share: SharePartitionKey, write: Write, done: Callable[[BrokerError | None], None]) -> None:
        """Store a change."""
        refusal = self.refusal
        self.writes.append(write)

        def store() -> None:
            if refusal is None and isinstance(self.state, ShareState):
                start = self.state.start_offset if write.start_offset == UNKNOWN_OFFSET else write.start_offset
                batches = tuple(combined(self.state.batches, write.batches, start))
                count = write.delivery_complete_count
                self.state = self.state._replace(start_offset=start, batches=batches, delivery_complete_count=count)
            done(refusal)

        self._answer(store)

    def _answer(self, action: Callable[[], None]) -> None:
        if self.is_holding:
            self.held.append(action)
        else:
            action()

    def answer(self) -> None:
        """Answer the oldest question."""
        self.held.pop(0)()


class SharePartitionBench:
    """A share partition that begins at offset 0 unless its state says otherwise.

    Args:
        stored: the stored batches.
        start_offset: the stored start offset.
        configs: the configurations of the group.
        persister: see `MemoryPersister`; a new one by default.
        load: whether to load the state.
    """

    def __init__(
        self,
        *stored: StateBatch,
        start_offset: int = UNKNOWN_OFFSET,
        configs: dict[str, str] | None = None,
        persister: MemoryPersister | None = None,
        load: bool = True,
    ) -> None:
        self.timers = Timers()
        self.now_ms = 0
        self.persister = persister or MemoryPersister(ShareState(0, 3, -1, start_offset, -1, tuple(stored)))
        #: Where the group begins if no start is stored, or why that is unknown.
        self.start: int | BrokerError = 0
        self.changes = 0
        self.loaded: list[BrokerError | None] = []
        self.share = SharePartition(
            KEY,
            5,
            new_limits(configs),
            self.persister,  # type: ignore[arg-type]  # a share partition only reads and writes
            self.timers,
            lambda done: done(self.start),
            self._changed,
        )
        if load:
            self.share.load(self.loaded.append)

    def _changed(self) -> None:
        self.changes += 1

    @property
    def shown(self) -> str:
        """See `shown`."""
        return shown(self.share.flight)

    @property
    def bounds(self) -> tuple[int, int]:
        """The start offset and the end offset."""
        return self.share.flight.start_offset, self.share.flight.end_offset

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.timers.fire(self.now_ms)

    def acquire(
        self,
        *batches: tuple[int, int] | FetchedBatch,
        member_id: str = "m",
        offset: int | None = None,
        aborted: Sequence[Any] = (),
        **wanted: Any,
    ) -> list[tuple[int, int, int]]:
        """Acquire fetched batches; return the ranges with their numbers of deliveries."""
        known = [batch if isinstance(batch, FetchedBatch) else FetchedBatch(*batch) for batch in batches]
        offset = self.share.next_fetch_offset() if offset is None else offset
        fields = {"records_max": 500, "is_limited": False, "batch_size": 500, **wanted}
        ranges, count = self.share.acquire(Wanted(member_id, **fields), Fetched(offset, known, aborted), self.now_ms)
        assert count == sum(last - first + 1 for first, last, _ in ranges)
        return [(first, last, deliveries) for first, last, deliveries in ranges]

    def acknowledge(self, *ranges: tuple[int, int, Any], member_id: str = "m") -> list[ErrorCode | None]:
        """Acknowledge ranges; return the code of the outcome, or an empty list if it is not known yet."""
        outcomes: list[ErrorCode | None] = []
        given = [
            AcknowledgedRange(first, last, kinds if isinstance(kinds, list) else [kinds])
            for first, last, kinds in ranges
        ]
        self.share.acknowledge(
            member_id, given, lambda error: outcomes.append(None if error is None else error.code), self.now_ms
        )
        return outcomes

    def release(self, member_id: str = "m") -> list[BrokerError | None]:
        """Release what a member has acquired."""
        outcomes: list[BrokerError | None] = []
        self.share.release(member_id, outcomes.append, self.now_ms)
        return outcomes
