"""Topics: create, delete, grow and describe them, each with an outcome of its own.

The controller does what it is asked for each topic of a request separately. Topics that it throttles (KIP-599) are
sent again, unless the caller wants to know; those that are done are not, because that would cause an error.

Source: Apache Kafka, `KafkaAdminClient`; KIP-516 (topic ids), KIP-430 (authorized operations).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafkawire.sdk.admin.authorized_operations import authorized_operations
from kafkawire.sdk.admin.config_entries import config_entries
from kafkawire.sdk.admin.descriptions import CreatedTopic, Item, ItemResults, NewPartitions, NewTopic, Value
from kafkawire.sdk.admin.eligible_leaders import with_eligible_leaders
from kafkawire.sdk.admin.item_batches import in_batches
from kafkawire.sdk.admin.places import Anywhere
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.routing.call import CONTROLLER
from kafkawire.sdk.routing.metadata import Topic
from kafkawire.sdk.routing.requests import carries, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.timing import sleep_ms, together

__all__ = ["create_partitions", "create_topics", "delete_topics", "describe_topics", "list_topics"]

#: The number that a broker sends for a count that this user may not see.
_COUNT_UNKNOWN = -1

#: Retriable for other clients, but final when asking about a topic.
_NO_SUCH_TOPIC = NO_SUCH_TOPIC | {ErrorCode.UNKNOWN_TOPIC_ID}

#: The results of one attempt, keyed by item, and whether it was throttled.
_Attempt = Callable[[list[Item], int], Awaitable[Mapping[Item, Value | BrokerError]]]


async def create_topics(
    operations: Operations,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool,
    retry_on_quota_violation: bool,
    timeout_ms: int,
) -> ItemResults[str, CreatedTopic]:
    """Create topics; see `Admin.create_topics`."""
    wanted = {topic.name: _creatable(topic) for topic in topics}

    async def create(names: list[str], deadline_ms: int) -> dict[str, CreatedTopic | BrokerError]:
        response = await operations.request(
            CONTROLLER,
            messages.CreateTopicsRequest([wanted[name] for name in names], timeout_ms, validate_only),
            messages.CreateTopicsResponse,
            lambda response: _check(response, response.topics, names),
            deadline_ms=deadline_ms,
        )
        return {topic.name: _error(topic, f"create topic {topic.name}") or _created(topic) for topic in response.topics}

    return await _each(operations, wanted, create, retry_on_quota_violation)


async def delete_topics(
    operations: Operations,
    names: Sequence[str],
    topic_ids: Sequence[bytes],
    *,
    retry_on_quota_violation: bool,
    timeout_ms: int,
) -> ItemResults[str | bytes, None]:
    """Delete topics, by name or by id; see `Admin.delete_topics`."""
    kind = messages.DeleteTopicsRequest

    async def delete(wanted: list[str | bytes], deadline_ms: int) -> dict[str | bytes, BrokerError | None]:
        asked = set(wanted)
        ids = {each for each in wanted if isinstance(each, bytes)}
        states = [
            kind.DeleteTopicState(None, each) if isinstance(each, bytes) else kind.DeleteTopicState(each)
            for each in wanted
        ]

        def request(versions: Versions) -> tuple[Message, int]:
            version = versions.version_for(kind)
            if ids or carries(kind, "topics", version):
                return versioned(kind(topics=states, timeout_ms=timeout_ms), "topics" if ids else None)(versions)
            named = [each for each in wanted if isinstance(each, str)]
            return kind(topic_names=named, timeout_ms=timeout_ms), version

        def keys_of(topic: Any) -> list[str | bytes]:
            # A broker that is given the name and the id of one topic refuses both in one result.
            return [each for each in (topic.topic_id, topic.name) if each in asked]

        response = await operations.request(
            CONTROLLER,
            request,
            messages.DeleteTopicsResponse,
            lambda response: _check(response, response.responses, wanted, keys_of),
            deadline_ms=deadline_ms,
        )
        found: dict[str | bytes, BrokerError | None] = {}
        for topic in response.responses:
            for key in keys_of(topic):
                found[key] = _error(topic, f"delete topic {_text(key)}") or found.get(key)
        return found

    return await _each(operations, [*names, *topic_ids], delete, retry_on_quota_violation)


async def create_partitions(
    operations: Operations,
    wanted: Mapping[str, NewPartitions],
    *,
    validate_only: bool,
    retry_on_quota_violation: bool,
    timeout_ms: int,
) -> ItemResults[str, None]:
    """Add partitions to topics; see `Admin.create_partitions`."""

    async def create(names: list[str], deadline_ms: int) -> dict[str, BrokerError | None]:
        topics = [_grown(name, wanted[name]) for name in names]
        response = await operations.request(
            CONTROLLER,
            versioned(messages.CreatePartitionsRequest(topics, timeout_ms, validate_only)),
            messages.CreatePartitionsResponse,
            lambda response: _check(response, response.results, names),
            deadline_ms=deadline_ms,
        )
        return {topic.name: _error(topic, f"create partitions of {topic.name}") for topic in response.results}

    return await _each(operations, wanted, create, retry_on_quota_violation)


async def list_topics(operations: Operations, *, include_internal: bool) -> dict[str, Topic]:
    """Return all topics by name; see `Admin.list_topics`."""
    listed = await operations.describe(None)
    return {name: topic for name, topic in listed.items() if include_internal or not topic.is_internal}


async def describe_topics(
    operations: Operations,
    names: Sequence[str],
    topic_ids: Sequence[bytes],
    *,
    include_eligible_leaders: bool,
    include_authorized_operations: bool,
) -> ItemResults[str | bytes, Topic]:
    """Return topics, by name or by id; see `Admin.describe_topics`."""
    kind = messages.MetadataRequest.MetadataRequestTopic
    metadata = operations.router.metadata

    async def ask(
        asked: Mapping[str | bytes, messages.MetadataRequest.MetadataRequestTopic], deadline_ms: int
    ) -> dict[str | bytes, Topic | KafkaWireError]:
        response = await operations.look_up(
            list(asked.values()),
            deadline_ms=deadline_ms,
            include_authorized_operations=include_authorized_operations,
        )
        listed = {key: topic for topic in response.topics for key in (topic.name, topic.topic_id) if key}
        found: dict[str | bytes, Topic | KafkaWireError] = {}
        for each in asked:
            answer = listed[each]
            topic = metadata.topics.get(answer.name or "")
            if topic is not None and not answer.error_code:
                allowed = authorized_operations(answer.topic_authorized_operations)
                found[each] = topic._replace(authorized_operations=allowed)
            else:
                code = answer.error_code or metadata.errors.get(answer.name or "", ErrorCode.LEADER_NOT_AVAILABLE)
                found[each] = BrokerError(code, f"topic {_text(each)}")
        return found

    async def describe(_: int, batch: list[str | bytes], deadline_ms: int) -> dict[str | bytes, Topic | KafkaWireError]:
        # Brokers ignore the names in a request that also has ids.
        by_name: dict[str | bytes, messages.MetadataRequest.MetadataRequestTopic]
        by_name = {each: kind(name=each) for each in batch if isinstance(each, str)}
        by_id: dict[str | bytes, messages.MetadataRequest.MetadataRequestTopic]
        by_id = {each: kind(each, None) for each in batch if isinstance(each, bytes)}
        found: dict[str | bytes, Topic | KafkaWireError] = {}
        for results in await together(ask(asked, deadline_ms) for asked in (by_name, by_id) if asked):
            found |= results
        return found

    wanted: list[str | bytes] = [*names, *topic_ids]
    results = await in_batches(operations, wanted, Anywhere[str | bytes](), describe, final=_NO_SUCH_TOPIC)
    if not include_eligible_leaders:
        return results
    by_name = {topic.name: topic for topic in results.values.values()}
    complete = await with_eligible_leaders(operations, by_name)
    return results._replace(values={key: complete[topic.name] for key, topic in results.values.items()})


async def _each(
    operations: Operations, items: Iterable[Item], attempt: _Attempt[Item, Value], retry_on_quota_violation: bool
) -> ItemResults[Item, Value]:
    """Process topics, sending those again that the controller throttles, as Java's admin does."""
    attempts = operations.attempts()
    assert attempts.deadline_ms is not None
    found: dict[Item, Value | BrokerError] = {}
    wanted = left = list(dict.fromkeys(items))
    while left:
        found |= await attempt(left, attempts.deadline_ms)
        operations.router.metadata.invalidate()
        throttled = [(item, error) for item in left if isinstance(error := found[item], BrokerError) and _may(error)]
        left = []
        now_ms = monotonic_ms()
        if throttled and retry_on_quota_violation and attempts.failed(throttled[0][1], now_ms):
            await sleep_ms(attempts.not_before_ms - now_ms)
            left = [item for item, _ in throttled]
    values: dict[Item, Value] = {}
    errors: dict[Item, KafkaWireError] = {}
    for item in wanted:
        outcome = found[item]
        if isinstance(outcome, BrokerError):
            errors[item] = outcome
        else:
            values[item] = outcome
    return ItemResults(values, errors)


def _may(error: BrokerError) -> bool:
    return error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def _error(result: Any, detail: str) -> BrokerError | None:
    """Return the error of one topic in a response; None if it has none."""
    if result.error_code == ErrorCode.NONE:
        return None
    return BrokerError(result.error_code, error_text(detail, result.error_message))


def _check(
    response: Message,
    results: Collection[Any],
    wanted: Iterable[str | bytes],
    keys_of: Callable[[Any], Iterable[str | bytes]] = lambda result: (result.name,),
) -> None:
    """Have the whole request retried if the broker is not the controller; reject a response that lacks a topic."""
    for result in results:
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            text = f"topic {' and '.join(map(_text, keys_of(result)))}"
            raise BrokerError(result.error_code, error_text(text, result.error_message))
    named = {key for result in results for key in keys_of(result)}
    for each in wanted:
        if each not in named:
            raise lacking(response, f"topic {_text(each)}")


def _text(topic: str | bytes) -> str:
    return topic if isinstance(topic, str) else f"with id {format_uuid(topic)}"


def _created(topic: messages.CreateTopicsResponse.CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        topic.topic_id,
        None if topic.num_partitions == _COUNT_UNKNOWN else topic.num_partitions,
        None if topic.replication_factor == _COUNT_UNKNOWN else topic.replication_factor,
        None if topic.configs is None else config_entries(topic.configs),
    )


def _creatable(topic: NewTopic) -> messages.CreateTopicsRequest.CreatableTopic:
    kind = messages.CreateTopicsRequest
    return kind.CreatableTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [kind.CreatableReplicaAssignment(number, brokers) for number, brokers in topic.assignments.items()],
        [kind.CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


def _grown(name: str, wanted: NewPartitions) -> messages.CreatePartitionsRequest.CreatePartitionsTopic:
    assignment = messages.CreatePartitionsRequest.CreatePartitionsAssignment
    assignments = [assignment(nodes) for nodes in wanted.assignments] or None
    return messages.CreatePartitionsRequest.CreatePartitionsTopic(name, wanted.total_count, assignments)
