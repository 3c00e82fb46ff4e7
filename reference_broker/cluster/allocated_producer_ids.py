"""Blocks of producer ids, handed out by the cluster's controller.

Source: `RPCProducerIdManager` in Apache Kafka 3.9, KIP-730.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.cluster.controller_client import ControllerClient
from kafkawire.reference_broker.metadata.producer_id_blocks import BlockDone
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["AllocatedProducerIds"]

_log = logging.getLogger("kafkawire.broker")

#: How long to wait for a block. A client's request waits for the same time, after which the client retries.
_TIMEOUT_MS: Final = 30_000


class AllocatedProducerIds:
    """The producer ids of a cluster; see `ProducerIdBlocks`.

    Args:
        client: sends requests to the controller.
        broker_id: the id of this broker.
        broker_epoch: returns the epoch of this broker's registration.
        now_ms: returns the time, used only for logging.
    """

    def __init__(
        self, client: ControllerClient, broker_id: int, broker_epoch: Callable[[], int], now_ms: Callable[[], int]
    ) -> None:
        self._client = client
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._lines = LogLimit(_log)

    def reserve(self, done: BlockDone) -> None:
        request = AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())

        def answered(outcome: Message | Exception) -> None:
            block = _block(outcome)
            if isinstance(block, BrokerError):
                self._lines.error(
                    "producer ids", self._now_ms(), "the controller did not provide producer ids: %s", outcome
                )
            done(block)

        self._client.ask(request, answered, _TIMEOUT_MS)


def _block(outcome: Message | Exception) -> range | BrokerError:
    """Return the block in a response, or a retriable error for clients."""
    if isinstance(outcome, AllocateProducerIdsResponse) and outcome.error_code == ErrorCode.NONE:
        first, count = outcome.producer_id_start, outcome.producer_id_len
        if 0 <= first <= INT64_MAX - count and count > 0:
            return range(first, first + count)
    return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the controller has not provided producer ids")
