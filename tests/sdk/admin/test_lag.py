"""The lag of a group covers what it has committed and what its members have; what is unknown is None, with the reason.

Method: call scripted in-memory brokers with hand-built responses, then the reference broker with a consumer.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import PartitionLag
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.consumer_protocol import encode_assignment
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.testing import Broker
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Classic = messages.DescribeGroupsResponse


def group(*members: Classic.DescribedGroupMember, code: int = 0) -> Classic:
    return Classic(groups=[Classic.DescribedGroup(code, None, "g", "Stable", "consumer", "range", list(members))])


def test_committed_and_assigned_partitions() -> None:
    member = Classic.DescribedGroupMember("m", None, "me", "/127.0.0.1", b"", encode_assignment([T1]))

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: group(member)
        broker.fill("t", b"a", b"b", b"c")
        broker.fill("t", b"a", partition=1)
        broker.commits = {("g", "t", 0): 1, ("g", "gone", 0): 5, ("other", "t", 1): 1}
        lag = await admin.lag("g")
        assert (lag.group.group_id, lag.group.state, lag.total) == ("g", "Stable", 2)
        gone = lag.partitions.pop(TopicPartition("gone", 0))
        assert lag.partitions == {
            T0: PartitionLag(OffsetAndMetadata(1), 3, 2, None, None),
            T1: PartitionLag(None, 1, None, lag.group.members[0], None),
        }
        assert gone[:4] == (OffsetAndMetadata(5), None, None, None)
        assert str(gone.error) == "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0"

    administering(test)


def test_a_group_that_is_rebalancing() -> None:
    """The members have no partitions yet, but the group's offsets are known."""
    members = [Classic.DescribedGroupMember(member_id, None, "me", "/127.0.0.1") for member_id in ("m1", "m2")]
    described = Classic.DescribedGroup(0, None, "g", "PreparingRebalance", "consumer", "", members)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: Classic(groups=[described])
        broker.fill("t", b"a", b"b")
        broker.commits = {("g", "t", 0): 1}
        lag = await admin.lag("g")
        assert (lag.group.state, len(lag.group.members)) == ("PreparingRebalance", 2)
        assert lag.partitions == {T0: PartitionLag(OffsetAndMetadata(1), 2, 1, None, None)}

    administering(test)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_group_that_cannot_be_described(code: ErrorCode) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: group(code=code)
        broker.responders[ApiKey.LIST_GROUPS] = lambda request: messages.ListGroupsResponse()
        with pytest.raises(BrokerError, match=f"^{code.name}: group g$"):
            await admin.lag("g")

    administering(test)


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_a_consumer_on_the_reference_broker(group_protocol: Any) -> None:
    with Broker(ephemeral=True) as broker, sync.Admin(broker.bootstrap) as admin:
        with sync.Producer(broker.bootstrap) as producer:
            producer.send_many("t", [b"x"] * 5)
            producer.flush()
        options: Any = {"group_id": "g", "group_protocol": group_protocol, "auto_offset_reset": "earliest"}
        with sync.Consumer(broker.bootstrap, "t", **options) as consumer:
            while not consumer.assignment:
                consumer.getmany(timeout_ms=100)
            consumer.commit({T0: 2})
            found = admin.lag("g").partitions[T0]
            assert (found.end_offset, found.lag) == (5, 3)
            assert found.member is not None
            assert found.member.client_id == "kafkawire"
