"""CreateTopics: create topics, or only validate the request.

2: lowest version of Kafka 4. 5: flexible; partitions, replication factor and configurations in the response. 6:
throttling. 7: topic ids.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.new_topics import (
    DEFAULT,
    PARTITIONS_MAX,
    NewTopic,
)
from kafkawire.reference_broker.metadata.topic_controller import Permit, TopicController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS
from kafkawire.sdk.protocol.tables.enums import (
    CLUSTER_METADATA_TOPIC,
    CREATE_TOPICS_FIRST_WITH_STRICT_QUOTA,
    AclOperation,
    ConfigSource,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.CREATE_TOPICS, only_on_controller=True)
def handle(
    call: Call,
    request: CreateTopicsRequest,
    *,
    authorizer: Authorizer,
    options: BrokerOptions,
    throttling: Throttling,
    topics: TopicController,
) -> Work[CreateTopicsResponse | DelayedOperation]:
    """Handle CreateTopics; the response is delayed until the topics are on disk, or until the timeout."""
    permits = throttling.permits(call, strict_since=CREATE_TOPICS_FIRST_WITH_STRICT_QUOTA)
    parts: Parts[CreateTopicsResponse] = Parts()
    asked: dict[str, list[CreateTopicsRequest.CreatableTopic]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, []).append(topic)
        yield
    may_create, shows_configs = yield from _permissions(authorizer, call, asked)
    wanted = [same[0] for name, same in asked.items() if len(same) == 1 and name in may_create]
    refusal = yield from _refusal(options, topics, request, wanted)
    results = []
    for topic in request.topics if topics.answers_each else [same[0] for same in asked.values()]:
        error = refusal
        if len(asked[topic.name]) > 1:
            error = BrokerError(ErrorCode.INVALID_REQUEST, topics.texts.created_twice)
        elif topic.name not in may_create:
            error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        if error is None:
            shows = topic.name in shows_configs
            results.append(_create(options, topics, topic, parts, request, permits.take, shows_configs=shows))
        else:
            results.append(result := CreateTopicsResponse.CreatableTopicResult(topic.name))
            _refuse(result, error)
            if authorizer.is_registry and topic.name not in shows_configs:
                result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield
    response = CreateTopicsResponse(topics=results)
    if request.timeout_ms <= 0 and (request.validate_only or topics.acts_without_time):
        return parts.respond(response)  # no time limits the checks; `_create` limits the wait for what was created
    return parts.respond_by(call.now_ms + request.timeout_ms, call.timers, response)


def _permissions(
    authorizer: Authorizer, call: Call, names: Iterable[str]
) -> Work[tuple[Container[str], Container[str]]]:
    """Return the topics that the client may create, and those whose configurations it may see.

    Kafka's own metadata topic, which nobody can create, is refused for another reason.
    """
    may_create, shows_configs = {CLUSTER_METADATA_TOPIC}, {CLUSTER_METADATA_TOPIC}
    creates_all = allows_on_cluster(authorizer, call, AclOperation.CREATE, logs_denied=False)
    for name in names:
        if name == CLUSTER_METADATA_TOPIC:
            continue
        if creates_all or authorizer.allows(call, AclOperation.CREATE, ResourceType.TOPIC, name):
            may_create.add(name)
        if authorizer.allows(call, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, logs_denied=False):
            shows_configs.add(name)
        yield
    return may_create, shows_configs


def _refusal(
    options: BrokerOptions,
    topics: TopicController,
    request: CreateTopicsRequest,
    wanted: Sequence[CreateTopicsRequest.CreatableTopic],
) -> Work[BrokerError | None]:
    """Return why none of the request's topics can be created, or None if they can."""
    default = options.num_partitions
    asked = yield from each(wanted, lambda topic: len(topic.assignments) or topic.num_partitions)
    if sum(default if count == DEFAULT else max(count, 0) for count in asked) > PARTITIONS_MAX:
        return BrokerError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if request.timeout_ms <= 0 and not topics.acts_without_time:
        return BrokerError(ErrorCode.REQUEST_TIMED_OUT)
    return None


def _create(
    options: BrokerOptions,
    topics: TopicController,
    topic: CreateTopicsRequest.CreatableTopic,
    parts: Parts[CreateTopicsResponse],
    request: CreateTopicsRequest,
    permit: Permit,
    *,
    shows_configs: bool,
) -> CreateTopicsResponse.CreatableTopicResult:
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        configs[config.name] = None if configs.get(config.name, "") is None else config.value
    assignments = [(each.partition_index, each.broker_ids) for each in topic.assignments]
    new = NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)
    result = CreateTopicsResponse.CreatableTopicResult(topic.name)

    def created(made: TopicImage | BrokerError) -> None:
        if isinstance(made, BrokerError):
            _refuse(result, made)
        else:
            result.topic_id = made.topic_id
            result.error_code, result.error_message = ErrorCode.NONE, None
            if not shows_configs:
                result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                parts.arrived()
                return
            result.num_partitions, result.replication_factor = len(made.partitions), len(made.partition(0).replicas)
            own = {name: value for name, value in configs.items() if value is not None}
            result.configs = _configs(own, options.topic_defaults)
        parts.arrived()

    # The client gets this error if the topic is not created in time; its creation continues nevertheless.
    _refuse(result, BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    parts.expect()
    wait_ms = max(request.timeout_ms, 0)
    topics.create(new, created, wait_ms=wait_ms, validate_only=request.validate_only, permit=permit)
    return result


def _refuse(result: CreateTopicsResponse.CreatableTopicResult, error: BrokerError) -> None:
    result.error_code, result.error_message = error.code, error.detail or None


def _configs(own: Mapping[str, str], of_broker: Mapping[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        value, source = config.default, ConfigSource.DEFAULT_CONFIG
        if name in own:
            value, source = own[name], ConfigSource.TOPIC_CONFIG
        elif name in of_broker:
            value, source = of_broker[name], ConfigSource.STATIC_BROKER_CONFIG
        entries.append(CreateTopicsResponse.CreatableTopicConfigs(name, value, config_source=source))
    return entries
