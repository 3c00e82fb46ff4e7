"""StreamsGroupHeartbeat creates the internal topics of an application, and assigns its tasks.

Method: send heartbeats to a broker without sockets. The coordinator's logic is tested in groups/streams/, and compared
with Apache Kafka's in tests/kafka/test_streams_group_steps.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Beat
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, StreamsGroupStatus
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.streams_of_one import JOIN, Info, Sub, streams_bench, topology
from tests.reference_broker.broker_bench import BrokerBench, versions_of


@pytest.fixture
def streams(tmp_path: Path) -> BrokerBench:
    return streams_bench(tmp_path)


@pytest.mark.parametrize("version", versions_of(ApiKey.STREAMS_GROUP_HEARTBEAT))
def test_internal_topics_are_created(streams: BrokerBench, version: int) -> None:
    first = streams.ask(Beat("g", "m", 0, topology=topology(), **JOIN), version)
    (status,) = first.status
    assert (first.error_code, status.status_code) == (ErrorCode.NONE, StreamsGroupStatus.MISSING_INTERNAL_TOPICS)
    assert status.status_detail == "Internal topics are missing: app-r, app-c"
    topics = streams.core.metadata.image.topics
    assert [len(topics[name].partitions) for name in ("app-r", "app-c")] == [3, 3]
    Resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = Resource(ConfigResourceType.TOPIC, "app-c", ["cleanup.policy"])
    (result,) = streams.ask(DescribeConfigsRequest([asked])).results
    assert result.configs[0].value == "compact"
    second = streams.ask(Beat("g", "m", first.member_epoch), version)
    assert second.status == ()
    assert [(part.subtopology_id, tuple(part.partitions)) for part in second.active_tasks] == [
        ("0", (0, 1, 2)),
        ("1", (0, 1, 2)),
    ]


def test_why_internal_topics_are_not_created(streams: BrokerBench) -> None:
    epoch = streams.ask(Beat("g", "m", 0, topology=topology(replication_factor=3), **JOIN)).member_epoch
    second = streams.ask(Beat("g", "m", epoch))
    (status,) = second.status
    assert status.status_detail.startswith("Internal topics are missing: app-c; Creation failed: app-c (Unable to")
    streams.now_ms += 2 * second.heartbeat_interval_ms
    (status,) = streams.ask(Beat("g", "m", second.member_epoch)).status
    assert status.status_detail == "Internal topics are missing: app-c"


@pytest.mark.parametrize("count", [3, 4, 5])
def test_few_errors_are_told(streams: BrokerBench, count: int) -> None:
    changelogs = [Info(f"app-{number}", 0, 3, []) for number in range(count)]
    wanted = topology(Sub("0", ["t"], [], changelogs, [], [], []))
    first = streams.ask(Beat("g", "m", 0, topology=wanted, **JOIN))
    (status,) = streams.ask(Beat("g", "m", first.member_epoch)).status
    end = "." if count == 3 else f" and {count - 3} more."
    assert status.status_detail.endswith(f"){end}")
    assert status.status_detail.count("Unable") == 3


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["__consumer_offsets", "a b"], "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology"),
        (["a b", "c/d", "t"], "Topic names a b,c/d are not valid topic names."),
    ],
)
def test_names_of_topics(streams: BrokerBench, names: list[str], text: str) -> None:
    join = Beat("g", "m", 0, topology=topology(Sub("0", names, [], [], [], [], [])), **JOIN)
    response = streams.ask(join)
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert response.error_message.startswith(text)


def test_errors(streams: BrokerBench) -> None:
    for request, code, text in (
        (Beat("", "m", 1), ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        (Beat("g", "m", 1), ErrorCode.GROUP_ID_NOT_FOUND, "Streams group g not found."),
        (Beat("g", "m", -1), ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    ):
        response = streams.ask(request)
        assert (response.error_code, response.error_message) == (code, text)


def test_tasks_are_known_only_if_all_roles_are_sent(streams: BrokerBench) -> None:
    epoch = streams.ask(Beat("g", "m", 0, topology=topology(), **JOIN)).member_epoch
    epoch = streams.ask(Beat("g", "m", epoch)).member_epoch
    tags, endpoint = [Beat.KeyValue("zone", "a")], Beat.Endpoint("h", 80)
    owned = {"active_tasks": [Beat.TaskIds("0", [3])], "standby_tasks": [], "warmup_tasks": []}
    refused = streams.ask(Beat("g", "m", epoch, **owned, client_tags=tags, user_endpoint=endpoint))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "Task 3 for subtopology 0 is invalid" in refused.error_message
    assert not streams.ask(Beat("g", "m", epoch, client_tags=tags, user_endpoint=endpoint)).error_code
    (member,) = streams.ask(StreamsGroupDescribeRequest(["g"])).groups[0].members
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "a")]
    assert (member.user_endpoint.host, member.user_endpoint.port) == ("h", 80)
