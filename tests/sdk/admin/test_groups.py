"""Consumer and classic groups are described, whatever their members wrote; the error for any other type names the type.

Method: call a scripted in-memory broker with handmade responses, then the reference broker with a group of each kind.
"""

from __future__ import annotations

import re

import pytest

from kafkawire import sync
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import GroupDescription, GroupMemberDescription
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.groups.consumer_protocol import encode_assignment
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.testing import Broker
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker, topic_id_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Consumers = ConsumerGroupDescribeResponse
Classic = DescribeGroupsResponse


def assigned(*numbers: int) -> ConsumerGroupDescribeResponse.Assignment:
    return Consumers.Assignment([Consumers.TopicPartitions(topic_id_of("t"), "t", list(numbers))] if numbers else [])


def test_a_group_by_kip_848() -> None:
    members = [
        Consumers.Member("m1", "static", "rack", 6, "me", "/127.0.0.1", ["t"], None, assigned(0, 1), assigned(0), 1),
        Consumers.Member("m2", None, None, 7, "you", "/::1", [], "t.*", assigned(), assigned(1), 0),
        Consumers.Member("m3", member_type=-1),
    ]
    group = Consumers.DescribedGroup(0, None, "g", "Reconciling", 7, 6, "uniform", members)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda request: Consumers(groups=[group])
        assert await admin.describe_groups("g") == {
            "g": GroupDescription(
                "g",
                "Reconciling",
                "uniform",
                (
                    GroupMemberDescription("m1", "static", "me", "/127.0.0.1", (T0, T1), (T0,), 6, "consumer"),
                    GroupMemberDescription("m2", None, "you", "/::1", (), (T1,), 7, "classic"),
                    GroupMemberDescription("m3", None, "", "", (), (), 0, ""),
                ),
                "consumer",
                "consumer",
                7,
                6,
            )
        }
        assert broker.asked(ApiKey.DESCRIBE_GROUPS) == []

    administering(test)


LATER = (99).to_bytes(2, "big") + encode_assignment([T0])[2:] + b"later fields"
OF_NO_VERSION = b"\xff\xff" + encode_assignment([T0])[2:]
CUT_OFF = encode_assignment([T0])[:-2]


@pytest.mark.parametrize(
    ("protocol_type", "data", "assignment", "other"),
    [
        ("consumer", encode_assignment([T0]), (T0,), b""),
        ("", encode_assignment([T0]), (T0,), b""),
        ("consumer", b"", (), b""),
        ("consumer", b"\0", (), b""),
        ("consumer", b"\0\1", (), b""),
        ("consumer", LATER, (T0,), b""),  # read as the newest known version
        ("consumer", OF_NO_VERSION, (), OF_NO_VERSION),
        ("consumer", CUT_OFF, (), CUT_OFF),
        ("connect", encode_assignment([T0]), (), encode_assignment([T0])),
    ],
)
@pytest.mark.parametrize("is_old", [False, True])
def test_a_classic_group(
    protocol_type: str, data: bytes, assignment: tuple[TopicPartition, ...], other: bytes, is_old: bool
) -> None:
    member = Classic.DescribedGroupMember("m", "static", "me", "/127.0.0.1", b"\7", data)
    group = Classic.DescribedGroup(0, None, "h", "Stable", protocol_type, "range", [member])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: Classic(groups=[group])
        described = GroupMemberDescription(
            "m", "static", "me", "/127.0.0.1", assignment, group_protocol="classic", other_assignment=other
        )
        assert await admin.describe_groups("h") == {
            "h": GroupDescription("h", "Stable", "range", (described,), "classic", protocol_type)
        }
        assert bool(broker.asked(ApiKey.CONSUMER_GROUP_DESCRIBE)) is not is_old

    administering(test, {ApiKey.CONSUMER_GROUP_DESCRIBE: -1} if is_old else {})  # before Apache Kafka 3.7


@pytest.mark.parametrize("last", [4, 5])
@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (
            [("g", "Share"), ("h", "streams")],
            "the group is a share group; only consumer and classic groups can be described",
        ),
        ([("g", "streams")], "the group is a streams group; only consumer and classic groups can be described"),
        ([("g", "classic"), ("h", "share")], None),  # created meanwhile
        ([], None),
    ],
)
@pytest.mark.parametrize("refused", [(ErrorCode.GROUP_ID_NOT_FOUND, ""), (ErrorCode.NONE, "Dead")])
def test_a_group_that_cannot_be_described(
    listed: list[tuple[str, str]], said: str | None, refused: tuple[int, str], last: int
) -> None:
    """Coordinators before Apache Kafka 4.0 report unknown groups as dead."""
    code, state = refused
    kind = ListGroupsResponse.ListedGroup

    def groups(request: Request) -> ListGroupsResponse:
        types = {group_id: group_type if last == 5 else "" for group_id, group_type in listed}
        return ListGroupsResponse(groups=[kind(group_id, group_type=each) for group_id, each in types.items()])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_GROUPS] = groups
        group = Classic.DescribedGroup(code, "Group g is not a classic group." if code else None, "g", state)
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: Classic(groups=[group])
        text = ": ".join(filter(None, ("GROUP_ID_NOT_FOUND: group g", said if last == 5 else None)))
        with pytest.raises(BrokerError, match=f"^{re.escape(text)}$"):
            await admin.describe_groups("g")
        (asked,) = broker.asked(ApiKey.LIST_GROUPS)
        assert tuple(asked.types_filter) == (("share", "streams") if last == 5 else ())  # type: ignore[attr-defined]  # every ListGroups has it

    administering(test, {ApiKey.LIST_GROUPS: last})


def test_a_refusal_is_not_taken_for_another_kind() -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def test(broker: StoringBroker, admin: Admin) -> None:
        consumers = Consumers(groups=[Consumers.DescribedGroup(code, "said the broker", "g")])
        broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, lambda request: consumers)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED: group g: said the broker"):
            await admin.describe_groups("g")
        classic = Classic(groups=[Classic.DescribedGroup(code, None, "g")])
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: classic
        with pytest.raises(BrokerError, match=r"GROUP_AUTHORIZATION_FAILED: group g$"):
            await admin.describe_groups("g")
        broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, lambda request: Consumers())
        with pytest.raises(RemoteProtocolError, match="ConsumerGroupDescribe lacks group g"):
            await admin.describe_groups("g")
        assert broker.asked(ApiKey.LIST_GROUPS) == []

    administering(test)


def test_the_reference_broker_has_both() -> None:
    with Broker(ephemeral=True) as broker, sync.Admin(broker.bootstrap) as admin:
        with sync.Producer(broker.bootstrap) as producer:
            producer.send("t", b"x").result()
        with (
            sync.Consumer(broker.bootstrap, "t", group_id="new", group_protocol="consumer") as new,
            sync.Consumer(broker.bootstrap, "t", group_id="old") as old,
        ):
            for consumer in (new, old):
                while not consumer.assignment:
                    consumer.getmany(timeout_ms=100)
            described = admin.describe_groups(["new", "old"])
        assert [(group.group_type, group.state) for group in described.values()] == [
            ("consumer", "Stable"),
            ("classic", "Stable"),
        ]
        for group in described.values():
            (member,) = group.members
            assert (member.assignment, member.group_protocol) == ((T0,), group.group_type)
        with pytest.raises(BrokerError, match=r"GROUP_ID_NOT_FOUND: group nobody$"):
            admin.describe_groups("nobody")
