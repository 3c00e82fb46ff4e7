"""Share groups on Apache Kafka and on the reference broker: the same requests get the same answers.

Method: run the same sequences of requests on both brokers, and compare what they answer. Let Kafka's share consumer
read a topic, and Kafka's tool describe and change groups, on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkawire.sdk.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kafkawire.sdk.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kafkawire.sdk.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkawire.sdk.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kafkawire.sdk.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from kafkawire.sync import Producer
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.servers import Server
from tests.kafka.share_steps import ShareSteps

pytestmark = pytest.mark.timeout(300)

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

#: How long a fetch may take that loads a share partition.
LOAD_MS = 3_000

NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def delivery(steps: ShareSteps) -> None:
    """Acquire records, acknowledge them in every way, and fetch again."""
    steps.join()
    steps.produce(b"a", b"b", b"c", b"d", b"e")
    steps.produce(b"f", b"g", b"h")
    steps.fetch("new", 0)
    steps.fetch("nothing left", 1)
    steps.fetch("mixed", 2, acknowledged={0: [(0, 0, [ACCEPT]), (1, 2, [RELEASE, REJECT]), (3, 3, [0])]})
    steps.fetch("again", 3)
    steps.acknowledge("both", 4, (1, 1, [RELEASE]), (4, 4, [ACCEPT]))
    steps.describe_offsets("offsets")
    steps.fetch("third time", 5)
    steps.acknowledge("released", 6, (1, 1, [RELEASE]), (5, 7, [RELEASE]))
    steps.fetch("in parts", 7)
    steps.fetch("last", -1, acknowledged={0: [(1, 1, [ACCEPT])]})
    steps.fetch("new session", 0)
    steps.acknowledge("end", -1, (5, 7, [ACCEPT]))
    steps.describe_offsets("offsets at the end")


def errors(steps: ShareSteps) -> None:
    """Send wrong requests."""
    steps.fetch("no session", 1)
    steps.fetch("no session to close", -1)
    steps.acknowledge("no session to acknowledge in", 1, (0, 0, [ACCEPT]))
    steps.join()
    steps.produce(b"a", b"b", b"c")
    steps.fetch("member", 0, "")
    steps.fetch("long member", 0, "m" * 37)
    steps.fetch("acknowledging at once", 0, acknowledged={0: [(0, 0, [ACCEPT])]})
    steps.fetch("unknown partition", 0, partitions=[9])
    steps.fetch("unknown partition again", 1)
    steps.fetch("known", 0)
    steps.fetch("wrong epoch", 7)
    steps.acknowledge("initial epoch", 0, (0, 0, [ACCEPT]))
    epoch = 1
    for ranges in (
        [(1, 0, [ACCEPT])],
        [(0, 0, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [RENEW])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])],
        [(9, 9, [ACCEPT])],
        [(0, 9, [ACCEPT])],
        [],
    ):
        steps.acknowledge(f"acknowledge {ranges}", epoch, *ranges)
        steps.fetch(f"fetch {ranges}", epoch + 1, acknowledged={0: ranges}, max_wait_ms=0)
        epoch += 2
    steps.acknowledge("other partition", epoch, (0, 0, [ACCEPT]), partition=9)
    steps.acknowledge("another's records", -1, (0, 0, [ACCEPT]), member_id="n")
    steps.fetch("other member", 0, "n")
    steps.acknowledge("stolen", 1, (0, 0, [ACCEPT]), member_id="n")
    steps.fetch("mode", epoch + 1, share_acquire_mode=2)


def renewal(steps: ShareSteps) -> None:
    """Renew locks; acquire limited numbers of records."""
    steps.join()
    steps.produce(b"a", b"b", b"c", b"d")
    steps.fetch("limited", 0, max_records=3, share_acquire_mode=1)
    for name in NOTHING:
        steps.fetch(f"with {name}", 1, is_renew_ack=True, **{**NOTHING, name: 1})
    steps.fetch("renew", 1, acknowledged={0: [(0, 0, [RENEW])]}, is_renew_ack=True, **NOTHING)
    steps.acknowledge("renew two", 2, (1, 2, [RENEW, ACCEPT]), is_renew_ack=True)
    steps.fetch("the rest", 3, share_acquire_mode=1)
    steps.acknowledge("end", -1)


def transactions(steps: ShareSteps) -> None:
    """Read only what is committed."""
    steps.join()
    with Producer(steps.bootstrap, transactional_id=steps.name) as producer:
        with producer.transaction():
            producer.send(steps.name, b"kept").result()
        producer.begin_transaction()
        producer.send(steps.name, b"dropped").result()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(steps.name, b"kept too").result()
        steps.fetch("committed", 0, max_wait_ms=2_000, min_bytes=300)
        producer.begin_transaction()
        producer.send(steps.name, b"open").result()
        steps.fetch("open", 1)
        producer.commit_transaction()
    steps.fetch("no longer open", 2, max_wait_ms=2_000)
    steps.acknowledge("all", 3, (0, 1, [ACCEPT]), (4, 5, [ACCEPT]))
    steps.describe_offsets("offsets")


def given_up(steps: ShareSteps) -> None:
    """Release records until they are given up."""
    steps.join()
    steps.produce(*[b"%d" % number for number in range(8)])
    epoch = 0
    for turn in range(12):
        found = steps.fetch(f"turn {turn}", epoch)
        if not found.responses:
            break
        ranges = [
            (part.first_offset, part.last_offset, [RELEASE])
            for part in found.responses[0].partitions[0].acquired_records
        ]
        steps.acknowledge(f"release {turn}", epoch + 1, *ranges)
        epoch += 2
    steps.describe_offsets("offsets")


def members(steps: ShareSteps) -> None:
    """Join, share partitions and leave."""
    steps.beat("blank group", "m", 0, ["t"], group_id=" ")
    steps.beat("no member", "", 0, ["t"])
    steps.beat("long member", "m" * 37, 0, ["t"])
    steps.beat("no topics", "m", 0)
    steps.beat("empty topics", "m", 0, [])
    steps.beat("rack", "m", 0, ["t"], rack_id="")
    steps.beat("wrong epoch", "m", -2, ["t"])
    steps.beat("unknown group", "m", 1)
    steps.beat("leave unknown group", "m", -1)
    steps.describe("unknown group")
    steps.beat("first", "m", 0, [steps.name])
    epoch = steps.join()
    steps.describe("one member")
    steps.beat("stays", "m", epoch)
    steps.beat("ahead", "m", epoch + 1)
    steps.beat("behind", "m", epoch - 2)
    steps.beat("again", "m", 0, [steps.name])
    steps.beat("other topic", "m", epoch, ["nothing"])
    steps.beat("unknown member", "n", 3)
    steps.beat("leave", "m", -1)
    steps.describe("empty", steps.name, "", "none")
    steps.beat("gone", "m", epoch)


def offsets(steps: ShareSteps) -> None:
    """Alter, describe and delete offsets."""
    steps.produce(b"a", b"b", b"c", b"d")
    steps.describe_offsets("nothing")
    steps.describe_offsets("nothing of a topic", {steps.name: [0], "none": [1]})
    steps.alter_offsets("no group id", {steps.name: {0: 1}}, "")
    steps.alter_offsets("new group", {steps.name: {0: 2, 9: 1}, "none": {0: 1}})
    steps.describe_offsets("altered")
    steps.delete_offsets("no group id to delete in", steps.name, group_id="")
    steps.delete_offsets("unknown group", steps.name, group_id="none")
    epoch = steps.join()
    steps.alter_offsets("with a member", {steps.name: {0: 0}})
    steps.delete_offsets("to delete with a member", steps.name)
    steps.fetch("from two", 0)
    steps.acknowledge("accept", 1, (3, 3, [ACCEPT]))
    steps.describe_offsets("lag")
    steps.acknowledge("close", -1)
    steps.beat("leave", "m", -1, None)
    assert epoch
    steps.delete_offsets("deleted", steps.name, "none")
    steps.describe_offsets("deleted offsets")
    steps.delete_offsets("deleted again", steps.name)


def fenced(steps: ShareSteps) -> None:
    """Alter the offsets behind the back of a member whose session continues."""
    steps.produce(b"a", b"b", b"c")
    steps.join()
    steps.fetch("first", 0, max_wait_ms=LOAD_MS)
    steps.beat("leave", "m", -1)
    steps.alter_offsets("altered", {steps.name: {0: 1}})
    steps.describe_offsets("altered offsets")
    steps.acknowledge("of an older state", 1, (0, 0, [ACCEPT]))
    steps.fetch("again", 2, max_wait_ms=LOAD_MS)
    steps.acknowledge("of the new state", 3, (1, 2, [ACCEPT]))
    steps.describe_offsets("offsets")
    steps.acknowledge("end", -1)


def deleted_group(steps: ShareSteps) -> None:
    """Delete a group behind the back of a member, which joins it again."""
    steps.produce(b"a", b"b", b"c")
    steps.join()
    steps.fetch("first", 0, max_wait_ms=LOAD_MS)
    steps.beat("leave", "m", -1)
    steps.ask("deleted", DeleteGroupsRequest([steps.name]))
    steps.acknowledge("without a state", 1, (0, 0, [ACCEPT]))
    steps.fetch("without a group", 2, max_wait_ms=LOAD_MS)
    steps.fetch("still without a group", 3, max_wait_ms=LOAD_MS)
    steps.describe_offsets("no offsets")
    steps.describe("no group")
    steps.join()
    steps.fetch("in the new group", 4, max_wait_ms=LOAD_MS)
    steps.describe("new group")


def deleted_offsets(steps: ShareSteps) -> None:
    """Delete the offsets behind the back of a member, which joins the group again."""
    steps.produce(b"a", b"b", b"c")
    steps.join()
    steps.fetch("first", 0, max_wait_ms=LOAD_MS)
    steps.acknowledge("accepted", 1, (0, 1, [ACCEPT]))
    steps.beat("leave", "m", -1)
    steps.delete_offsets("deleted", steps.name)
    steps.describe_offsets("no offsets")
    steps.acknowledge("without a state", 2, (2, 2, [ACCEPT]))
    steps.fetch("also without a state", 3, max_wait_ms=LOAD_MS)
    steps.join()
    steps.fetch("from the start", 4, max_wait_ms=LOAD_MS)
    steps.describe_offsets("new offsets")


def states(steps: ShareSteps) -> None:
    """Begin, read, write and delete states, as the leaders of partitions and the group coordinator do."""
    steps.join()  # which creates the topic of the share coordinator
    topic_id, group_id = steps.topic_id, f"{steps.name}-states"

    def initialize(label: str, number: int, epoch: int, start: int, topic_id: bytes = topic_id) -> None:
        part = InitializeShareGroupStateRequest.PartitionData(number, epoch, start)
        topic = InitializeShareGroupStateRequest.InitializeStateData(topic_id, [part])
        steps.ask(label, InitializeShareGroupStateRequest(group_id, [topic]))

    def read(label: str, number: int, leader_epoch: int) -> None:
        part = ReadShareGroupStateRequest.PartitionData(number, leader_epoch)
        steps.ask(
            label, ReadShareGroupStateRequest(group_id, [ReadShareGroupStateRequest.ReadStateData(topic_id, [part])])
        )
        whole = ReadShareGroupStateSummaryRequest.PartitionData(number, leader_epoch)
        topic = ReadShareGroupStateSummaryRequest.ReadStateSummaryData(topic_id, [whole])
        steps.ask(f"summary: {label}", ReadShareGroupStateSummaryRequest(group_id, [topic]))

    def write(label: str, epoch: int, leader_epoch: int, start: int, *batches: tuple[int, int, int, int]) -> None:
        part = WriteShareGroupStateRequest.PartitionData(0, epoch, leader_epoch, start)
        part.state_batches = [WriteShareGroupStateRequest.StateBatch(*batch) for batch in batches]
        topic = WriteShareGroupStateRequest.WriteStateData(topic_id, [part])
        steps.ask(label, WriteShareGroupStateRequest(group_id, [topic]))

    def delete(label: str, number: int) -> None:
        part = DeleteShareGroupStateRequest.PartitionData(number)
        topic = DeleteShareGroupStateRequest.DeleteStateData(topic_id, [part])
        steps.ask(label, DeleteShareGroupStateRequest(group_id, [topic]))

    read("before", 0, 0)
    write("too early", 0, 0, 0)
    for label, number, epoch, start in (
        ("negative", -1, 0, 0),
        ("unknown partition", 9, 0, 0),
        ("first", 0, 3, 5),
        ("older", 0, 2, 6),
        ("newer", 0, 4, 7),
    ):
        initialize(label, number, epoch, start)
    initialize("unknown topic", 0, 0, 0, b"u" * 16)
    read("first leader", 0, 2)
    read("older leader", 0, 1)
    write("batches", 4, 2, -1, (7, 9, 0, 1), (10, 20, 2, 1), (30, 30, 4, 5))
    write("overlapping", 4, 2, -1, (9, 12, 0, 2), (21, 22, 2, 1))
    read("combined", 0, 2)
    write("moved", 4, 3, 11)
    read("moved away", 0, 3)
    write("older leader's", 4, 2, 12)
    write("older state's", 3, 3, 12)
    for number in range(12):
        write(f"write {number}", -1, -1, -1, (100 + number, 100 + number, 2, 1))
    read("many", 0, 3)
    for label, number in (("deleted", 0), ("deleted again", 0), ("not deleted", -1), ("not known", 9)):
        delete(label, number)
    read("after", 0, 0)


SEQUENCES: dict[str, tuple[Callable[[ShareSteps], None], dict[str, Any]]] = {
    "delivery": (delivery, {}),
    "errors": (errors, {}),
    "renewal": (renewal, {}),
    "transactions": (transactions, {"share_isolation_level": "read_committed"}),
    "given-up": (given_up, {"share_delivery_count_limit": "4"}),
    "members": (members, {}),
    "offsets": (offsets, {}),
    "fenced": (fenced, {}),
    "deleted group": (deleted_group, {}),
    "deleted offsets": (deleted_offsets, {}),
    "states": (states, {}),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_both_brokers_give_the_same_answers(kafka: ApacheKafka, broker: Broker, name: str) -> None:
    run, configs = SEQUENCES[name]
    answers = []
    topic = f"share-groups-{name.replace(' ', '-')}-{time.time_ns()}"
    for bootstrap in (kafka.bootstrap, broker.bootstrap):
        steps = ShareSteps(bootstrap, topic, **configs)
        run(steps)
        steps.close()
        answers.append(steps.answers)
    on_kafka, on_ours = answers
    for ours, kafkas in zip(on_ours, on_kafka, strict=True):
        assert ours == kafkas


def console_consumer(server: Server, name: str, *more: str) -> tuple[int, list[str]]:
    """Return the exit status and the output of Kafka's share consumer."""
    result = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", server.bootstrap, "--topic", name, "--group", name, "--timeout-ms", "30000", *more),
    )
    return result.returncode, (result.stdout + result.stderr).splitlines()


def share_tool(server: Server, name: str, *arguments: str) -> tuple[int, list[str]]:
    """Return the exit status and the output of Kafka's tool for share groups."""
    result = run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", server.bootstrap, *arguments),
    )
    said = (result.stdout + result.stderr).replace(name, "GROUP").replace(server.bootstrap, "ADDRESS")
    lines = [line for line in said.splitlines() if not line.startswith("\tat ")]
    return result.returncode, [" ".join(line.split()) for line in lines if line.strip()]


def with_tools(server: Server, name: str) -> list[tuple[int, list[str]]]:
    """Read a topic with Kafka's share consumer, and let the tool describe and change its group."""
    steps = ShareSteps(server.bootstrap, name)
    steps.produce(b"a", b"b", b"c")
    said = [console_consumer(server, name, "--max-messages", "3")]
    steps.produce(b"d")
    steps.close()
    group = ("--group", name)
    said += [
        share_tool(server, name, *arguments)
        for arguments in (
            ("--describe", *group, "--state"),
            ("--describe", *group, "--offsets"),
            ("--describe", *group, "--members"),
            ("--reset-offsets", *group, "--topic", name, "--to-earliest", "--execute"),
            ("--describe", *group, "--offsets"),
        )
    ]
    said.append(console_consumer(server, name, "--max-messages", "4"))
    said += [
        share_tool(server, name, *arguments)
        for arguments in (
            ("--delete-offsets", *group, "--topic", name),
            ("--delete-offsets", *group, "--topic", f"{name}-none"),
            ("--delete", *group),
            ("--describe", *group),
        )
    ]
    return said


def test_kafkas_consumer_and_tools_see_the_same(kafka: ApacheKafka, broker: Broker) -> None:
    name = f"share-tools-{time.time_ns()}"
    with ThreadPoolExecutor(2) as both:
        on_kafka, on_ours = both.map(with_tools, (kafka, broker), (name, name))
    for ours, kafkas in zip(on_ours, on_kafka, strict=True):
        assert ours == kafkas
    assert on_ours[0][1][:3] == ["a", "b", "c"]
