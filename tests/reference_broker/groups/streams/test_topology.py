"""A topology is the same in a heartbeat, in the coordinator and in the record.

Method: convert a topology that has every field, and look up the topics of its subtopologies.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    topology_of,
    topology_value,
)
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Request

FULL = Topology(
    7,
    (
        Subtopology(
            "0",
            ("a", "b"),
            ("x.*",),
            (InternalTopic("c", 0, 2, (("cleanup.policy", "compact"),)),),
            ("out",),
            (InternalTopic("r", 3, 0, ()),),
            (CopartitionGroup((0, 1), (0,), (0,)),),
        ),
        Subtopology("1", (), (), (), (), (InternalTopic("out", 0, 0, ()),), ()),
    ),
)


def test_record_holds_everything() -> None:
    assert topology_of(topology_value(FULL)) == FULL


def test_heartbeat_holds_everything() -> None:
    changelog = Request.TopicInfo("c", 0, 2, [Request.KeyValue("cleanup.policy", "compact")])
    first = Request.Subtopology(
        "0",
        ["a", "b"],
        ["x.*"],
        [changelog],
        ["out"],
        [Request.TopicInfo("r", 3, 0, [])],
        [Request.CopartitionGroup([0, 1], [0], [0])],
    )
    second = Request.Subtopology("1", [], [], [], [], [Request.TopicInfo("out", 0, 0, [])], [])
    assert topology_of(Request.Topology(7, [first, second])) == FULL


def test_topics_of_subtopologies() -> None:
    assert FULL.required_topics == {"a", "b", "c", "r", "out"}
    assert list(FULL.subtopologies[0].names) == ["a", "b", "out", "r", "c"]
    assert FULL.readers == {"a": "0", "b": "0", "r": "0", "out": "1"}
