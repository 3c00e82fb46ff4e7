"""The differences between the brokers that are right, each with its reason and what it consists of."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EXPLAINED", "Explained"]


class Explained(NamedTuple):
    """A difference that is right.

    Attributes:
        reason: why the reference broker does not do what Kafka does.
        theirs: what Kafka's outcome contains, and the reference broker's does not.
        ours: what the reference broker's outcome contains, and Kafka's does not.
    """

    reason: str
    theirs: str
    ours: str


_QUORUM = "the reference broker is no part of a quorum, and has no voters, epochs and offsets to show"
_FEATURES = (
    "the node of Kafka was started without the feature eligible.leader.replicas.version, which sets a configuration of "
    "its own"
)
_LEVELS = "nothing in the reference broker works at a lower level of a feature, so that no level can be lowered"
_MESSAGE = "UnsupportedVersionException"

#: The differences, keyed by the names of the scene and the case.
EXPLAINED: dict[tuple[str, str], Explained] = {
    ("topics: creation", "Java createTopics: collision in one request"): Explained(
        "Kafka compares a topic with those that exist, but not with those of the same request, and would create both",
        '"c_1": null',
        "Topic 'c_1' collides with existing topic: c.1",
    ),
    ("topics: creation", "Java deleteTopics: after a collision"): Explained(
        "the reference broker has not created the second topic", '"c_1": null', '"c_1": {'
    ),
    ("topics: creation", "our create_topics: validate only"): Explained(
        "a topic that is not created has no id; Kafka returns one that nobody will ever see again",
        '"topic_id": "ID"',
        '"topic_id": "00000000000000000000000000000000"',
    ),
    ("topics: more partitions", "Java createPartitions: too many"): Explained(
        "Kafka fails after adding as many partitions as a batch of its log may have",
        "UnknownServerException",
        "PolicyViolationException: cannot add 19996 partitions",
    ),
    ("configurations: topics", "Java describeConfigs: with documentation"): Explained(
        "the documentation is written in this project's own words",
        "This config designates the retention policy",
        "How old records are removed.",
    ),
    ("configurations: brokers", "Java incrementalAlterConfigs: broker: too many threads"): Explained(
        "the reference broker has no threads that this would add; Kafka limits each change to a factor of two",
        "Dynamic thread count update validation failed",
        '"all": null',
    ),
    ("configurations: brokers", "Java incrementalAlterConfigs: broker: bad connections per ip"): Explained(
        "Kafka's text is about a position in a string",
        "begin 0, end -1, length 6",
        "'nohost' is not of the form ADDRESS:NUMBER",
    ),
    ("groups: empty share groups", "Java listShareGroupOffsets: unknown partitions"): Explained(
        "Kafka does not answer as long as its share coordinator does not know a partition",
        "TimeoutException",
        '"grp-7": null',
    ),
    ("cluster", "Java describeFeatures: finalized"): Explained(_FEATURES, "", "eligible.leader.replicas"),
    ("cluster", "Java describeFeatures: of a broker"): Explained(_FEATURES, "", "eligible.leader.replicas"),
    ("cluster", "our describe_features: all"): Explained(_FEATURES, "", '"eligible.leader.replicas.version": 1,'),
    ("cluster", "Java updateFeatures: validate a downgrade"): Explained(
        _LEVELS, '"all": null', "Can't downgrade the version of this feature"
    ),
    ("cluster", "kafka-features: describe"): Explained(_FEATURES, "FinalizedVersionLevel: 0", ""),
    ("cluster", "kafka-features: describe a node"): Explained(_FEATURES, "FinalizedVersionLevel: 0", ""),
    ("cluster", "kafka-features: dry run of a downgrade"): Explained(
        _LEVELS, "can be downgraded to 0", "Can't downgrade the version of this feature"
    ),
    ("cluster", "kafka-metadata-quorum: status"): Explained(_QUORUM, "LeaderEpoch:", _MESSAGE),
    ("cluster", "kafka-metadata-quorum: replication"): Explained(_QUORUM, "LogEndOffset", _MESSAGE),
    ("cluster", "kafka-metadata-quorum: remove a controller"): Explained(_QUORUM, "VoterNotFoundException", _MESSAGE),
    ("cluster", "Java describeMetadataQuorum: the quorum"): Explained(_QUORUM, ": 1", _MESSAGE),
    ("cluster", "our describe_metadata_quorum: the quorum"): Explained(_QUORUM, "high_watermark", "raised"),
    ("cluster", "Java addRaftVoter: a voter"): Explained(_QUORUM, "TimeoutException", _MESSAGE),
    ("cluster", "Java addRaftVoter: no endpoint"): Explained(_QUORUM, "didn't include the endpoint", _MESSAGE),
    ("cluster", "Java removeRaftVoter: a voter"): Explained(_QUORUM, "VoterNotFoundException", _MESSAGE),
}
