"""DescribeClientQuotas lists quotas, and never credentials; it behaves as in the release that the broker imitates.

Method: `quota_cases.py` has the answers of Apache Kafka 4.3, which `test_alter_client_quotas.py` checks. The
tests here cover the answers in a cluster, and stores that another program has written.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.quota_cases import comparable
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs


def test_a_cluster() -> None:
    bench, store = BrokerBench(MemoryDisk()), KeptEntityConfigs(is_registry=True)
    bench.use(entity_configs=store)
    store.set(ConfigEntity("alice"), producer_byte_rate="5", other="x", **{"SCRAM-SHA-256": "salt="})
    store.set(ConfigEntity("bob"), **{"SCRAM-SHA-256": "salt="})
    store.set(ConfigEntity("carol"), producer_byte_rate="fast")
    store.set(ConfigEntity(DEFAULT, "app"), request_percentage="2.0E7")
    for version in versions_of(ApiKey.DESCRIBE_CLIENT_QUOTAS):
        assert comparable(bench.ask(DescribeClientQuotasRequest([]), version)) == (
            "",
            {
                frozenset({("user", "alice")}): {"producer_byte_rate": 5.0},
                frozenset({("user", None), ("client-id", "app")}): {"request_percentage": 2e7},
            },
        )
    response = bench.ask(DescribeClientQuotasRequest([DescribeClientQuotasRequest.ComponentData("", 0, "a")]))
    text = "Unexpected empty filter component entity type"
    assert (response.error_code, response.error_message, response.entries) == (ErrorCode.INVALID_REQUEST, text, None)
