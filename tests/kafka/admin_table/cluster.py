"""Cases about the cluster, its features and its quorum; and, at the end, about the deletion of topics."""

from __future__ import annotations

from kafkawire import FeatureUpdate
from tests.kafka.admin_table.cases import Masks, Scene, java, make, ours, tool

__all__ = ["SCENES"]

CLUSTER = ["nodes", "controller", "clusterId", "authorizedOperations"]
PORTS: Masks = ((r'("port": )\d+', r"\1PORT"),)
#: In KRaft, the epoch is an offset in the log of the metadata.
EPOCHS: Masks = ((r'(finalized_epoch": |FinalizedEpoch: |Epoch: )\d+', r"\1EPOCH"),)
DIRECTORY = "BwcHBwcHBwcHBwcHBwcHBw"


def update(level: int, kind: str = "UPGRADE") -> list[object]:
    """Return a FeatureUpdate of Java's Admin."""
    return [level, kind]


SCENES = [
    Scene(
        "cluster",
        [
            java("all", "describeCluster", [], ask=CLUSTER),
            java("operations", "describeCluster", [], ask=CLUSTER, includeAuthorizedOperations=True),
            java("fenced brokers", "describeCluster", [], ask=CLUSTER, includeFencedBrokers=True),
            ours("all", "describe_cluster", include_authorized_operations=True, masks=PORTS),
            java("finalized", "describeFeatures", [], ask=[["featureMetadata", "finalizedFeatures"]]),
            java("supported", "describeFeatures", [], ask=[["featureMetadata", "supportedFeatures"]]),
            java("of a broker", "describeFeatures", [], ask=[["featureMetadata", "finalizedFeatures"]], nodeId=1),
            java("of an unknown broker", "describeFeatures", [], ask=["featureMetadata"], nodeId=9, timeoutMs=1500),
            java("the same level", "updateFeatures", [[["group.version", update(1)]]]),
            java("unknown feature", "updateFeatures", [[["no.such", update(1)]]]),
            java("level too high", "updateFeatures", [[["group.version", update(99)]]]),
            java("negative level", "updateFeatures", [[["group.version", update(-1)]]]),
            java("zero by an upgrade", "updateFeatures", [[["group.version", update(0)]]]),
            java("empty name", "updateFeatures", [[["", update(1)]]]),
            java("nothing", "updateFeatures", [[]]),
            java(
                "validate a downgrade",
                "updateFeatures",
                [[["group.version", update(0, "SAFE_DOWNGRADE")]]],
                validateOnly=True,
            ),
            java(
                "downgrade of the metadata",
                "updateFeatures",
                [[["metadata.version", update(1, "SAFE_DOWNGRADE")]]],
                validateOnly=True,
            ),
            java("level of the metadata too high", "updateFeatures", [[["metadata.version", update(999)]]]),
            java("upgrade to a lower level", "updateFeatures", [[["metadata.version", update(25)]]], validateOnly=True),
            ours("all", "describe_features", masks=EPOCHS),
            ours("wrong ones", "update_features", {"no.such": FeatureUpdate(1), "group.version": FeatureUpdate(77)}),
            java("the quorum", "describeMetadataQuorum", [], ask=[["quorumInfo", "leaderId"]]),
            ours("the quorum", "describe_metadata_quorum"),
            java("unknown", "unregisterBroker", [9], ask=["all"]),
            java("negative", "unregisterBroker", [-1], ask=["all"]),
            ours("unknown", "unregister_broker", 9),
            java(
                "a voter",
                "addRaftVoter",
                [9, DIRECTORY, [["CONTROLLER", "localhost", 9]]],
                ask=["all"],
                timeoutMs=3_000,
            ),
            java("no endpoint", "addRaftVoter", [9, DIRECTORY, []], ask=["all"], timeoutMs=3_000),
            java(
                "other cluster",
                "addRaftVoter",
                [9, DIRECTORY, [["CONTROLLER", "localhost", 9]]],
                ask=["all"],
                timeoutMs=3_000,
                setClusterId="x",
            ),
            java("a voter", "removeRaftVoter", [9, DIRECTORY], ask=["all"], timeoutMs=3_000),
            tool("id", "cluster", "cluster-id"),
            tool("endpoints", "cluster", "list-endpoints"),
            tool("endpoints with fenced ones", "cluster", "list-endpoints --include-fenced-brokers"),
            tool("unregister", "cluster", "unregister --id 9"),
            tool("describe", "features", "describe", masks=EPOCHS),
            tool("describe a node", "features", "describe --node-id 1", masks=EPOCHS),
            tool("upgrade to the same", "features", "upgrade --feature group.version=1"),
            tool("upgrade too far", "features", "upgrade --feature group.version=9"),
            tool("upgrade unknown", "features", "upgrade --feature no.such=1"),
            tool("malformed", "features", "upgrade --feature group.version"),
            tool("unknown release", "features", "upgrade --release-version 9.9"),
            tool("disable unknown", "features", "disable --feature no.such"),
            tool("dry run of a downgrade", "features", "downgrade --dry-run --feature group.version=0"),
            tool("release mapping", "features", "version-mapping --release-version 4.3"),
            tool("dependencies", "features", "feature-dependencies --feature group.version=1"),
            tool("status", "metadata-quorum", "describe --status"),
            tool("replication", "metadata-quorum", "describe --replication"),
            tool(
                "remove a controller",
                "metadata-quorum",
                f"remove-controller --controller-id 9 --controller-directory-id {DIRECTORY}",
            ),
            tool("versions", "broker-api-versions", ""),
        ],
    ),
    Scene(
        "topics: deletion",
        [
            java("one", "deleteTopics", [make("ofTopicNames", ["jt-default"], of="TopicCollection")], ask=["all"]),
            java(
                "again",
                "deleteTopics",
                [make("ofTopicNames", ["jt-default"], of="TopicCollection")],
                ask=["topicNameValues"],
            ),
            java(
                "several",
                "deleteTopics",
                [make("ofTopicNames", ["jt-manual", "gone", "a/b", ""], of="TopicCollection")],
                ask=["topicNameValues"],
            ),
            java("the same twice", "deleteTopics", [["col.lide", "col.lide"]], ask=["topicNameValues"]),
            java(
                "unknown id",
                "deleteTopics",
                [make("ofTopicIds", [DIRECTORY], of="TopicCollection")],
                ask=["topicIdValues"],
            ),
            java(
                "zero id",
                "deleteTopics",
                [make("ofTopicIds", ["AAAAAAAAAAAAAAAAAAAAAA"], of="TopicCollection")],
                ask=["topicIdValues"],
            ),
            java("nothing", "deleteTopics", [[]], ask=["all"]),
            java("internal", "deleteTopics", [["__share_group_state"]], ask=["all"]),
            ours("one", "delete_topics", "ot-default"),
            ours("some", "delete_topics", "ot-manual", "gone", topic_ids=[b"\7" * 16]),
            ours("unknown", "delete_topics", "gone"),
            tool("one", "topics", "--delete --topic tt-manual"),
            tool("again", "topics", "--delete --topic tt-manual"),
            tool("again, if it exists", "topics", "--delete --if-exists --topic tt-manual"),
            tool("a pattern", "topics", "--delete --topic c.*"),
            tool("no name", "topics", "--delete"),
            tool("list", "topics", "--list"),
            java("left", "listTopics", [], ask=["names"]),
        ],
    ),
]
