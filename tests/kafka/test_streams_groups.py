"""Kafka Streams counts words in a streams group (KIP-1071) on the reference broker as on Apache Kafka.

Method: run the application with one instance, and with two, one of which is killed; the counts must be right. Then
compare what Kafka's tool for streams groups prints on both brokers about the groups that are left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic, TopicPartition
from kafkawire.sync import Admin, Consumer, Producer
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.cleaning import until
from tests.kafka.servers import Server
from tests.kafka.streams import COUNTS, LINES, WordCount, word_count
from tests.needs import JAVAC

#: The jars may have to be fetched first, and an instance takes several seconds to start.
pytestmark = [JAVAC.mark, pytest.mark.timeout(900)]

TIMEOUT_SECONDS = 120

PARTITIONS = 2

#: Members that are killed lose their sessions soon, and their transactions are aborted soon.
SETTINGS = {
    "group.streams.heartbeat.interval.ms": 1_000,
    "group.streams.session.timeout.ms": 6_000,
    "group.streams.initial.rebalance.delay.ms": 500,
    "group.streams.num.standby.replicas": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
}

#: Only Apache Kafka has these lower limits.
LIMITS = {"group.streams.min.heartbeat.interval.ms": "1000", "group.streams.min.session.timeout.ms": "1000"}

#: Each is a group, and the application's name.
ONE, TWO = "one-instance", "two-instances"

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"

#: Values that differ between any two runs.
MASKS = (
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID"),
    (r" +", " "),
)

COMMANDS = (
    "--list",
    f"--describe --group {ONE}",
    f"--describe --group {ONE} --state",
    f"--describe --group {ONE} --members --verbose",
    f"--describe --group {ONE} --offsets --verbose",
    "--describe --group missing",
    f"--reset-offsets --group {ONE} --input-topic {LINES} --to-earliest --dry-run",
    f"--delete-offsets --group {ONE} --input-topic {LINES}",
    f"--describe --group {ONE}",
    f"--delete --group {ONE}",
    "--list",
)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A broker with the application's topics."""
    options: Any = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    settings = {name: str(value) for name, value in SETTINGS.items()} | LIMITS
    broker: Server = Broker(**options) if request.param == "ours" else ApacheKafka(settings=settings)
    with broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (LINES, COUNTS)])
        yield broker


class Words:
    """What was written to the application, and what it has counted.

    Args:
        producer: writes lines.
        consumer: reads counts.
    """

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer, self._consumer = producer, consumer
        self._consumer.assign([TopicPartition(COUNTS, number) for number in range(PARTITIONS)])
        self.expected: Counter[str] = Counter()
        self.counted: dict[str, int] = {}

    def write(self, *lines: str) -> None:
        """Write lines."""
        for number, line in enumerate(lines):
            self._producer.send(LINES, line.encode(), partition=number % PARTITIONS)
            self.expected.update(line.split())
        self._producer.drain()

    def are_counted(self) -> bool:
        """Read the counts that have arrived; return whether they are right."""
        for record in self._consumer.records(stop_at_end=True):
            word = (record.key or b"").decode()
            if word in self.expected:
                self.counted[word] = int.from_bytes(record.value or b"", "big")
        return self.counted == self.expected


@pytest.fixture
def words(server: Server) -> Iterator[Words]:
    """The words of one test."""
    reading: Any = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Producer(server.bootstrap) as producer, Consumer(server.bootstrap, **reading) as consumer:
        yield Words(producer, consumer)


def wait(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait until something is so."""
    until(is_so, lambda: str(what()), TIMEOUT_SECONDS)


def run(instance: WordCount) -> None:
    """Wait until an instance runs."""
    wait(lambda: "RUNNING" in instance.states, lambda: instance.states)


def test_one_instance(server: Server, words: Words, tmp_path: Path) -> None:
    words.write("the quick fox", "the lazy dog", "the end")
    with word_count(server.bootstrap, ONE, tmp_path / "a") as instance:
        wait(words.are_counted, lambda: (words.counted, instance.states))
        words.write("the quick dog")
        wait(words.are_counted, lambda: (words.counted, instance.states))
        instance.close()
        assert instance.process.returncode == 0
        assert instance.states[-1] == "NOT_RUNNING"


def test_exactly_once_although_one_of_two_instances_is_killed(server: Server, words: Words, tmp_path: Path) -> None:
    exactly_once = "processing.guarantee=exactly_once_v2", "transaction.timeout.ms=5000"
    words.write(*(f"even{number} even odd{number}" for number in range(50)))
    with (
        word_count(server.bootstrap, TWO, tmp_path / "a", *exactly_once) as one,
        word_count(server.bootstrap, TWO, tmp_path / "b", *exactly_once) as other,
    ):
        run(one)
        run(other)
        wait(words.are_counted, lambda: (words.counted, one.states, other.states))
        words.write(*(f"even{number} even odd{number}" for number in range(50)))
        one.process.kill()
        words.write(*(f"even{number} more odd{number}" for number in range(50)))
        wait(words.are_counted, lambda: (words.counted, other.states))
        other.close()


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    """What the tool has printed, keyed by broker."""
    return {}


def test_what_the_tool_prints(server: Server, printed: dict[str, list[str]]) -> None:
    answers = [run_tool(TOOL, "--bootstrap-server", server.bootstrap, *line.split()) for line in COMMANDS]
    printed["ours" if isinstance(server, Broker) else "kafka"] = [
        masked(f"{answer.returncode}\n{answer.stdout}{answer.stderr}") for answer in answers
    ]
    if len(printed) > 1:
        for line, ours, theirs in zip(COMMANDS, printed["ours"], printed["kafka"], strict=True):
            assert ours == theirs, line


def masked(text: str) -> str:
    """Return a text without what differs between any two runs."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text
