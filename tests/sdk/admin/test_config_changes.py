"""A configuration change is sent to the broker that accepts it, in its API's form; an error names the resource.

Method: call two scripted in-memory brokers with hand-built responses. test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import ConfigChange
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.admin.administering import Pair, administering
from tests.sdk.scripted_broker import StoringBroker

BROKER, LOGGER, TOPIC = ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.TOPIC

RESPONSES: dict[ApiKey, Any] = {
    ApiKey.ALTER_CONFIGS: messages.AlterConfigsResponse,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: messages.IncrementalAlterConfigsResponse,
}

ACTIONS: dict[ApiKey, Callable[[Admin, ConfigResourceType, str], Awaitable[None]]] = {
    ApiKey.ALTER_CONFIGS: lambda admin, kind, name: admin.alter_configs(kind, name, {"a": "1"}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin, kind, name: admin.incremental_alter_configs(kind, name, {"a": "1"}),
}

EACH = pytest.mark.parametrize("key", ACTIONS, ids=lambda key: key.name.lower())


def altered(key: ApiKey, *codes: int) -> Callable[[Request], Message]:
    """Answer with an error code for each resource; resources without one are left out."""
    kind = RESPONSES[key]

    def respond(request: Request) -> Message:
        asked = zip(request.message.resources, codes, strict=False)
        response: Message = kind(
            responses=[
                kind.AlterConfigsResourceResponse(code, "no", each.resource_type, each.resource_name)
                for each, code in asked
            ]
        )
        return response

    return respond


@pytest.mark.parametrize("validate_only", [False, True])
def test_entries_are_changed(validate_only: bool) -> None:
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    set_to, delete, append = AlterConfigOperation.SET, AlterConfigOperation.DELETE, AlterConfigOperation.APPEND

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = altered(key, 0)
        changes = [ConfigChange("cleanup.policy", "compact", append), ConfigChange("a", "1")]
        await admin.incremental_alter_configs(TOPIC, "t", {"a": "1", "b": None}, validate_only=validate_only)
        await admin.incremental_alter_configs(TOPIC, "t", changes)
        asked = []
        for request in broker.asked(key):
            assert isinstance(request, messages.IncrementalAlterConfigsRequest)
            (resource,) = request.resources
            assert (resource.resource_type, resource.resource_name) == (TOPIC, "t")
            entries = [(each.name, each.config_operation, each.value) for each in resource.configs]
            asked.append((request.validate_only, entries))
        assert asked == [
            (validate_only, [("a", set_to, "1"), ("b", delete, None)]),
            (False, [("cleanup.policy", append, "compact"), ("a", set_to, "1")]),
        ]

    administering(test)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_configuration_is_replaced(validate_only: bool) -> None:
    key = ApiKey.ALTER_CONFIGS

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = altered(key, 0)
        await admin.alter_configs(TOPIC, "t", {"a": "1", "b": "2"}, validate_only=validate_only)
        (request,) = broker.asked(key)
        assert isinstance(request, messages.AlterConfigsRequest)
        (resource,) = request.resources
        assert [(each.name, each.value) for each in resource.configs] == [("a", "1"), ("b", "2")]
        assert request.validate_only is validate_only

    administering(test)


@EACH
@pytest.mark.parametrize("kind", [BROKER, LOGGER], ids=["broker", "logger"])
def test_what_belongs_to_one_broker_is_changed_there(key: ApiKey, kind: ConfigResourceType) -> None:
    pair = Pair()
    for broker in pair.brokers.values():
        broker.responders[key] = altered(key, 0)

    async def test(admin: Admin) -> None:
        for name in ("2", "1", "2"):
            await ACTIONS[key](admin, kind, name)

    pair.administering(test)
    asked: dict[int, list[Any]] = {node_id: broker.asked(key) for node_id, broker in pair.brokers.items()}
    names = {node_id: [each.resources[0].resource_name for each in several] for node_id, several in asked.items()}
    assert names == {1: ["1"], 2: ["2", "2"]}


@EACH
@pytest.mark.parametrize(("kind", "name"), [(BROKER, ""), (TOPIC, "t")], ids=["defaults", "topic"])
def test_any_broker_changes_the_rest(key: ApiKey, kind: ConfigResourceType, name: str) -> None:
    """The only broker that the admin can reach is not the controller."""
    pair = Pair()
    pair.controller_id = 2
    pair.brokers[2].stop()
    pair.brokers[1].network.servers.pop(Pair.ADDRESSES[2])
    pair.brokers[1].responders[key] = altered(key, 0)
    pair.administering(lambda admin: ACTIONS[key](admin, kind, name))
    assert len(pair.brokers[1].asked(key)) == 1


@EACH
def test_a_change_that_is_refused(key: ApiKey) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        for code in (ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            broker.script(key, altered(key, code))
            with pytest.raises(BrokerError, match=f"^{code.name}: configuration of topic t: no$"):
                await ACTIONS[key](admin, TOPIC, "t")
        assert len(broker.asked(key)) == 2

    administering(test)


@EACH
def test_a_response_that_lacks_the_resource(key: ApiKey) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[key] = altered(key)
        with pytest.raises(RemoteProtocolError, match="AlterConfigs lacks the configuration of topic t"):
            await ACTIONS[key](admin, TOPIC, "t")

    administering(test)
