"""A shard that keeps the numbers of open transactions separate, and a function for the state that a log represents."""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from tests.reference_broker.coordinators.counting_shard import CountingShard, StoredBatch

__all__ = ["HoldingShard", "replayed"]


class HoldingShard(CountingShard):
    """Numbers, keyed by name. A transaction's numbers take effect at its commit, with the offsets of their records."""

    def __init__(self, timers: Any) -> None:
        super().__init__(timers)
        self.offsets: dict[str, int] = {}
        self.held: dict[int, dict[str, tuple[int, int]]] = {}

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int) -> None:
        name, number = record.key.group, None if record.value is None else record.value.offset  # type: ignore[attr-defined]  # its own
        if producer_id == NO_PRODUCER_ID:
            self._put(name, offset, number)
        else:
            held = self.held.setdefault(producer_id, {})
            held.pop(name, None)
            held[name] = offset, number  # type: ignore[assignment]  # nothing is deleted in a transaction

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for name, (offset, number) in self.held.pop(producer_id, {}).items():
            if is_commit and offset > self.offsets.get(name, -1):
                self._put(name, offset, number)

    def _put(self, name: str, offset: int, number: int | None) -> None:
        self.offsets[name] = offset
        if number is None:
            self.numbers.pop(name, None)
            for held in self.held.values():
                held.pop(name, None)
        else:
            self.numbers[name] = number

    @property
    def state(self) -> object:
        """The committed numbers, and the numbers of open transactions."""
        held = {producer_id: list(of_it.items()) for producer_id, of_it in self.held.items() if of_it}
        return self.numbers, {name: self.offsets[name] for name in self.numbers}, held


def replayed(batches: list[StoredBatch]) -> object:
    """Return the state of a shard that has replayed every record of a log."""
    shard = HoldingShard(None)
    for batch in batches:
        if batch.marker is not None:
            shard.end_transaction(batch.marker.producer_id, batch.marker.is_commit)
        producer_id = NO_PRODUCER_ID if batch.transaction is None else batch.transaction.producer_id
        for key, value in batch.records:
            found = shard.decode(key, value)
            assert found is not None
            shard.replay(found, batch.next_offset - 1, producer_id)
    return shard.state
