"""Sources of unused blocks of producer ids.

A single broker reserves blocks in a file. When it stops, the unused ids in its block are lost, but there are 2^63 ids.

Source: `ProducerIdManager`, `ZkProducerIdManager`, `ProducerIdsBlock` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkawire.reference_broker.storage.directory.producer_id_file import ProducerIdFile
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["BLOCK_IDS", "BlockDone", "LocalProducerIdBlocks", "ProducerIdBlocks"]

#: Ids per block, as in Kafka: one disk write serves a thousand producers.
BLOCK_IDS: Final = 1000

#: Called with a block of at least one id, or with the error that clients get.
BlockDone = Callable[[range | BrokerError], None]


class ProducerIdBlocks(Protocol):
    """Reserves producer ids that no broker in the cluster will ever assign again."""

    def reserve(self, done: BlockDone) -> None:
        """Reserve a block without blocking.

        Args:
            done: see `BlockDone`; called once, possibly immediately.
        """


class LocalProducerIdBlocks:
    """The producer ids of a single broker; see `ProducerIdBlocks`.

    Args:
        file: holds the reservations.
        services: writes the file in the background, and logs failures.
    """

    def __init__(self, file: ProducerIdFile, services: LogServices) -> None:
        self._file = file
        self._services = services

    def reserve(self, done: BlockDone) -> None:
        reserved: list[int] = []

        def written(error: Exception | None) -> None:
            if error is None:
                done(range(reserved[0], reserved[0] + BLOCK_IDS))
                return
            now_ms = self._services.clock()
            self._services.lines.error("producer ids", now_ms, "could not reserve producer ids: %s", error)
            done(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))

        self._services.background(lambda: reserved.append(self._file.reserve(BLOCK_IDS)), written)
