"""Programs that use third-party clients lose nothing while our brokers are killed, stopped and restarted.

Method: let a program store keyed records with its client's defaults (and acks=all where that is not the default) while
another reads them in a group. Each part of the records is sent while a different broker is down. The acknowledged
records are compared with those stored and those read.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from kafkawire import NewTopic, TopicPartition, sync
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.cluster import NODES
from tests.kafka.cluster_faults import until
from tests.kafka.cluster_pair import ClusterOfThree, our_cluster
from tests.kafka.programs import BUILD_TIMEOUT_SECONDS, PROGRAMS, Program, name_of, usable

#: The first test that uses a client waits until the client is built.
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_SECONDS + 600)

PARTITIONS = 3

#: The number of records that a program stores for each line it receives, and the number of lines.
RECORDS_OF_A_LINE = 500
LINES = 4

COUNT = RECORDS_OF_A_LINE * LINES

#: A program that is still running after this time is stuck: on an idle machine, a failover takes one 10 s session
#: timeout.
TIMEOUT_SECONDS = 300

CLIENTS = [
    program
    for program in PROGRAMS
    if program.name in ("kafka-python", "aiokafka", "confluent-kafka", "java", "franz-go")
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfThree]:
    """Three brokers for all programs; each test leaves them all running."""
    settings = {
        "min.insync.replicas": "2",
        "auto.leader.rebalance.enable": "true",
        "zookeeper.session.timeout.ms": "10000",  # a killed broker is noticed sooner than by default
    }
    with our_cluster(settings) as running:
        yield running


def stored(cluster: ClusterOfThree, topic: str) -> list[int]:
    """Return the values of all records of a topic."""
    with sync.Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        return [int(record.value or b"") for record in consumer.records(stop_at_end=True)]


def knows(address: str, topic: str) -> bool:
    """Return whether a broker has learned that a topic exists."""
    host, _, port = address.rpartition(":")
    connection = ClientConnection()
    asked = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with FrameSocket(host, int(port)) as socket:
        socket.send(*connection.request(asked, 9).parts)
        response = connection.receive(socket.receive()).message
    assert isinstance(response, MetadataResponse)
    return not any(each.error_code for each in response.topics)


def send_part(producer: subprocess.Popen[str]) -> None:
    """Make a program store the next part."""
    assert producer.stdin is not None
    producer.stdin.write("\n")
    producer.stdin.flush()


@pytest.mark.parametrize("program", CLIENTS, ids=name_of)
def test_a_program_rides_through_failovers(cluster: ClusterOfThree, program: Program) -> None:
    usable(program)
    topic = f"failovers-{program.name}"
    killed, stopped, _ = NODES if CLIENTS.index(program) % 2 else reversed(NODES)
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, PARTITIONS, len(NODES)))
    # librdkafka gives its user an error if the first broker that it asks has not learned of the topic yet.
    for address in cluster.addresses.values():
        until(lambda address=address: knows(address, topic), f"{address} does not learn of {topic}", 60)
    reader = program.start(cluster.bootstrap, "follow", topic, str(COUNT))
    producer = program.start(cluster.bootstrap, "stream", topic)
    try:
        send_part(producer)
        cluster.kill(killed)
        send_part(producer)
        cluster.restart(killed)
        send_part(producer)
        cluster.stop(stopped)
        send_part(producer)
        cluster.restart(stopped)
        sent = program.seen(producer, TIMEOUT_SECONDS)
        read = program.seen(reader, TIMEOUT_SECONDS)
    finally:
        for process in (producer, reader):
            process.kill()
            process.communicate()
    assert sent == {"sent": COUNT, "failed": []}
    found = stored(cluster, topic)
    assert set(found) == set(range(COUNT)), "every acknowledged record must be stored"
    if program.idempotent:
        assert len(found) == COUNT, "once"
    assert read["different"] == COUNT
