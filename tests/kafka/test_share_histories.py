"""Random histories of a share partition have the same answers on both brokers.

Method: two members, each on a connection of its own, fetch, acknowledge, renew, make mistakes, close sessions and
disconnect, while records are written, in transactions too. Apache Kafka's answers decide how a history continues; the
reference broker gets the same requests. `KAFKAWIRE_TEST_SHARE_SEEDS=100:200` plays other histories.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kafkawire.sdk.protocol.tables.enums import AcknowledgeType, ShareAcquireMode
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Producer
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import TIMEOUT_MS
from tests.kafka.share_steps import Range, ShareSteps
from tests.kafka.topics import await_markers

pytestmark = pytest.mark.timeout(300)

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType

#: How long a broker may take to release records after the end of a session.
SETTLE_SECONDS = 0.25

#: How long the first fetch of a session may take, as it loads the share partition.
LOAD_MS = 3_000

QUIET_MS = 60

MEMBERS = ("m", "n")

#: The configurations of the histories' groups, in turn.
CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"share_delivery_count_limit": "2"},
    {"share_delivery_count_limit": "3", "share_isolation_level": "read_committed"},
    {"share_delivery_count_limit": "10", "share_partition_max_record_locks": "100"},
)

#: How often each step is chosen.
STEPS = {
    "produce": 2,
    "produce much": 1,
    "transaction": 1,
    "fetch": 5,
    "acknowledge": 5,
    "fetch and acknowledge": 1,
    "mistake": 1,
    "offsets": 1,
    "close": 1,
    "disconnect": 1,
}


class Story(ShareSteps):
    """Requests of two members, and a record of them."""

    def __init__(self, bootstrap: str, name: str, **configs: Any) -> None:
        super().__init__(bootstrap, name, **configs)
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._lines = {"": self.socket, **{member: self._connected() for member in MEMBERS}}

    def _connected(self) -> FrameSocket:
        host, _, port = self.bootstrap.rpartition(":")
        return FrameSocket(host, int(port), TIMEOUT_MS / 1000)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def take(self, step: Callable[..., Any], *arguments: Any, **given: Any) -> Any:
        """Take a step, which is a function of a story, and record it."""
        self.calls.append((step, arguments, given))
        return step(self, *arguments, **given)

    def of(self, member: str) -> Story:
        """Use a member's connection from now on."""
        self.socket = self._lines[member]
        return self

    def disconnect(self, member: str) -> None:
        """Replace a member's connection."""
        self._lines[member].close()
        time.sleep(SETTLE_SECONDS)
        self._lines[member] = self._connected()


def join(story: Story, member: str) -> None:
    story.of(member).join(member)


def write(story: Story, *values: bytes) -> None:
    story.of("").produce(*values)


def write_together(story: Story, count: int, is_committed: bool) -> None:
    with Producer(story.bootstrap, transactional_id=story.name) as producer:
        producer.begin_transaction()
        for number in range(count):
            producer.send(story.name, b"t%d" % number, partition=0).result()
        if is_committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    asyncio.run(await_markers(story.bootstrap, story.name))


def fetch(story: Story, label: str, epoch: int, member: str, **given: Any) -> Any:
    return story.of(member).fetch(label, epoch, member, **given)


def acknowledge(story: Story, label: str, epoch: int, member: str, *ranges: Range) -> None:
    renews = any(RENEW in kinds for _, _, kinds in ranges)
    story.of(member).acknowledge(label, epoch, *ranges, member_id=member, is_renew_ack=renews)


def close(story: Story, label: str, member: str) -> None:
    story.of(member).acknowledge(label, -1, member_id=member)
    time.sleep(SETTLE_SECONDS)


def disconnect(story: Story, member: str) -> None:
    story.disconnect(member)


def offsets(story: Story, label: str) -> None:
    story.of("").describe_offsets(label)


class Author:
    """Decides how a history continues.

    Args:
        story: the story on Apache Kafka.
        random: decides.
    """

    def __init__(self, story: Story, random: Random) -> None:
        self._story = story
        self._random = random
        self._written = 0
        #: The epoch of each member's session, and what it has acquired.
        self._epochs: dict[str, int] = {}
        self._held: dict[str, list[tuple[int, int]]] = {member: [] for member in MEMBERS}

    def write(self, steps: int) -> None:
        """Write a history."""
        for member in MEMBERS:
            self._story.take(join, member)
        for number in range(steps):
            (kind,) = self._random.choices(list(STEPS), list(STEPS.values()))
            self._step(kind, self._random.choice(MEMBERS), f"{number}: {kind}")
        self._story.take(offsets, "at the end")

    def _step(self, kind: str, member: str, label: str) -> None:
        random, epoch = self._random, self._epochs.get(member)
        match kind:
            case "produce" | "produce much":
                for _ in range(random.randint(1, 3)):
                    self._produce(random.randint(1, 6) if kind == "produce" else random.randint(20, 60))
            case "transaction":
                count = random.randint(1, 3)
                self._story.take(write_together, count, random.random() < 0.5)
                self._written += count + 1
            case "fetch":
                self._fetch(member, label)
            case "fetch and acknowledge" if epoch is not None and self._held[member]:
                first, last = self._held[member].pop(0)
                self._fetch(member, label, acknowledged={0: [(first, last, [random.choice((ACCEPT, REJECT))])]})
            case "acknowledge" if epoch is not None:
                if ranges := self._ranges(member):
                    self._acknowledge(member, label, epoch, *ranges)
            case "mistake" if epoch is not None:
                first = random.randrange(self._written + 2)
                kinds = [random.choice((ACCEPT, RELEASE, REJECT))]
                self._acknowledge(member, label, epoch, (first, first + random.randrange(4), kinds))
                self._held[member] = []  # it is not known what has become of it
            case "offsets":
                self._story.take(offsets, label)
            case "close" if epoch is not None:
                self._story.take(close, label, member)
                self._forget(member)
            case "disconnect":
                self._story.take(disconnect, member)
                self._forget(member)

    def _produce(self, count: int) -> None:
        self._story.take(write, *(b"%d" % (self._written + number) for number in range(count)))
        self._written += count

    def _forget(self, member: str) -> None:
        self._epochs.pop(member, None)
        self._held[member] = []

    def _fetch(self, member: str, label: str, **given: Any) -> None:
        epoch, random = self._epochs.get(member, 0), self._random
        if not epoch:
            self._produce(1)  # so that the answer comes once the share partition is loaded
        answer = self._story.take(
            fetch,
            label,
            epoch,
            member,
            max_records=random.choice((1, 2, 3, 5, 8, 20, 500)),
            batch_size=random.choice((1, 2, 4, 500)),
            share_acquire_mode=random.choice(list(ShareAcquireMode)),
            max_wait_ms=QUIET_MS if epoch else LOAD_MS,
            **given,
        )
        if answer.error_code:
            self._forget(member)
            return
        self._epochs[member] = epoch + 1
        self._held[member] += [
            (acquired.first_offset, acquired.last_offset)
            for topic in answer.responses
            for data in topic.partitions
            for acquired in data.acquired_records
        ]

    def _acknowledge(self, member: str, label: str, epoch: int, *ranges: Range) -> None:
        self._story.take(acknowledge, label, epoch, member, *ranges)
        self._epochs[member] = epoch + 1

    def _ranges(self, member: str) -> list[Range]:
        """Choose what to acknowledge of what a member has acquired."""
        random, ranges = self._random, []
        left: list[tuple[int, int]] = []
        for first, last in sorted(self._held[member]):
            match random.choice(("keep", "whole", "each", "part", "renew")):
                case "keep":
                    left.append((first, last))
                case "whole":
                    ranges.append((first, last, [random.choice((ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT))]))
                case "each":
                    kinds = [random.choice((0, ACCEPT, RELEASE, REJECT)) for _ in range(first, last + 1)]
                    ranges.append((first, last, kinds))
                case "part":
                    middle = random.randint(first, last)
                    ranges.append((first, middle, [random.choice((ACCEPT, RELEASE, REJECT))]))
                    if middle < last:
                        left.append((middle + 1, last))
                case "renew":
                    ranges.append((first, last, [RENEW]))
                    left.append((first, last))
        self._held[member] = left
        return ranges


def _seeds() -> range:
    first, _, end = os.environ.get("KAFKAWIRE_TEST_SHARE_SEEDS", "0:8").partition(":")
    return range(int(first), int(end))


@pytest.mark.parametrize("seed", _seeds())
def test_both_brokers_give_the_same_answers(kafka: ApacheKafka, broker: Broker, seed: int) -> None:
    random, name = Random(seed), f"share-history-{seed}-{time.time_ns()}"
    configs = CONFIGS[seed % len(CONFIGS)]
    theirs = Story(kafka.bootstrap, name, **configs)
    Author(theirs, random).write(random.randint(15, 45))
    theirs.close()
    ours = Story(broker.bootstrap, name, **configs)
    for step, arguments, given in theirs.calls:
        step(ours, *arguments, **given)
    ours.close()
    for own, kafkas in zip(ours.answers, theirs.answers, strict=True):
        # Kafka fails if a member acknowledges offsets around the start offset while none are in delivery.
        assert own == kafkas or kafkas[1].get("error_code") == ErrorCode.UNKNOWN_SERVER_ERROR
