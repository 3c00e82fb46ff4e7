"""A transaction coordinator whose answers the test controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["TransactionDesk"]


class TransactionDesk:
    """Approves every partition that is not to be refused, either immediately or when the test lets it.

    Attributes:
        asked: (transactional id, producer id, epoch, partitions, version) of each question.
        refused: the error for each partition that is to be refused.
        is_held: whether answers wait for `answer`.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, list[Partition], int]] = []
        self.refused: dict[Partition, ErrorCode] = {}
        self.is_held = False
        self._held: list[Callable[[], None]] = []

    def ensure_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic_partitions: Sequence[Partition],
        transaction_version: int,
        done: Callable[[Mapping[Partition, BrokerError]], None],
        now_ms: int,
    ) -> None:
        self.asked.append((transactional_id, producer_id, epoch, list(topic_partitions), transaction_version))

        def answer() -> None:
            places = set(topic_partitions) & set(self.refused)
            done({place: BrokerError(self.refused[place], "refused by the desk") for place in places})

        if self.is_held:
            self._held.append(answer)
        else:
            answer()

    def answer(self) -> None:
        """Give the answers that were held back."""
        held, self._held = self._held, []
        for answer in held:
            answer()
