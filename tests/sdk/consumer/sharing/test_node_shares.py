"""Acknowledgements for one broker wait for a while, replace each other, and are not sent if they cannot succeed.

Method: fill and empty the state of one broker directly.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, Acquired, Ledger
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.consumer.sharing.node_shares import ACKNOWLEDGE_LINGER_MS, NodeShares
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.simulation import backoff

LEDGER = Ledger(lambda: None, lambda: 0, is_explicit=True)
T0 = TopicIdPartition(b"i" * 16, "t", 0)
U0 = TopicIdPartition(b"u" * 16, "u", 0)


def acknowledgement(
    offset: int, partition: TopicIdPartition = T0, until_ms: int = 30_000, **given: Any
) -> Acknowledgement:
    acquired = Acquired(partition, 1, 10, until_ms, 30_000, LEDGER)
    return Acknowledgement(acquired, offset, offset, given.pop("type", AcknowledgeType.ACCEPT), **given)


def test_acknowledgements_wait_unless_they_are_urgent() -> None:
    node = NodeShares(1, backoff())
    assert node.due_ms is None
    node.add(acknowledgement(0), 1_000)
    node.add(acknowledgement(1), 1_050)
    assert node.due_ms == 1_000 + ACKNOWLEDGE_LINGER_MS
    node.add(acknowledgement(2, type=AcknowledgeType.RENEW, renewal=Promise()), 1_060)
    assert node.due_ms == 1_000
    ready, failed = node.take(1_060, lambda partition: False)
    assert [each.first for each in ready[T0]] == [0, 1, 2]
    assert (failed, node.due_ms) == ([], None)


def test_what_comes_after_urgent_acknowledgements_waits_again() -> None:
    node = NodeShares(1, backoff())
    node.add(acknowledgement(0, type=AcknowledgeType.RENEW, renewal=Promise()), 1_000)
    node.take(1_000, lambda partition: False)
    node.add(acknowledgement(1), 2_000)
    assert node.due_ms == 2_000 + ACKNOWLEDGE_LINGER_MS


def test_a_later_acknowledgement_replaces_an_earlier_one() -> None:
    node = NodeShares(1, backoff())
    renewal = acknowledgement(0, renewal=Promise())
    accepted = Acknowledgement(renewal.acquired, 0, 0, AcknowledgeType.ACCEPT)
    assert node.add(renewal, 0) is None
    assert node.add(accepted, 0) is renewal
    assert node.add_again(renewal, 0) is accepted, "what came later is sent"
    assert list(node.unsettled()) == [accepted]
    node.take(0, lambda partition: False)
    assert node.add_again(renewal, 0) is None


def test_what_cannot_succeed_is_not_sent() -> None:
    node = NodeShares(1, backoff())
    late, lost, sound, moved = (
        acknowledgement(0, until_ms=1_000),
        acknowledgement(1),
        acknowledgement(2),
        acknowledgement(0, U0),
    )
    lost.acquired.is_lost = True
    for each in (late, lost, sound, moved):
        node.add(each, 0)
    ready, failed = node.take(1_000, lambda partition: partition == U0)
    assert ready == {T0: [sound]}
    found = {each.acknowledgements[0]: each.error for each in failed}
    assert found.keys() == {late, lost, moved}
    codes = [error.code for error in found.values() if isinstance(error, BrokerError)]
    assert sorted(codes) == sorted(
        [ErrorCode.INVALID_RECORD_STATE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_known", [False, True])
def test_an_acknowledgement_of_a_former_delivery_does_not_replace_that_of_the_next(
    order: tuple[int, int], is_known: bool
) -> None:
    """The broker may have delivered the record again before this client's clock says that the lock has run out."""
    node = NodeShares(1, backoff())
    given = []
    for delivery_count in (1, 2):
        acquired = Acquired(T0, 1, 10, 30_000, 30_000, LEDGER)
        delivery = ShareDelivery[Any, Any](Record(0, 0, None, b"v", topic="t", partition=0), delivery_count, acquired)
        given.append(Acknowledgement(acquired, 0, 0, AcknowledgeType.ACCEPT, delivery))
    given[0].acquired.is_lost = is_known
    for index in order:
        assert node.add(given[index], 0) is None
    ready, (failed,) = node.take(0, lambda partition: False)
    assert ready == {T0: [given[1]]}
    assert failed.acknowledgements == [given[0]]


def test_a_request_lands_and_partitions_have_names() -> None:
    node = NodeShares(1, backoff())
    node.want(T0)
    assert node.partition(b"i" * 16, 3) == TopicIdPartition(b"i" * 16, "t", 3)
    assert node.partition(b"x" * 16, 3).topic == ""
    node.is_fetching, node.sent = True, {T0: [acknowledgement(0)]}
    assert node.landed().keys() == {T0}
    assert (node.in_flight, node.is_fetching, node.sent) == (None, False, {})
    node.add(acknowledgement(0), 0)
    node.drop()
    assert (list(node.unsettled()), node.due_ms) == ([], None)
