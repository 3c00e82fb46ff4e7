"""DescribeConfigs: return the configuration of topics, brokers, groups and client metrics, with each value's source.

1: lowest version of Kafka 4, sources and synonyms. 3: types and documentation. 4: flexible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs, Setting
from kafkawire.reference_broker.config.config_values import shown_value
from kafkawire.reference_broker.config.loggers import levels
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.config_store import ConfigStore
from kafkawire.reference_broker.metadata.image import MetadataImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_configs
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    RUNNING_BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigKey,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym

_RESOURCE_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}

#: The keys in the documentation for each kind of resource.
_DOCUMENTED: Final[Mapping[int, tuple[str, ...]]] = {
    ConfigResourceType.TOPIC: ("topic",),
    ConfigResourceType.BROKER: ("broker", "zookeeper_broker"),
    ConfigResourceType.GROUP: ("group",),
    ConfigResourceType.CLIENT_METRICS: ("client_metrics",),
}


_REFUSED: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

#: Apache Kafka's text for every resource of a request if the type of one is unknown.
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


class _Resource(NamedTuple):
    """A resource to describe, and the configurations that the client wants (None for all)."""

    resource_type: int
    resource_name: str
    keys: frozenset[str]


@serves(ApiKey.DESCRIBE_CONFIGS)
def handle(
    call: Call,
    request: DescribeConfigsRequest,
    *,
    authorizer: Authorizer,
    broker_configs: BrokerConfigs,
    dynamic_configs: ConfigStore,
    metadata: MetadataCache,
    options: BrokerOptions,
) -> Work[Message | DelayedOperation]:
    """Handle DescribeConfigs.

    Raises:
        BrokerError: INVALID_REQUEST if the type of a resource is unknown.
    """
    resources = []
    for resource in request.resources:
        if resource.resource_type not in _RESOURCE_TYPES:
            raise BrokerError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        # Kafka's clients also send an empty list to get everything.
        keys = frozenset(resource.configuration_keys or ())
        resources.append(_Resource(resource.resource_type, resource.resource_name, keys))
        yield
    description = _Description(metadata.image, options.node_id, broker_configs, dynamic_configs)

    def ask(resource: _Resource, put: Callable[[Result], None]) -> None:
        try:
            require_on_configs(
                authorizer, call, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
            )
        except BrokerError as error:
            put(Result(error.code, error.detail, resource.resource_type, resource.resource_name))
        else:
            put(_result(description, request, resource))

    return (
        yield from collect_with_repetitions(
            call, resources, ask, lambda found: DescribeConfigsResponse(results=sorted(found, key=_is_refused))
        )
    )


def _is_refused(result: Result) -> bool:
    """Return whether the client may not see the configurations of a resource; such resources come last, as in Kafka."""
    return result.error_code in _REFUSED


def _result(description: _Description, request: DescribeConfigsRequest, resource: _Resource) -> Result:
    result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name, error_message="")
    try:
        entries = description.entries(resource.resource_type, resource.resource_name)
        result.configs = [entry for entry in entries if not resource.keys or entry.name in resource.keys]
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    if not request.include_synonyms:
        for entry in result.configs:
            entry.synonyms = ()
    if request.include_documentation and resource.resource_type in _DOCUMENTED:
        _document(resource.resource_type, result.configs)
    return result


def _document(resource_type: int, entries: list[Entry]) -> None:
    """Add documentation to entries from our descriptions, which are loaded when a client first asks for them."""
    from kafkawire.sdk.protocol.tables.config_documentation import CONFIG_DOCUMENTATION

    tables = [CONFIG_DOCUMENTATION[key] for key in _DOCUMENTED[resource_type]]
    for entry in entries:
        if entry.config_type != ConfigType.UNKNOWN:  # as in Kafka, null for names that Kafka does not define
            entry.documentation = next((texts[entry.name] for texts in tables if entry.name in texts), None)


class _Description:
    """Describes resources."""

    def __init__(self, image: MetadataImage, node_id: int, configs: BrokerConfigs, dynamic: ConfigStore) -> None:
        self._image = image
        self._node_id = node_id
        self._configs = configs
        self._dynamic = dynamic

    def entries(self, resource_type: int, name: str) -> Iterator[Entry]:
        """Return the configurations of a resource.

        Raises:
            BrokerError: the resource does not exist.
        """
        match resource_type:
            case ConfigResourceType.TOPIC:
                return self._topic(name)
            case ConfigResourceType.BROKER if not name:
                return self._cluster()
            case ConfigResourceType.BROKER:
                self._check_broker(
                    name, f"Unexpected broker id, expected {self._node_id} or empty string, but received"
                )
                return self._broker()
            case ConfigResourceType.BROKER_LOGGER:
                if not name:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
                self._check_broker(name, f"Unexpected broker id, expected {self._node_id} but received")
                return _loggers()
            case ConfigResourceType.GROUP:
                if not name:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
                own = self._dynamic.of(ConfigResourceType.GROUP, name)
                return self._overriding(GROUP_CONFIGS, own, ConfigSource.GROUP_CONFIG)
            case _:
                if self._dynamic.is_registry:
                    reason = "Config type client-metrics is only supported on KRaft clusters"
                    raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
                if not name:
                    reason = "Client metrics subscription name must not be empty"
                    raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
                own = self._dynamic.of(ConfigResourceType.CLIENT_METRICS, name)
                return self._overriding(CLIENT_METRICS_CONFIGS, own, ConfigSource.CLIENT_METRICS_CONFIG)

    def _check_broker(self, name: str, unexpected: str) -> None:
        try:
            is_this = int(name) == self._node_id
        except ValueError:
            reason = f"Broker id must be an integer, but it is: {name}"
            raise BrokerError(ErrorCode.INVALID_REQUEST, reason) from None
        if not is_this:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{unexpected} {name}")

    def _topic(self, name: str) -> Iterator[Entry]:
        check_characters(name)
        topic = self._image.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._overriding(TOPIC_CONFIGS, topic.configs, ConfigSource.TOPIC_CONFIG)

    def _overriding(
        self, keys: Mapping[str, ConfigKey], own: Mapping[str, str], source: ConfigSource
    ) -> Iterator[Entry]:
        """Yield the values with which a resource overrides those of the broker."""
        for name, key in keys.items():
            settings = [Setting(name, shown_value(key, own[name]), source)] if name in own else []
            if key.broker:
                settings += self._configs.settings(key.broker)
            elif source == ConfigSource.GROUP_CONFIG:
                settings.append(Setting(name, key.default, ConfigSource.DEFAULT_CONFIG))
            yield _entry(key, settings, is_read_only=False)

    def _broker(self) -> Iterator[Entry]:
        for name in self._configs.names:
            yield self._broker_entry(name, self._configs.settings(name))

    def _cluster(self) -> Iterator[Entry]:
        """Yield the dynamic configurations that apply to all brokers."""
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        for name, value in self._configs.of_cluster.items():
            is_secret = self._configs.is_sensitive(name)
            yield self._broker_entry(name, [Setting(name, None if is_secret else value, source)])

    def _broker_entry(self, name: str, settings: list[Setting]) -> Entry:
        configs = self._configs
        key = configs.keys.get(name) or RUNNING_BROKER_CONFIGS.get(name) or ConfigKey(name, ConfigType.UNKNOWN)
        # Kafka also shows options that exist only for a running broker as read-only.
        is_read_only = configs.is_read_only(name) or name not in configs.keys
        entry = _entry(key, settings, is_read_only=is_read_only, is_secret=configs.is_sensitive(name))
        entry.config_type = configs.type_of(name)
        return entry


def _entry(key: ConfigKey, settings: list[Setting], *, is_read_only: bool, is_secret: bool = False) -> Entry:
    first = settings[0] if settings else Setting(key.name, key.default, ConfigSource.DEFAULT_CONFIG)
    return Entry(
        key.name,
        None if first.value is None else shown_value(key, first.value),
        read_only=is_read_only,
        config_source=first.source,
        is_sensitive=is_secret,
        synonyms=[Synonym(*setting) for setting in settings],
        config_type=key.type,
        documentation=None,
    )


def _loggers() -> Iterator[Entry]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    for name, level in levels().items():
        yield Entry(name, level, config_source=source)
