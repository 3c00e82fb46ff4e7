"""Hands out blocks of producer ids to brokers.

Source: `ZkProducerIdManager`, `ProducerIdsBlock` in Apache Kafka; KIP-730.
"""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.cluster.controller.context import Context
from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock
from kafkawire.sdk.registry.registry import RegistryCode, RegistryError
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps, read, set_data

__all__ = ["BLOCK_SIZE", "allocate"]

#: Producer ids per block, as in Apache Kafka.
BLOCK_SIZE: Final = 1000

_PRODUCER_ID_MAX: Final = (1 << 63) - 1


def allocate(context: Context, request: AllocateProducerIdsRequest) -> Steps[AllocateProducerIdsResponse]:
    """Store the next block for a broker.

    Args:
        context: holds the epochs of the brokers.
        request: a broker's request.

    Raises:
        Refused: no block is left, or the node cannot be written.
        DamagedZnode: the last block cannot be read, so the next one is unknown.
    """
    broker = context.brokers.get(request.broker_id)
    if broker is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    path = PRODUCER_ID_BLOCK.path()
    # During an upgrade, brokers running older releases also write this node.
    for _ in range(ATTEMPTS_MAX):
        data = yield from read(path)
        if data is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"the node {path} does not exist")
        begin = PRODUCER_ID_BLOCK.decode(data.data, path).block_end + 1 if data.data else 0
        if begin > _PRODUCER_ID_MAX - BLOCK_SIZE:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"no block of producer ids is left after {begin}")
        content = PRODUCER_ID_BLOCK.encode(ProducerIdBlock(request.broker_id, begin, begin + BLOCK_SIZE - 1))
        try:
            yield from set_data(path, content, data.stat.version)
        except RegistryError as error:
            if error.code is not RegistryCode.BAD_VERSION:
                raise
        else:
            return AllocateProducerIdsResponse(producer_id_start=begin, producer_id_len=BLOCK_SIZE)
    raise Refused(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"another program changed {path} during each of {ATTEMPTS_MAX} attempts"
    )
