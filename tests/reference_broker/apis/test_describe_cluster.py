"""DescribeCluster lists the brokers that the client can reach, and refuses endpoint types that only controllers list.

Method: send a table of requests, with Kafka's answers, to a broker without sockets; then ask a broker whose image has
several brokers.
"""

import pytest

from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of
from tests.reference_broker.apis.several_brokers import BROKERS, INSIDE
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_CLUSTER), ids=name_of)
def test_answers(bench, case):
    check(bench, case)


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLUSTER))
def test_several_brokers(bench, version):
    bench.core.metadata.publish(brokers=BROKERS, controller_id=3)
    response = bench.ask(DescribeClusterRequest(), version)
    found = [(each.broker_id, each.host, each.port, each.rack) for each in response.brokers]
    assert found == [(1, "broker", 9092, None), (2, "other", 9092, "east")]
    assert response.controller_id == 3, "the broker is listed whether or not the client can reach it"
    bench.core.metadata.publish(controller_id=NO_CONTROLLER_ID)
    bench.peer = INSIDE
    response = bench.ask(DescribeClusterRequest(), version)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [
        (number, f"inside{number}", 9093) for number in (1, 2, 3)
    ]
    assert response.controller_id == -1
