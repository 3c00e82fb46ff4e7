"""The cluster is described by Metadata; only its operations and fenced brokers need DescribeCluster.

Method: call a scripted in-memory broker. test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

import pytest

from kafkawire import AclOperation, Address, ClusterBroker
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import ClusterDescription
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker


def test_metadata_suffices() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id, [*cluster.brokers]) == ("scripted", 1, [1])
        assert cluster.authorized_operations is None
        assert broker.asked(ApiKey.DESCRIBE_CLUSTER) == []

    administering(test)


def test_operations_and_fenced_brokers() -> None:
    kind = DescribeClusterResponse.DescribeClusterBroker
    brokers = [kind(1, "one", 9092, "rack"), kind(2, "two", 9093, None, True)]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CLUSTER] = lambda request: DescribeClusterResponse(
            cluster_id="c", controller_id=-1, brokers=brokers, cluster_authorized_operations=1 << AclOperation.ALTER
        )
        assert await admin.describe_cluster(
            include_authorized_operations=True, include_fenced_brokers=True
        ) == ClusterDescription(
            "c",
            None,
            {
                1: ClusterBroker(1, Address("one", 9092), "rack"),
                2: ClusterBroker(2, Address("two", 9093), None, is_fenced=True),
            },
            frozenset({AclOperation.ALTER}),
        )
        await admin.describe_cluster(include_authorized_operations=True)
        asked = [each for each in broker.asked(ApiKey.DESCRIBE_CLUSTER) if isinstance(each, DescribeClusterRequest)]
        assert [(each.include_cluster_authorized_operations, each.include_fenced_brokers) for each in asked] == [
            (True, True),
            (True, False),
        ]

    administering(test)


def test_a_refusal() -> None:
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CLUSTER] = lambda request: DescribeClusterResponse(0, code, "said the broker")
        with pytest.raises(BrokerError, match=r"^UNSUPPORTED_ENDPOINT_TYPE: cluster: said the broker$"):
            await admin.describe_cluster(include_fenced_brokers=True)

    administering(test)
