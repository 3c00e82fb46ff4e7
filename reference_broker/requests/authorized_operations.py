"""The operations that a client may perform on a topic, a group or the cluster, as responses report them.

Bit n of each number stands for AclOperation n.

Source: `AuthHelper.authorizedOperations`, `AclEntry.supportedOperations` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "TOPIC_OPERATIONS", "authorized_operations"]


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_ON_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

TOPIC_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    *_ON_CONFIGS,
)

GROUP_OPERATIONS: Final = _bits(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_ON_CONFIGS)

CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_ON_CONFIGS,
)

_SUPPORTED: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}

#: In Apache Kafka 3.9, groups had no configurations that ACLs could protect.
_SUPPORTED_IN_CLUSTERS: Final[Mapping[ResourceType, int]] = {
    **_SUPPORTED,
    ResourceType.GROUP: GROUP_OPERATIONS & ~_bits(*_ON_CONFIGS),
}


def authorized_operations(authorizer: Authorizer, call: Call, resource_type: ResourceType, name: str) -> int:
    """Return the operations that a client may perform on a resource.

    Args:
        authorizer: decides.
        call: the context of the request.
        resource_type: TOPIC, GROUP or CLUSTER.
        name: the name of the resource.
    """
    supported = (_SUPPORTED_IN_CLUSTERS if authorizer.is_registry else _SUPPORTED)[resource_type]
    if authorizer.acls is None:
        return supported
    return sum(
        1 << operation
        for operation in AclOperation
        if supported >> operation & 1
        and authorizer.allows(call, operation, resource_type, name, logs_allowed=False, logs_denied=False)
    )
