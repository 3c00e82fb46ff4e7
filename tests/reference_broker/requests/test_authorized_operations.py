"""A client that asks for its authorized operations is told that it may perform all of them.

Method: compare with the numbers that Apache Kafka 4.3.0 returns without an authorizer; the tests of Metadata,
DescribeGroups and ConsumerGroupDescribe in `apis/` cover their place in responses.
"""

from kafkawire.reference_broker.requests.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
)


def test_numbers():
    assert (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 3400, 8096)
