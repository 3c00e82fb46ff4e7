"""CreateTopics: create topics, or only validate the request.

2: lowest version of Kafka 4. 5: flexible; partitions, replication factor and configurations in the response. 6: may be
throttled. 7: topic ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.log.config import TOPIC_CONFIGS
from kafkawire.reference_broker.log.log_directory import Topic
from kafkawire.reference_broker.topics import check_name, plan_configs, plan_partitions
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigSource
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_REPLICATION_FACTOR = 1


@serves(ApiKey.CREATE_TOPICS)
def handle(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse | DelayedOperation:
    """Handle CreateTopics; the response is delayed until the topics are on the disk."""
    parts: Parts[CreateTopicsResponse] = Parts()
    results = []
    for name, count in Counter(topic.name for topic in request.topics).items():
        try:
            if count > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = next(topic for topic in request.topics if topic.name == name)
            results.append(_create(call, topic, parts, request.validate_only))
        except BrokerError as error:
            results.append(
                CreateTopicsResponse.CreatableTopicResult(name, error_code=error.code, error_message=error.detail)
            )
    return parts.respond(CreateTopicsResponse(topics=results))


def _create(
    call: Call, topic: CreateTopicsRequest.CreatableTopic, parts: Parts[CreateTopicsResponse], validate_only: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    core = call.core
    check_name(core, topic.name)
    configs = plan_configs(topic.configs)
    partitions = plan_partitions(core, topic)
    result = CreateTopicsResponse.CreatableTopicResult(
        topic.name,
        error_message=None,
        num_partitions=partitions,
        replication_factor=_REPLICATION_FACTOR,
        configs=_configs(configs, core.options.topic_defaults),
    )
    if validate_only:
        return result

    def created(made: Topic | BrokerError) -> None:
        if isinstance(made, BrokerError):
            result.error_code, result.error_message = made.code, made.detail
            result.num_partitions = result.replication_factor = -1
            result.configs = []
        else:
            result.topic_id = made.topic_id
        parts.arrived()

    parts.expect()
    core.create_topic(topic.name, partitions, configs, created)
    return result


def _configs(own: Mapping[str, str], of_broker: Mapping[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        if name in own:
            value, source = own[name], ConfigSource.TOPIC_CONFIG
        elif name in of_broker:
            value, source = of_broker[name], ConfigSource.STATIC_BROKER_CONFIG
        else:
            value, source = config.default, ConfigSource.DEFAULT_CONFIG
        entries.append(CreateTopicsResponse.CreatableTopicConfigs(name, value, config_source=source))
    return entries
