"""What handlers ask about the cluster itself, and the errors for what a client may not do.

Handlers ask the authorizer directly about topics, groups and transactional ids, and give each the answer that Kafka
gives; see `Authorizer`.

Source: `AuthHelper.authorizeClusterOperation`, `Errors` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import CLUSTER_NAME
from kafkawire.sdk.protocol.tables.enums import AclOperation, ConfigResourceType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "allows_on_cluster",
    "describable_topics",
    "not_authorized",
    "readable_topics",
    "require_on_cluster",
    "require_on_configs",
]

#: The error for each type of resource, with the text that Kafka gives it where an answer has room for one.
_ERRORS: Final[Mapping[ResourceType, tuple[ErrorCode, str]]] = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}


#: The resources whose configurations belong to the cluster.
_OF_CLUSTER: Final = frozenset(
    {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS}
)


def allows_on_cluster(authorizer: Authorizer, call: Call, operation: AclOperation, *, logs_denied: bool = True) -> bool:
    """Return whether a client may perform an operation on the cluster; see `Authorizer.allows`."""
    return authorizer.allows(call, operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=logs_denied)


def require_on_cluster(
    authorizer: Authorizer, call: Call, operation: AclOperation, *, names_operation: bool = True
) -> None:
    """Check that a client may perform an operation on the cluster.

    Args:
        authorizer: decides.
        call: the context of the request.
        operation: the operation.
        names_operation: whether the error says which operation is missing, as it does for some of Kafka's APIs.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, if it may not.
    """
    if not allows_on_cluster(authorizer, call, operation):
        if not names_operation:
            raise not_authorized(ResourceType.CLUSTER)
        # Kafka's text also contains addresses of objects in its memory.
        reason = f"Request {call.api.name} needs {operation.name} permission."
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)


def not_authorized(resource_type: ResourceType) -> BrokerError:
    """Return the error for an operation that a client may not perform.

    Args:
        resource_type: the type of the resource: TOPIC, GROUP, CLUSTER or TRANSACTIONAL_ID.
    """
    return BrokerError(*_ERRORS[resource_type])


def require_on_configs(
    authorizer: Authorizer, call: Call, operation: AclOperation, kind: int, name: str, *, has_text: bool = True
) -> None:
    """Check that a client may see or change the configurations of a resource.

    The configurations of brokers and of client metrics belong to the cluster. Types that do not exist are refused
    elsewhere.

    Args:
        authorizer: decides.
        call: the context of the request.
        operation: DESCRIBE_CONFIGS or ALTER_CONFIGS.
        kind: the type of the resource (see `ConfigResourceType`).
        name: the name of the resource.
        has_text: whether the error has a text.

    Raises:
        BrokerError: the error for a topic, a group or the cluster, if the client may not.
    """
    if kind == ConfigResourceType.TOPIC:
        protected = ResourceType.TOPIC
    elif kind == ConfigResourceType.GROUP:
        protected = ResourceType.GROUP
    elif kind in _OF_CLUSTER:
        protected, name = ResourceType.CLUSTER, CLUSTER_NAME
    else:
        return
    if not authorizer.allows(call, operation, protected, name):
        error = not_authorized(protected)
        raise error if has_text else BrokerError(error.code)


def describable_topics(authorizer: Authorizer, call: Call) -> Callable[[str], bool] | None:
    """Return a function that tells whether a client may describe a topic; None if it may describe all of them.

    The function is for topics that the client has not named itself.
    """
    if authorizer.acls is None:
        return None
    return lambda name: authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=False)


def readable_topics(authorizer: Authorizer, call: Call) -> Callable[[str], bool]:
    """Return a function that tells whether a client may read a topic; it asks once for each topic of a request."""
    return cache(lambda name: authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, name))
