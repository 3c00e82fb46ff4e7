"""Cases about topics and partitions."""

from __future__ import annotations

from kafkawire import NewPartitions, NewTopic
from tests.kafka.admin_table.cases import Scene, java, make, new, ours, tool

__all__ = ["SCENES"]

CREATED = ["values", "topicId", "numPartitions", "replicationFactor", "config"]


def created(*names: str) -> list[list[list[str]]]:
    """Return the paths of what a creation returns about topics, in place of the times of its configurations."""
    return [[["numPartitions", name]] for name in names] + [[["replicationFactor", name]] for name in names]


def topic(name: str, partitions: int | None = 1, factor: int | None = 1, **configs: str) -> object:
    """Return a NewTopic of Java's Admin; the dots in the names of configurations are written as `_`."""
    named = [[key.replace("_", "."), value] for key, value in configs.items()]
    return new(name, partitions, factor, configs=named) if configs else [name, partitions, factor]


LONG = "l" * 249

SCENES = [
    Scene(
        "topics: creation",
        [
            java("one", "createTopics", [[topic("jt", 3)]], ask=["all", [["config", "jt"]], [["numPartitions", "jt"]]]),
            java("exists", "createTopics", [[topic("jt")]]),
            java("defaults", "createTopics", [[["jt-default", None, None]]], ask=created("jt-default")),
            java("validate only", "createTopics", [[topic("jt-valid")]], ask=created("jt-valid"), validateOnly=True),
            java("validate an existing one", "createTopics", [[topic("jt")]], validateOnly=True),
            java("nothing", "createTopics", [[]]),
            java("empty name", "createTopics", [[topic("")]]),
            java("name .", "createTopics", [[topic(".")]]),
            java("name ..", "createTopics", [[topic("..")]]),
            java("slash in the name", "createTopics", [[topic("a/b")]]),
            java("space in the name", "createTopics", [[topic("a b")]]),
            java("other alphabet", "createTopics", [[topic("größe")]]),
            java("longest name", "createTopics", [[topic(LONG)]], ask=created(LONG)),
            java("name too long", "createTopics", [[topic(LONG + "l")]]),
            java("colliding name", "createTopics", [[topic("col.lide")]], ask=created("col.lide")),
            java("collision", "createTopics", [[topic("col_lide")]]),
            java("collision in one request", "createTopics", [[topic("c.1"), topic("c_1")]], ask=["values"]),
            java("after a collision", "deleteTopics", [["c.1", "c_1"]], ask=["topicNameValues"]),
            java("the same twice", "createTopics", [[topic("twice"), topic("twice")]]),
            java("zero partitions", "createTopics", [[topic("bad", 0)]]),
            java("negative partitions", "createTopics", [[topic("bad", -2)]]),
            java("too many partitions", "createTopics", [[topic("bad", 10_001)]]),
            java("zero replicas", "createTopics", [[topic("bad", 1, 0)]]),
            java("negative replicas", "createTopics", [[topic("bad", 1, -2)]]),
            java("two replicas", "createTopics", [[topic("bad", 1, 2)]]),
            java("assignment", "createTopics", [[["jt-manual", [[0, [1]], [1, [1]]]]]], ask=created("jt-manual")),
            java("assignment with a gap", "createTopics", [[["bad", [[0, [1]], [2, [1]]]]]]),
            java("assignment without partition 0", "createTopics", [[["bad", [[1, [1]]]]]]),
            java("assignment to nobody", "createTopics", [[["bad", [[0, []]]]]]),
            java("assignment to an unknown broker", "createTopics", [[["bad", [[0, [9]]]]]]),
            java("assignment twice to a broker", "createTopics", [[["bad", [[0, [1, 1]]]]]]),
            java("assignment to a negative broker", "createTopics", [[["bad", [[0, [-1]]]]]]),
            java("uneven assignment", "createTopics", [[["bad", [[0, [1]], [1, [1, 2]]]]]]),
            java("empty assignment", "createTopics", [[["bad", []]]]),
            java("unknown configuration", "createTopics", [[topic("bad", no_such="1")]]),
            java("value out of range", "createTopics", [[topic("bad", segment_bytes="1")]]),
            java("value of another type", "createTopics", [[topic("bad", retention_ms="soon")]]),
            java("unknown policy", "createTopics", [[topic("bad", cleanup_policy="burn")]]),
            java("policies", "createTopics", [[topic("both", cleanup_policy="compact,delete")]], ask=created("both")),
            java("empty policy", "createTopics", [[topic("no-policy", cleanup_policy="")]], ask=created("no-policy")),
            java("bad boolean", "createTopics", [[topic("bad", unclean_leader_election_enable="maybe")]]),
            java("bad ratio", "createTopics", [[topic("bad", min_cleanable_dirty_ratio="1.5")]]),
            java("bad replicas list", "createTopics", [[topic("bad", leader_replication_throttled_replicas="1")]]),
            java("remote storage", "createTopics", [[topic("bad", remote_storage_enable="true")]]),
            java("retention lag", "createTopics", [[topic("bad", local_retention_ms="9", retention_ms="5")]]),
            java(
                "compaction lags",
                "createTopics",
                [[topic("bad", min_compaction_lag_ms="9", max_compaction_lag_ms="5")]],
            ),
            java("internal name", "createTopics", [[topic("__share_group_state")]], validateOnly=True),
            java("reserved name", "createTopics", [[topic("__cluster_metadata")]], validateOnly=True),
            java("some fail", "createTopics", [[topic("jt"), topic("half"), topic("a/b")]], ask=["values"]),
            java("no time", "createTopics", [[topic("jt-late")]], timeoutMs=0, validateOnly=True),
            ours("one", "create_topics", NewTopic("ot", 2, 1, {"retention.ms": "1000"})),
            ours("exists", "create_topics", NewTopic("ot", 2, 1)),
            ours("only a name", "create_topics", "ot-default"),
            ours("validate only", "create_topics", NewTopic("ot-valid", 2, 1), validate_only=True),
            ours("nothing", "create_topics", []),
            ours("slash in the name", "create_topics", NewTopic("a/b")),
            ours("assignment", "create_topics", NewTopic("ot-manual", assignments={0: (1,), 1: (1,)})),
            ours("assignment to an unknown broker", "create_topics", NewTopic("bad", assignments={0: (7,)})),
            ours("unknown configuration", "create_topics", NewTopic("bad", configs={"no.such": "1"})),
            ours("two replicas", "create_topics", NewTopic("bad", 1, 2)),
            ours("some fail", "create_topics", NewTopic("ot"), NewTopic("ot-half"), NewTopic("bad", 0)),
            tool("one", "topics", "--create --topic tt --partitions 2 --config retention.ms=5000"),
            tool("exists", "topics", "--create --topic tt"),
            tool("unless it exists", "topics", "--create --if-not-exists --topic tt"),
            tool("no name", "topics", "--create"),
            tool("two replicas", "topics", "--create --topic bad --replication-factor 2"),
            tool("zero partitions", "topics", "--create --topic bad --partitions 0"),
            tool("assignment", "topics", "--create --topic tt-manual --replica-assignment 1,1,1"),
            tool("uneven assignment", "topics", "--create --topic bad --replica-assignment 1,1:2"),
            tool("assignment and partitions", "topics", "--create --topic bad --replica-assignment 1 --partitions 1"),
            tool("dot in the name", "topics", "--create --topic tt.dot"),
            tool("unknown configuration", "topics", "--create --topic bad --config no.such=1"),
            tool("malformed configuration", "topics", "--create --topic bad --config retention.ms"),
        ],
    ),
    Scene(
        "topics: descriptions",
        [
            java("one", "describeTopics", [["jt"]], ask=["topicNameValues"]),
            java("unknown", "describeTopics", [["gone"]], ask=["topicNameValues"]),
            java("several", "describeTopics", [["jt", "gone", "a/b", "ot", ""]], ask=["topicNameValues"]),
            java("the same twice", "describeTopics", [["jt", "jt"]], ask=["topicNameValues"]),
            java("nothing", "describeTopics", [[]], ask=["topicNameValues"]),
            java("operations", "describeTopics", [["jt"]], ask=["topicNameValues"], includeAuthorizedOperations=True),
            java(
                "pages",
                "describeTopics",
                [["jt", "ot", "tt"]],
                ask=["topicNameValues"],
                partitionSizeLimitPerResponse=2,
            ),
            java(
                "unknown id", "describeTopics", [make("ofTopicIds", ["BwcHBwcHBwcHBwcHBwcHBw"], of="TopicCollection")]
            ),
            java("zero id", "describeTopics", [make("ofTopicIds", ["AAAAAAAAAAAAAAAAAAAAAA"], of="TopicCollection")]),
            java("names", "listTopics", [], ask=["names"]),
            java("names with internal ones", "listTopics", [], ask=["names"], listInternal=True),
            java("listings", "listTopics", [], ask=["listings"]),
            ours("one", "describe_topics", "jt"),
            ours("unknown", "describe_topics", "gone"),
            ours("some", "describe_topics", "jt", "gone", "ot"),
            ours("operations", "describe_topics", "ot", include_authorized_operations=True),
            ours("unknown id", "describe_topics", topic_ids=[b"\7" * 16]),
            ours("all", "list_topics"),
            ours("internal ones", "list_topics", include_internal=True),
            tool("all", "topics", "--list"),
            tool("without internal ones", "topics", "--list --exclude-internal"),
            tool("list one", "topics", "--list --topic tt"),
            tool("list a pattern", "topics", "--list --topic tt.*"),
            tool("describe one", "topics", "--describe --topic tt"),
            tool("describe a pattern", "topics", "--describe --topic jt.*"),
            tool("describe unknown", "topics", "--describe --topic gone"),
            tool("describe unknown, if it exists", "topics", "--describe --if-exists --topic gone"),
            tool("describe an unknown id", "topics", "--describe --topic-id BwcHBwcHBwcHBwcHBwcHBw"),
            tool("describe a malformed id", "topics", "--describe --topic-id x"),
            tool("with overrides", "topics", "--describe --topics-with-overrides"),
            tool("under-replicated", "topics", "--describe --under-replicated-partitions"),
            tool("unavailable", "topics", "--describe --unavailable-partitions"),
            tool("at min ISR", "topics", "--describe --at-min-isr-partitions --topic jt"),
            tool("under min ISR", "topics", "--describe --under-min-isr-partitions"),
        ],
    ),
    Scene(
        "topics: more partitions",
        [
            java("three to four", "createPartitions", [[["jt", make("increaseTo", 4)]]]),
            java("the same", "createPartitions", [[["jt", make("increaseTo", 4)]]]),
            java("fewer", "createPartitions", [[["jt", make("increaseTo", 2)]]]),
            java("zero", "createPartitions", [[["jt", make("increaseTo", 0)]]]),
            java("too many", "createPartitions", [[["jt", make("increaseTo", 20_000)]]], validateOnly=True),
            java("unknown topic", "createPartitions", [[["gone", make("increaseTo", 2)]]]),
            java("empty name", "createPartitions", [[["", make("increaseTo", 2)]]]),
            java("validate only", "createPartitions", [[["jt", make("increaseTo", 9)]]], validateOnly=True),
            java("assignment", "createPartitions", [[["jt", make("increaseTo", 5, [[1]])]]]),
            java("assignment too short", "createPartitions", [[["jt", make("increaseTo", 7, [[1]])]]]),
            java("assignment to an unknown broker", "createPartitions", [[["jt", make("increaseTo", 6, [[5]])]]]),
            java("assignment to two", "createPartitions", [[["jt", make("increaseTo", 6, [[1, 2]])]]]),
            java("empty assignment", "createPartitions", [[["jt", make("increaseTo", 6, [[]])]]]),
            java("nothing", "createPartitions", [[]]),
            java("some", "createPartitions", [[["jt", make("increaseTo", 6)], ["gone", make("increaseTo", 2)]]]),
            ours("two to three", "create_partitions", {"ot": 3}),
            ours("some", "create_partitions", {"ot": 1, "gone": 2, "tt": NewPartitions(3, ((1,),))}),
            ours("validate only", "create_partitions", {"ot": 9, "a/b": 3}, validate_only=True),
            tool("to four", "topics", "--alter --topic tt --partitions 4"),
            tool("to two", "topics", "--alter --topic tt --partitions 2"),
            tool("unknown topic", "topics", "--alter --topic gone --partitions 2"),
            tool("unknown topic, if it exists", "topics", "--alter --if-exists --topic gone --partitions 2"),
            tool("assignment", "topics", "--alter --topic tt --partitions 5 --replica-assignment 1,1,1,1,1"),
            tool("describe", "topics", "--describe --topic tt"),
            java("describe", "describeTopics", [["jt"]], ask=["topicNameValues"]),
        ],
    ),
]
