"""A broker gets blocks of producer ids from the controller; an invalid block leads to an error that clients retry.

Method: allocate ids through a scripted client of the controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.cluster.allocated_producer_ids import AllocatedProducerIds
from kafkawire.sdk.errors import BrokerError, RequestTimedOut
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


class Client:
    """Records requests and answers them."""

    def __init__(self, outcome: Message | Exception) -> None:
        self.outcome = outcome
        self.requests: list[AllocateProducerIdsRequest] = []

    def ask(self, message: Any, done: Any, timeout_ms: int, version: int | None = None) -> Any:
        assert timeout_ms > 0
        self.requests.append(message)
        done(self.outcome)


def reserved(outcome: Message | Exception) -> range | BrokerError:
    client: Any = Client(outcome)
    blocks: list[range | BrokerError] = []
    AllocatedProducerIds(client, 3, lambda: 70, lambda: 0).reserve(blocks.append)
    ((request,), (block,)) = client.requests, blocks
    assert (request.broker_id, request.broker_epoch) == (3, 70)
    return block


def test_a_block() -> None:
    assert reserved(AllocateProducerIdsResponse(producer_id_start=4_000, producer_id_len=1_000)) == range(4_000, 5_000)


@pytest.mark.parametrize(
    "outcome",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AllocateProducerIdsResponse(producer_id_start=4_000, producer_id_len=0),
        AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1_000),
        AllocateProducerIdsResponse(producer_id_start=2**63 - 1_000, producer_id_len=1_000),
        RequestTimedOut("no controller"),
    ],
    ids=["refused", "empty", "negative", "beyond the last id", "no answer"],
)
def test_no_block(outcome: Message | Exception) -> None:
    block = reserved(outcome)
    assert isinstance(block, BrokerError)
    assert block.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
