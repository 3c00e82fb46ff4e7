"""Requests about a cluster, in every version that can express them, and Apache Kafka 4.3's answer to each.

The answers come from a real broker; `tests/kafka/test_asked_cases.py` verifies them. Addresses, ids and the size of the
volume are placeholders for any value. Our answers differ in one case: Kafka fails on an empty name without a cursor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkawire.sdk.errors import UnsupportedVersion
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.sdk.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafkawire.sdk.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, EndpointType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import produced

__all__ = ["RECORDS", "TOPICS", "Case", "cases", "comparable", "name_of", "versions"]

A, B, C = "zzz.asked.a", "zzz.asked.b", "zzz.asked.c"

#: The topics in the requests, with their numbers of partitions; their names sort after those of other tests' topics.
TOPICS = {A: 3, B: 2, C: 1}

#: The records in partition 0 of the first topic.
RECORDS = produced(b"value")

_FIRST = "zzz."

#: Fields that differ between brokers; only their presence is compared.
_FACTS = {"cluster_id", "host", "log_dir", "port", "topic_id", "total_bytes", "usable_bytes"}
_ANY_ID, _ANY_PORT, _ANY_BYTES = b"x" * 16, 9092, 1

#: The authorized operations that a broker without an authorizer reports.
_TOPIC_OPERATIONS, _CLUSTER_OPERATIONS = 0b110111111000, 0b1111110100000

NODE = (1,)


class Case(NamedTuple):
    """A request and its answer.

    Attributes:
        name: the subject of the case.
        request: the request.
        response: Kafka's answer; None if Kafka closes the connection.
        ours: the reference broker's answer, if it differs.
    """

    name: str
    request: Message
    response: Message | None
    ours: Message | None = None

    @property
    def expected(self) -> Message | None:
        """The reference broker's answer."""
        return self.response if self.ours is None else self.ours


def name_of(case: Case) -> str:
    """Return the name of a case, for test ids."""
    return f"{APIS[_key(case)].name}: {case.name}"


def versions(case: Case) -> list[int]:
    """Return the versions in which a case's request can be sent."""
    return [number for number in APIS[_key(case)].stable_versions.numbers() if _fits(case.request, number)]


def _fits(request: Message, version: int) -> bool:
    try:
        codec(type(request), version).encode(request)
    except UnsupportedVersion:
        return False
    return True


def cases(key: ApiKey | None = None) -> list[Case]:
    """Return the cases of an API, or all cases."""
    return [case for case in _cases() if key is None or _key(case) == key]


def _key(case: Case) -> ApiKey:
    return ApiKey(case.request.SCHEMA.key or 0)


def comparable(value: Any, version: int) -> Any:
    """Return a response with only the topics of the cases, and without the fields that differ between brokers."""
    if isinstance(value, Message):
        fields = [field for field in value.FIELDS if version in field.versions]
        return {
            field.name: getattr(value, field.name) != field.default
            if field.name in _FACTS
            else comparable(getattr(value, field.name), version)
            for field in fields
        }
    if not isinstance(value, list | tuple):
        return value
    if value and isinstance(value[0], DescribeLogDirsResponse.DescribeLogDirsTopic):
        value = sorted((topic for topic in value if topic.name in TOPICS), key=lambda topic: topic.name)
    if value and isinstance(value[0], DescribeLogDirsResponse.DescribeLogDirsPartition):
        value = sorted(value, key=lambda partition: partition.partition_index)
    return [comparable(each, version) for each in value]


def _cases() -> Iterator[Case]:
    yield from _describe_cluster()
    yield from _pages_of_topics()
    yield from _topics_that_are_not_there()
    yield from _describe_log_dirs()
    yield from _describe_acls()
    yield from _create_acls()
    yield from _delete_acls()
    yield from _sasl()


def _describe_cluster() -> Iterator[Case]:
    Request, Response = DescribeClusterRequest, DescribeClusterResponse
    brokers = [Response.DescribeClusterBroker(1, "host", _ANY_PORT)]

    def described(**more: Any) -> Message:
        return Response(cluster_id="id", controller_id=1, brokers=brokers, **more)

    yield Case("brokers", Request(), described())
    yield Case("with fenced brokers", Request(include_fenced_brokers=True), described())
    allowed = described(cluster_authorized_operations=_CLUSTER_OPERATIONS)
    yield Case("with operations", Request(include_cluster_authorized_operations=True), allowed)
    text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    mismatched = Response(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    yield Case("controllers", Request(False, EndpointType.CONTROLLER), mismatched)
    yield Case("controllers with operations", Request(True, EndpointType.CONTROLLER), mismatched)
    yield Case("fenced controllers", Request(False, EndpointType.CONTROLLER, True), mismatched)
    for wanted in (EndpointType.UNKNOWN, 5, -1):
        refused = Response(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {wanted}"
        )
        yield Case(f"endpoint type {wanted:d}", Request(False, wanted), refused)


#: A topic in an answer, with its partitions or its error code.
_Topic = tuple[str, list[int] | ErrorCode]

#: All topics of the cases with their partitions, and a limit that is larger than the number of partitions.
_EVERYTHING: list[_Topic] = [(A, [0, 1, 2]), (B, [0, 1]), (C, [0])]
_MORE = 2000


def _topics_case(
    name: str,
    names: list[str],
    limit: int,
    cursor: tuple[str, int] | None,
    found: list[_Topic],
    next_cursor: tuple[str, int] | None = None,
    ours: list[_Topic] | None = None,
) -> Case:
    Request, Response = DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
    request = Request([Request.TopicRequest(each) for each in names], limit, cursor and Request.Cursor(*cursor))

    def answer(found: list[_Topic]) -> Message:
        return Response(
            topics=[_described(*each) for each in found], next_cursor=next_cursor and Response.Cursor(*next_cursor)
        )

    return Case(name, request, answer(found), None if ours is None else answer(ours))


def _described(name: str, found: list[int] | ErrorCode) -> Any:
    Response = DescribeTopicPartitionsResponse
    Topic, Partition = Response.DescribeTopicPartitionsResponseTopic, Response.DescribeTopicPartitionsResponsePartition
    if isinstance(found, ErrorCode):
        if found in (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR):
            return Topic(found, name)
        is_internal = name == "__share_group_state"
        return Topic(found, name, is_internal=is_internal, topic_authorized_operations=_TOPIC_OPERATIONS)
    partitions = [
        Partition(
            partition_index=number,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=NODE,
            isr_nodes=NODE,
            eligible_leader_replicas=(),
            last_known_elr=(),
        )
        for number in found
    ]
    return Topic(name=name, topic_id=_ANY_ID, partitions=partitions, topic_authorized_operations=_TOPIC_OPERATIONS)


def _pages_of_topics() -> Iterator[Case]:
    case, everything, more, start = _topics_case, _EVERYTHING, _MORE, (_FIRST, 0)
    yield case("all from a name on", [], more, start, everything)
    yield case("one", [A], more, None, everything[:1])
    yield case("sorted by name", [C, A, B], more, None, everything)
    yield case("named twice", [A, A], more, None, everything[:1])
    yield case("a page ends in a topic", [A, B], 2, None, [(A, [0, 1])], (A, 2))
    yield case("a page ends with a topic", [A, B], 3, None, [(A, [0, 1, 2])], (B, 0))
    yield case("a page ends in the second topic", [A, B], 4, None, [(A, [0, 1, 2]), (B, [0])], (B, 1))
    yield case("a page of all ends", [], 5, start, everything[:2], (C, 0))
    yield case("a page of exactly all", [], 6, start, everything)
    yield case("a page of exactly one topic", [A], 3, None, everything[:1])
    for limit in (0, -1, -5):
        yield case(f"at most {limit} partitions are one", [A], limit, None, [(A, [0])], (A, 1))
    yield case("from a partition on", [], more, (A, 1), [(A, [1, 2]), *everything[1:]])
    yield case("from a partition that does not exist", [], more, (B, 5), [(B, []), (C, [0])])
    yield case("from the end of a topic", [A, B], more, (A, 3), [(A, []), everything[1]])
    yield case("from a topic that does not exist", [], more, (B + "b", 0), everything[2:])
    yield case("from an invalid name", [], more, (B + " b", 0), everything[2:])
    yield case("from a partition of a topic that does not exist", [], more, (B + "b", 7), everything[2:])
    yield case("from after the last", [], more, ("zzzz", 0), [])
    yield case("the next page", [A, B], more, (A, 2), [(A, [2]), everything[1]])
    yield case("the next page ends as well", [A, B], 2, (A, 2), [(A, [2]), (B, [0])], (B, 1))
    yield case("the next page is one partition", [A, B], 1, (A, 2), [(A, [2])], (B, 0))
    yield case("the next page is exactly the rest", [A, B], 3, (A, 2), [(A, [2]), (B, [0, 1])])


def _topics_that_are_not_there() -> Iterator[Case]:
    case, everything, more = _topics_case, _EVERYTHING, _MORE
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    yield case("unknown", ["zzz.no"], more, None, [("zzz.no", unknown)])
    yield case("unknown twice", ["zzz.no", "zzz.no"], more, None, [("zzz.no", unknown)])
    yield case("unknown, no partition wanted", ["zzz.no"], 0, None, [("zzz.no", unknown)])
    yield case("unknown and internal", ["__share_group_state"], more, None, [("__share_group_state", unknown)])
    yield case("unknown and known", ["zzz.no", A], 1, None, [(A, [0])], (A, 1))
    yield case("unknown after the end of a page", [A + "a", A, "zzz.no"], 3, None, everything[:1], (A + "a", 0))
    spread: list[_Topic] = [(A, [0, 1, 2]), (A + " a", invalid), (A + "a", unknown), ("zzz.no", unknown)]
    yield case("unknown ones do not count", ["zzz.no", A + "a", A + " a", A], 4, None, sorted(spread))
    yield case("from an unknown one", [A, "zzz.no"], more, ("zzz.no", 7), [("zzz.no", unknown)])
    yield case("invalid", ["bad name", B], more, None, [("bad name", invalid), everything[1]])
    yield case("too long, and dots", ["x" * 250, ".."], more, None, [("..", invalid), ("x" * 250, invalid)])
    order: list[_Topic] = [(name, unknown) for name in (".x", "A", "Z", "_x", "zzz.No", "zzz.no")]
    yield case("capital letters first", [name for name, _ in reversed(order)], more, None, order)
    yield case("as Java sorts", ["\uffff", "\U00010000"], more, None, [("\U00010000", invalid), ("\uffff", invalid)])
    refused = ErrorCode.INVALID_REQUEST
    yield case("from a negative partition", [], more, (A, -1), [])
    yield case("from a negative partition of one", [B, A], more, (A, -1), [(B, refused), (A, refused)])
    yield case(
        "from a topic that was not requested", [C, A, A], more, (B, 0), [(C, refused), (A, refused), (A, refused)]
    )
    failed: list[_Topic] = [("", ErrorCode.UNKNOWN_SERVER_ERROR), (A, ErrorCode.UNKNOWN_SERVER_ERROR)]
    yield case("an empty name", ["", A], more, None, failed, ours=[("", invalid), everything[0]])
    yield case("an empty name, with a cursor", ["", A], more, ("", 0), [("", invalid), everything[0]])


def _describe_log_dirs() -> Iterator[Case]:
    Request, Response = DescribeLogDirsRequest, DescribeLogDirsResponse
    Topic, Partition = Response.DescribeLogDirsTopic, Response.DescribeLogDirsPartition

    def answer(found: dict[str, list[int]]) -> Message:
        topics = [
            Topic(name, [Partition(number, len(RECORDS) if (name, number) == (A, 0) else 0) for number in numbers])
            for name, numbers in found.items()
        ]
        result = Response.DescribeLogDirsResult(
            log_dir="/data", topics=topics, total_bytes=_ANY_BYTES, usable_bytes=_ANY_BYTES
        )
        return Response(results=[result])

    def case(name: str, asked: list[tuple[str, list[int]]], found: dict[str, list[int]]) -> Case:
        return Case(name, Request([Request.DescribableLogDirTopic(*each) for each in asked]), answer(found))

    yield Case("everything", Request(None), answer({A: [0, 1, 2], B: [0, 1], C: [0]}))
    yield case("nothing", [], {})
    yield case("some partitions", [(A, [1, 0])], {A: [0, 1]})
    yield case("several topics", [(C, [0]), (A, [2, 0, 1])], {A: [0, 1, 2], C: [0]})
    yield case("a topic without partitions", [(A, [])], {})
    yield case("a partition twice", [(A, [0, 0])], {A: [0]})
    yield case("a topic twice", [(A, [0]), (C, [0]), (A, [2, 0])], {A: [0, 2], C: [0]})
    yield case("unknown partitions", [(A, [0, 9, -1])], {A: [0]})
    yield case("unknown partitions alone", [(A, [9])], {})
    yield case("unknown topics", [("zzz.no", [0]), (A, [0]), ("bad name", [0]), ("", [-1])], {A: [0]})


def _describe_acls() -> Iterator[Case]:
    text = "No Authorizer is configured on the broker"
    refused = DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=text)
    any_type, any_pattern = ResourceType.ANY, PatternType.ANY
    any_operation, any_permission = AclOperation.ANY, AclPermissionType.ANY

    def request(kind: int, pattern: int, operation: int, permission: int, name: str | None = None) -> Message:
        return DescribeAclsRequest(kind, name, pattern, name, name, operation, permission)

    yield Case("any", request(any_type, any_pattern, any_operation, any_permission), refused)
    literal = request(ResourceType.TOPIC, PatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW, "t")
    yield Case("one", literal, refused)
    numbers = request(99, PatternType.LITERAL, 99, 99)
    yield Case("of types that do not exist", numbers, refused)
    yield Case("of an unknown resource", request(0, PatternType.LITERAL, any_operation, any_permission), None)
    yield Case("of an unknown pattern", request(any_type, 0, any_operation, any_permission), None)
    yield Case("of an unknown operation", request(any_type, PatternType.LITERAL, 0, any_permission), None)
    yield Case("of an unknown permission", request(any_type, PatternType.LITERAL, any_operation, 0), None)


def _create_acls() -> Iterator[Case]:
    Acl, Result = CreateAclsRequest.AclCreation, CreateAclsResponse.AclCreationResult
    refused = Result(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    topic, literal, read, allow = ResourceType.TOPIC, PatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW
    good = Acl(topic, "t", literal, "User:a", "*", read, allow)

    def case(name: str, *creations: Any) -> Case:
        return Case(name, CreateAclsRequest(list(creations)), CreateAclsResponse(results=[refused] * len(creations)))

    def closed(name: str, *creations: Any) -> Case:
        return Case(name, CreateAclsRequest(list(creations)), None)

    yield case("none")
    yield case("one", good)
    yield case("the same twice", good, good)
    yield case("one of nobody", good, Acl(topic, "t", literal, "nonsense", "", read, allow))
    yield case("for any", Acl(ResourceType.ANY, "", literal, "", "", AclOperation.ANY, AclPermissionType.ANY))
    yield case("of types that do not exist", Acl(99, "t", literal, "User:a", "*", 99, 99))
    yield case("of a prefix", Acl(topic, "bad name", PatternType.PREFIXED, "User:a", "*", read, allow))
    yield case("of a cluster", Acl(ResourceType.CLUSTER, "other", literal, "User:a", "*", read, allow))
    yield closed("of an unknown resource", Acl(ResourceType.UNKNOWN, "t", literal, "User:a", "*", read, allow))
    yield closed("of an unknown pattern", Acl(topic, "t", PatternType.UNKNOWN, "User:a", "*", read, allow))
    yield closed("of an unknown operation", good, Acl(topic, "t", literal, "User:a", "*", AclOperation.UNKNOWN, allow))
    yield closed("of an unknown permission", Acl(topic, "t", literal, "User:a", "*", read, AclPermissionType.UNKNOWN))


def _delete_acls() -> Iterator[Case]:
    Filter, Result = DeleteAclsRequest.DeleteAclsFilter, DeleteAclsResponse.DeleteAclsFilterResult
    refused = Result(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    kind, pattern = ResourceType.ANY, PatternType.LITERAL
    operation, permission = AclOperation.ANY, AclPermissionType.ANY
    every = Filter(kind, None, PatternType.ANY, None, None, operation, permission)

    def case(name: str, *filters: Any) -> Case:
        return Case(name, DeleteAclsRequest(list(filters)), DeleteAclsResponse(filter_results=[refused] * len(filters)))

    def closed(name: str, *filters: Any) -> Case:
        return Case(name, DeleteAclsRequest(list(filters)), None)

    yield case("none")
    yield case("any", every)
    yield case("any, twice", every, every)
    yield case("one", Filter(ResourceType.TOPIC, "t", pattern, "User:a", "*", AclOperation.READ, permission))
    yield case("of nobody", Filter(kind, "", pattern, "nonsense", "", operation, permission))
    yield case("of types that do not exist", Filter(99, None, pattern, None, None, 99, 99), every)
    yield closed("of an unknown resource", Filter(0, None, pattern, None, None, operation, permission))
    yield closed("of an unknown pattern", Filter(kind, None, 0, None, None, operation, permission))
    yield closed("of an unknown operation", every, Filter(kind, None, pattern, None, None, 0, permission))
    yield closed("of an unknown permission", Filter(kind, None, pattern, None, None, operation, 0))


def _sasl() -> Iterator[Case]:
    code = ErrorCode.ILLEGAL_SASL_STATE
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "NONSENSE", ""):
        yield Case(f"mechanism {mechanism!r}", SaslHandshakeRequest(mechanism), SaslHandshakeResponse(code))
    text = "SaslAuthenticate request received after successful authentication"
    for token in (b"", b"\0user\0password"):
        yield Case(f"token {token!r}", SaslAuthenticateRequest(token), SaslAuthenticateResponse(code, text))
