"""Each broker describes its own configuration, and any broker the rest; the resources of a call fail independently.

Method: call two scripted in-memory brokers with hand-built responses. test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import ConfigResource, ConfigResourceType, ConfigSource, ConfigSynonym, ConfigType
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.config_entries import config_entries
from kafkawire.sdk.admin.descriptions import ConfigEntry
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from tests.sdk.admin.administering import Pair

Described = messages.DescribeConfigsResponse
Listed = messages.ListConfigResourcesResponse

T, U = (ConfigResource(ConfigResourceType.TOPIC, name) for name in "tu")
DEFAULTS, ONE, TWO = (ConfigResource(ConfigResourceType.BROKER, name) for name in ("", "1", "2"))
LOGGER = ConfigResource(ConfigResourceType.BROKER_LOGGER, "2")


def described(node_id: int, request: Any) -> Described:
    """Answer with one entry for each resource, whose value is the node id; u is unknown, and v is left out."""
    results = []
    for each in request.resources:
        synonyms = [Described.DescribeConfigsSynonym("log.a", "0", ConfigSource.DEFAULT_CONFIG)]
        entry = Described.DescribeConfigsResourceResult(
            "a", str(node_id), False, ConfigSource.TOPIC_CONFIG, False, synonyms, ConfigType.INT, "meaning"
        )
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each.resource_name == "u" else ErrorCode.NONE
        text = "said the broker" if code else None
        kind = Described.DescribeConfigsResult
        results.append(kind(code, text, each.resource_type, each.resource_name, [] if code else [entry]))
    return Described(results=[each for each in reversed(results) if each.resource_name != "v"])


def test_resources_of_several_brokers() -> None:
    pair = Pair()
    pair.answer(ApiKey.DESCRIBE_CONFIGS, described)

    async def test(admin: Admin) -> None:
        results = await admin.describe_configs_of(TWO, U, ONE, LOGGER, DEFAULTS, T, include_synonyms=True)
        assert [*results.values] == [TWO, ONE, LOGGER, DEFAULTS, T]
        values = {resource: entries["a"].value for resource, entries in results.values.items()}
        assert (values[ONE], values[TWO], values[LOGGER]) == ("1", "2", "2")
        assert {key: str(error) for key, error in results.errors.items()} == {
            U: "UNKNOWN_TOPIC_OR_PARTITION: configuration of topic u: said the broker"
        }

    pair.administering(test)
    asked = [each for requests in pair.asked(ApiKey.DESCRIBE_CONFIGS).values() for each in requests]
    names = sorted(tuple(resource.resource_name for resource in request.resources) for request in asked)
    assert names == [("1",), ("2", "2"), ("u", "", "t")]
    assert {(request.include_synonyms, request.include_documentation) for request in asked} == {(True, False)}


def test_what_only_a_newer_broker_knows_stays_a_number() -> None:
    synonyms = [Described.DescribeConfigsSynonym("log.a", "0", 77)]
    entry = Described.DescribeConfigsResourceResult("a", "1", False, 88, False, synonyms, 99)
    found = config_entries([entry])["a"]
    assert (found.synonyms[0].source, found.source, found.config_type) == (77, 88, 99)


def test_everything_about_an_entry() -> None:
    pair = Pair()
    pair.answer(ApiKey.DESCRIBE_CONFIGS, described)

    async def test(admin: Admin) -> None:
        (entry,) = (await admin.describe_configs(*T, "a", include_documentation=True)).values()
        synonyms = (ConfigSynonym("log.a", "0", ConfigSource.DEFAULT_CONFIG),)
        source = ConfigSource.TOPIC_CONFIG
        assert entry == ConfigEntry("a", entry.value, source, False, False, ConfigType.INT, synonyms, "meaning")
        assert isinstance(entry.source, ConfigSource)
        assert isinstance(entry.config_type, ConfigType)
        assert isinstance(entry.synonyms[0].source, ConfigSource)
        assert not entry.is_default
        assert ConfigEntry("a", "0", ConfigSource.DEFAULT_CONFIG, False, False).is_default

    pair.administering(test)
    ((request,),) = [requests for requests in pair.asked(ApiKey.DESCRIBE_CONFIGS).values() if requests]
    assert request.include_documentation is True
    assert request.resources[0].configuration_keys == ("a",)


@pytest.mark.parametrize(("read_only", "is_sensitive"), [(True, False), (False, True)])
def test_whether_an_entry_can_be_changed_and_whether_it_is_secret(read_only: bool, is_sensitive: bool) -> None:
    pair = Pair()
    entry = Described.DescribeConfigsResourceResult("a", None, read_only, ConfigSource.TOPIC_CONFIG, is_sensitive)
    results = [Described.DescribeConfigsResult(ErrorCode.NONE, None, *T, [entry])]
    pair.answer(ApiKey.DESCRIBE_CONFIGS, lambda *_: Described(results=results))

    async def test(admin: Admin) -> None:
        found = (await admin.describe_configs(*T))["a"]
        assert (found.read_only, found.is_sensitive) == (read_only, is_sensitive)

    pair.administering(test)


def test_a_response_that_lacks_a_resource() -> None:
    pair = Pair()
    pair.answer(ApiKey.DESCRIBE_CONFIGS, described)

    async def test(admin: Admin) -> None:
        lost = ConfigResource(ConfigResourceType.TOPIC, "v")
        results = await admin.describe_configs_of(T, lost)
        assert [*results.values] == [T]
        assert str(results.errors[lost]) == "the response to DescribeConfigs lacks the configuration of topic v"

    pair.administering(test)


def test_one_broker_is_down() -> None:
    pair = Pair()
    pair.brokers[2].stop()
    pair.brokers[1].network.servers.pop(Pair.ADDRESSES[2])
    pair.answer(ApiKey.DESCRIBE_CONFIGS, described)

    async def test(admin: Admin) -> None:
        results = await admin.within(100).describe_configs_of(ONE, TWO)
        assert [*results.values] == [ONE]
        assert [*results.errors] == [TWO]

    pair.administering(test)


def test_resources_are_listed() -> None:
    pair = Pair()
    kind = Listed.ConfigResource
    group, unknown = ConfigResourceType.GROUP, 99
    listed = [kind("g", group), kind("t", T.resource_type), kind("later", unknown), kind("f", group)]
    pair.answer(ApiKey.LIST_CONFIG_RESOURCES, lambda *_: Listed(config_resources=listed))

    async def test(admin: Admin) -> None:
        found = await admin.list_config_resources(ConfigResourceType.TOPIC, group)
        assert found == [T, ConfigResource(group, "f"), ConfigResource(group, "g")]
        pair.answer(ApiKey.LIST_CONFIG_RESOURCES, lambda *_: Listed(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED: resources that have configurations"):
            await admin.list_config_resources()

    pair.administering(test)
    asked = [each for requests in pair.asked(ApiKey.LIST_CONFIG_RESOURCES).values() for each in requests]
    assert [tuple(request.resource_types) for request in asked] == [(2, 32), ()]


def test_a_broker_that_lists_only_subscriptions() -> None:
    pair = Pair()
    kind = ConfigResourceType.CLIENT_METRICS
    for broker in pair.brokers.values():
        broker.supported[ApiKey.LIST_CONFIG_RESOURCES] = VersionRange(0, 0)
    listed = Listed(config_resources=[Listed.ConfigResource("m")])
    pair.answer(ApiKey.LIST_CONFIG_RESOURCES, lambda *_: listed)

    async def test(admin: Admin) -> None:
        assert await admin.list_config_resources(kind) == [ConfigResource(kind, "m")]

    pair.administering(test)
