"""Requests to create and delete topics that have several faults, with Apache Kafka's answers.

The answers come from real brokers of 3.9.1, with ZooKeeper, and of 4.3.0, without; `tests/kafka/test_topic_cases.py`
asks them again. A reference broker answers like the former in a cluster, and like the latter alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["CREATIONS", "DELETIONS", "EXISTING", "NAMED_TWICE", "Creation", "Deletion"]

Topic = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment
Config = CreateTopicsRequest.CreatableTopicConfig

#: The existing topics, with one partition each. The only broker has the id 1.
EXISTING: Final = ("zzz.here", "zzz.under_score")

HERE, SIMILAR = "zzz.here", "zzz.under.score"

#: A name that no topic can have, and one that a topic could have.
BAD, NEW = "zzz a", "zzz.new"

Answer = tuple[ErrorCode, str | None]


class Creation(NamedTuple):
    """A topic in a request that is only validated.

    Attributes:
        name: what the case is about.
        topic: the topic.
        zookeeper: the answer of 3.9.1.
        raft: the answer of 4.3.0.
    """

    name: str
    topic: Topic
    zookeeper: Answer
    raft: Answer


_EXISTS: Answer = ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{HERE}' already exists."
_NULL: Answer = ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: retention.ms"
_NAME: Answer = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    f"Topic name is invalid: '{BAD}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
)
_EMPTY: Answer = ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"
_CONFIG: Answer = (
    ErrorCode.INVALID_CONFIG,
    "Invalid value soon for configuration retention.ms: Not a number of type LONG",
)
_UNKNOWN: Answer = ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"
_BOTH: Answer = (
    ErrorCode.INVALID_REQUEST,
    "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time.",
)
_ALSO_FACTOR: Answer = (
    ErrorCode.INVALID_REQUEST,
    "A manual partition assignment was specified, but replication factor was not set to -1.",
)
_PARTITIONS: Answer = ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
_FACTOR: Answer = (
    ErrorCode.INVALID_REPLICATION_FACTOR,
    "Replication factor: 9 larger than available brokers: 1.",
)
_NOT_POSITIVE: Answer = (
    ErrorCode.INVALID_PARTITIONS,
    "Number of partitions was set to an invalid non-positive value.",
)
_NO_FACTOR: Answer = (
    ErrorCode.INVALID_REPLICATION_FACTOR,
    "Replication factor must be larger than 0, or -1 to use the default value.",
)
_SIMILAR: Answer = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    f"Topic '{SIMILAR}' collides with existing topics: zzz.under_score",
)
_SIMILAR_RAFT: Answer = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    f"Topic '{SIMILAR}' collides with existing topic: zzz.under_score",
)
_PROHIBITED: Answer = (
    ErrorCode.INVALID_REQUEST,
    "Creation of internal topic __cluster_metadata is prohibited.",
)
_GAP: Answer = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "partitions should be a consecutive 0-based integer sequence",
)
_UNEVEN: Answer = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "All partitions should have the same number of replicas",
)
_FINE: Answer = ErrorCode.NONE, None


def _refused(problem: str) -> Answer:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}."


_NO_BROKER = _refused("broker 9, but no such broker is registered")
_NO_REPLICAS = _refused("an empty replica list")
_AGAIN: Answer = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "Found multiple manual partition assignments for partition 0",
)


def _configs(**values: str | None) -> list[Config]:
    return [Config(name.replace("_", "."), value) for name, value in values.items()]


def _assigned(replicas: Mapping[int, Sequence[int]]) -> list[Assignment]:
    return [Assignment(number, broker_ids) for number, broker_ids in replicas.items()]


_ONE, _GAPS = _assigned({0: [1]}), _assigned({1: [1]})
_SOON, _WITHOUT = _configs(retention_ms="soon"), _configs(retention_ms=None)

CREATIONS: Final = (
    Creation("exists, and a null", Topic(HERE, 1, 1, [], _WITHOUT), _EXISTS, _EXISTS),
    Creation("exists, and the numbers", Topic(HERE, 0, 0), _EXISTS, _EXISTS),
    Creation("exists, and a value", Topic(HERE, 1, 1, [], _SOON), _EXISTS, _EXISTS),
    Creation("a null, and numbers with an assignment", Topic(NEW, 1, 1, _ONE, _WITHOUT), _NULL, _NULL),
    Creation("a null, and an unknown name", Topic(NEW, 1, 1, [], [Config("no.such", "1"), *_WITHOUT]), _NULL, _NULL),
    Creation("a null, and a later value", Topic(NEW, 1, 1, [], [*_WITHOUT, *_configs(retention_ms="5")]), _NULL, _NULL),
    Creation("a null, and the numbers", Topic(NEW, 0, 1, [], _WITHOUT), _NULL, _NULL),
    Creation("a null, and the name", Topic(BAD, 1, 1, [], _WITHOUT), _NULL, _NAME),
    Creation("numbers with an assignment, and the name", Topic(BAD, 1, -1, _ONE), _BOTH, _NAME),
    Creation("numbers with an assignment, and a value", Topic(NEW, 1, -1, _ONE, _SOON), _BOTH, _CONFIG),
    Creation("a factor with an assignment", Topic(NEW, -1, 1, _ONE), _BOTH, _ALSO_FACTOR),
    Creation("both numbers", Topic(NEW, 0, 0), _PARTITIONS, _NO_FACTOR),
    Creation("negative partitions, and too many replicas", Topic(NEW, -2, 9), _PARTITIONS, _NOT_POSITIVE),
    Creation("the partitions, and the name", Topic(BAD, 0, 1), _PARTITIONS, _NAME),
    Creation("the partitions, and no name", Topic("", 0, 1), _PARTITIONS, _EMPTY),
    Creation("the factor, and the name", Topic(BAD, 1, 9), _FACTOR, _NAME),
    Creation("the factor, and a value", Topic(NEW, 1, 9, [], _SOON), _FACTOR, _CONFIG),
    Creation("the partitions, and a similar name", Topic(SIMILAR, 0, 1), _PARTITIONS, _SIMILAR_RAFT),
    Creation("a similar name, and a value", Topic(SIMILAR, 1, 1, [], _SOON), _SIMILAR, _SIMILAR_RAFT),
    Creation("a similar name, and the assignment", Topic(SIMILAR, -1, -1, _GAPS), _SIMILAR, _SIMILAR_RAFT),
    Creation("the name, and the assignment", Topic(BAD, -1, -1, _GAPS), _NAME, _NAME),
    Creation("the name, and a value", Topic(BAD, 1, 1, [], _SOON), _NAME, _NAME),
    Creation("the assignment, and a value", Topic(NEW, -1, -1, _GAPS, _SOON), _GAP, _CONFIG),
    Creation("numbers of replicas, and a gap", Topic(NEW, -1, -1, _assigned({0: [1], 3: [1, 9]})), _UNEVEN, _NO_BROKER),
    Creation("an unknown broker", Topic(NEW, -1, -1, _assigned({0: [9]})), _FINE, _NO_BROKER),
    Creation("a partition twice", Topic(NEW, -1, -1, [*_ONE, *_ONE]), _FINE, _AGAIN),
    Creation("no replicas", Topic(NEW, -1, -1, _assigned({0: [], 1: []})), _FINE, _NO_REPLICAS),
    Creation("some replicas", Topic(NEW, -1, -1, _assigned({0: [], 1: [1]})), _UNEVEN, _NO_REPLICAS),
    Creation(
        "an unknown name, and a value", Topic(NEW, 1, 1, [], [*_SOON, Config("no.such", "1")]), _UNKNOWN, _UNKNOWN
    ),
    Creation("a value that is replaced", Topic(NEW, 1, 1, [], [*_SOON, *_configs(retention_ms="5")]), _FINE, _FINE),
    Creation("the log of metadata, and the numbers", Topic("__cluster_metadata", 0, 0), _PROHIBITED, _PROHIBITED),
)

#: Names of topics to create, and the results of 3.9.1 and of 4.3.0: names with their errors, in any order.
NAMED_TWICE: Final = (
    [NEW, HERE, NEW],
    [
        (NEW, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
        (HERE, *_EXISTS),
        (NEW, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
    ],
    [(HERE, *_EXISTS), (NEW, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")],
)

#: The name of a topic in a deletion that exists, and its id; an id that no topic has.
T: Final = "zzz.deleted"
ID: Final = b"the topic's id.."
NO_ID: Final = b"x" * 16


class Deletion(NamedTuple):
    """A request to delete topics.

    Attributes:
        name: what the case is about.
        entries: the name and the id of each entry; `T` and `ID` stand for those of an existing topic.
        results: the answer of 3.9.1: names, ids and error codes.
        timeout_ms: the request's timeout.
    """

    name: str
    entries: Sequence[tuple[str | None, bytes]]
    results: Sequence[tuple[str | None, bytes, ErrorCode]]
    timeout_ms: int = 30_000

    def request(self, name: str, topic_id: bytes) -> DeleteTopicsRequest:
        """Return the request, given the topic."""
        states = [
            DeleteTopicsRequest.DeleteTopicState(name if each == T else each, topic_id if known == ID else known)
            for each, known in self.entries
        ]
        return DeleteTopicsRequest(states, timeout_ms=self.timeout_ms)

    def expected(self, name: str, topic_id: bytes) -> list[tuple[str | None, bytes, ErrorCode, None]]:
        """Return the results, given the topic."""
        return [
            (name if each == T else each, topic_id if known == ID else known, code, None)
            for each, known, code in self.results
        ]


_NONE, _LATE = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT
_NO_TOPIC, _NO_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
_FORBIDDEN, _INVALID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST

_BY_NAME, _BY_ID = (T, ZERO_UUID), (None, ID)

DELETIONS: Final = (
    Deletion("by name twice", [_BY_NAME, _BY_NAME], [(*_BY_NAME, _NONE)] * 2),
    Deletion("by name and by id", [_BY_NAME, _BY_ID], [(*_BY_NAME, _NONE), (T, ID, _NONE)]),
    Deletion("by id twice", [_BY_ID, _BY_ID], [(T, ID, _NONE)] * 2),
    Deletion("nothing twice", [(None, ZERO_UUID)] * 2, [(None, ZERO_UUID, _FORBIDDEN)] * 2),
    Deletion("both", [(T, ID), _BY_NAME], [(T, ID, _INVALID), (*_BY_NAME, _INVALID)]),
    Deletion("unknown ids", [(None, NO_ID)] * 2, [(None, NO_ID, _NO_TOPIC_ID)] * 2),
    Deletion("unknown names", [("zzz.no", ZERO_UUID)] * 2, [("zzz.no", ZERO_UUID, _NO_TOPIC)] * 2),
    Deletion("twice in no time", [_BY_NAME, _BY_NAME], [(*_BY_NAME, _LATE), (*_BY_NAME, _NONE)], 0),
    Deletion("by id and by name in no time", [_BY_ID, _BY_NAME], [(T, ID, _LATE), (*_BY_NAME, _NONE)], 0),
)
