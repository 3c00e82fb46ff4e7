"""StreamsGroupDescribe shows a group's topology, members and tasks.

Method: describe groups of a broker without sockets; the descriptions are compared with Apache Kafka's in
tests/kafka/test_streams_group_steps.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Beat
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.streams_of_one import JOIN, streams_bench, topology
from tests.reference_broker.broker_bench import BrokerBench, versions_of


@pytest.fixture
def streams(tmp_path: Path) -> BrokerBench:
    return streams_bench(tmp_path)


@pytest.mark.parametrize("version", versions_of(ApiKey.STREAMS_GROUP_DESCRIBE))
def test_group(streams: BrokerBench, version: int) -> None:
    epoch = streams.ask(Beat("g", "m", 0, topology=topology(), **JOIN)).member_epoch
    (before,) = streams.ask(StreamsGroupDescribeRequest(["g"]), version).groups
    assert (before.group_state, before.group_epoch) == ("NotReady", 2)
    assert before.topology.subtopologies[1].state_changelog_topics[0].partitions == 0
    streams.ask(Beat("g", "m", epoch))
    (group,) = streams.ask(StreamsGroupDescribeRequest(["g"], True), version).groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert group.authorized_operations > 0
    first, second = group.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == ("0", ("t",), ("app-r",))
    (changelog,) = second.state_changelog_topics
    assert (changelog.name, changelog.partitions, len(changelog.topic_configs)) == ("app-c", 3, 1)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.process_id, member.user_endpoint) == ("m", 3, "p", None)
    assert member.assignment == member.target_assignment
    assert [tuple(part.partitions) for part in member.assignment.active_tasks] == [(0, 1, 2)] * 2


def test_errors(streams: BrokerBench) -> None:
    empty, missing = streams.ask(StreamsGroupDescribeRequest(["", "x"], True)).groups
    assert (empty.group_id, empty.error_code) == ("", ErrorCode.INVALID_GROUP_ID)
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
    assert missing.authorized_operations < 0


def test_group_without_topology(streams: BrokerBench) -> None:
    streams.ask(Beat("g", "m", 0, topology=topology(), **JOIN))
    (group,) = streams.core.groups.streams_groups()
    group.topology = None
    assert streams.ask(StreamsGroupDescribeRequest(["g"])).groups[0].topology is None
