"""ListGroups lists groups in every version, filtered by state and type in the versions that support this.

Method: ask a broker without sockets that has one stable and one empty group; then load a log with a group of each type.
"""

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.groups.share.records import group_value_record
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import commit, stable
from tests.reference_broker.broker_bench import versions_of


@pytest.fixture
def groups(bench):
    stable(bench, "busy")
    bench.create()
    commit(bench, 1, "empty")
    return bench


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_GROUPS))
def test_every_version(groups, version):
    listed = {group.group_id: group for group in groups.ask(ListGroupsRequest(), version).groups}
    assert set(listed) == {"busy", "empty"}
    assert (listed["busy"].protocol_type, listed["empty"].protocol_type) == ("consumer", "")
    assert listed["busy"].group_state == ("Stable" if version >= 4 else "")
    assert listed["busy"].group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], {"busy"}),
        (["empty", "dead"], [], {"empty"}),
        ([], ["Classic"], {"busy", "empty"}),
        ([], ["consumer"], set()),
        (["Stable"], ["consumer"], set()),
    ],
)
def test_filters(groups, states, types, expected):
    assert {group.group_id for group in groups.ask(ListGroupsRequest(states, types)).groups} == expected


def test_every_type_of_group_says_what_it_is(groups):
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    groups.ask(ConsumerGroupHeartbeatRequest("consumers", "m", 0, **joining))
    replicas = groups.core.replicas.of(groups.offsets_topic().name)
    key, value = StreamsGroupMetadataKey("streamers"), StreamsGroupMetadataValue(2)
    for group_id, record in (
        ("sharers", group_value_record("sharers", 2, 0)),
        ("streamers", CoordinatorRecord(key, value)),
    ):
        log = TopicLog(replicas[partition_of(group_id, len(replicas))])
        log.append([encode(record)], groups.now_ms, lambda end_offset: None)
    groups.core.groups.unload()
    groups.elect()
    while groups.core.groups.is_loading:
        groups.advance(0)
    assert {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in groups.ask(ListGroupsRequest()).groups
    } == {
        "busy": ("consumer", "Stable", "classic"),
        "empty": ("", "Empty", "classic"),
        "consumers": ("consumer", "Stable", "consumer"),
        "sharers": ("share", "Empty", "share"),
        "streamers": ("streams", "Empty", "streams"),
    }


def test_groups_that_are_not_loaded_yet_are_not_left_out_in_silence(groups):
    groups.core.groups.unload()
    groups.elect()
    answer = groups.ask(ListGroupsRequest())
    assert (answer.error_code, len(answer.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)
    while groups.core.groups.is_loading:
        groups.advance(0)
    answer = groups.ask(ListGroupsRequest())
    assert (answer.error_code, len(answer.groups)) == (ErrorCode.NONE, 2)
