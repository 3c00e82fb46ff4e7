"""Cases about groups of each type, empty and with a member, and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkawire import ConfigResourceType, OffsetAndMetadata, TopicPartition, sync
from tests.kafka.admin_table.cases import Masks, Scene, java, new, ours, tool

__all__ = ["SCENES"]

G0, G1, G7 = (["grp", number] for number in (0, 1, 7))
GONE = ["gone", 0]
P0, P1, P7, NONE = (TopicPartition(*each) for each in (("grp", 0), ("grp", 1), ("grp", 7), ("gone", 0)))

#: The ids that brokers and clients give to members.
IDS: Masks = (
    (r"(kafkawire-)?[\w.-]*-?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "MEMBER"),
    (r"MEMBER[\w-]{22}", "MEMBER"),
)
#: The columns of a table are as wide as the widest value, which may be an address.
COLUMNS: Masks = (*IDS, (r" {2,}", "  "))

#: The order of a set in Java is different in each JVM.
ORDER: Masks = ((r"(scenarios|states are): .*", r"\1 …"),)


def at(offset: int, metadata: str = "") -> list[Any]:
    """Return an OffsetAndMetadata of Java's Admin."""
    return [offset, metadata]


@contextmanager
def filled(bootstrap: str) -> Iterator[None]:
    """Store ten records in partition 0."""
    with sync.Admin(bootstrap) as admin, sync.Producer(bootstrap) as producer:
        while "grp" not in admin.list_topics():
            pass
        # These records are old, and a node checks soon after its start.
        admin.incremental_alter_configs(ConfigResourceType.TOPIC, "grp", {"retention.ms": "-1"})
        for number in range(10):
            producer.send("grp", b"value", partition=0, timestamp_ms=1_000 + number).result()
    yield


@contextmanager
def members(bootstrap: str) -> Iterator[None]:
    """Run a static member of a classic group, one of a consumer group, and a member of a share group."""
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "group_instance_id": "i1", "client_id": "reader"}
    with (
        sync.Consumer(bootstrap, "grp", group_id="classic-live", group_protocol="classic", **options) as classic,
        sync.Consumer(bootstrap, "grp", group_id="consumer-live", group_protocol="consumer", **options) as newer,
        sync.ShareConsumer(bootstrap, "grp", group_id="share-live", client_id="reader") as shared,
        sync.Admin(bootstrap) as admin,
    ):
        for consumer in (classic, newer):
            while not consumer.assignment:
                consumer.getmany(timeout_ms=50)
        while not any(each.group_id == "share-live" and each.state == "Stable" for each in admin.list_groups()):
            shared.getmany(timeout_ms=50)
        for consumer in (classic, newer):
            consumer.commit({P0: 4})
        yield


DESCRIBED = [["describedGroups"]]

SCENES = [
    Scene("groups: a topic", [java("with two partitions", "createTopics", [[["grp", 2, 1]]], ask=["all"])]),
    Scene(
        "groups: empty ones and their offsets",
        [
            java("a new group", "alterConsumerGroupOffsets", ["g", [[G0, at(3, "note")], [G1, at(0)]]], ask=["all"]),
            java(
                "unknown topic", "alterConsumerGroupOffsets", ["g", [[GONE, at(3)]]], ask=[[["partitionResult", GONE]]]
            ),
            java(
                "unknown partition",
                "alterConsumerGroupOffsets",
                ["g", [[G7, at(3)], [G0, at(4)]]],
                ask=[[["partitionResult", G7]], [["partitionResult", G0]]],
            ),
            java("beyond the end", "alterConsumerGroupOffsets", ["g2", [[G0, at(400)]]], ask=["all"]),
            java("long metadata", "alterConsumerGroupOffsets", ["g2", [[G0, at(4, "m" * 5000)]]], ask=["all"]),
            java("empty group id", "alterConsumerGroupOffsets", ["", [[G0, at(4)]]], ask=["all"]),
            java("nothing", "alterConsumerGroupOffsets", ["g2", []], ask=["all"]),
            java("all", "listConsumerGroupOffsets", [[["g", new()]]], ask=["all"]),
            java("some", "listConsumerGroupOffsets", [[["g", new(topicPartitions=[G1, G7, GONE])]]], ask=["all"]),
            java("two groups", "listConsumerGroupOffsets", [[["g", new()], ["g2", new()]]], ask=["all"]),
            java("unknown group", "listConsumerGroupOffsets", [[["nobody", new()]]], ask=["all"]),
            java("stable ones", "listConsumerGroupOffsets", [[["g", new()]]], ask=["all"], requireStable=True),
            java("empty group id", "listConsumerGroupOffsets", [[["", new()]]], ask=["all"]),
            java("no partitions", "listConsumerGroupOffsets", [[["g", new(topicPartitions=[])]]], ask=["all"]),
            java("one", "describeConsumerGroups", [["g"]], ask=DESCRIBED),
            java("unknown", "describeConsumerGroups", [["nobody"]], ask=DESCRIBED),
            java("empty id", "describeConsumerGroups", [[""]], ask=DESCRIBED),
            java("nothing", "describeConsumerGroups", [[]], ask=["all"]),
            java("operations", "describeConsumerGroups", [["g"]], ask=DESCRIBED, includeAuthorizedOperations=True),
            java("one", "describeClassicGroups", [["g"]], ask=DESCRIBED),
            java("unknown", "describeClassicGroups", [["nobody"]], ask=DESCRIBED),
            java("operations", "describeClassicGroups", [["g"]], ask=DESCRIBED, includeAuthorizedOperations=True),
            java("a classic one", "describeShareGroups", [["g"]], ask=DESCRIBED),
            java("unknown", "describeShareGroups", [["nobody"]], ask=DESCRIBED),
            java("a classic one", "describeStreamsGroups", [["g"]], ask=DESCRIBED),
            java("unknown", "describeStreamsGroups", [["nobody"]], ask=DESCRIBED),
            ours("some", "describe_streams_groups", "g", "nobody"),
            tool("list", "streams-groups", "--list"),
            tool("describe unknown", "streams-groups", "--describe --group nobody"),
            java("all", "listGroups", [], ask=["all"]),
            java("empty", "listGroups", [], ask=["all"], inGroupStates=["EMPTY"]),
            java("stable", "listGroups", [], ask=["all"], inGroupStates=["STABLE"]),
            java("classic", "listGroups", [], ask=["all"], withTypes=["CLASSIC"]),
            java("share", "listGroups", [], ask=["all"], withTypes=["SHARE"]),
            java("streams", "listGroups", [], ask=["all"], withTypes=["STREAMS"]),
            java("protocol type", "listGroups", [], ask=["all"], withProtocolTypes=["connect"]),
            java("no protocol type", "listGroups", [], ask=["all"], withProtocolTypes=[""]),
            java("all", "listConsumerGroups", [], ask=["all"]),
            java("states", "listConsumerGroups", [], ask=["all"], inGroupStates=["EMPTY", "DEAD"]),
            java("some", "deleteConsumerGroupOffsets", ["g", [G1]], ask=["all"]),
            java("what it lacks", "deleteConsumerGroupOffsets", ["g", [G1]], ask=["all"]),
            java("unknown topic", "deleteConsumerGroupOffsets", ["g", [GONE]], ask=[[["partitionResult", GONE]]]),
            java("unknown partition", "deleteConsumerGroupOffsets", ["g", [G7]], ask=[[["partitionResult", G7]]]),
            java("unknown group", "deleteConsumerGroupOffsets", ["nobody", [G0]], ask=["all"]),
            java("nothing", "deleteConsumerGroupOffsets", ["g", []], ask=["all"]),
            java("nobody", "removeMembersFromConsumerGroup", ["g"], made=[[["i1"]]], ask=["all"]),
            java("all of an empty group", "removeMembersFromConsumerGroup", ["g"], made=[], ask=["all"]),
            java("of an unknown group", "removeMembersFromConsumerGroup", ["nobody"], made=[[["i1"]]], ask=["all"]),
            java("all of an unknown group", "removeMembersFromConsumerGroup", ["nobody"], made=[], ask=["all"]),
            ours("one", "describe_groups", "g", include_authorized_operations=True),
            ours("unknown", "describe_groups", "nobody"),
            ours("some", "describe_groups", "g", "nobody", ""),
            ours("all", "list_groups"),
            ours("filtered", "list_groups", states=["Empty"], types=["classic"], protocol_types=[""]),
            ours("unknown state", "list_groups", states=["Sleepy"]),
            ours("one group", "list_group_offsets", "g"),
            ours("some", "list_group_offsets_of", {"g": [P0, NONE], "nobody": None}),
            ours("some", "alter_group_offsets", "g3", {P0: 3, P1: OffsetAndMetadata(1, "n"), NONE: 1, P7: 1}),
            ours("lag", "lag", "g3"),
            ours("lag of nobody", "lag", "nobody"),
            ours("some", "delete_group_offsets", "g3", P0, NONE, P7),
            ours("unknown group", "delete_group_offsets", "nobody", P0),
            ours("unknown members", "remove_group_members", "g3", "i", member_ids=["m"]),
            tool("describe", "consumer-groups", "--describe --group g", masks=COLUMNS),
            tool("describe state", "consumer-groups", "--describe --group g --state", masks=COLUMNS),
            tool("describe members", "consumer-groups", "--describe --group g --members", masks=COLUMNS),
            tool("describe verbosely", "consumer-groups", "--describe --group g --verbose", masks=COLUMNS),
            tool("describe all", "consumer-groups", "--describe --all-groups", masks=COLUMNS, unordered=True),
            tool("describe unknown", "consumer-groups", "--describe --group nobody"),
            tool("describe two", "consumer-groups", "--describe --group g --group nobody", masks=COLUMNS),
            tool("list", "consumer-groups", "--list", unordered=True),
            tool("list states", "consumer-groups", "--list --state", masks=COLUMNS, unordered=True),
            tool("list types", "consumer-groups", "--list --type classic", masks=COLUMNS, unordered=True),
            tool("list stable ones", "consumer-groups", "--list --state Stable"),
            tool("list an unknown state", "consumer-groups", "--list --state Sleepy", masks=ORDER),
            tool(
                "to earliest",
                "consumer-groups",
                "--reset-offsets --group g --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool(
                "to latest",
                "consumer-groups",
                "--reset-offsets --group g --topic grp --to-latest --execute",
                masks=COLUMNS,
            ),
            tool(
                "dry run",
                "consumer-groups",
                "--reset-offsets --group g --topic grp --to-earliest --dry-run",
                masks=COLUMNS,
            ),
            tool(
                "to an offset",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --to-offset 5 --execute",
                masks=COLUMNS,
            ),
            tool(
                "beyond the end",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --to-offset 500 --execute",
                masks=COLUMNS,
            ),
            tool(
                "shift",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --shift-by -2 --execute",
                masks=COLUMNS,
            ),
            tool(
                "to current",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --to-current --execute",
                masks=COLUMNS,
            ),
            tool(
                "to a time",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --to-datetime 1970-01-01T00:00:01.004 --execute",
                masks=COLUMNS,
            ),
            tool(
                "wrong time",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --to-datetime yesterday --execute",
            ),
            tool(
                "by duration",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:0 --by-duration P1D --execute",
                masks=COLUMNS,
            ),
            tool(
                "all topics",
                "consumer-groups",
                "--reset-offsets --group g --all-topics --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool("export", "consumer-groups", "--reset-offsets --group g --topic grp --to-current --export"),
            tool(
                "from a file",
                "consumer-groups",
                "--reset-offsets --group g --from-file @file --execute",
                masks=COLUMNS,
                file="grp,0,6\n",
            ),
            tool(
                "from a wrong file",
                "consumer-groups",
                "--reset-offsets --group g --from-file @file --execute",
                masks=COLUMNS,
                file="grp\n",
            ),
            tool("unknown topic", "consumer-groups", "--reset-offsets --group g --topic gone --to-earliest --execute"),
            tool(
                "unknown partition",
                "consumer-groups",
                "--reset-offsets --group g --topic grp:7 --to-earliest --execute",
            ),
            tool(
                "a new group",
                "consumer-groups",
                "--reset-offsets --group fresh --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool(
                "no place",
                "consumer-groups",
                "--reset-offsets --group g --topic grp --execute",
                masks=(*COLUMNS, *ORDER),
            ),
            tool("no topic", "consumer-groups", "--reset-offsets --group g --to-earliest --execute"),
            tool("delete offsets", "consumer-groups", "--delete-offsets --group g --topic grp:0", masks=COLUMNS),
            tool(
                "delete offsets of an unknown topic",
                "consumer-groups",
                "--delete-offsets --group g --topic gone",
                masks=COLUMNS,
            ),
            tool(
                "delete offsets of nobody",
                "consumer-groups",
                "--delete-offsets --group nobody --topic grp",
                masks=COLUMNS,
            ),
            tool("list", "groups", "--list", masks=COLUMNS, unordered=True),
            tool("list classic ones", "groups", "--list --group-type classic", masks=COLUMNS, unordered=True),
            tool("list consumer groups", "groups", "--list --consumer", masks=COLUMNS, unordered=True),
            tool("list share groups", "groups", "--list --share", masks=COLUMNS),
            tool("list a protocol", "groups", "--list --protocol consumer", masks=COLUMNS, unordered=True),
            tool("list an unknown type", "groups", "--list --group-type odd"),
            tool("delete", "consumer-groups", "--delete --group fresh"),
            tool("delete again", "consumer-groups", "--delete --group fresh"),
            java("some", "deleteConsumerGroups", [["g2", "nobody"]], ask=["deletedGroups"]),
            java("nothing", "deleteConsumerGroups", [[]], ask=["all"]),
            java("empty id", "deleteConsumerGroups", [[""]], ask=["deletedGroups"]),
            java("a classic one", "deleteShareGroups", [["g"]], ask=["deletedGroups"]),
            java("a classic one", "deleteStreamsGroups", [["g3"]], ask=["deletedGroups"]),
            java("unknown", "deleteStreamsGroups", [["nobody"]], ask=["deletedGroups"]),
            java("unknown", "listStreamsGroupOffsets", [[["nobody", new()]]], ask=["all"]),
            java("unknown", "alterStreamsGroupOffsets", ["sg", [[G0, at(1)]]], ask=["all"]),
            java("unknown", "deleteStreamsGroupOffsets", ["nobody", [G0]], ask=["all"]),
            ours("some", "delete_groups", "g", "nobody", ""),
        ],
        filled,
    ),
    Scene(
        "groups: empty share groups",
        [
            java("a new group", "alterShareGroupOffsets", ["s", [[G0, 3], [G1, 0]]], ask=["all"]),
            java("unknown topic", "alterShareGroupOffsets", ["s", [[GONE, 3]]], ask=[[["partitionResult", GONE]]]),
            java("unknown partition", "alterShareGroupOffsets", ["s", [[G7, 3]]], ask=[[["partitionResult", G7]]]),
            java("nothing", "alterShareGroupOffsets", ["s", []], ask=["all"]),
            java("empty group id", "alterShareGroupOffsets", ["", [[G0, 3]]], ask=["all"]),
            java("all", "listShareGroupOffsets", [[["s", new()]]], ask=["all"]),
            java("some", "listShareGroupOffsets", [[["s", new(topicPartitions=[G0])]]], ask=["all"]),
            java(
                "unknown partitions",
                "listShareGroupOffsets",
                [[["s", new(topicPartitions=[G7, GONE])]]],
                ask=["all"],
                timeoutMs=8_000,
            ),
            java("unknown group", "listShareGroupOffsets", [[["nobody", new()]]], ask=["all"]),
            java("empty", "describeShareGroups", [["s", "nobody"]], ask=DESCRIBED),
            java("operations", "describeShareGroups", [["s"]], ask=DESCRIBED, includeAuthorizedOperations=True),
            java("a share group", "describeConsumerGroups", [["s"]], ask=DESCRIBED),
            java("a share group", "describeClassicGroups", [["s"]], ask=DESCRIBED),
            java("of a share group", "alterConsumerGroupOffsets", ["s", [[G0, at(3)]]], ask=["all"]),
            java("of a share group", "listConsumerGroupOffsets", [[["s", new()]]], ask=["all"]),
            java("of a share group", "deleteConsumerGroupOffsets", ["s", [G0]], ask=["all"]),
            java("share", "listGroups", [], ask=["all"], withTypes=["SHARE"]),
            java(
                "some",
                "deleteShareGroupOffsets",
                ["s", ["grp", "gone"]],
                ask=[[["topicResult", "grp"]], [["topicResult", "gone"]]],
            ),
            java("again", "deleteShareGroupOffsets", ["s", ["grp"]], ask=["all"]),
            java("unknown group", "deleteShareGroupOffsets", ["nobody", ["grp"]], ask=["all"]),
            ours("some", "describe_share_groups", "s", "nobody"),
            ours("operations", "describe_share_groups", "s", include_authorized_operations=True),
            ours("a share group", "describe_groups", "s"),
            ours("some", "alter_share_group_offsets", "s2", {P0: 2, NONE: 1, P7: 1}),
            ours("all", "list_share_group_offsets", "s2"),
            ours("some", "list_share_group_offsets", "s2", P0),
            ours("unknown group", "list_share_group_offsets", "nobody"),
            ours("some", "delete_share_group_offsets", "s2", "grp", "gone"),
            tool("list", "share-groups", "--list", unordered=True),
            tool("list states", "share-groups", "--list --state", masks=COLUMNS, unordered=True),
            tool("describe", "share-groups", "--describe --group s", masks=COLUMNS),
            tool("describe state", "share-groups", "--describe --group s --state", masks=COLUMNS),
            tool("describe members", "share-groups", "--describe --group s --members", masks=COLUMNS),
            tool("describe unknown", "share-groups", "--describe --group nobody", masks=COLUMNS),
            tool(
                "to earliest",
                "share-groups",
                "--reset-offsets --group s2 --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool(
                "to latest",
                "share-groups",
                "--reset-offsets --group s2 --topic grp --to-latest --execute",
                masks=COLUMNS,
            ),
            tool(
                "dry run",
                "share-groups",
                "--reset-offsets --group s2 --topic grp --to-earliest --dry-run",
                masks=COLUMNS,
            ),
            tool(
                "to a time",
                "share-groups",
                "--reset-offsets --group s2 --topic grp --to-datetime 1970-01-01T00:00:01.004 --execute",
                masks=COLUMNS,
            ),
            tool(
                "unknown topic",
                "share-groups",
                "--reset-offsets --group s2 --topic gone --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool(
                "unknown group",
                "share-groups",
                "--reset-offsets --group nobody --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool("describe offsets", "share-groups", "--describe --group s2 --offsets --verbose", masks=COLUMNS),
            tool("delete offsets", "share-groups", "--delete-offsets --group s2 --topic grp", masks=COLUMNS),
            tool(
                "delete offsets of nobody", "share-groups", "--delete-offsets --group nobody --topic grp", masks=COLUMNS
            ),
            tool("delete", "share-groups", "--delete --group s2"),
            tool("delete again", "share-groups", "--delete --group s2"),
            java("some", "deleteShareGroups", [["s", "nobody"]], ask=["deletedGroups"]),
            ours("some", "delete_share_groups", "s", "nobody"),
        ],
    ),
    Scene(
        "groups: with members",
        [
            *(
                java(f"{kind}", "describeConsumerGroups", [[f"{kind}-live"]], ask=DESCRIBED, masks=IDS)
                for kind in ("classic", "consumer", "share")
            ),
            java("classic", "describeClassicGroups", [["classic-live"]], ask=DESCRIBED, masks=IDS),
            java("consumer", "describeClassicGroups", [["consumer-live"]], ask=DESCRIBED, masks=IDS),
            java("share", "describeShareGroups", [["share-live"]], ask=DESCRIBED, masks=IDS),
            java("consumer", "describeShareGroups", [["consumer-live"]], ask=DESCRIBED, masks=IDS),
            java("all", "listGroups", [], ask=["all"]),
            java("stable", "listGroups", [], ask=["all"], inGroupStates=["STABLE"]),
            java("consumer", "listGroups", [], ask=["all"], withTypes=["CONSUMER"]),
            java("classic", "alterConsumerGroupOffsets", ["classic-live", [[G0, at(1)]]], ask=["all"]),
            java("consumer", "alterConsumerGroupOffsets", ["consumer-live", [[G0, at(1)]]], ask=["all"]),
            java("share", "alterShareGroupOffsets", ["share-live", [[G0, 1]]], ask=["all"]),
            java("classic", "deleteConsumerGroupOffsets", ["classic-live", [G0]], ask=[[["partitionResult", G0]]]),
            java("consumer", "deleteConsumerGroupOffsets", ["consumer-live", [G0]], ask=[[["partitionResult", G0]]]),
            java("share", "deleteShareGroupOffsets", ["share-live", ["grp"]], ask=[[["topicResult", "grp"]]]),
            java("active", "deleteConsumerGroups", [["classic-live", "consumer-live"]], ask=["deletedGroups"]),
            java("active", "deleteShareGroups", [["share-live"]], ask=["deletedGroups"]),
            java("consumer", "listConsumerGroupOffsets", [[["consumer-live", new()]]], ask=["all"]),
            ours(
                "all types",
                "describe_groups",
                "classic-live",
                "consumer-live",
                include_authorized_operations=True,
                masks=IDS,
            ),
            ours("share", "describe_share_groups", "share-live", masks=IDS),
            ours("classic", "lag", "classic-live", masks=IDS),
            ours("consumer", "lag", "consumer-live", masks=IDS),
            ours("classic", "alter_group_offsets", "classic-live", {P0: 1}),
            ours("active", "delete_groups", "classic-live", "consumer-live", "share-live"),
            ours("unknown members", "remove_group_members", "consumer-live", "x", member_ids=["m"]),
            tool("describe", "consumer-groups", "--describe --group consumer-live", masks=COLUMNS),
            tool(
                "describe members",
                "consumer-groups",
                "--describe --group classic-live --members --verbose",
                masks=COLUMNS,
            ),
            tool(
                "describe members of a consumer group",
                "consumer-groups",
                "--describe --group consumer-live --members --verbose",
                masks=COLUMNS,
            ),
            tool(
                "describe state", "consumer-groups", "--describe --group consumer-live --state --verbose", masks=COLUMNS
            ),
            tool(
                "reset",
                "consumer-groups",
                "--reset-offsets --group classic-live --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool("delete", "consumer-groups", "--delete --group consumer-live"),
            tool(
                "delete offsets", "consumer-groups", "--delete-offsets --group consumer-live --topic grp", masks=COLUMNS
            ),
            tool("list stable ones", "consumer-groups", "--list --state stable", masks=COLUMNS, unordered=True),
            tool(
                "describe members", "share-groups", "--describe --group share-live --members --verbose", masks=COLUMNS
            ),
            tool("describe state", "share-groups", "--describe --group share-live --state --verbose", masks=COLUMNS),
            tool(
                "reset",
                "share-groups",
                "--reset-offsets --group share-live --topic grp --to-earliest --execute",
                masks=COLUMNS,
            ),
            tool("delete", "share-groups", "--delete --group share-live"),
            tool("list", "groups", "--list", masks=COLUMNS, unordered=True),
            java(
                "unknown",
                "removeMembersFromConsumerGroup",
                ["classic-live"],
                made=[[["i2"]]],
                ask=[[["memberResult", ["i2"]]]],
            ),
            java(
                "one",
                "removeMembersFromConsumerGroup",
                ["classic-live"],
                made=[[["i1"]]],
                ask=[[["memberResult", ["i1"]]]],
            ),
        ],
        members,
    ),
]
