"""DescribeUserScramCredentials shows mechanisms and iterations, as in the release that the broker imitates.

Method: `quota_cases.py` has the answers of Apache Kafka 4.3, which `test_alter_client_quotas.py` checks. The
tests here cover what differs in a cluster, according to the source of 3.9.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.quota_cases import comparable
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

CREDENTIAL = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=5000"
Name = DescribeUserScramCredentialsRequest.UserName


def test_a_cluster() -> None:
    bench, store = BrokerBench(MemoryDisk()), KeptEntityConfigs(is_registry=True)
    bench.use(entity_configs=store)
    store.set(ConfigEntity("bob"), producer_byte_rate=5, **{"SCRAM-SHA-512": CREDENTIAL})
    store.set(ConfigEntity("alice"), **{"SCRAM-SHA-256": CREDENTIAL})
    store.set(ConfigEntity("carol"), producer_byte_rate=5)
    store.set(ConfigEntity("dave"), **{"SCRAM-SHA-256": "damaged"})
    store.set(ConfigEntity("alice", "app"), **{"SCRAM-SHA-512": CREDENTIAL})
    store.set(ConfigEntity(DEFAULT), producer_byte_rate=5)
    response = bench.ask(DescribeUserScramCredentialsRequest(None))
    assert [each.user for each in response.results] == ["alice", "bob"]
    assert comparable(response)[1]["alice"] == (0, "", [(1, 5000)])
    asked = [Name("alice"), Name(""), Name(""), Name("carol"), Name("bob"), Name("bob")]
    assert comparable(bench.ask(DescribeUserScramCredentialsRequest(asked))) == (
        "",
        {
            "alice": (0, "", [(1, 5000)]),
            "": (ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty", []),
            "carol": (
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to describe a user credential that does not exist: carol",
                [],
            ),
            "bob": (
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
                [],
            ),
        },
    )
