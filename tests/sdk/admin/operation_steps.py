"""Steps of an administrator, with what Apache Kafka 4.3.0 answers to each: values without ids, and the texts of errors.

`run` takes every step against a broker and returns the outcomes, to be compared with `EXPECTED`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from kafkawire import (
    Admin,
    AlterConfigOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    Consumer,
    ItemResults,
    KafkaWireError,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetTimestamp,
    Producer,
    TopicPartition,
    TopicPartitionReplica,
)
from kafkawire.sdk.protocol.uuids import METADATA_TOPIC_UUID

__all__ = ["EXPECTED", "run"]

#: How long to wait for a partition that does not exist.
PATIENCE_MS = 600

TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
METRICS = ConfigResourceType.CLIENT_METRICS

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
A7, B0, GONE = TopicPartition("a", 7), TopicPartition("b", 0), TopicPartition("gone", 0)

#: Why only the members of a group commit.
HAS_MEMBERS = "the group has members, and only they may commit: stop them first"

#: An id that no topic has.
NO_ID = b"\7" * 16


class Steps:
    """The outcomes of the steps so far, keyed by name."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Any] = {}

    async def take(self, name: str, work: Awaitable[Any], shown: Any = None) -> Any:
        """Take a step, and note its outcome.

        Args:
            name: the name of the step.
            work: the call.
            shown: returns what is noted of each value; None to note the value.
        """
        show = shown or (lambda value: value)
        try:
            result = await work
        except KafkaWireError as error:
            results = error.results
            self.outcomes[name] = str(error) if results is None else _results(results, show)
            return None
        if isinstance(result, ItemResults):
            self.outcomes[name] = _results(result, show)
        elif isinstance(result, dict):
            self.outcomes[name] = {key: show(value) for key, value in result.items()}
        else:
            self.outcomes[name] = show(result)
        return result


def _results(results: Any, show: Any) -> dict[Any, Any]:
    """Return the outcome of each item: what is shown of its value, or the text of its error."""
    shown = {_key(key): show(value) for key, value in results.values.items()}
    return shown | {_key(key): str(error) for key, error in results.errors.items()}


def _key(key: Any) -> Any:
    """Return an item, or a text in place of the id of a topic unless the test has chosen it."""
    return "an id" if isinstance(key, bytes) and key not in (NO_ID, METADATA_TOPIC_UUID) else key


async def run(bootstrap: str, *, in_cluster: bool = False) -> dict[str, Any]:
    """Take every step against a broker that has no topics or groups of these names yet.

    Args:
        bootstrap: the address of the broker.
        in_cluster: whether the broker belongs to a cluster with a ZooKeeper, which has no KIP-848 groups and no
            configurations of groups and client metrics.
    """
    steps = Steps()
    async with Admin(bootstrap) as admin:
        await _topics(steps, admin)
        await _configs(steps, admin, in_cluster)
        await _records(steps, bootstrap, admin)
        await _groups(steps, bootstrap, admin, ("classic",) if in_cluster else ("classic", "consumer"))
        await _transactions(steps, bootstrap, admin)
        await _deletions(steps, admin)
    return steps.outcomes


async def _topics(steps: Steps, admin: Admin) -> None:
    def created(topic: Any) -> Any:
        return topic.partitions, topic.replication_factor, topic.configs["retention.ms"].value

    new = [NewTopic("a", 3, 1, {"retention.ms": "7200000"}), NewTopic("b", 1, 1, {"cleanup.policy": "compact"})]
    await steps.take("validate topics", admin.create_topics(*new, validate_only=True), created)
    await steps.take("create topics", admin.create_topics(*new), created)
    bad = [NewTopic("a"), NewTopic("zero", 0), NewTopic("far", 1, 9), NewTopic("odd", configs={"retention.ms": "x"})]
    await steps.take("create wrong topics", admin.create_topics(*bad, NewTopic("c", 1, 1)), created)
    await _await_topics(admin, "a", "b", "c")

    def described(topic: Any) -> Any:
        operations = topic.authorized_operations
        names = None if operations is None else sorted(each.name for each in operations)
        return topic.name, len(topic.partitions), topic.is_internal, names

    await steps.take("describe topics", admin.describe_topics("a", "gone", "b"), described)
    allowed = admin.describe_topics("c", include_authorized_operations=True)
    await steps.take("describe a topic's operations", allowed, described)
    ids = {name: topic.topic_id for name, topic in (await admin.list_topics()).items()}
    await steps.take("describe by id", admin.describe_topics("b", topic_ids=[ids["a"]]), described)
    await steps.take("describe an unknown id", admin.describe_topics(topic_ids=[NO_ID]), described)
    await steps.take("describe the reserved id", admin.describe_topics(topic_ids=[METADATA_TOPIC_UUID]), described)

    def cluster(value: Any) -> Any:
        return sorted(value.brokers), sorted(each.name for each in value.authorized_operations)

    await steps.take("describe the cluster", admin.describe_cluster(include_authorized_operations=True), cluster)
    grown = {"a": 4, "b": NewPartitions(2, ((7,),)), "gone": 2, "c": 1}
    await steps.take("validate partitions", admin.create_partitions(grown, validate_only=True))

    def log_dirs(value: Any) -> Any:
        return value.path is not None, value.offset_lag, value.future_path, value.future_offset_lag

    node_id = next(iter((await admin.describe_cluster()).brokers))
    replicas = [TopicPartitionReplica(*partition, node_id) for partition in (A0, GONE)]
    await steps.take("describe replicas", admin.describe_replica_log_dirs(replicas), log_dirs)


async def _configs(steps: Steps, admin: Admin, in_cluster: bool) -> None:
    a, b, gone, group = (
        ConfigResource(*each) for each in ((TOPIC, "a"), (TOPIC, "b"), (TOPIC, "gone"), (GROUP, "settings"))
    )

    def entry(configs: Any) -> Any:
        found = configs.get("retention.ms")
        return None if found is None else (found.value, found.source, found.config_type, len(found.synonyms))

    everything = admin.describe_configs_of(a, b, gone, include_synonyms=True)
    await steps.take("describe configurations", everything, entry)
    changes = {
        a: {"retention.ms": "3600000"},
        b: [ConfigChange("cleanup.policy", "delete", AlterConfigOperation.APPEND)],
        gone: {"retention.ms": "1"},
        ConfigResource(TOPIC, "c"): {"retention.ms": "x"},
        group: {"consumer.session.timeout.ms": "50000"},
        ConfigResource(METRICS, "pushed"): {"interval.ms": "60000"},
    }
    await steps.take("validate changes", admin.incremental_alter_configs_of(changes, validate_only=True))
    await steps.take("make changes", admin.incremental_alter_configs_of(changes))
    if in_cluster:
        await steps.take("list resources", admin.list_config_resources(METRICS))
        return
    while not await admin.list_config_resources(METRICS):  # in KRaft, brokers learn of a change after the response
        pass
    await steps.take("list resources", admin.list_config_resources(GROUP, METRICS))
    named = admin.list_config_resources(TOPIC)
    await steps.take("list topics that have configurations", named, lambda found: {a, b} <= set(found))


async def _records(steps: Steps, bootstrap: str, admin: Admin) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(5):
            producer.send("a", b"v", partition=0, timestamp_ms=1_000 + number)
        producer.send("b", b"v", key=b"k")
        await producer.flush()
    short = admin.within(PATIENCE_MS)
    ends = {A0: 2, A1: 0, A2: None, B0: 1, GONE: 0, A7: 0}
    await steps.take("delete records", short.delete_records(ends))
    await steps.take("delete records beyond the end", admin.delete_records({A0: 6, A1: 1}))
    for time in OffsetTimestamp:
        await steps.take(f"offset {time.name}", short.list_offsets({A0: time, A1: time}), lambda found: found.offset)
    await steps.take("offset by time", short.list_offsets({A0: 1_003, A1: 0, GONE: 0}), tuple)


async def _groups(steps: Steps, bootstrap: str, admin: Admin, protocols: Sequence[str]) -> None:
    offsets = {A0: 3, A1: OffsetAndMetadata(0, "note"), GONE: 1, A7: 1}
    await steps.take("commit for a new group", admin.alter_group_offsets("g", offsets))
    await steps.take("offsets of groups", admin.list_group_offsets_of(["g", "nobody"]))
    await steps.take("chosen offsets", admin.list_group_offsets_of({"g": [A1, A2, GONE]}, require_stable=True))

    def lag(found: Any) -> Any:
        lags = {
            partition: (each.committed and each.committed.offset, each.end_offset, each.lag, bool(each.member))
            for partition, each in found.partitions.items()
        }
        return found.group.state, found.group.group_type, found.group.protocol_type, lags, found.total

    await steps.take("lag", admin.lag("g"), lag)
    await steps.take("lag of nobody", admin.lag("nobody"), lag)
    for protocol in protocols:
        name = f"{protocol}-group"
        options: Any = {"group_protocol": protocol, "group_id": name, "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap, "a", group_instance_id="i", **options) as consumer:
            while not consumer.assignment or not await _is_stable(admin, name):
                await consumer.getmany(timeout_ms=50)
            await consumer.commit({A0: 4})
            await _active_group(steps, admin, protocol, name, lag)
        removed = admin.remove_group_members(name, all_members=True)  # static members do not leave when they are closed
        await steps.take(f"{protocol}: remove all", removed, lambda found: found)
    listed = admin.list_groups(states=["empty"], protocol_types=["consumer", ""])
    own = ("g", "classic-group", "consumer-group")
    await steps.take("list groups", listed, lambda found: [tuple(each) for each in found if each.group_id in own])
    await steps.take("delete offsets", admin.delete_group_offsets("g", A0, A2, GONE, A7))
    await steps.take("delete offsets of nobody", admin.delete_group_offsets("nobody", A0))
    await steps.take("offsets left", admin.list_group_offsets_of(["g"]))
    await steps.take("delete groups", admin.delete_groups("g", "nobody", ""))


async def _active_group(steps: Steps, admin: Admin, protocol: str, name: str, lag: Any) -> None:
    def group(found: Any) -> Any:
        (member,) = found.members
        return (
            *(found.state, found.protocol, found.group_type, found.protocol_type, found.coordinator_id),
            *(member.group_instance_id, member.group_protocol, member.assignment, member.target_assignment),
            sorted(each.name for each in found.authorized_operations),
        )

    described = admin.describe_groups(name, include_authorized_operations=True)
    await steps.take(f"{protocol}: describe", described, group)
    await steps.take(f"{protocol}: lag", admin.lag(name), lag)
    await steps.take(f"{protocol}: commit", admin.alter_group_offsets(name, {A0: 0}))
    await steps.take(f"{protocol}: delete offsets", admin.delete_group_offsets(name, A0, B0))
    await steps.take(f"{protocol}: delete", admin.delete_groups(name))
    types = admin.list_groups(types=[protocol.upper()], states=["Stable"])
    await steps.take(f"{protocol}: list", types, lambda found: [each.group_type for each in found if each[0] == name])
    unknown = admin.remove_group_members(name, "j", member_ids=["m"], reason="test")
    await steps.take(f"{protocol}: remove unknown members", unknown)


async def _transactions(steps: Steps, bootstrap: str, admin: Admin) -> None:
    def producers(found: Any) -> Any:
        return [
            (each.producer_epoch, each.last_sequence, each.coordinator_epoch, each.transaction_start_offset)
            for each in found
            if each.transaction_start_offset is not None or each.coordinator_epoch is not None
        ]

    def transaction(found: Any) -> Any:
        return found.state, found.coordinator_id, found.start_ms is not None, found.partitions

    def listing(found: Any) -> Any:
        return [(each.transactional_id, each.state) for each in found if each.transactional_id == "x"]

    async with Producer(bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("a", b"open", partition=1)
        await steps.take("describe transactions", admin.describe_transactions("x", "gone"), transaction)
        producer_id = (await admin.describe_transactions("x")).all()["x"].producer_id
        filters: dict[str, dict[str, Any]] = {
            "all": {},
            "states": {"states": ["Ongoing", "Empty"]},
            "other states": {"states": ["CompleteCommit", "PrepareAbort"]},
            "producers": {"producer_ids": [producer_id]},
            "other producers": {"producer_ids": [producer_id + 1_000_000]},
            "duration": {"longer_than_ms": 3_600_000},
            "pattern": {"pattern": "[xyz]"},
            "other pattern": {"pattern": "xx"},
            "wrong pattern": {"pattern": "("},
        }
        for name, given in filters.items():
            await steps.take(f"list transactions: {name}", admin.list_transactions(**given), listing)
        short = admin.within(PATIENCE_MS)
        await steps.take("describe producers", short.describe_producers(A1, GONE, A7), producers)
        for level in ("read_uncommitted", "read_committed"):
            latest = admin.list_offsets({A1: OffsetTimestamp.LATEST}, isolation_level=level)
            await steps.take(f"offset {level}", latest, lambda found: found.offset)
        await steps.take("hanging transactions", admin.find_hanging_transactions("a", "b", silent_for_ms=0))
        (state,) = (
            each for each in (await admin.describe_producers(A1)).all()[A1] if each.transaction_start_offset is not None
        )
        identity: dict[str, Any] = {"producer_id": state.producer_id, "producer_epoch": state.producer_epoch}
        old = admin.abort_transaction(A1, producer_id=state.producer_id, producer_epoch=0, coordinator_epoch=0)
        await steps.take("abort in a partition", old)
        await steps.take("abort in a partition that is gone", short.abort_transaction(GONE, **identity))
        await steps.take("producers after the abort", admin.describe_producers(A1), producers)
        await steps.take("fence", admin.fence_producers("x"), lambda found: found.producer_epoch > state.producer_epoch)
        await steps.take("terminate", admin.force_terminate_transaction("new"))
        try:
            await producer.send("a", b"fenced", partition=1)
            await producer.commit_transaction()
        except KafkaWireError as error:
            steps.outcomes["the fenced producer"] = type(error).__name__


async def _deletions(steps: Steps, admin: Admin) -> None:
    ids = {name: topic.topic_id for name, topic in (await admin.list_topics()).items()}
    deletion = admin.delete_topics("b", "gone", topic_ids=[ids["a"], NO_ID])
    await steps.take("delete topics", deletion)


async def _await_topics(admin: Admin, *names: str) -> None:
    """Wait until a broker leads all partitions: in KRaft, the controller answers before its brokers know the topic."""
    while True:
        try:
            described = await admin.describe_topics(*names)
            partitions = [TopicPartition(name, number) for name in names for number in described[name].partitions]
            await admin.list_offsets(dict.fromkeys(partitions, OffsetTimestamp.LATEST))
            return
        except KafkaWireError as error:
            if not error.retriable:
                raise


async def _is_stable(admin: Admin, group_id: str) -> bool:
    try:
        group = (await admin.describe_groups(group_id))[group_id]
    except KafkaWireError:
        return False
    return group.state == "Stable" and all(member.assignment for member in group.members)


#: What Apache Kafka 4.3.0 answers.
EXPECTED: Mapping[str, Any] = {
    "validate topics": {"a": (3, 1, "7200000"), "b": (1, 1, "604800000")},
    "create topics": {"a": (3, 1, "7200000"), "b": (1, 1, "604800000")},
    "create wrong topics": {
        "c": (1, 1, "604800000"),
        "a": "TOPIC_ALREADY_EXISTS: create topic a: Topic 'a' already exists.",
        "zero": (
            "INVALID_PARTITIONS: create topic zero: Number of partitions was set to an invalid non-positive value."
        ),
        "far": (
            "INVALID_REPLICATION_FACTOR: create topic far: "
            "Unable to replicate the partition 9 time(s): The target replication factor of 9 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        ),
        "odd": (
            "INVALID_CONFIG: create topic odd: "
            "Invalid value x for configuration retention.ms: Not a number of type LONG"
        ),
    },
    "describe topics": {
        "a": ("a", 3, False, None),
        "b": ("b", 1, False, None),
        "gone": "UNKNOWN_TOPIC_OR_PARTITION: topic gone",
    },
    "describe a topic's operations": {
        "c": (
            "c",
            1,
            False,
            ["ALTER", "ALTER_CONFIGS", "CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"],
        )
    },
    "describe by id": {"b": ("b", 1, False, None), "a": ("a", 3, False, None)},
    "describe an unknown id": {NO_ID: "UNKNOWN_TOPIC_ID: topic with id BwcHBwcHBwcHBwcHBwcHBw"},
    "describe the reserved id": {METADATA_TOPIC_UUID: "UNKNOWN_TOPIC_ID: topic with id AAAAAAAAAAAAAAAAAAAAAQ"},
    "describe the cluster": (
        [1],
        ["ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE"],
    ),
    "validate partitions": {
        "a": None,
        "b": (
            "INVALID_REPLICA_ASSIGNMENT: create partitions of b: "
            "The manual partition assignment includes broker 7, but no such broker is registered."
        ),
        "gone": "UNKNOWN_TOPIC_OR_PARTITION: create partitions of gone",
        "c": "INVALID_PARTITIONS: create partitions of c: Topic already has 1 partition(s).",
    },
    "describe replicas": {
        TopicPartitionReplica("a", 0, 1): (True, 0, None, None),
        TopicPartitionReplica("gone", 0, 1): (False, None, None, None),
    },
    "describe configurations": {
        ConfigResource(TOPIC, "a"): ("7200000", 1, 5, 1),
        ConfigResource(TOPIC, "b"): ("604800000", 5, 5, 0),
        ConfigResource(TOPIC, "gone"): "UNKNOWN_TOPIC_OR_PARTITION: configuration of topic gone",
    },
    "validate changes": {
        ConfigResource(TOPIC, "a"): None,
        ConfigResource(TOPIC, "b"): None,
        ConfigResource(GROUP, "settings"): None,
        ConfigResource(METRICS, "pushed"): None,
        ConfigResource(TOPIC, "gone"): (
            "UNKNOWN_TOPIC_OR_PARTITION: configuration of topic gone: The topic 'gone' does not exist."
        ),
        ConfigResource(TOPIC, "c"): (
            "INVALID_CONFIG: configuration of topic c: "
            "Invalid value x for configuration retention.ms: Not a number of type LONG"
        ),
    },
    "make changes": {
        ConfigResource(TOPIC, "a"): None,
        ConfigResource(TOPIC, "b"): None,
        ConfigResource(GROUP, "settings"): None,
        ConfigResource(METRICS, "pushed"): None,
        ConfigResource(TOPIC, "gone"): (
            "UNKNOWN_TOPIC_OR_PARTITION: configuration of topic gone: The topic 'gone' does not exist."
        ),
        ConfigResource(TOPIC, "c"): (
            "INVALID_CONFIG: configuration of topic c: "
            "Invalid value x for configuration retention.ms: Not a number of type LONG"
        ),
    },
    "list resources": [ConfigResource(METRICS, "pushed"), ConfigResource(GROUP, "settings")],
    "list topics that have configurations": True,
    "delete records": {
        A0: 2,
        A1: 0,
        A2: 0,
        B0: 1,
        GONE: "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0",
        A7: "UNKNOWN_TOPIC_OR_PARTITION: partition a-7: topic a has partitions 0 to 2",
    },
    "delete records beyond the end": {
        A0: "OFFSET_OUT_OF_RANGE: delete records of a-0",
        A1: "OFFSET_OUT_OF_RANGE: delete records of a-1",
    },
    "offset EARLIEST_PENDING_UPLOAD": {A0: -1, A1: -1},
    "offset LATEST_TIERED": {A0: -1, A1: -1},
    "offset EARLIEST_LOCAL": {A0: 2, A1: 0},
    "offset MAX_TIMESTAMP": {A0: 4, A1: -1},
    "offset EARLIEST": {A0: 2, A1: 0},
    "offset LATEST": {A0: 5, A1: 0},
    "offset by time": {A0: (3, 1003, 0), A1: (-1, -1, -1), GONE: "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0"},
    "commit for a new group": {
        A0: None,
        A1: None,
        GONE: "UNKNOWN_TOPIC_OR_PARTITION: commit of group g in gone-0",
        A7: "UNKNOWN_TOPIC_OR_PARTITION: commit of group g in a-7",
    },
    "offsets of groups": {"g": {A0: OffsetAndMetadata(3), A1: OffsetAndMetadata(0, "note")}, "nobody": {}},
    "chosen offsets": {"g": {A1: OffsetAndMetadata(0, "note")}},
    "lag": ("Empty", "classic", "", {A0: (3, 5, 2, False), A1: (0, 0, 0, False)}, 2),
    "lag of nobody": {"nobody": "GROUP_ID_NOT_FOUND: group nobody"},
    "classic: describe": {
        "classic-group": (
            "Stable",
            "range",
            "classic",
            "consumer",
            1,
            "i",
            "classic",
            (A0, A1, A2),
            None,
            ["ALTER_CONFIGS", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ"],
        )
    },
    "classic: lag": (
        "Stable",
        "classic",
        "consumer",
        {A0: (4, 5, 1, True), A1: (None, 0, None, True), A2: (None, 0, None, True)},
        1,
    ),
    "classic: commit": {A0: f"UNKNOWN_MEMBER_ID: commit of group classic-group in a-0: {HAS_MEMBERS}"},
    "classic: delete offsets": {
        B0: None,
        A0: "GROUP_SUBSCRIBED_TO_TOPIC: committed offset of group classic-group in a-0",
    },
    "classic: delete": {"classic-group": "NON_EMPTY_GROUP: group classic-group"},
    "classic: list": ["classic"],
    "classic: remove unknown members": {
        "j": "UNKNOWN_MEMBER_ID: member j of group classic-group",
        "m": "UNKNOWN_MEMBER_ID: member m of group classic-group",
    },
    "classic: remove all": {"i": None},
    "consumer: describe": {
        "consumer-group": (
            "Stable",
            "uniform",
            "consumer",
            "consumer",
            1,
            "i",
            "consumer",
            (A0, A1, A2),
            (A0, A1, A2),
            ["ALTER_CONFIGS", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ"],
        )
    },
    "consumer: lag": (
        "Stable",
        "consumer",
        "consumer",
        {A0: (4, 5, 1, True), A1: (None, 0, None, True), A2: (None, 0, None, True)},
        1,
    ),
    "consumer: commit": {A0: f"UNKNOWN_MEMBER_ID: commit of group consumer-group in a-0: {HAS_MEMBERS}"},
    "consumer: delete offsets": {
        B0: None,
        A0: "GROUP_SUBSCRIBED_TO_TOPIC: committed offset of group consumer-group in a-0",
    },
    "consumer: delete": {"consumer-group": "NON_EMPTY_GROUP: group consumer-group"},
    "consumer: list": ["consumer"],
    "consumer: remove unknown members": {
        "j": "UNKNOWN_MEMBER_ID: member j of group consumer-group",
        "m": "UNKNOWN_MEMBER_ID: member m of group consumer-group",
    },
    "consumer: remove all": {"i": None},
    "list groups": [
        ("classic-group", "consumer", "Empty", "classic"),
        ("consumer-group", "consumer", "Empty", "consumer"),
        ("g", "", "Empty", "classic"),
    ],
    "delete offsets": {
        A0: None,
        A2: None,
        GONE: "UNKNOWN_TOPIC_OR_PARTITION: committed offset of group g in gone-0",
        A7: "UNKNOWN_TOPIC_OR_PARTITION: committed offset of group g in a-7",
    },
    "delete offsets of nobody": {A0: "GROUP_ID_NOT_FOUND: committed offsets of group nobody"},
    "offsets left": {"g": {A1: OffsetAndMetadata(0, "note")}},
    "delete groups": {"g": None, "nobody": "GROUP_ID_NOT_FOUND: group nobody", "": "GROUP_ID_NOT_FOUND: group "},
    "describe transactions": {
        "x": ("Ongoing", 1, True, (A1,)),
        "gone": "TRANSACTIONAL_ID_NOT_FOUND: transactional id gone",
    },
    "list transactions: all": [("x", "Ongoing")],
    "list transactions: states": [("x", "Ongoing")],
    "list transactions: other states": [],
    "list transactions: producers": [("x", "Ongoing")],
    "list transactions: other producers": [],
    "list transactions: duration": [],
    "list transactions: pattern": [("x", "Ongoing")],
    "list transactions: other pattern": [],
    "list transactions: wrong pattern": {1: "INVALID_REGULAR_EXPRESSION: transactions of node 1"},
    "describe producers": {
        A1: [(0, 0, None, 0)],
        GONE: "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0",
        A7: "UNKNOWN_TOPIC_OR_PARTITION: partition a-7: topic a has partitions 0 to 2",
    },
    "offset read_uncommitted": {A1: 1},
    "offset read_committed": {A1: 0},
    "hanging transactions": [],
    "abort in a partition": None,
    "abort in a partition that is gone": {GONE: "UNKNOWN_TOPIC_OR_PARTITION: partition gone-0"},
    "producers after the abort": {A1: [(0, 0, 0, None)]},
    "fence": {"x": True},
    "terminate": None,
    "the fenced producer": "BrokerError",
    "delete topics": {
        "b": None,
        "an id": None,
        "gone": ("UNKNOWN_TOPIC_OR_PARTITION: delete topic gone: This server does not host this topic-partition."),
        NO_ID: (
            "UNKNOWN_TOPIC_ID: delete topic with id BwcHBwcHBwcHBwcHBwcHBw: This server does not host this topic ID."
        ),
    },
}
