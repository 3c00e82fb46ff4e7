"""The reference broker answers KIP-848 heartbeats as Apache Kafka does: joins, hand-overs, fencing, static members.

Method: send each request to both; codes, texts, epochs and assigned partitions must be equal. The topic has only one
partition, so nothing depends on the order of member ids, and Kafka computes each assignment immediately.
"""

from __future__ import annotations

import itertools
import random
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import Line, address_of
from tests.reference_broker.broker_bench import BrokerBench

Ask = Callable[[Message, int], Any]

#: The member's name, its epoch, the partitions in its request, and other fields; a name stands for the id in the
#: member's first response.
STEPS: list[tuple[str, int, list[int] | None, dict[str, Any]]] = [
    ("nobody", 1, None, {}),
    ("", -3, None, {}),
    ("", 1, None, {}),
    ("", 0, [], {"rebalance_timeout_ms": -1}),
    ("", 0, [], {"server_assignor": "odd"}),
    ("", 0, None, {}),
    ("", 0, [], {"instance_id": ""}),
    ("", 0, [], {"group_id": ""}),
    ("reads nothing", 0, [], {"subscribed_topic_names": []}),
    ("a", 0, [], {}),
    ("a", 1, None, {}),
    ("a", 1, [0], {}),
    ("a", 2, None, {}),
    ("a", 0, [], {}),
    ("b", 0, [], {}),
    ("b", 2, None, {}),
    ("a", 1, [0], {}),
    ("a", 2, None, {}),
    ("a", 2, [0], {}),
    ("a", 2, [], {}),
    ("b", 3, [], {}),
    ("nobody", 2, None, {}),
    ("nobody", -1, None, {}),
    ("a", -1, None, {}),
    ("b", 2, [], {}),
    ("b", 3, None, {}),
    ("b", 3, [0], {}),
    ("b", 4, [0], {}),
    ("b", -1, None, {}),
    ("b", 4, None, {}),
    ("s", 0, [], {"instance_id": "i"}),
    ("", 0, [], {"instance_id": "i"}),
    ("s", -2, None, {"instance_id": "i"}),
    ("s2", 0, [], {"instance_id": "i"}),
    ("s", 1, None, {"instance_id": "i"}),
    ("s2", -2, None, {}),
    ("s2", -1, None, {"instance_id": "j"}),
    ("s2", -1, None, {"instance_id": "i"}),
]


#: A member's valid and invalid requests to a group that does not exist.
FAULTS: dict[str, tuple[Any, ...]] = {
    "group_id": ("g", "", " "),
    "member_id": ("m", "", "\t"),
    "member_epoch": (0, 1, -1, -2, -3),
    "instance_id": (None, "i", " "),
    "rack_id": (None, "r", ""),
    "rebalance_timeout_ms": (60_000, -1),
    "subscribed_topic_names": (None, []),
    "topic_partitions": (None, [], [ConsumerGroupHeartbeatRequest.TopicPartitions(ZERO_UUID, [0])]),
    "server_assignor": (None, "range", "odd"),
}


@pytest.fixture(scope="module")
def prompt_kafka() -> Iterator[ApacheKafka]:
    """A node that computes assignments immediately; by default, it batches changes for a while."""
    settings = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}
    with ApacheKafka(settings=settings) as node:
        yield node


@pytest.fixture
def both(prompt_kafka: ApacheKafka, tmp_path: Path) -> Iterator[tuple[Ask, Ask]]:
    """Functions that send requests to the reference broker and to Apache Kafka; both already coordinate groups."""
    bench = BrokerBench(tmp_path / "data")
    line = Line(address_of(prompt_kafka.bootstrap))
    asks: tuple[Ask, Ask] = bench.ask, line.ask
    find = FindCoordinatorRequest(coordinator_keys=["x"])

    def said(ask: Ask, message: Message, version: int) -> Any:
        return ask(message, version)

    until(lambda: not any(said(ask, find, 4).coordinators[0].error_code for ask in asks), "no topic")
    first = ConsumerGroupHeartbeatRequest("nobody's", "nobody", 1)
    not_yet = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    until(lambda: all(said(ask, first, 0).error_code not in not_yet for ask in asks), "still loading")
    yield asks
    line.frames.close()


def test_steps(both: tuple[Ask, Ask]) -> None:
    create = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("steps", 1, 1)])
    topic_ids = [bytes(ask(create, 7).topics[0].topic_id) for ask in both]
    group = uuid.uuid4().hex[:8]
    names: dict[str, tuple[str, str]] = {}
    for number, (name, epoch, owned, changes) in enumerate(STEPS):
        answers = []
        for place, ask in enumerate(both):
            fields: dict[str, Any] = {"group_id": group, "member_epoch": epoch}
            # A new member, which neither broker knows yet, gets its id in the response.
            fields["member_id"] = names[name][place] if name in names else "" if epoch == 0 else name
            if owned is not None:
                Owned = ConsumerGroupHeartbeatRequest.TopicPartitions
                fields["topic_partitions"] = [Owned(topic_ids[place], owned)] if owned else []
            if epoch == 0:
                fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["steps"]}
            answers.append(ask(ConsumerGroupHeartbeatRequest(**(fields | changes)), 0))
        ours, theirs = answers
        if name and not ours.error_code:
            names.setdefault(name, (ours.member_id, theirs.member_id))
        texts = [
            text_of(answer, {known[place]: known[0] for known in names.values()})
            for place, answer in enumerate(answers)
        ]
        assert texts[0] == texts[1], f"step {number}"
        assert shape(ours) == shape(theirs), f"step {number}, {name!r} {epoch} {owned} {changes}"


@pytest.mark.parametrize("version", [0, 1])
def test_faults(both: tuple[Ask, Ask], version: int) -> None:
    combinations = list(itertools.product(*FAULTS.values()))
    for values in random.Random(1251).sample(combinations, 600):
        fields = dict(zip(FAULTS, values, strict=True))
        if fields["group_id"] == "g":
            fields["group_id"] = uuid.uuid4().hex
        ours, theirs = (ask(ConsumerGroupHeartbeatRequest(**fields), version) for ask in both)
        assert (ours.error_code, ours.error_message) == (theirs.error_code, theirs.error_message), fields


def shape(response: Any) -> tuple[int, int, list[int] | None]:
    """Return the parts of a response that must be equal."""
    assignment = None
    if response.assignment is not None:
        assignment = [n for part in response.assignment.topic_partitions for n in part.partitions]
    return response.error_code, response.member_epoch, assignment


def text_of(response: Any, ids: dict[str, str]) -> str | None:
    """Return an error message in which member ids are the same on both sides."""
    text: str | None = response.error_message
    for member_id, ours in ids.items():
        text = text and text.replace(member_id, ours)
    # The id of a refused member was generated for that request alone.
    return text and re.sub(r"^Static member \S+ with", "Static member with", text)
