"""Whoever asks what may be done is told all that there is.

Method: a broker without sockets; the numbers are those of an Apache Kafka 4.3.0 without an authorizer.
"""

import pytest

from kafkawire.reference_broker.authorized_operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from tests.reference_broker.apis.group_of_one import stable

Topic = MetadataRequest.MetadataRequestTopic

NOT_ASKED = -(2**31)


def test_numbers():
    assert (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 3400, 8096)


@pytest.mark.parametrize("version", [8, 10, 13])
def test_topics_and_the_cluster(bench, version):
    bench.create()
    names = ["t", "none", "a b", "new"]
    request = MetadataRequest([Topic(name=name) for name in names], include_topic_authorized_operations=True)
    request.include_cluster_authorized_operations = version <= 10
    response = bench.ask(request, version)
    assert [topic.topic_authorized_operations for topic in response.topics] == [TOPIC_OPERATIONS] * len(names)
    assert response.cluster_authorized_operations == (CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED)


def test_topics_without_a_name_and_those_that_are_not_asked_about(bench):
    topic_id = bench.create()
    request = MetadataRequest([Topic(topic_id, None), Topic(b"x" * 16, None)], include_topic_authorized_operations=True)
    known, unknown = bench.ask(request).topics
    assert (known.topic_authorized_operations, unknown.topic_authorized_operations) == (TOPIC_OPERATIONS, NOT_ASKED)
    assert bench.ask(MetadataRequest([Topic(name="t")])).topics[0].topic_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(("version", "of_none"), [(3, GROUP_OPERATIONS), (5, GROUP_OPERATIONS), (6, NOT_ASKED)])
def test_classic_groups(bench, version, of_none):
    stable(bench)
    asked = bench.ask(DescribeGroupsRequest(["g", "none"], True), version).groups
    assert [group.authorized_operations for group in asked] == [GROUP_OPERATIONS, of_none]
    not_asked = bench.ask(DescribeGroupsRequest(["g"]), version).groups
    assert [group.authorized_operations for group in not_asked] == [NOT_ASKED]


def test_consumer_groups(bench):
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    bench.ask(ConsumerGroupHeartbeatRequest("g", "m", **joining), 1)
    asked = bench.ask(ConsumerGroupDescribeRequest(["g", "none"], True)).groups
    assert [group.authorized_operations for group in asked] == [GROUP_OPERATIONS, NOT_ASKED]
    not_asked = bench.ask(ConsumerGroupDescribeRequest(["g"])).groups
    assert [group.authorized_operations for group in not_asked] == [NOT_ASKED]
