"""If a broker is too old for an operation, the error names the release of Apache Kafka that supports it.

Method: call a scripted broker that lacks an API or has an older version of it, with one case per entry in the tables.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.admin import releases
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import ItemResults, TopicPartitionReplica
from kafkawire.sdk.errors import UnsupportedVersion
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ElectionType
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

T0 = TopicPartition("t", 0)

REPLICA = TopicPartitionReplica("t", 0, 1)

Action = Callable[[Admin], Awaitable[object]]


async def all_of(results: Awaitable[ItemResults[Any, Any]]) -> object:
    """Raise the error from the first item that failed."""
    return (await results).all()


#: An operation that needs each API.
APIS: dict[ApiKey, Action] = {
    ApiKey.ALTER_CONFIGS: lambda admin: admin.alter_configs(ConfigResourceType.TOPIC, "t", {}),
    ApiKey.CREATE_PARTITIONS: lambda admin: admin.create_partitions({"t": 3}),
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda admin: all_of(admin.alter_replica_log_dirs({REPLICA: "/d"})),
    ApiKey.DESCRIBE_LOG_DIRS: lambda admin: all_of(admin.describe_log_dirs(1)),
    ApiKey.CREATE_DELEGATION_TOKEN: lambda admin: admin.create_delegation_token(),
    ApiKey.RENEW_DELEGATION_TOKEN: lambda admin: admin.renew_delegation_token(b"x"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda admin: admin.expire_delegation_token(b"x"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda admin: admin.describe_delegation_tokens(),
    ApiKey.ELECT_LEADERS: lambda admin: admin.elect_leaders(ElectionType.PREFERRED, all_partitions=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin: admin.incremental_alter_configs(ConfigResourceType.TOPIC, "t", {}),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda admin: admin.alter_partition_reassignments({T0: [1]}),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda admin: admin.list_partition_reassignments(),
    ApiKey.UPDATE_FEATURES: lambda admin: admin.update_features({"f": 1}),
    ApiKey.UNREGISTER_BROKER: lambda admin: admin.unregister_broker(7),
    ApiKey.DESCRIBE_QUORUM: lambda admin: admin.describe_metadata_quorum(),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda admin: admin.alter_client_quotas([]),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda admin: admin.describe_client_quotas(),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda admin: admin.alter_user_scram_credentials([]),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda admin: admin.describe_user_scram_credentials(),
    ApiKey.DELETE_GROUPS: lambda admin: all_of(admin.delete_share_groups("g")),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda admin: all_of(admin.describe_share_groups("g")),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda admin: admin.list_share_group_offsets("g"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda admin: admin.alter_share_group_offsets("g", {T0: 1}),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda admin: admin.delete_share_group_offsets("g", "t"),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda admin: all_of(admin.describe_streams_groups("g")),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda admin: admin.describe_topics("t", include_eligible_leaders=True),
    ApiKey.DELETE_RECORDS: lambda admin: all_of(admin.delete_records({T0: None})),
    ApiKey.DELETE_GROUPS: lambda admin: all_of(admin.delete_groups("g")),
    ApiKey.OFFSET_DELETE: lambda admin: all_of(admin.delete_group_offsets("g", T0)),
    ApiKey.DESCRIBE_CLUSTER: lambda admin: admin.describe_cluster(include_authorized_operations=True),
    ApiKey.DESCRIBE_PRODUCERS: lambda admin: all_of(admin.describe_producers(T0)),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda admin: all_of(admin.describe_transactions("x")),
    ApiKey.LIST_TRANSACTIONS: lambda admin: admin.list_transactions(),
    ApiKey.LIST_CONFIG_RESOURCES: lambda admin: admin.list_config_resources(),
    ApiKey.INIT_PRODUCER_ID: lambda admin: all_of(admin.fence_producers("x")),
    ApiKey.WRITE_TXN_MARKERS: lambda admin: admin.abort_transaction(T0, producer_id=1, producer_epoch=0),
}

#: For each field, the last version without it, and an operation that needs it.
FIELDS: dict[tuple[ApiKey, str], tuple[int, Action]] = {
    (ApiKey.ELECT_LEADERS, "election_type"): (
        0,
        lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, all_partitions=True),
    ),
    (ApiKey.CREATE_DELEGATION_TOKEN, "owner_principal_name"): (
        2,
        lambda admin: admin.create_delegation_token("User:alice"),
    ),
    (ApiKey.UPDATE_FEATURES, "validate_only"): (0, lambda admin: admin.update_features({"f": 1}, validate_only=True)),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "allow_replication_factor_change"): (
        0,
        lambda admin: admin.alter_partition_reassignments({T0: [1]}, allow_replication_factor_change=False),
    ),
    (ApiKey.LEAVE_GROUP, "members"): (2, lambda admin: all_of(admin.remove_group_members("g", "static"))),
    (ApiKey.OFFSET_FETCH, "require_stable"): (6, lambda admin: admin.list_group_offsets("g", require_stable=True)),
    (ApiKey.LIST_GROUPS, "states_filter"): (3, lambda admin: admin.list_groups(states=["Stable"])),
    (ApiKey.LIST_GROUPS, "types_filter"): (4, lambda admin: admin.list_groups(types=["consumer"])),
    (ApiKey.DELETE_TOPICS, "topics"): (5, lambda admin: admin.delete_topics(topic_ids=[ZERO_UUID])),
    (ApiKey.LIST_TRANSACTIONS, "duration_filter"): (0, lambda admin: admin.list_transactions(longer_than_ms=1)),
    (ApiKey.LIST_TRANSACTIONS, "transactional_id_pattern"): (1, lambda admin: admin.list_transactions(pattern="x.*")),
    (ApiKey.DESCRIBE_CLUSTER, "include_fenced_brokers"): (
        1,
        lambda admin: admin.describe_cluster(include_fenced_brokers=True),
    ),
    (ApiKey.LIST_CONFIG_RESOURCES, "resource_types"): (
        0,
        lambda admin: admin.list_config_resources(ConfigResourceType.TOPIC),
    ),
}


def test_every_entry_has_a_case() -> None:
    assert releases._APIS.keys() == APIS.keys()
    assert releases._FIELDS.keys() == FIELDS.keys()


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name.lower())
def test_an_api_that_the_broker_lacks(key: ApiKey) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        text = f"the broker does not support this API; this needs Apache Kafka {releases._APIS[key]}$"
        with pytest.raises(UnsupportedVersion, match=text):
            await APIS[key](admin)
        assert not broker.asked(key)

    administering(test, {key: -1})


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field[1])
def test_a_field_that_the_broker_lacks(field: tuple[ApiKey, str]) -> None:
    key, name = field
    last, action = FIELDS[field]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        has_none = f"the broker's highest version, {last}, has no {name}"
        with pytest.raises(UnsupportedVersion, match=f"{has_none}; this needs Apache Kafka {releases._FIELDS[field]}"):
            await action(admin)
        assert not broker.asked(key)

    administering(test, {key: last})
