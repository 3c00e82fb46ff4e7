"""Groups are listed, described whatever their members wrote, and deleted; members are removed from them.

Method: call scripted in-memory brokers with hand-built responses, then the reference broker with a group of each kind.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import GroupDescription, GroupMemberDescription
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.groups.consumer_protocol import encode_assignment
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsResponse
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupResponse
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.testing import Broker
from tests.sdk.admin.administering import Pair, administering
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
                    GroupMemberDescription(
                        "m1", "static", "me", "/127.0.0.1", (T0, T1), (T0,), 6, "consumer", rack="rack"
                    ),
                    GroupMemberDescription("m2", None, "you", "/::1", (), (T1,), 7, "classic"),
                    GroupMemberDescription("m3", None, "", "", (), (), 0, ""),
                ),
                "consumer",
                "consumer",
                7,
                6,
                coordinator_id=1,
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
            "h": GroupDescription("h", "Stable", "range", (described,), "classic", protocol_type, coordinator_id=1)
        }
        assert bool(broker.asked(ApiKey.CONSUMER_GROUP_DESCRIBE)) is not is_old

    administering(test, {ApiKey.CONSUMER_GROUP_DESCRIBE: -1} if is_old else {})  # before Apache Kafka 3.7


@pytest.mark.parametrize("last", [4, 5])
@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (
            [("g", "Share"), ("h", "streams")],
            "the group is a share group: use describe_share_groups",
        ),
        ([("g", "streams")], "the group is a streams group: use describe_streams_groups"),
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


def test_listing_passes_filters_on() -> None:
    kind = ListGroupsResponse.ListedGroup
    groups = [kind("b", "consumer", "Stable", "classic"), kind("a", "connect", "Empty", "classic"), kind("c")]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_GROUPS] = lambda request: ListGroupsResponse(groups=groups)
        listed = await admin.list_groups(states=["Stable"], types=["classic"], protocol_types=["consumer", ""])
        assert [group.group_id for group in listed] == ["b", "c"]
        assert [group.group_id for group in await admin.list_groups(protocol_types={"connect"})] == ["a"]
        asked: list[Any] = list(broker.asked(ApiKey.LIST_GROUPS))
        assert [(each.states_filter, each.types_filter) for each in asked] == [(("Stable",), ("classic",)), ((), ())]

    administering(test)


@pytest.mark.parametrize("types", [["classic"], ["classic", "consumer"]])
def test_a_broker_with_only_classic_groups_is_not_asked_for_types(types: list[str]) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        kind = ListGroupsResponse.ListedGroup
        broker.responders[ApiKey.LIST_GROUPS] = lambda request: ListGroupsResponse(groups=[kind("a", "consumer")])
        assert [group.group_id for group in await admin.list_groups(types=types)] == ["a"]

    administering(test, {ApiKey.LIST_GROUPS: 4})


def test_a_broker_that_does_not_list_its_groups() -> None:
    pair = Pair()
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    group = ListGroupsResponse.ListedGroup("a")
    pair.answer(
        ApiKey.LIST_GROUPS,
        lambda node_id, request: ListGroupsResponse(0, denied) if node_id == 2 else ListGroupsResponse(groups=[group]),
    )

    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match=r"^CLUSTER_AUTHORIZATION_FAILED: groups of node 2$") as caught:
            await admin.list_groups()
        assert caught.value.results is not None
        assert {node: [each.group_id for each in some] for node, some in caught.value.results.values.items()} == {
            1: ["a"]
        }

    pair.administering(test)


def test_groups_of_both_kinds_are_described_in_one_batch_for_each_coordinator() -> None:
    """The error has the groups that were described."""
    pair = Pair()
    pair.coordinators = {"new-2": 2, "gone": 2}

    def consumers(node_id: int, request: Any) -> Consumers:
        missing = ErrorCode.GROUP_ID_NOT_FOUND
        return Consumers(
            groups=[Consumers.DescribedGroup(0 if "new" in each else missing, None, each) for each in request.group_ids]
        )

    def classic(node_id: int, request: Any) -> Classic:
        missing = ErrorCode.GROUP_ID_NOT_FOUND
        return Classic(
            groups=[Classic.DescribedGroup(missing if each == "gone" else 0, None, each) for each in request.groups]
        )

    pair.answer(ApiKey.CONSUMER_GROUP_DESCRIBE, consumers)
    pair.answer(ApiKey.DESCRIBE_GROUPS, classic)
    pair.answer(ApiKey.LIST_GROUPS, lambda *_: ListGroupsResponse())

    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match=r"^GROUP_ID_NOT_FOUND: group gone$") as caught:
            await admin.describe_groups("gone", "old-1", "new-2", "new-1", include_authorized_operations=True)
        assert caught.value.results is not None
        found = {name: (each.group_type, each.coordinator_id) for name, each in caught.value.results.values.items()}
        assert found == {"old-1": ("classic", 1), "new-2": ("consumer", 2), "new-1": ("consumer", 1)}

    pair.administering(test)
    new, old = (pair.asked(key) for key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS))
    assert [[each.group_ids for each in new[node]] for node in (1, 2)] == [[("old-1", "new-1")], [("gone", "new-2")]]
    assert [[each.groups for each in old[node]] for node in (1, 2)] == [[("old-1",)], [("gone",)]]
    assert new[1][0].include_authorized_operations
    assert old[1][0].include_authorized_operations


def test_a_coordinator_too_old_to_say_what_is_allowed() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        group = Classic.DescribedGroup(0, None, "g", "Empty")
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: Classic(groups=[group])
        described = await admin.describe_groups("g", include_authorized_operations=True)
        assert described["g"].authorized_operations is None

    administering(test, {ApiKey.DESCRIBE_GROUPS: 2, ApiKey.CONSUMER_GROUP_DESCRIBE: -1})


def test_groups_are_deleted() -> None:
    kind = DeleteGroupsResponse.DeletableGroupResult
    script = [
        [kind("a"), kind("b", ErrorCode.NON_EMPTY_GROUP), kind("c", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
        [kind("c")],
    ]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_GROUPS] = lambda request: DeleteGroupsResponse(results=script.pop(0))
        results = await admin.delete_groups("a", "b", "c")
        assert results.values == {"a": None, "c": None}
        assert str(results.errors["b"]) == "NON_EMPTY_GROUP: group b"

    administering(test)


Left = LeaveGroupResponse


def test_members_are_removed() -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    members = [Left.MemberResponse("", "i"), Left.MemberResponse("", "j", unknown), Left.MemberResponse("m", None)]
    script = [Left(error_code=ErrorCode.NOT_COORDINATOR), Left(members=members)]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        assert await admin.remove_group_members("g", []) == ({}, {})
        assert await admin.remove_group_members("g", member_ids=[]) == ({}, {})
        broker.responders[ApiKey.LEAVE_GROUP] = lambda request: script.pop(0)
        results = await admin.remove_group_members("g", "i", "j", "k", "i", member_ids=["m"], reason="r" * 300)
        assert results.values == {"i": None, "m": None}
        assert {key: str(error) for key, error in results.errors.items()} == {
            "j": "UNKNOWN_MEMBER_ID: member j of group g",
            "k": "the response to LeaveGroup lacks member k",
        }
        asked: list[Any] = list(broker.asked(ApiKey.LEAVE_GROUP))
        assert [(each.member_id, each.group_instance_id) for each in asked[1].members] == [
            *(("", each) for each in "ijk"),
            ("m", None),
        ]
        assert {each.reason for each in asked[1].members} == {"r" * 255}
        script.append(Left(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        results = await admin.remove_group_members("g", "i", "j")
        text = "GROUP_AUTHORIZATION_FAILED: removal of members of group g"
        assert [str(error) for error in results.errors.values()] == [text, text]

    administering(test)


def test_all_members_are_removed() -> None:
    member = Classic.DescribedGroupMember
    members = [member("m1", "i"), member("m2", None)]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        group = Classic.DescribedGroup(0, None, "g", "Stable", "consumer", "range", members)
        broker.responders[ApiKey.DESCRIBE_GROUPS] = lambda request: Classic(groups=[group])
        found = [Left.MemberResponse("m1", "i"), Left.MemberResponse("m2", None)]
        broker.responders[ApiKey.LEAVE_GROUP] = lambda request: Left(members=found)
        assert (await admin.remove_group_members("g", all_members=True)).all() == {"i": None, "m2": None}
        members.clear()
        assert await admin.remove_group_members("g", all_members=True) == ({}, {})
        assert len(broker.asked(ApiKey.LEAVE_GROUP)) == 1

    administering(test)


def test_a_coordinator_that_removes_one_member_in_each_request() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.LEAVE_GROUP, lambda request: Left(), lambda request: Left(0, ErrorCode.UNKNOWN_MEMBER_ID))
        assert (await admin.remove_group_members("g", member_ids=["m"])).all() == {"m": None}
        results = await admin.remove_group_members("g", member_ids=["m"])
        assert str(results.errors["m"]) == "UNKNOWN_MEMBER_ID: removal of members of group g"
        asked: list[Any] = list(broker.asked(ApiKey.LEAVE_GROUP))
        assert asked[0].member_id == "m"

    administering(test, {ApiKey.LEAVE_GROUP: 2})
