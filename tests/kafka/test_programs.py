"""Programs that use third-party clients with their defaults work on the reference broker as they do on Apache Kafka.

Method: let each program run one scenario to completion. Its observations are compared with the records of this
project's own clients and with the batches in the broker's files; its errors after a mistake are compared with those on
Apache Kafka.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from kafkawire import NewTopic, TopicPartition
from kafkawire.records import Compression, RecordBatch, walk
from kafkawire.sdk.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Admin, Consumer, Producer
from kafkawire.testing import Broker
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import call
from tests.kafka.programs import BUILD_TIMEOUT_SECONDS, PROGRAMS, TIMEOUT_SECONDS, Program, name_of, usable
from tests.kafka.servers import BROKER_OPTIONS, Server

#: The first test that uses a client waits until the client is built.
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_SECONDS + 300)

COUNT = 200
PARTITIONS = 3

CONTENTS = [(f"key {number}", f"value {number} " * 20) for number in range(COUNT)]

#: Partition, offset, key and value.
Place = tuple[int, int, str, str]


def create(bootstrap: str, topic: str, partitions: int = PARTITIONS, **configs: str) -> None:
    """Create a topic."""
    asyncio.run(topics.create(bootstrap, NewTopic(topic, partitions, 1, configs)))


def read(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[Place]:
    """Return all records of a topic, as read by our consumer."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return [
            (each.partition, each.offset, (each.key or b"").decode(), (each.value or b"").decode())
            for each in consumer.records(stop_at_end=True)
        ]


def write(bootstrap: str, topic: str, codecs: tuple[str, ...]) -> None:
    """Store the records with our producer, the same number with each codec."""
    share = COUNT // len(codecs)
    for index, codec in enumerate(codecs):
        with Producer(bootstrap, compression=Compression[codec.upper()]) as producer:
            for key, value in CONTENTS[index * share : (index + 1) * share]:
                producer.send(topic, value.encode(), key=key.encode())


def batches(broker: Broker, topic: str) -> list[RecordBatch]:
    """Return the batches in the files of a topic."""
    logs = sorted(broker.data_dir.glob(f"{topic}-[0-9]*/*.log"))
    found = [batch for log in logs for batch in walk(log.read_bytes())]
    assert all(isinstance(batch, RecordBatch) for batch in found)
    return [batch for batch in found if isinstance(batch, RecordBatch)]


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_admin(broker: Broker, program: Program) -> None:
    seen = usable(program).run(broker.bootstrap, "admin", f"programs-admin-{program.name}")
    config = {} if program.name == "rskafka" else {"config": "3600000"}
    assert seen == {"partitions": PARTITIONS, "left": False} | config


PRODUCERS = [
    pytest.param(program, codec, kind, id=f"{program.name}-{codec}-{kind}")
    for program in PROGRAMS
    for codec, kind in [
        *((codec, "default") for codec in program.codecs),
        *([(program.codecs[-1], "idempotent")] if program.idempotent is False else []),
    ]
]


@pytest.mark.parametrize(("program", "codec", "kind"), PRODUCERS)
def test_produce(broker: Broker, program: Program, codec: str, kind: str) -> None:
    topic = f"programs-{program.name}-{codec}-{kind}"
    create(broker.bootstrap, topic)
    seen = usable(program).run(broker.bootstrap, "produce", topic, codec, kind)
    found = read(broker.bootstrap, topic)
    if program.name == "kafkajs":
        # The program prints where each partition's batch begins; its records follow in the order they were sent.
        assert seen == {"bases": [[number, 0] for number in sorted({place[0] for place in found})]}
    else:
        expected = [(*place, *content) for place, content in zip(seen["places"], CONTENTS, strict=True)]
        assert sorted(found) == sorted(expected)
    assert Counter(place[2:] for place in found) == Counter(CONTENTS)
    stored = batches(broker, topic)
    assert {batch.compression for batch in stored} == {Compression[codec.upper()]}
    idempotent = program.idempotent or kind == "idempotent"
    assert {batch.producer_id >= 0 for batch in stored} == {idempotent}


GROUPS = [
    pytest.param(program, protocol, id=f"{program.name}-{protocol}")
    for program in PROGRAMS
    for protocol in program.protocols
]


@pytest.mark.smoke
@pytest.mark.parametrize(("program", "protocol"), GROUPS)
def test_a_group_goes_on_where_it_committed(broker: Broker, program: Program, protocol: str) -> None:
    topic = f"programs-group-{program.name}-{protocol}"
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, program.codecs)
    found: list[Place] = []
    for count in (120, 80):
        seen = usable(program).run(broker.bootstrap, "group", topic, protocol, str(count))
        found += [tuple(place) for place in seen["records"]]
        with Admin(broker.bootstrap) as admin:
            committed = admin.list_group_offsets(topic)
        assert sum(each.offset for each in committed.values()) == len(found)
    assert sorted(found) == sorted(read(broker.bootstrap, topic))
    assert Counter(place[2:] for place in found) == Counter(CONTENTS)


@pytest.mark.parametrize(("program", "protocol"), GROUPS)
def test_two_members_share_the_partitions(broker: Broker, program: Program, protocol: str) -> None:
    topic = f"programs-share-{program.name}-{protocol}"
    create(broker.bootstrap, topic, partitions=4)
    share = COUNT // 2
    members = [usable(program).start(broker.bootstrap, "group", topic, protocol, str(share)) for _ in range(2)]
    try:
        await_members(broker.bootstrap, topic, protocol, members)
        with Producer(broker.bootstrap) as producer:
            for number, (key, value) in enumerate(CONTENTS):
                producer.send(topic, value.encode(), key=key.encode(), partition=number % 4)
        # Each member has printed its records before either leaves.
        lines = [member.stdout.readline() for member in members if member.stdout]
    finally:
        ends = [member.communicate(timeout=TIMEOUT_SECONDS) for member in members]
    assert all(lines), ends
    shares = [[tuple(place) for place in json.loads(line)["records"]] for line in lines]
    assert [len({place[0] for place in share}) for share in shares] == [2, 2]
    assert sorted(shares[0] + shares[1]) == sorted(read(broker.bootstrap, topic, partitions=4))
    assert members_of(broker.bootstrap, topic, protocol) == ("Empty", 0)
    with Admin(broker.bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
    assert [each.offset for each in committed.values()] == [COUNT // 4] * 4


def await_members(bootstrap: str, group: str, protocol: str, members: list[subprocess.Popen[str]]) -> None:
    """Wait until a group has its members, and each member has its partitions."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while members_of(bootstrap, group, protocol) != ("Stable", len(members)):
        assert time.monotonic() < deadline, members_of(bootstrap, group, protocol)
        assert [member.poll() for member in members] == [None] * len(members), members[0].communicate()


def members_of(bootstrap: str, group: str, protocol: str) -> tuple[str, int]:
    """Return a group's state and its number of members."""
    host, port = bootstrap.rsplit(":", 1)
    with FrameSocket(host, int(port), TIMEOUT_SECONDS) as socket:
        if protocol == "classic":
            classic = call(socket, DescribeGroupsRequest([group]), 5)
            assert isinstance(classic, DescribeGroupsResponse)
            return classic.groups[0].group_state, len(classic.groups[0].members)
        described = call(socket, ConsumerGroupDescribeRequest([group]), 1)
        assert isinstance(described, ConsumerGroupDescribeResponse)
        return described.groups[0].group_state, len(described.groups[0].members)


#: Each client's error for a fenced producer; rskafka has no transactions.
FENCED = {
    "kafka-python": "ProducerFencedError",
    "aiokafka": "ProducerFenced",
    "confluent-kafka": "_FENCED",
    "confluent-kafka-2.5": "_FENCED",
    "java": "InvalidProducerEpochException",
    "franz-go": ErrorCode.INVALID_PRODUCER_EPOCH,
    "sarama": ErrorCode.PRODUCER_FENCED,
    "kafkajs": "INVALID_PRODUCER_EPOCH",
}


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program.name in FENCED], ids=name_of)
def test_transactions(either: Server, program: Program) -> None:
    topic = f"programs-transactions-{program.name}"
    create(either.bootstrap, topic, partitions=1)
    create(either.bootstrap, f"{topic}-out", partitions=1)
    write(either.bootstrap, topic, program.codecs)
    seen = usable(program).run(either.bootstrap, "transactions", topic)
    assert seen == {"offset": 5, "fenced": FENCED[program.name]}
    asyncio.run(topics.await_markers(either.bootstrap, f"{topic}-out"))
    with Consumer(either.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(f"{topic}-out", 0)])
        committed = sorted((each.value or b"").decode() for each in consumer.records(stop_at_end=True))
    assert committed == [f"kept {number}" for number in range(10)]
    assert {place[3].split()[0] for place in read(either.bootstrap, f"{topic}-out", partitions=1)} >= {
        "kept",
        "dropped",
    }
    with Admin(either.bootstrap) as admin:
        assert [each.offset for each in admin.list_group_offsets(topic).values()] == [5]


@pytest.fixture(scope="module")
def strict() -> Iterator[list[Server]]:
    """Apache Kafka and the reference broker, without automatic creation of topics."""
    with (
        ApacheKafka(settings={"auto.create.topics.enable": "false"}) as kafka,
        Broker(**{**BROKER_OPTIONS, "auto_create_topics": False}) as broker,
    ):
        for server in (kafka, broker):
            create(server.bootstrap, "small", partitions=1, **{"max.message.bytes": "1000"})
        yield [kafka, broker]


#: Mistakes, and the error code with which a broker responds to each.
MISTAKES = {
    "unknown topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "large record": ErrorCode.MESSAGE_TOO_LARGE,
    "bad config": ErrorCode.INVALID_CONFIG,
}

#: The reference broker's message for the error code.
MORE = {
    "unknown topic": "none",
    "large record": "the topic allows 1000",
    "bad config": "compression.type: must be one of",
}


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        pytest.param(program, kind, id=f"{program.name}-{kind.replace(' ', '-')}")
        for program in PROGRAMS
        for kind in MISTAKES
        if not (program.name == "rskafka" and kind == "bad config")  # rskafka's topics have no configuration
    ],
)
def test_a_mistake_is_told_as_apache_kafka_tells_it(strict: list[Server], program: Program, kind: str) -> None:
    topic = "small" if kind == "large record" else "none"
    on_kafka, on_ours = (usable(program).run(server.bootstrap, "mistake", topic, kind) for server in strict)
    # The reference broker's message gives the value and the limit; Kafka's is generic.
    assert on_ours["text"] == on_kafka["text"] or MORE[kind] in on_ours["text"]
    assert on_ours.get("error") == on_kafka.get("error")
    if (program.name, kind) in {("kafka-python", "unknown topic"), ("java", "unknown topic")}:
        assert "metadata" in on_ours["text"]  # these clients report no code, but that they waited for the topic in vain
    elif program.name == "rskafka":
        assert on_ours["text"].upper() == MISTAKES[kind].name.replace("_", "")
    else:
        assert on_ours["error"] == MISTAKES[kind]


def test_fetch(broker: Broker) -> None:
    (program,) = (each for each in PROGRAMS if each.name == "rskafka")
    topic = "programs-fetch-rskafka"
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, program.codecs)
    seen = usable(program).run(broker.bootstrap, "fetch", topic)
    assert sorted(map(tuple, seen["records"])) == sorted(read(broker.bootstrap, topic))
