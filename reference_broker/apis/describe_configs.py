"""DescribeConfigs: the configuration of topics and of the broker, with the source of each value.

1: lowest version of Kafka 4, sources and synonyms. 3: types and documentation. 4: flexible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.config.options import TOPIC_DEFAULTS, BrokerOptions
from kafkawire.reference_broker.config.topic_configs import TOPIC_CONFIGS
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import gather
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym

#: What Kafka calls the broker's default of each topic configuration, those included that are no option here.
_BROKER_NAMES = {
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "preallocate": "log.preallocate",
} | {config: option for option, config in TOPIC_DEFAULTS.items()}

#: Topic configurations without a broker's default of the same unit, or of any.
_NO_BROKER_DEFAULT = {
    "flush.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
}

_RESOURCE_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


class _Resource(NamedTuple):
    """What a client asks about, with the configurations that it wants, none for all."""

    resource_type: int
    resource_name: str
    keys: frozenset[str]


@serves(ApiKey.DESCRIBE_CONFIGS)
def handle(
    call: Call, request: DescribeConfigsRequest, *, directory: LogDirectory, options: BrokerOptions
) -> Work[Message | DelayedOperation]:
    """Handle DescribeConfigs.

    Raises:
        BrokerError: INVALID_REQUEST, nobody knows the type of a resource.
    """
    resources = []
    for resource in request.resources:
        if resource.resource_type not in _RESOURCE_TYPES:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown resource type: {resource.resource_type}")
        # Clients of Kafka send an empty list too when they want everything.
        keys = frozenset(resource.configuration_keys or ())
        resources.append(_Resource(resource.resource_type, resource.resource_name, keys))
        yield

    def ask(resource: _Resource, put: Callable[[Result], None]) -> None:
        put(_result(directory, options, request, resource))

    return (yield from gather(call, resources, ask, lambda found: DescribeConfigsResponse(results=found)))


def _result(
    directory: LogDirectory, options: BrokerOptions, request: DescribeConfigsRequest, resource: _Resource
) -> Result:
    result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None)
    try:
        entries = _entries(directory, options, resource)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    result.configs = [entry for entry in entries if not resource.keys or entry.name in resource.keys]
    for entry in result.configs:
        if not request.include_synonyms:
            entry.synonyms = ()
        if not request.include_documentation:
            entry.documentation = None
    return result


def _entries(directory: LogDirectory, options: BrokerOptions, resource: _Resource) -> list[Entry]:
    if resource.resource_type == ConfigResourceType.TOPIC:
        check_characters(resource.resource_name)
        topic = directory.topics.get(resource.resource_name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _topic_entries(topic.configs, options.topic_defaults)
    if resource.resource_type == ConfigResourceType.BROKER:
        if resource.resource_name not in ("", str(options.node_id)):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {options.node_id} or empty string, but received "
                f"{resource.resource_name}",
            )
        # The empty name asks for dynamic defaults of the cluster, which do not exist here.
        return _broker_entries(options) if resource.resource_name else []
    raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _topic_entries(own: Mapping[str, str], of_broker: Mapping[str, str]) -> list[Entry]:
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        synonyms = []
        if name in own:
            synonyms.append(Synonym(name, own[name], ConfigSource.TOPIC_CONFIG))
        if name in of_broker:
            synonyms.append(Synonym(_BROKER_NAMES[name], of_broker[name], ConfigSource.STATIC_BROKER_CONFIG))
        value, source = config.default, ConfigSource.DEFAULT_CONFIG
        if name not in _NO_BROKER_DEFAULT:
            synonyms.append(Synonym(_BROKER_NAMES.get(name, name), value, source))
        entries.append(
            Entry(
                name,
                synonyms[0].value if synonyms else value,
                config_source=synonyms[0].source if synonyms else source,
                synonyms=synonyms,
                config_type=config.type,
                documentation=config.about,
            )
        )
    return entries


def _broker_entries(options: BrokerOptions) -> list[Entry]:
    entries = []
    for name, attribute in options.KAFKA_NAMES.items():
        if name in TOPIC_DEFAULTS:
            continue
        value, default = getattr(options, attribute), options.OPTIONS[attribute].default
        entries.append(_broker_entry(name, _text(value), _text(default), _type(default)))
    for name, config in TOPIC_DEFAULTS.items():
        known = TOPIC_CONFIGS[config]
        entries.append(
            _broker_entry(name, options.topic_defaults.get(config, known.default), known.default, known.type)
        )
    return entries


def _broker_entry(name: str, value: str, default: str, kind: ConfigType) -> Entry:
    source = ConfigSource.DEFAULT_CONFIG if value == default else ConfigSource.STATIC_BROKER_CONFIG
    synonyms = [Synonym(name, value, source)]
    if source != ConfigSource.DEFAULT_CONFIG:
        synonyms.append(Synonym(name, default, ConfigSource.DEFAULT_CONFIG))
    return Entry(
        name, value, read_only=True, config_source=source, synonyms=synonyms, config_type=kind, documentation=None
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(default: object) -> ConfigType:
    if isinstance(default, bool):
        return ConfigType.BOOLEAN
    return ConfigType.STRING if isinstance(default, str) else ConfigType.INT
