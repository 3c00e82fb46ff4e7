"""UnregisterBroker removes the only registration until the next start, as Apache Kafka does.

Method: send the requests of `admin_cases.py`, with Kafka's answers, to a broker without sockets; restart it.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.admin_cases import admin_cases
from tests.reference_broker.apis.asked_bench import check_admin
from tests.reference_broker.apis.asked_cases import Case, name_of
from tests.reference_broker.broker_bench import BrokerBench


@pytest.fixture
def bench() -> BrokerBench:
    """A standalone broker."""
    return BrokerBench(MemoryDisk())


@pytest.mark.parametrize("case", admin_cases(ApiKey.UNREGISTER_BROKER), ids=name_of)
def test_answers(bench: BrokerBench, case: Case) -> None:
    check_admin(bench, case)


def test_the_only_broker(bench: BrokerBench) -> None:
    bench.create("t")
    assert bench.ask(UnregisterBrokerRequest(1)).error_code == ErrorCode.NONE
    cluster = bench.ask(DescribeClusterRequest())
    assert (cluster.brokers, cluster.controller_id) == ((), -1)
    metadata = bench.ask(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")]))
    assert metadata.brokers == ()
    assert metadata.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    again = bench.ask(UnregisterBrokerRequest(1))
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    bench.restart()
    assert [broker.broker_id for broker in bench.ask(DescribeClusterRequest()).brokers] == [1]
