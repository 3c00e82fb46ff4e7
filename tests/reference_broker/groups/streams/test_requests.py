"""A heartbeat's fields are checked in Kafka's order, with Kafka's texts.

Method: check requests with one fault, and some with two; tests/kafka/test_streams_group_steps.py compares many
combinations with Apache Kafka.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.groups.streams.requests import check_heartbeat
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Request
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

Ids = Request.TaskIds("0", [0])
EMPTY: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
JOIN: dict[str, Any] = {"rebalance_timeout_ms": 1, "topology": Request.Topology(0, []), **EMPTY}


def topology(**fields: Any) -> Request.Topology:
    return Request.Topology(0, [Request.Subtopology("0", **fields)])


@pytest.mark.parametrize(
    ("epoch", "fields", "text"),
    [
        (0, {}, ""),
        (1, {}, ""),
        (-1, {}, ""),
        (0, {"instance_id": "i", "group_id": ""}, "Static membership is not yet supported."),
        (1, {"task_offsets": []}, "TaskOffsets are not supported yet."),
        (1, {"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        (0, {"warmup_tasks": [Ids]}, "WarmupTasks are not supported yet."),
        (
            0,
            {"topology": topology(source_topic_regex=["x"])},
            "Regular expressions for source topics are not supported yet.",
        ),
        (0, {"member_id": " ", "group_id": ""}, "MemberId can't be empty."),
        (-1, {"group_id": ""}, "GroupId can't be empty."),
        (1, {"rack_id": "\t"}, "RackId can't be empty."),
        (0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        (0, {"standby_tasks": [Ids]}, "StandbyTasks must be empty when (re-)joining."),
        (0, {"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        (0, {"topology": None}, "Topology must be non-null when (re-)joining."),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (1, {"active_tasks": []}, "If one task-type is non-null, all must be non-null."),
        (1, {"topology": Request.Topology(0, [])}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_faults(epoch: int, fields: dict[str, Any], text: str) -> None:
    identity = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    request = Request(**{**identity, **(JOIN if epoch == 0 else {}), **fields})
    if not text:
        check_heartbeat(request)
        return
    with pytest.raises(BrokerError) as raised:
        check_heartbeat(request)
    assert (raised.value.code, raised.value.detail) == (ErrorCode.INVALID_REQUEST, text)


def test_changelog_with_partitions() -> None:
    changelogs = topology(state_changelog_topics=[Request.TopicInfo("c", 2)])
    with pytest.raises(BrokerError, match="Changelog topic c must have an undefined partition count") as raised:
        check_heartbeat(Request("g", "m", 0, **{**JOIN, "topology": changelogs}))
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    ("subtopologies", "text"),
    [
        ([Request.Subtopology(f"{number}") for number in range(1_001)], "1001 subtopologies; the limit is 1000"),
        ([Request.Subtopology("0", ["t"] * 2_501)] * 2, "5002 names of topics; the limit is 5000"),
        (
            [Request.Subtopology("0", copartition_groups=[Request.CopartitionGroup([0], [], [0])] * 2_501)],
            "5002 names of topics; the limit is 5000",
        ),
    ],
)
def test_large_topologies(subtopologies: list[Request.Subtopology], text: str) -> None:
    with pytest.raises(BrokerError, match=text) as raised:
        check_heartbeat(Request("g", "m", 0, **{**JOIN, "topology": Request.Topology(0, subtopologies)}))
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
