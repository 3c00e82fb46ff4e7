"""A transaction as a block of the application: committed at its end, aborted if it raises."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import KafkaWireError

if TYPE_CHECKING:
    from kafkawire.sdk.client.groups.protocol import GroupMetadata

__all__ = ["Transaction", "TransactionalProducer"]

logger = logging.getLogger("kafkawire.producer")


class TransactionalProducer(Protocol):
    """What a transaction asks of its producer; see the methods of `Producer`."""

    async def begin_transaction(self) -> None:
        """Begin it, after the end of the one before."""
        ...

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Commit it."""
        ...

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort it."""
        ...

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a group with it."""
        ...


class Transaction:
    """Commit all that is sent inside `async with producer.transaction()`, or nothing of it.

    The block commits at its end. If it raises, or is cancelled, the transaction is aborted and the error goes on; if
    aborting fails, too, that is logged, and the next transaction raises it. Once a commit has begun it is not taken
    back: if it is cancelled or takes longer than its limit, it goes on, the next transaction begins after it, and
    `Producer.commit_transaction` tells what became of it.

    Args:
        producer: has a `transactional_id`.
        timeout_ms: for committing or aborting; None for `api_timeout_ms`.
    """

    def __init__(self, producer: TransactionalProducer, timeout_ms: int | None = None) -> None:
        self._producer = producer
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> Transaction:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._producer.commit_transaction(self._timeout_ms)
            return
        try:
            await self._producer.abort_transaction(self._timeout_ms)
        except KafkaWireError as failure:
            logger.warning("after %r, the transaction could not be aborted: %s", error, failure)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a consumer's group with the transaction; see `Producer.send_offsets`."""
        await self._producer.send_offsets(offsets, group, timeout_ms)
