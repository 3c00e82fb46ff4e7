"""DescribeShareGroupOffsets shows where a share group starts, and how far it lags behind the end.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.share_bench import ShareBench
from tests.reference_broker.apis.share_offsets import answered, describe
from tests.reference_broker.broker_bench import versions_of


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    bench.produce_values(b"a", b"b", b"c", b"d")
    bench.fetch()
    bench.acknowledge(1, (0, 0, [1]), (2, 2, [1]))
    return bench


def parts(group):
    return {
        (topic.topic_name, part.partition_index): (part.start_offset, part.leader_epoch, part.lag, part.error_code)
        for topic in group.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS))
def test_all_partitions(bench, version):
    group = describe(bench, version=version)
    assert (group.group_id, group.error_code) == ("g", ErrorCode.NONE)
    # The start is as of the last write, and the records that are complete after it do not count.
    lag = 2 if version else -1
    assert parts(group) == {("t", 0): (0, 0, lag, 0), ("t", 1): (-1, 0, -1, 0)}
    assert group.topics[0].topic_id == bench.topic_id


def test_some_partitions(bench):
    group = describe(bench, {"t": [0, 7], "u": [3]})
    assert parts(group) == {("t", 0): (0, 0, 2, 0), ("t", 7): (-1, 0, -1, 0), ("u", 3): (-1, 0, -1, 0)}
    assert group.topics[-1].topic_id == ZERO_UUID


def test_other_groups(bench):
    group = describe(bench, group_id="none")
    assert (group.error_code, list(group.topics)) == (ErrorCode.NONE, [])
    assert parts(describe(bench, {"t": [0]}, group_id="none")) == {("t", 0): (-1, 0, -1, 0)}
    assert list(answered(bench, DescribeShareGroupOffsetsRequest([]), 1).groups) == []


def test_a_partition_without_a_leader(bench):
    bench.core.replicas.get("t", 0).log.close()
    assert parts(describe(bench, {"t": [0]}))["t", 0][3] in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
