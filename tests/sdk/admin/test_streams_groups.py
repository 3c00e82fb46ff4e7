"""Streams groups are described whole, and each group has its own error.

Method: call a scripted in-memory broker with hand-built responses, then the reference broker with a group.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.streams_group_descriptions import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
    StreamsTopic,
)
from kafkawire.sdk.errors import BrokerError, UnsupportedVersion
from kafkawire.sdk.protocol.connection import ClientConnection, Request
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse as Response
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Beat
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

NO_TASKS = StreamsTasks((), (), ())


def described(group_id: str) -> Response.DescribedGroup:
    """Return a group with everything that a group may have, or one with nothing."""
    if group_id != "full":
        return Response.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.", group_id)
    Ids = Response.TaskIds
    changelog = Response.TopicInfo("c", 2, 3, [Response.KeyValue("cleanup.policy", "compact")])
    part = Response.Subtopology("0", ["t"], ["out"], [changelog], [Response.TopicInfo("r", 2, 0, [])])
    assignment = Response.Assignment([Ids("0", [0, 1])], [Ids("1", [2])], [Ids("2", [3])])
    endpoint, tags = Response.Endpoint("h", 80), [Response.KeyValue("zone", "a")]
    member = Response.Member("m", 7, "i", "rack", "me", "/h", 4, "p", endpoint, tags, [], [], assignment)
    other = Response.Member("n", is_classic=True)
    return Response.DescribedGroup(0, None, group_id, "Stable", 8, 7, Response.Topology(4, [part]), [member, other])


FULL = StreamsGroupDescription(
    "full",
    "Stable",
    4,
    (
        StreamsSubtopology(
            "0",
            ("t",),
            ("out",),
            (StreamsTopic("c", 2, 3, {"cleanup.policy": "compact"}),),
            (StreamsTopic("r", 2, 0, {}),),
        ),
    ),
    (
        StreamsMemberDescription(
            "m",
            "i",
            "rack",
            "me",
            "/h",
            "p",
            4,
            ("h", 80),
            {"zone": "a"},
            7,
            StreamsTasks((StreamsTask("0", 0), StreamsTask("0", 1)), (StreamsTask("1", 2),), (StreamsTask("2", 3),)),
            NO_TASKS,
            False,
        ),
        StreamsMemberDescription("n", None, None, "", "", "", 0, None, {}, 0, NO_TASKS, NO_TASKS, True),
    ),
    8,
    7,
)


def test_groups_and_errors() -> None:
    def answer(request: Request) -> Response:
        message: Any = request.message
        return Response(groups=[described(group_id) for group_id in message.group_ids])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.STREAMS_GROUP_DESCRIBE] = answer
        found = await admin.describe_streams_groups("missing", "full")
        assert found.values == {"full": FULL}
        (error,) = found.errors.values()
        assert str(error) == "GROUP_ID_NOT_FOUND: streams group missing: Group missing not found."
        with pytest.raises(BrokerError):
            found.all()

    administering(test)


def test_one_request_for_each_coordinator() -> None:
    """Only a group whose error may pass is asked about again."""
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def answer(request: Request) -> Response:
        names: list[str] = list(request.message.group_ids)
        asked.append(names)
        code = codes.pop(0)
        return Response(
            groups=[Response.DescribedGroup(code if each == "loading" else 0, None, each) for each in names]
        )

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.STREAMS_GROUP_DESCRIBE] = answer
        found = (await admin.describe_streams_groups("a", "loading", "b")).all()
        assert list(found) == ["a", "loading", "b"]

    asked: list[list[str]] = []
    administering(test)
    assert asked == [["a", "loading", "b"], ["loading"]]


def test_group_without_topology() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        group = Response.DescribedGroup(0, None, "g", "Empty", topology=None)
        broker.responders[ApiKey.STREAMS_GROUP_DESCRIBE] = lambda request: Response(groups=[group])
        (found,) = (await admin.describe_streams_groups(["g"])).all().values()
        assert (found.topology_epoch, found.subtopologies, found.members) == (None, (), ())

    administering(test)


def test_older_brokers() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        found = await admin.describe_streams_groups("g")
        assert isinstance(found.errors["g"], UnsupportedVersion)
        assert "this needs Apache Kafka 4.1 or later" in str(found.errors["g"])

    administering(test, {ApiKey.STREAMS_GROUP_DESCRIBE: -1})


def test_reference_broker() -> None:
    with Broker(ephemeral=True) as broker, sync.Admin(broker.bootstrap) as admin:
        topology = Beat.Topology(0, [Beat.Subtopology("0", ["missing"])])
        tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        join = Beat("g", "m", 0, topology=topology, rebalance_timeout_ms=1_000, process_id="p", **tasks)
        admin.list_group_offsets("g")  # waits for the coordinator
        host, _, port = broker.bootstrap.rpartition(":")
        frames, connection = FrameSocket(host, int(port), 10), ClientConnection("test")
        frames.send(*connection.request(join, 0).parts)
        joined: Any = connection.receive(frames.receive()).message
        assert joined.error_code == ErrorCode.NONE
        frames.close()
        found = admin.describe_streams_groups("g").all()["g"]
    assert (found.state, found.topology_epoch, [member.member_id for member in found.members]) == ("NotReady", 0, ["m"])
