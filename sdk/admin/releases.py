"""The Apache Kafka releases that introduced the APIs and fields that an admin uses.

If a broker lacks an API or a field, the error says which release introduced it: `versioned` chooses the version of a
request, and adds the release to the error. The versions themselves are in `schemas/messages/`.

Source: the release notes of Apache Kafka; the KIPs next to the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from kafkawire.sdk.errors import UnsupportedVersion
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["versioned"]

#: For each API, the first release that supports a version known to kafkawire.
_APIS: Final[Mapping[int, str]] = MappingProxyType(
    {
        ApiKey.ALTER_CONFIGS: "0.11 or later",  # KIP-133
        ApiKey.DELETE_RECORDS: "0.11 or later",  # KIP-107
        ApiKey.INIT_PRODUCER_ID: "0.11 or later",  # KIP-98
        ApiKey.WRITE_TXN_MARKERS: "0.11 or later",  # KIP-98
        ApiKey.CREATE_PARTITIONS: "1.0 or later",  # KIP-195
        ApiKey.DELETE_GROUPS: "1.1 or later",  # KIP-229
        ApiKey.ALTER_REPLICA_LOG_DIRS: "2.0 or later",  # KIP-113; kafkawire does not have the first version, from 1.1
        ApiKey.DESCRIBE_LOG_DIRS: "2.0 or later",  # the same
        ApiKey.DELETE_GROUPS: "1.1 or later",  # KIP-229
        ApiKey.CREATE_DELEGATION_TOKEN: "2.0 or later",  # KIP-48; the same
        ApiKey.RENEW_DELEGATION_TOKEN: "2.0 or later",  # the same
        ApiKey.EXPIRE_DELEGATION_TOKEN: "2.0 or later",  # the same
        ApiKey.DESCRIBE_DELEGATION_TOKEN: "2.0 or later",  # the same
        ApiKey.ELECT_LEADERS: "2.2 or later",  # KIP-183
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3 or later",  # KIP-339
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4 or later",  # KIP-455
        ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4 or later",  # KIP-455
        ApiKey.OFFSET_DELETE: "2.4 or later",  # KIP-496
        ApiKey.DESCRIBE_CLUSTER: "2.8 or later",  # KIP-700
        ApiKey.DESCRIBE_PRODUCERS: "2.8 or later",  # KIP-664
        ApiKey.DESCRIBE_TRANSACTIONS: "3.0 or later",  # KIP-664
        ApiKey.LIST_TRANSACTIONS: "3.0 or later",  # KIP-664
        ApiKey.LIST_CONFIG_RESOURCES: "3.7 or later, without ZooKeeper",  # KIP-714, as ListClientMetricsResources
        ApiKey.UPDATE_FEATURES: "2.7 or later",  # KIP-584
        ApiKey.UNREGISTER_BROKER: "2.8 or later, without ZooKeeper",  # KIP-631
        ApiKey.DESCRIBE_QUORUM: "3.3 or later, without ZooKeeper",  # KIP-642; before, only controllers had it
        ApiKey.ALTER_CLIENT_QUOTAS: "2.6 or later",  # KIP-546
        ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6 or later",  # KIP-546
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7 or later; without ZooKeeper, 3.5 or later",  # KIP-554, KIP-900
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7 or later; without ZooKeeper, 3.5 or later",  # KIP-554, KIP-900
        ApiKey.STREAMS_GROUP_DESCRIBE: "4.1 or later",  # KIP-1071
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8 or later, without ZooKeeper",  # KIP-966
        ApiKey.SHARE_GROUP_DESCRIBE: "4.1 or later",  # KIP-932, as for the next three
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "4.1 or later",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: "4.1 or later",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: "4.1 or later",
    }
)

#: The first release with each field that not every version has, keyed by API and field.
_FIELDS: Final[Mapping[tuple[int, str], str]] = MappingProxyType(
    {
        (ApiKey.ELECT_LEADERS, "election_type"): "2.4 or later",  # KIP-460
        (ApiKey.LEAVE_GROUP, "members"): "2.4 or later",  # KIP-345
        (ApiKey.OFFSET_FETCH, "require_stable"): "2.5 or later",  # KIP-447
        (ApiKey.LIST_GROUPS, "states_filter"): "2.6 or later",  # KIP-518
        (ApiKey.DELETE_TOPICS, "topics"): "2.8 or later",  # KIP-516
        (ApiKey.LIST_GROUPS, "types_filter"): "3.8 or later",  # KIP-848
        (ApiKey.LIST_TRANSACTIONS, "duration_filter"): "3.8 or later",  # KIP-994
        (ApiKey.DESCRIBE_CLUSTER, "include_fenced_brokers"): "4.0 or later",  # KIP-1073
        (ApiKey.LIST_CONFIG_RESOURCES, "resource_types"): "4.1 or later",  # KIP-1142
        (ApiKey.LIST_TRANSACTIONS, "transactional_id_pattern"): "4.1 or later",  # KIP-1152
        (ApiKey.CREATE_DELEGATION_TOKEN, "owner_principal_name"): "3.3 or later",  # KIP-373
        (ApiKey.UPDATE_FEATURES, "validate_only"): "3.3 or later",  # KIP-778
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "allow_replication_factor_change"): "4.1 or later",  # KIP-860
    }
)


Asked = TypeVar("Asked", bound=Message)


def versioned(request: Asked, field_name: str | None = None) -> Callable[[Versions], tuple[Asked, int]]:
    """Return a function that chooses the version of a request for a broker, for use with `Operations.request`.

    Args:
        request: the request.
        field_name: a field in the table above that the version must have; None if no field matters.

    Returns:
        The function, which raises `UnsupportedVersion` with the first release that has the missing API or field.
    """
    kind = type(request)
    key, name = kind.SCHEMA.key, kind.SCHEMA.name.removesuffix("Request")
    assert key is not None  # a request has one

    def choose(versions: Versions) -> tuple[Asked, int]:
        try:
            version = versions.version_for(kind)
        except UnsupportedVersion as error:
            if key not in _APIS:  # every supported release has it
                raise
            raise UnsupportedVersion(f"{error}; this needs Apache Kafka {_APIS[key]}") from error
        if field_name is not None and not carries(kind, field_name, version):
            release = _FIELDS[key, field_name]
            text = f"the broker's highest version, {version}, has no {field_name}"
            raise UnsupportedVersion(f"{name}: {text}; this needs Apache Kafka {release}")
        return request, version

    return choose
