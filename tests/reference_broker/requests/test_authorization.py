"""A missing right has Kafka's error and text; every type of configuration is protected by the resource it belongs to.

Method: ask on behalf of a client that has the rights that a test names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kafkawire.reference_broker.requests.authorization import (
    allows_on_cluster,
    describable_topics,
    not_authorized,
    require_on_cluster,
    require_on_configs,
)
from kafkawire.reference_broker.security.authorizer import NoAuthorizer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AclOperation, ConfigResourceType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SEE = AclOperation.DESCRIBE_CONFIGS
Right = tuple[AclOperation, ResourceType, str]


class Api(NamedTuple):
    name: str = "Fetch"


class Call(NamedTuple):
    api: Api = Api()


class Rights(NoAuthorizer):
    """Allows only the given operations; remembers the questions that are logged if the answer is no."""

    def __init__(self, *rights: Right) -> None:
        super().__init__()
        self.acls: Any = object()
        self.logged: list[Right] = []
        self._rights = rights

    def allows(
        self, requester: object, operation: AclOperation, resource_type: ResourceType, name: str, **logs: Any
    ) -> bool:
        asked = operation, resource_type, name
        if logs.get("logs_denied", True):
            self.logged.append(asked)
        return asked in self._rights


call: Any = Call()
CLUSTER: Right = (SEE, ResourceType.CLUSTER, "kafka-cluster")


def test_rights_to_the_cluster() -> None:
    assert allows_on_cluster(Rights(CLUSTER), call, SEE)
    require_on_cluster(Rights(CLUSTER), call, SEE)
    rights = Rights()
    assert not allows_on_cluster(rights, call, SEE, logs_denied=False)
    assert rights.logged == []
    with pytest.raises(BrokerError) as caught:
        require_on_cluster(rights, call, SEE)
    assert (caught.value.code, caught.value.detail) == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Request Fetch needs DESCRIBE_CONFIGS permission.",
    )
    assert rights.logged == [CLUSTER]


@pytest.mark.parametrize(
    ("kind", "protected"),
    [
        (ConfigResourceType.TOPIC, (ResourceType.TOPIC, "x")),
        (ConfigResourceType.GROUP, (ResourceType.GROUP, "x")),
        *(
            (each, CLUSTER[1:])
            for each in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)
        ),
    ],
)
def test_configurations(kind: ConfigResourceType, protected: tuple[ResourceType, str]) -> None:
    require_on_configs(Rights((SEE, *protected)), call, SEE, kind, "x")
    for has_text in (True, False):
        with pytest.raises(BrokerError) as caught:
            require_on_configs(Rights(), call, SEE, kind, "x", has_text=has_text)
        wanted = not_authorized(protected[0])
        assert (caught.value.code, caught.value.detail) == (wanted.code, wanted.detail if has_text else "")


def test_every_type_of_configuration_is_protected() -> None:
    for kind in ConfigResourceType:
        if kind != ConfigResourceType.UNKNOWN:
            with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED"):
                require_on_configs(Rights(), call, SEE, kind, "x")


def test_topics_that_the_client_has_not_named() -> None:
    assert describable_topics(NoAuthorizer(), call) is None
    may_see = describable_topics(rights := Rights((AclOperation.DESCRIBE, ResourceType.TOPIC, "a")), call)
    assert may_see is not None
    assert [name for name in ("a", "b") if may_see(name)] == ["a"]
    assert rights.logged == []
