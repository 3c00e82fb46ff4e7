"""Build requests from the schemas alone, and list the APIs that are safe to call on a production broker.

A request has two shapes: `defaults` (nothing is set; most APIs return empty lists or an error) and `filled` (every
    array has one element, and values are chosen by field name). Filled requests are used only for APIs that change
    nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Api, Field, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_REPLICA_ID,
    FINAL_FETCH_SESSION_EPOCH,
    Acks,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

__all__ = ["READ_ONLY", "UNSAFE", "Names", "requests"]

#: APIs that are not called, and why.
UNSAFE = {
    ApiKey.SASL_HANDSHAKE: "changes which requests the connection expects next",
    ApiKey.SASL_AUTHENTICATE: "ends the connection without a handshake before it",
    ApiKey.UNREGISTER_BROKER: "removes a broker",
    ApiKey.ADD_RAFT_VOTER: "changes the quorum",
    ApiKey.REMOVE_RAFT_VOTER: "changes the quorum",
    ApiKey.UPDATE_RAFT_VOTER: "changes the quorum",
    ApiKey.ELECT_LEADERS: "elects leaders of all partitions by default",
    ApiKey.UPDATE_FEATURES: "changes the features of the cluster",
    ApiKey.CREATE_DELEGATION_TOKEN: "creates a credential",
    ApiKey.ALLOCATE_PRODUCER_IDS: "takes a block of producer ids, and is for brokers",
    ApiKey.BROKER_REGISTRATION: "is for brokers",
    ApiKey.BROKER_HEARTBEAT: "is for brokers",
    ApiKey.CONTROLLER_REGISTRATION: "is for controllers",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "is for brokers",
    ApiKey.ALTER_PARTITION: "is for brokers",
    ApiKey.VOTE: "is for controllers",
    ApiKey.BEGIN_QUORUM_EPOCH: "is for controllers",
    ApiKey.END_QUORUM_EPOCH: "is for controllers",
    ApiKey.ENVELOPE: "is for brokers",
    ApiKey.ADD_PARTITIONS_TO_TXN: "gets no response from Kafka if it lists no transactions",
}

#: APIs that never change anything; these also get filled requests.
READ_ONLY = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.HEARTBEAT,
    }
)

#: Fields that need a particular value to make the request harmless or well-formed, keyed by message and field.
_VALUES: dict[tuple[str, str], Any] = {
    ("MetadataRequest", "allow_auto_topic_creation"): False,
    ("FetchRequest", "max_wait_ms"): 0,
    ("FetchRequest", "max_bytes"): 1 << 20,
    ("FetchRequest", "replica_id"): CONSUMER_REPLICA_ID,
    ("FetchRequest", "session_epoch"): FINAL_FETCH_SESSION_EPOCH,
    ("FetchRequest", "partition_max_bytes"): 1 << 16,
    ("ProduceRequest", "acks"): Acks.LEADER,
    ("ListOffsetsRequest", "replica_id"): CONSUMER_REPLICA_ID,
    ("OffsetForLeaderEpochRequest", "replica_id"): CONSUMER_REPLICA_ID,
    ("DescribeAclsRequest", "resource_type_filter"): ResourceType.ANY,
    ("DescribeAclsRequest", "pattern_type_filter"): PatternType.ANY,
    ("DescribeAclsRequest", "operation"): AclOperation.ANY,
    ("DescribeAclsRequest", "permission_type"): AclPermissionType.ANY,
    ("ApiVersionsRequest", "client_software_name"): "kafkawire",
    ("ApiVersionsRequest", "client_software_version"): "0",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The names in filled requests; topic and group need not exist.

    Attributes:
        topic: a topic's name.
        group: a group's id.
    """

    topic: str = "kafkawire-conformance"
    group: str = "kafkawire-conformance"


def requests(api: Api, version: int, names: Names) -> Iterator[tuple[str, Message]]:
    """Yield the requests for an API in a version, each with the name of its shape.

    Args:
        api: not one of `UNSAFE`.
        version: a version that this release knows.
        names: the topic and group to name in the requests.

    Raises:
        KeyError: the API is in `UNSAFE`.
    """
    if api.key in UNSAFE:
        raise KeyError(f"{api.name} is not safe to call: it {UNSAFE[ApiKey(api.key)]}")
    message = message_class(f"{api.name}Request")
    yield "defaults", _fill(message, message.SCHEMA.name, version, names, filled=False)
    if api.key in READ_ONLY:
        yield "filled", _fill(message, message.SCHEMA.name, version, names, filled=True)


def _fill(owner: type[Message], root: str, version: int, names: Names, *, filled: bool) -> Message:
    message = owner()
    for field in owner.FIELDS:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if (root, field.name) in _VALUES:
            value = _VALUES[root, field.name]
        elif filled and field.tag is None and not (field.ignorable and field.nullable):
            value = _value(field, root, version, names)
        setattr(message, field.name, value)
    return message


def _value(field: Field, root: str, version: int, names: Names) -> Any:
    """Return a harmless value: a group or topic for a field that names one, otherwise the default."""
    if isinstance(field.type, type):
        value: Any = _fill(field.type, root, version, names, filled=True)
    elif field.type == "string":
        value = names.group if "group" in field.name else names.topic if "topic" in field.name else None
        value = value if value is not None else (None if field.nullable else names.topic)
    else:
        value = field.default if not field.array else 0 if field.type in ("int8", "int16", "int32", "int64") else None
    if not field.array:
        return value
    return () if value is None else (value,)
