"""Blocks of producer ids are consecutive, are stored as Apache Kafka stores them, and are refused to unknown brokers.

Method: send requests to the controller of a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.producer_ids import BLOCK_SIZE
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.registry import Delete, Operation, RegistryCode, SetData
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster

PATH = "/latest_producer_id_block"

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


def allocate(cluster: Cluster, broker_id: int = 0, epoch_step: int = 0) -> AllocateProducerIdsResponse:
    responses: list[AllocateProducerIdsResponse] = []
    epoch = cluster.brokers[0].epoch + epoch_step
    cluster.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id, epoch), responses.append)
    cluster.settle()
    (response,) = responses
    return response


def test_blocks_follow_each_other() -> None:
    cluster = Cluster(0)
    assert BLOCK_SIZE == 1000
    assert allocate(cluster) == AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)
    assert cluster.tree.nodes[PATH].data == b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert allocate(cluster) == AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)


@pytest.mark.parametrize(
    ("broker_id", "epoch_step", "code"),
    [(9, 0, ErrorCode.BROKER_ID_NOT_REGISTERED), (0, -1, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_unknown_brokers_get_none(broker_id: int, epoch_step: int, code: ErrorCode) -> None:
    cluster = Cluster(0)
    assert allocate(cluster, broker_id, epoch_step).error_code == code
    assert cluster.tree.nodes[PATH].data == b""


def test_the_next_controller_goes_on() -> None:
    cluster = Cluster(1, 0)
    assert allocate(cluster).producer_id_start == 0
    cluster.kill(1)
    assert cluster.controller is cluster.brokers[0].controller
    assert allocate(cluster).producer_id_start == BLOCK_SIZE


@pytest.mark.parametrize(("refusals", "code"), [(ATTEMPTS_MAX - 1, ErrorCode.NONE), (ATTEMPTS_MAX, FAILED)])
def test_other_programs_that_write_at_the_same_time(refusals: int, code: ErrorCode) -> None:
    cluster = Cluster(0)
    left = refusals

    def error_of(operation: Operation) -> RegistryCode | None:
        nonlocal left
        left -= isinstance(operation, SetData)
        return RegistryCode.BAD_VERSION if isinstance(operation, SetData) and left >= 0 else None

    cluster.brokers[0].registry.error_of = error_of
    assert allocate(cluster).error_code == code


def test_a_node_that_cannot_be_written() -> None:
    cluster = Cluster(0)
    cluster.brokers[0].registry.error_of = lambda each: RegistryCode.NO_AUTH if isinstance(each, SetData) else None
    assert allocate(cluster).error_code == FAILED
    assert cluster.controller.is_active


def test_a_node_that_is_missing() -> None:
    cluster = Cluster(0)
    cluster.tree.change(Delete(PATH), 0)
    assert allocate(cluster).error_code == FAILED
    assert cluster.controller.is_active


LAST = b'{"version":1,"broker":0,"block_start":"1","block_end":"9223372036854775000"}'


@pytest.mark.parametrize("content", [b"{", b'{"version":1}', LAST])
def test_an_unusable_block_ends_nothing(content: bytes) -> None:
    cluster = Cluster(0)
    cluster.tree.change(SetData(PATH, content), 0)
    assert allocate(cluster).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.controller.is_active
    assert cluster.tree.nodes[PATH].data == content
