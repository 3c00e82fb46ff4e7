"""The reference broker answers requests about streams groups (KIP-1071) as Apache Kafka does.

Method: send each request to both; the whole responses must be equal. Member and process ids are single letters, whose
order in Kafka's hash tables is alphabetical, and Kafka computes each assignment immediately.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.groups.stored_records import decode_stored
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import Line, address_of
from tests.reference_broker.broker_bench import BrokerBench

LOG = Path("__consumer_offsets-0", f"{0:020}.log")

Ask = Callable[[Message, int], Any]
Both = tuple[Ask, Ask]
Beat = StreamsGroupHeartbeatRequest
Info = Beat.TopicInfo
Sub = Beat.Subtopology
Copartition = Beat.CopartitionGroup
Ids = Beat.TaskIds

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "offsets.topic.num.partitions": "1",
}
OPTIONS = {name.replace(".", "_"): int(value) for name, value in SETTINGS.items() if name.startswith("group")}

JOINING: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "process_id": "p"}


@pytest.fixture(scope="module")
def prompt_kafka() -> Iterator[ApacheKafka]:
    """A node that computes assignments immediately."""
    with ApacheKafka(settings=SETTINGS) as node:
        yield node


@pytest.fixture
def both(prompt_kafka: ApacheKafka, tmp_path: Path) -> Iterator[Both]:
    """Functions that send requests to the reference broker and to Apache Kafka; both already coordinate groups."""
    bench = BrokerBench(tmp_path / "data", offsets_topic_num_partitions=1, **OPTIONS)
    line = Line(address_of(prompt_kafka.bootstrap))
    asks: Both = bench.ask, line.ask
    finds = [FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]) for kind in (0, 1)]
    passing = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for ask in asks:
        for find in finds:
            wait(ask, lambda ask, find=find: not ask(find, 4).coordinators[0].error_code, "no topic")
        wait(ask, lambda ask: ask(Beat("nobody's", "n", 1), 0).error_code not in passing, "still loading")
    yield asks
    line.frames.close()


def wait(ask: Ask, is_so: Callable[[Ask], bool], what: str) -> None:
    """Wait until something is so on one of the brokers."""
    until(lambda: is_so(ask), what)


def word_count(prefix: str, source: str) -> Beat.Topology:
    """Return the topology of an application that counts words."""
    configs = [Beat.KeyValue("cleanup.policy", "compact")]
    return Beat.Topology(
        0,
        [
            Sub("0", [source], [], [], [f"{prefix}-r"], [], []),
            Sub("1", [], [], [Info(f"{prefix}-c", 0, 0, configs)], [], [Info(f"{prefix}-r", 0, 1, [])], []),
        ],
    )


def tasks(**numbers: dict[str, list[int]]) -> dict[str, Any]:
    """Return the tasks in every role, for a request."""
    return {
        f"{role}_tasks": [Ids(key, part) for key, part in numbers.get(role, {}).items()]
        for role in ("active", "standby", "warmup")
    }


NOTHING = tasks()


def create(both: Both, **topics: int) -> None:
    """Create topics with numbers of partitions."""
    wanted = [CreateTopicsRequest.CreatableTopic(name, count, 1) for name, count in topics.items()]
    for ask in both:
        ask(CreateTopicsRequest(wanted), 7)
        # The group coordinator learns of topics a moment later than those who ask for metadata.
        topology = Beat.Topology(0, [Sub("0", list(topics), [], [], [], [], [])])
        for number in itertools.count():
            probe = Beat(f"probe{number}-{uuid.uuid4().hex}", "m", 0, topology=topology, **JOINING, **NOTHING)
            if not ask(probe, 0).status:
                break


def exist(ask: Ask, *names: str) -> bool:
    """Return whether topics exist and have leaders."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    topics = ask(MetadataRequest(wanted, allow_auto_topic_creation=False), 12).topics
    return all(not topic.error_code and all(part.leader_id >= 0 for part in topic.partitions) for topic in topics)


def compare(both: Both, message: Message, version: int = 0) -> Any:
    """Send a request to both; return the response."""
    ours, theirs = (in_order(ask(message, version)) for ask in both)
    assert ours == theirs, message
    return ours


def in_order(response: Any) -> Any:
    """Return a response with sorted endpoints and topics, whose order hashes decide in Kafka."""
    endpoints = getattr(response, "partitions_by_user_endpoint", None)
    for endpoint in endpoints or ():
        endpoint.active_partitions = sorted(endpoint.active_partitions, key=lambda part: part.topic)
        endpoint.standby_partitions = sorted(endpoint.standby_partitions, key=lambda part: part.topic)
    if endpoints:
        response.partitions_by_user_endpoint = sorted(endpoints, key=lambda endpoint: endpoint.user_endpoint.port)
    if isinstance(response, OffsetFetchResponse):
        for group in response.groups:
            group.topics = sorted(group.topics, key=lambda topic: topic.name)
    return response


def described(both: Both, group_id: str) -> Any:
    """Compare the descriptions of a group, except for the order and the hosts of its members."""
    answers = [ask(StreamsGroupDescribeRequest([group_id], True), 0) for ask in both]
    for answer in answers:
        for group in answer.groups:
            group.members = sorted(group.members, key=lambda member: member.member_id)
            for member in group.members:
                member.client_host = ""
                member.client_tags = sorted(member.client_tags, key=lambda tag: tag.key)
    ours, theirs = (answer.groups[0] for answer in answers)
    assert ours == theirs
    return ours


def ready(both: Both, beat: Beat) -> Any:
    """Send heartbeats to each until the internal topics exist; compare the answers to another one."""
    for ask in both:
        wait(ask, lambda ask: not ask(beat, 0).status, "topics are missing")
    return compare(both, beat)


def names() -> tuple[str, str, str]:
    """Return a new group id, a prefix for internal topics, and a topic."""
    unique = uuid.uuid4().hex[:8]
    return f"g{unique}", f"i{unique}", f"t{unique}"


def running(both: Both, partitions: int = 2, **changes: Any) -> tuple[str, Beat.Topology]:
    """Let the member `m` of the process `p` join a new group whose topics exist."""
    group, prefix, source = names()
    create(both, **{source: partitions})
    topology = word_count(prefix, source)
    join = Beat(group, "m", 0, topology=topology, **{**JOINING, **changes}, **NOTHING)
    refused = [ask(join, 0) for ask in both]
    for answer in refused:
        (status,) = answer.status
        status.status_detail = "".join(sorted(status.status_detail))  # the order of topics differs
    assert refused[0] == refused[1]
    for ask in both:
        wait(ask, lambda ask: exist(ask, f"{prefix}-r", f"{prefix}-c"), "no internal topics")
    ready(both, Beat(group, "m", 2))
    return group, topology


def test_tasks_move(both: Both) -> None:
    group, topology = running(both)
    described(both, group)
    join: dict[str, Any] = {"topology": topology, **JOINING}
    compare(both, Beat(group, "n", 0, **{**join, "process_id": "q"}, **NOTHING))
    described(both, group)
    compare(both, Beat(group, "n", 4))
    answer = compare(both, Beat(group, "m", 3))
    assert [part.partitions for part in answer.active_tasks] == [(0,), (0,)]
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [0, 1], "1": [0]})))
    compare(both, Beat(group, "n", 4))
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [0], "1": [0]})))
    described(both, group)
    compare(both, Beat(group, "n", 4))
    compare(both, Beat(group, "m", 4))
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [0], "1": [0]})))
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [0, 1]})))
    compare(both, Beat(group, "m", 2))
    compare(both, Beat(group, "m", 5))
    assert described(both, group).group_state == "Stable"
    compare(both, Beat(group, "n", 0, **{**join, "process_id": "q"}, **NOTHING))
    compare(both, Beat(group, "n", -1))
    described(both, group)
    compare(both, Beat(group, "n", -1))
    compare(both, Beat(group, "n", 4))
    compare(both, Beat(group, "m", 4))
    compare(both, Beat(group, "m", 5))
    described(both, group)
    compare(both, Beat(group, "m", -1))
    described(both, group)
    compare(both, DeleteGroupsRequest([group]), 2)
    compare(both, StreamsGroupDescribeRequest([group]))


def test_threads_of_one_process(both: Both) -> None:
    group, topology = running(both, partitions=3, client_tags=[Beat.KeyValue("zone", "a")], rack_id="r")
    join: dict[str, Any] = {"topology": topology, **JOINING}
    for member in "noq":
        compare(both, Beat(group, member, 0, **join, **NOTHING))
        described(both, group)
    for _ in range(4):
        epochs = {member.member_id: member for member in described(both, group).members}
        for name, member in epochs.items():
            owned: dict[str, Any] = {
                f"{role}_tasks": [
                    Ids(part.subtopology_id, part.partitions) for part in getattr(member.assignment, f"{role}_tasks")
                ]
                for role in ("active", "standby", "warmup")
            }
            compare(both, Beat(group, name, member.member_epoch, **owned))
    assert described(both, group).group_state == "Stable"


def test_a_shutdown_is_told_to_all(both: Both) -> None:
    group, topology = running(both)
    compare(both, Beat(group, "m", 3, shutdown_application=True))
    compare(both, Beat(group, "n", 0, topology=topology, **JOINING, **NOTHING))
    compare(both, Beat(group, "n", 4, shutdown_application=True))
    compare(both, Beat(group, "n", -1))
    compare(both, Beat(group, "m", 3))
    compare(both, Beat(group, "m", -1, shutdown_application=True))
    compare(both, Beat(group, "n", 0, topology=topology, **JOINING, **NOTHING))


def test_endpoints(both: Both) -> None:
    group, topology = running(both, user_endpoint=Beat.Endpoint("h", 1))
    for epoch in (0, 1, 2):
        compare(both, Beat(group, "m", 3, epoch))
    other = {**JOINING, "process_id": "q", "user_endpoint": Beat.Endpoint("h", 2)}
    compare(both, Beat(group, "n", 0, topology=topology, **other, **NOTHING))
    compare(both, Beat(group, "m", 3, 1, **tasks(active={"0": [0], "1": [0]})))
    compare(both, Beat(group, "n", 4, 1))
    compare(both, Beat(group, "m", 4, 2))


def test_topologies(both: Both) -> None:
    group, topology = running(both)
    other = Beat.Topology(1, topology.subtopologies)
    compare(both, Beat(group, "n", 0, topology=other, **JOINING, **NOTHING))
    compare(both, Beat(group, "n", 0, topology=Beat.Topology(0, topology.subtopologies[:1]), **JOINING, **NOTHING))
    compare(both, Beat(group, "m", 3, **tasks(active={"2": [0]})))
    compare(both, Beat(group, "m", 3, **tasks(standby={"0": [2]})))
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [-1]})))


def test_topics_that_do_not_fit(both: Both) -> None:
    _, prefix, source = names()
    create(both, **{f"{source}-1": 1, f"{source}-2": 2, f"{prefix}-r2": 2, f"{prefix}-c9": 9})
    one, two, fixed = f"{source}-1", f"{source}-2", f"{prefix}-f"
    cases: list[list[Sub]] = [
        [Sub("0", [f"{source}-{letter}" for letter in "dabc"], [], [], [], [], [])],
        [Sub("0", [one, two], [], [], [], [], [Copartition([0, 1], [], [])])],
        [Sub("0", [one], [], [], [], [Info(fixed, 3, 0, [])], [Copartition([0], [], [0])])],
        [Sub("0", [], [], [], [], [Info(fixed, 3, 0, []), Info(f"{fixed}2", 4, 0, [])], [Copartition([], [], [0, 1])])],
        [
            Sub("0", [one], [], [], [f"{prefix}-r2"], [], []),
            Sub("1", [], [], [], [], [Info(f"{prefix}-r2", 0, 0, [])], []),
        ],
        [Sub("0", [one], [], [Info(f"{prefix}-c9", 0, 0, [])], [], [], [])],
        [
            Sub("0", [], [], [], [f"{prefix}-x"], [Info(f"{prefix}-y", 0, 0, [])], []),
            Sub("1", [], [], [], [f"{prefix}-y"], [Info(f"{prefix}-x", 0, 0, [])], []),
        ],
        [Sub("0", [one], [], [], [], [Info(f"{prefix}-z", 0, 0, [])], [])],
        [Sub("0", [], [], [], [], [], [])],
        [Sub("0", [one], [], [Info(f"{prefix}-c", 1, 0, [])], [], [], [])],
        [Sub("0", ["__consumer_offsets"], [], [], [], [], [])],
        [Sub("0", ["a b", "__transaction_state"], [], [], [], [], [])],
        [Sub("0", ["a b", "c/d"], [], [], [], [], [])],
        [Sub("0", [one], ["x.*"], [], [], [], [])],
    ]
    for subtopologies in cases:
        join = Beat(names()[0], "m", 0, topology=Beat.Topology(0, subtopologies), **JOINING, **NOTHING)
        answer = compare(both, join)
        if not answer.error_code:
            assert described(both, join.group_id).group_state in ("NotReady", "Stable")


def test_internal_topics_that_cannot_be_created(both: Both) -> None:
    group, prefix, source = names()
    create(both, **{source: 1})
    topology = Beat.Topology(0, [Sub("0", [source], [], [Info(f"{prefix}-c", 0, 3, [])], [], [], [])])
    compare(both, Beat(group, "m", 0, topology=topology, **JOINING, **NOTHING))
    beat = Beat(group, "m", 2)
    answers = []
    for ask in both:
        wait(ask, lambda ask: "failed" in ask(beat, 0).status[0].status_detail, "no error")
        answers.append(ask(beat, 0))
    assert answers[0] == answers[1]


def test_offsets(both: Both) -> None:
    group, topology = running(both)
    (source,) = topology.subtopologies[0].source_topics
    Topic, Part = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    Fetch = OffsetFetchRequest.OffsetFetchRequestGroup
    compare(both, Beat(group, "n", 0, topology=topology, **{**JOINING, "process_id": "q"}, **NOTHING))
    compare(both, Beat(group, "m", 3, **tasks(active={"0": [0], "1": [0]})))
    members = ((-1, ""), (-1, "m"), (4, "m"), (3, "m"), (2, "m"), (5, "m"), (4, "n"), (3, "n"), (4, "x"))
    for topic in (source, "missing", topology.subtopologies[1].repartition_source_topics[0].name):
        for number, (epoch, member), version in itertools.product((0, 1), members, (8, 9)):
            topics = [Topic(topic, partitions=[Part(number, 1)])]
            compare(both, OffsetCommitRequest(group, epoch, member, None, topics=topics), version)
            # Only the codes for members are compared; there is no transaction.
            TxnTopic, TxnPart = (
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic,
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
            )
            compare(
                both,
                TxnOffsetCommitRequest("x", group, 7, 0, epoch, member, None, [TxnTopic(topic, [TxnPart(number, 1)])]),
                3,
            )
    for epoch, member in ((-1, None), *members):
        compare(both, OffsetFetchRequest(groups=[Fetch(group, member, epoch, None)]), 9)
    Deleted, DeletedPart = (
        OffsetDeleteRequest.OffsetDeleteRequestTopic,
        OffsetDeleteRequest.OffsetDeleteRequestPartition,
    )
    compare(both, OffsetDeleteRequest(group, [Deleted(source, [DeletedPart(0)])]))
    compare(both, DeleteGroupsRequest([group]), 2)
    for member in "mn":
        compare(both, Beat(group, member, -1))
    compare(both, OffsetDeleteRequest(group, [Deleted(source, [DeletedPart(0), DeletedPart(1)])]))
    compare(both, DeleteGroupsRequest([group]), 2)


def test_other_requests_for_streams_groups(both: Both) -> None:
    group, _ = running(both)
    joining: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    for epoch in (0, 1, -1):
        compare(both, ConsumerGroupHeartbeatRequest(group, "m", epoch, **(joining if epoch == 0 else {})), 1)
    compare(both, ConsumerGroupDescribeRequest([group]), 1)
    compare(both, DescribeGroupsRequest([group]), 6)
    compare(both, StreamsGroupDescribeRequest([""]))
    states: tuple[tuple[list[str], list[str]], ...] = (([], ["Streams"]), (["stable"], []), (["Empty"], ["streams"]))
    for wanted, types in states:
        listed = [
            [each for each in ask(ListGroupsRequest(wanted, types), 5).groups if each.group_id == group] for ask in both
        ]
        assert listed[0] == listed[1]


@pytest.mark.parametrize("state", ["NotReady", "notready", "not_ready", "NOT_READY"])
def test_a_group_that_is_not_ready_is_listed(both: Both, state: str) -> None:
    group, _, source = names()
    topology = Beat.Topology(0, [Sub("0", [source], [], [], [], [], [])])
    compare(both, Beat(group, "m", 0, topology=topology, **JOINING, **NOTHING))
    listed = [[each for each in ask(ListGroupsRequest([state]), 5).groups if each.group_id == group] for ask in both]
    assert listed[0] == listed[1]


def test_other_groups_are_not_streams_groups(both: Both) -> None:
    group, _, source = names()
    joining: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    for ask in both:
        assert not ask(ConsumerGroupHeartbeatRequest(group, "m", 0, **joining), 0).error_code
    topology = Beat.Topology(0, [Sub("0", [source], [], [], [], [], [])])
    for known in (group, "missing"):
        if known == group:
            compare(both, Beat(known, "m", 0, topology=topology, **JOINING, **NOTHING))
        compare(both, Beat(known, "m", 1))
        compare(both, Beat(known, "m", -1))
        compare(both, StreamsGroupDescribeRequest([known]))


def test_an_empty_classic_group_becomes_a_streams_group(both: Both) -> None:
    group, _, source = names()
    create(both, **{source: 1})
    Topic, Part = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    compare(both, OffsetCommitRequest(group, -1, "", None, topics=[Topic(source, partitions=[Part(0, 5)])]), 9)
    compare(both, Beat(group, "m", 1))
    compare(both, Beat(group, "m", -1))
    topology = Beat.Topology(0, [Sub("0", [source], [], [], [], [], [])])
    compare(both, Beat(group, "m", 0, topology=topology, **JOINING, **NOTHING))
    Fetch = OffsetFetchRequest.OffsetFetchRequestGroup
    compare(both, OffsetFetchRequest(groups=[Fetch(group, "m", 2, None)]), 9)


def test_records(both: Both, prompt_kafka: ApacheKafka, tmp_path: Path) -> None:
    endpoint, tags = Beat.Endpoint("h", 1), [Beat.KeyValue("zone", "a"), Beat.KeyValue("area", "b")]
    group, topology = running(both, user_endpoint=endpoint, client_tags=tags, rack_id="r")
    compare(both, Beat(group, "n", 0, 1, topology=topology, **{**JOINING, "process_id": "q"}, **NOTHING))
    compare(both, Beat(group, "m", 3, 1))
    compare(both, Beat(group, "m", 3, 2, **tasks(active={"0": [0], "1": [0]})))
    compare(both, Beat(group, "n", 4, 3))
    compare(both, Beat(group, "m", 4, 3))
    for member in "mn":
        compare(both, Beat(group, member, -1))
    compare(both, DeleteGroupsRequest([group]), 2)
    ours, theirs = (records_of(group, folder) for folder in (tmp_path / "data", prompt_kafka.data_dir))
    assert len(theirs) > 20
    assert ours == theirs


def records_of(group: str, folder: Path) -> list[list[Any]]:
    """Return a group's records in order, without hashes, times and hosts; Kafka orders members by a hash table."""
    found = []
    for batch in walk((folder / LOG).read_bytes()):
        for stored in batch.records():
            value = None if stored.value is None else bytes(stored.value)
            record = decode_stored(bytes(stored.key or b""), value)
            if record is None or getattr(record.key, "group_id", "") != group:
                continue
            for name, nothing in (("metadata_hash", 0), ("assignment_timestamp", 0), ("client_host", "")):
                if hasattr(record.value, name):
                    setattr(record.value, name, nothing)
            found.append((record.key.SCHEMA.key, record.value_version, repr(record.key), record.value))
    return [sorted(run, key=lambda each: each[2]) for _, run in itertools.groupby(found, lambda each: each[0])]


#: Valid and invalid fields of requests to a group that does not exist.
FAULTS: dict[str, tuple[Any, ...]] = {
    "group_id": ("g", "", " "),
    "member_id": ("m", "", "\t"),
    "member_epoch": (0, 0, 1, -1, -2, -3),
    "instance_id": (None, None, "i", " "),
    "rack_id": (None, "r", ""),
    "rebalance_timeout_ms": (60_000, -1),
    "topology": (
        None,
        Beat.Topology(0, [Sub("0", ["missing"], [], [], [], [], [])]),
        Beat.Topology(0, [Sub("0", ["missing"], [], [Info("c", 1, 0, [])], [], [], [])]),
        Beat.Topology(0, [Sub("0", ["missing"], ["x"], [], [], [], [])]),
    ),
    "active_tasks": (None, [], [Ids("0", [0])]),
    "standby_tasks": (None, [], [Ids("0", [0])]),
    "warmup_tasks": (None, [], [Ids("0", [0])]),
    "task_offsets": (None, None, None, []),
    "task_end_offsets": (None, None, None, []),
}


def test_faults(both: Both) -> None:
    combinations = random.Random(1071)
    for _ in range(600):
        fields = {name: combinations.choice(values) for name, values in FAULTS.items()}
        if fields["group_id"] == "g":
            fields["group_id"] = uuid.uuid4().hex
        ours, theirs = (ask(Beat(**fields), 0) for ask in both)
        assert ours == theirs or ours.error_message.replace(fields["group_id"], "") == theirs.error_message, fields
