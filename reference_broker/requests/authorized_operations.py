"""The operations that a client may perform on a topic, a group or the cluster: all, since there is no authorizer.

Bit n of each number stands for AclOperation n.

Source: `AuthHelper.authorizedOperations`, `AclEntry.supportedOperations` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "TOPIC_OPERATIONS"]


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
