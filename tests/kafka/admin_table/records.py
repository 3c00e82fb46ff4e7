"""Cases about records, offsets, log directories, reassignments and elections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from kafkawire import ConfigResourceType, ElectionType, OffsetTimestamp, TopicPartition, TopicPartitionReplica, sync
from tests.kafka.admin_table.cases import Scene, java, make, ours, tool

__all__ = ["SCENES"]

R0, R1, R7 = (["rec", number] for number in (0, 1, 7))
GONE = ["gone", 0]
P0, P1, P7, NONE = (
    TopicPartition("rec", 0),
    TopicPartition("rec", 1),
    TopicPartition("rec", 7),
    TopicPartition("gone", 0),
)


@contextmanager
def filled(bootstrap: str) -> Iterator[None]:
    """Store ten records, each in a batch of its own, with the times 1,000 to 1,009."""
    with sync.Admin(bootstrap) as admin, sync.Producer(bootstrap) as producer:
        admin.create_topics("rec-wait")  # the first topic of a node may take long
        while "rec" not in admin.list_topics():
            pass
        # These records are old, and a node checks soon after its start.
        admin.incremental_alter_configs(ConfigResourceType.TOPIC, "rec", {"retention.ms": "-1"})
        for number in range(10):
            producer.send("rec", b"value", partition=0, timestamp_ms=1_000 + number).result()
    yield


def spec(name: str, *arguments: int) -> object:
    """Return an OffsetSpec."""
    return make(name, *arguments)


def plan(*parts: tuple[str, int, list[int]], dirs: list[str] | None = None) -> str:
    """Return a reassignment file."""
    more = {} if dirs is None else {"log_dirs": dirs}
    entries = [{"topic": topic, "partition": number, "replicas": ids, **more} for topic, number, ids in parts]
    return json.dumps({"version": 1, "partitions": entries})


def ends(*parts: tuple[str, int, int]) -> str:
    """Return a file for kafka-delete-records."""
    entries = [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in parts]
    return json.dumps({"version": 1, "partitions": entries})


def before(offset: int) -> object:
    """Return a RecordsToDelete."""
    return make("beforeOffset", offset)


SPECS = ["latest", "earliest", "maxTimestamp", "earliestLocal", "latestTiered", "earliestPendingUpload"]
TIMES = {"first": 1_000, "between": 1_004, "last": 1_009, "after all": 1_010, "zero": 0, "negative": -9}

SCENES = [
    Scene("records: a topic", [java("with two partitions", "createTopics", [[["rec", 2, 1]]], ask=["all"])]),
    Scene(
        "records: offsets",
        [
            *(java(f"{name}", "listOffsets", [[[R0, spec(name)], [R1, spec(name)]]], ask=["all"]) for name in SPECS),
            *(
                java(
                    f"time {name}",
                    "listOffsets",
                    [[[R0, spec("forTimestamp", time)], [R1, spec("forTimestamp", time)]]],
                    ask=["all"],
                )
                for name, time in TIMES.items()
            ),
            java("committed", "listOffsets", [[[R0, spec("latest")]]], ask=["all"], made=["READ_COMMITTED"]),
            java(
                "unknown topic",
                "listOffsets",
                [[[GONE, spec("latest")]]],
                ask=[[["partitionResult", GONE]]],
                timeoutMs=1500,
            ),
            java(
                "unknown partition",
                "listOffsets",
                [[[R7, spec("latest")]]],
                ask=[[["partitionResult", R7]]],
                timeoutMs=1500,
            ),
            java("negative partition", "listOffsets", [[[["rec", -1], spec("latest")]]], ask=["all"], timeoutMs=1500),
            java("nothing", "listOffsets", [[]], ask=["all"]),
            java("different specs", "listOffsets", [[[R0, spec("maxTimestamp")], [R1, spec("earliest")]]], ask=["all"]),
            *(ours(f"{each.name}", "list_offsets", {P0: each, P1: each}) for each in OffsetTimestamp),
            *(ours(f"time {name}", "list_offsets", {P0: time}) for name, time in TIMES.items() if time >= 0),
            ours("committed", "list_offsets", {P0: OffsetTimestamp.LATEST}, isolation_level="read_committed"),
            ours("unknown", "list_offsets", {NONE: 0, P7: 0, P0: 0}, within_ms=1_000),
            ours("nothing", "list_offsets", {}),
            tool("a topic", "get-offsets", "--topic rec"),
            *(
                tool(f"time {time}", "get-offsets", f"--topic rec --time {time}")
                for time in (
                    -1,
                    -2,
                    -3,
                    -4,
                    -5,
                    -6,
                    1004,
                    "latest",
                    "earliest",
                    "max-timestamp",
                    "earliest-local",
                    "latest-tiered",
                    "earliest-pending-upload",
                    "soon",
                    -9,
                )
            ),
            tool("partitions", "get-offsets", "--topic rec --partitions 0,7"),
            tool("partitions with a pattern", "get-offsets", "--topic-partitions rec:0-1"),
            tool("wrong partitions", "get-offsets", "--topic-partitions rec:x"),
            tool("unknown topic", "get-offsets", "--topic gone"),
            tool("without internal ones", "get-offsets", "--exclude-internal-topics --topic rec.*"),
        ],
        filled,
    ),
    Scene(
        "records: deletion",
        [
            java("before an offset", "deleteRecords", [[[R0, before(3)]]], ask=["lowWatermarks"]),
            java("the same again", "deleteRecords", [[[R0, before(3)]]], ask=["lowWatermarks"]),
            java("before an earlier offset", "deleteRecords", [[[R0, before(1)]]], ask=["lowWatermarks"]),
            java("beyond the end", "deleteRecords", [[[R0, before(100)]]], ask=["lowWatermarks"]),
            java("negative", "deleteRecords", [[[R0, before(-7)]]], ask=["lowWatermarks"]),
            java("empty partition", "deleteRecords", [[[R1, before(0)]]], ask=["lowWatermarks"]),
            java("nothing", "deleteRecords", [[]], ask=["all"]),
            java("unknown topic", "deleteRecords", [[[GONE, before(0)]]], ask=["lowWatermarks"], timeoutMs=1500),
            java("unknown partition", "deleteRecords", [[[R7, before(0)]]], ask=["lowWatermarks"], timeoutMs=1500),
            java(
                "internal topic",
                "deleteRecords",
                [[[["__consumer_offsets", 0], before(0)]]],
                ask=["lowWatermarks"],
                timeoutMs=1500,
            ),
            java("offsets afterwards", "listOffsets", [[[R0, spec("earliest")], [R0, spec("earliest")]]], ask=["all"]),
            ours("some", "delete_records", {P0: 5, P1: 1, NONE: 0, P7: 1}, within_ms=1_000),
            ours("to the end", "delete_records", {P1: None}),
            tool("before an offset", "delete-records", "--offset-json-file @ends", ends=ends(("rec", 0, 6))),
            tool("beyond the end", "delete-records", "--offset-json-file @ends", ends=ends(("rec", 0, 60))),
            tool("twice", "delete-records", "--offset-json-file @ends", ends=ends(("rec", 0, 6), ("rec", 0, 7))),
            tool("to the end", "delete-records", "--offset-json-file @ends", ends=ends(("rec", 1, -1))),
            tool("not JSON", "delete-records", "--offset-json-file @ends", ends="{"),
            tool(
                "other version", "delete-records", "--offset-json-file @ends", ends='{"version": 2, "partitions": []}'
            ),
            tool("nothing", "delete-records", "--offset-json-file @ends", ends=ends()),
            tool("no partitions", "delete-records", "--offset-json-file @ends", ends='{"version": 1}'),
        ],
    ),
    Scene(
        "replicas: log directories",
        [
            java("a replica", "describeReplicaLogDirs", [[["rec", 0, 1]]], ask=["all"]),
            java("unknown partitions", "describeReplicaLogDirs", [[["rec", 9, 1], ["gone", 0, 1]]], ask=["all"]),
            java("unknown broker", "describeReplicaLogDirs", [[["rec", 0, 9]]], ask=["all"], timeoutMs=1500),
            java("nothing", "describeReplicaLogDirs", [[]], ask=["all"]),
            java("none", "describeLogDirs", [[]], ask=["allDescriptions"]),
            java("unknown broker", "describeLogDirs", [[9]], ask=["allDescriptions"], timeoutMs=1500),
            java("to a folder that the broker lacks", "alterReplicaLogDirs", [[[["rec", 0, 1], "/nowhere"]]]),
            java("relative folder", "alterReplicaLogDirs", [[[["rec", 0, 1], "here"]]]),
            java("unknown topic", "alterReplicaLogDirs", [[[["gone", 0, 1], "/nowhere"]]]),
            java("unknown broker", "alterReplicaLogDirs", [[[["rec", 0, 9], "/nowhere"]]], timeoutMs=1500),
            java("nothing", "alterReplicaLogDirs", [[]]),
            ours(
                "some",
                "describe_replica_log_dirs",
                [TopicPartitionReplica("rec", 0, 1), TopicPartitionReplica("gone", 0, 1)],
            ),
            ours("unknown broker", "describe_log_dirs", 9, within_ms=1_000),
            ours(
                "to a folder that the broker lacks",
                "alter_replica_log_dirs",
                {TopicPartitionReplica("rec", 0, 1): "/nowhere"},
            ),
            tool("a topic", "log-dirs", "--describe --topic-list rec"),
            tool("two topics", "log-dirs", "--describe --topic-list rec,gone"),
            tool("unknown topic", "log-dirs", "--describe --topic-list gone"),
            tool("a broker", "log-dirs", "--describe --topic-list rec --broker-list 1"),
            tool("unknown broker", "log-dirs", "--describe --broker-list 9"),
            tool("no action", "log-dirs", "--topic-list rec"),
        ],
    ),
    Scene(
        "replicas: reassignments and elections",
        [
            java("none", "listPartitionReassignments", [None], ask=["reassignments"]),
            java("of some", "listPartitionReassignments", [[R0, GONE]], ask=["reassignments"]),
            java("to itself", "alterPartitionReassignments", [[[R0, [[1]]]]], ask=["values"]),
            java("to an unknown broker", "alterPartitionReassignments", [[[R0, [[9]]]]], ask=["values"]),
            java("to nobody", "alterPartitionReassignments", [[[R0, [[]]]]], ask=["values"]),
            java("twice to a broker", "alterPartitionReassignments", [[[R0, [[1, 1]]]]], ask=["values"]),
            java("to a negative broker", "alterPartitionReassignments", [[[R0, [[-1]]]]], ask=["values"]),
            java("more replicas", "alterPartitionReassignments", [[[R0, [[1, 2]]]]], ask=["values"]),
            java("cancel", "alterPartitionReassignments", [[[R0, None]]], ask=["values"]),
            java("unknown topic", "alterPartitionReassignments", [[[GONE, [[1]]]]], ask=["values"]),
            java("unknown partition", "alterPartitionReassignments", [[[R7, [[1]]]]], ask=["values"]),
            java("negative partition", "alterPartitionReassignments", [[[["rec", -1], [[1]]]]], ask=["values"]),
            java("empty topic", "alterPartitionReassignments", [[[["", 0], [[1]]]]], ask=["values"]),
            java("nothing", "alterPartitionReassignments", [[]], ask=["all"]),
            java("some", "alterPartitionReassignments", [[[R0, [[1]]], [GONE, None]]], ask=["values"]),
            java(
                "fixed number of replicas",
                "alterPartitionReassignments",
                [[[R0, [[1, 1]]]]],
                ask=["values"],
                allowReplicationFactorChange=False,
            ),
            java("preferred", "electLeaders", ["PREFERRED", [R0]], ask=["partitions"]),
            java("unclean", "electLeaders", ["UNCLEAN", [R0]], ask=["partitions"]),
            java("unknown", "electLeaders", ["PREFERRED", [GONE, R7]], ask=["partitions"]),
            java("nothing", "electLeaders", ["PREFERRED", []], ask=["partitions"]),
            java("all", "electLeaders", ["UNCLEAN", None], ask=["all"]),
            ours("none", "list_partition_reassignments"),
            ours("some", "list_partition_reassignments", [P0, NONE]),
            ours("some", "alter_partition_reassignments", {P0: [1], NONE: [1], P7: None, P1: [7]}),
            ours("preferred", "elect_leaders", ElectionType.PREFERRED, P0, NONE, P7),
            ours("all", "elect_leaders", ElectionType.UNCLEAN, all_partitions=True),
            tool("list", "reassign-partitions", "--list"),
            tool(
                "execute", "reassign-partitions", "--execute --reassignment-json-file @plan", plan=plan(("rec", 0, [1]))
            ),
            tool(
                "verify", "reassign-partitions", "--verify --reassignment-json-file @plan", plan=plan(("rec", 0, [1]))
            ),
            tool(
                "unknown broker",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("rec", 0, [9])),
            ),
            tool(
                "unknown topic",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("gone", 0, [1])),
            ),
            tool(
                "unknown partition",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("rec", 7, [1])),
            ),
            tool(
                "no replicas",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("rec", 0, [])),
            ),
            tool(
                "same replica twice",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("rec", 0, [1, 1])),
            ),
            tool(
                "partition twice",
                "reassign-partitions",
                "--execute --reassignment-json-file @plan",
                plan=plan(("rec", 0, [1]), ("rec", 0, [1])),
            ),
            tool("nothing", "reassign-partitions", "--execute --reassignment-json-file @plan", plan=plan()),
            tool("not JSON", "reassign-partitions", "--execute --reassignment-json-file @plan", plan="{"),
            tool(
                "folder that the broker lacks",
                "reassign-partitions",
                "--execute --timeout 100 --reassignment-json-file @plan",
                plan=plan(("rec", 0, [1]), dirs=["/nowhere"]),
            ),
            tool(
                "cancel", "reassign-partitions", "--cancel --reassignment-json-file @plan", plan=plan(("rec", 0, [1]))
            ),
            tool(
                "generate",
                "reassign-partitions",
                "--generate --topics-to-move-json-file @topics --broker-list 1",
                topics='{"version":1,"topics":[{"topic":"rec"}]}',
            ),
            tool(
                "generate for an unknown topic",
                "reassign-partitions",
                "--generate --topics-to-move-json-file @topics --broker-list 1",
                topics='{"version":1,"topics":[{"topic":"gone"}]}',
            ),
            tool(
                "generate for an unknown broker",
                "reassign-partitions",
                "--generate --topics-to-move-json-file @topics --broker-list 9",
                topics='{"version":1,"topics":[{"topic":"rec"}]}',
            ),
            tool("preferred", "leader-election", "--election-type preferred --topic rec --partition 0"),
            tool("unclean", "leader-election", "--election-type unclean --topic rec --partition 0"),
            tool("unknown topic", "leader-election", "--election-type preferred --topic gone --partition 0"),
            tool("unknown partition", "leader-election", "--election-type preferred --topic rec --partition 7"),
            tool(
                "from a file",
                "leader-election",
                "--election-type preferred --path-to-json-file @parts",
                parts='{"partitions":[{"topic":"rec","partition":0},{"topic":"gone","partition":0}]}',
            ),
            tool(
                "a partition twice",
                "leader-election",
                "--election-type preferred --path-to-json-file @parts",
                parts='{"partitions":[{"topic":"rec","partition":0},{"topic":"rec","partition":0}]}',
            ),
            tool("not JSON", "leader-election", "--election-type preferred --path-to-json-file @parts", parts="{"),
            tool("wrong type", "leader-election", "--election-type best --topic rec --partition 0"),
        ],
    ),
]
