"""The partitions of a producer's open transaction, and those to which batches may be sent.

This module connects the sender, which asks before it sends a partition's batch, to the transaction machine
(`machine.py`), which decides. Before transaction version 2, a partition must first be added to the transaction; from
that version on, the first batch that a leader stores adds it (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.protocol.tables.enums.transaction_version import TransactionVersion

__all__ = ["TransactionPartitions"]


class TransactionPartitions:
    """The partitions of a producer's current transaction.

    Args:
        transactional_id: the producer's transactional id.

    Attributes:
        version: the open transaction's level of the feature transaction.version.
        refusal: why no batch may be sent now; None while the transaction accepts batches.
        wanted: partitions that must be added.
        joined: partitions that are part of the transaction.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.version: int = TransactionVersion.TV_0
        self.refusal: KafkaWireError | None = None
        self.wanted: dict[PartitionQueue, None] = {}
        self.joined: dict[PartitionQueue, None] = {}
        self._added: list[PartitionQueue] = []

    @property
    def joins_by_itself(self) -> bool:
        """Whether brokers add partitions and groups implicitly when they store data of the transaction."""
        return self.version >= TransactionVersion.TV_2

    def begin(self, version: int) -> None:
        """Begin a transaction without partitions."""
        self.version = version
        self.refusal = None
        self.wanted.clear()
        self.joined.clear()
        self._added.clear()

    def may_send(self, queue: PartitionQueue) -> bool:
        """Return whether batches of a partition may be sent; if it must be added first, request that."""
        if self.refusal is not None:
            return False
        if queue in self.joined:
            return True
        if self.joins_by_itself:
            self.joined[queue] = None
            return True
        self.wanted[queue] = None
        return False

    def take_wanted(self) -> list[PartitionQueue]:
        """Return the partitions that must be added, and clear `wanted`."""
        wanted = list(self.wanted)
        self.wanted.clear()
        return wanted

    def add(self, queues: Iterable[PartitionQueue]) -> None:
        """Record that partitions are part of the transaction."""
        added = list(queues)
        self.joined.update(dict.fromkeys(added))
        self._added += added

    def take_added(self) -> list[PartitionQueue]:
        """Return the partitions that were added since the last call."""
        added, self._added = self._added, []
        return added
