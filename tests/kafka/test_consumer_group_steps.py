"""The reference broker answers heartbeats of KIP-848 as Apache Kafka does: joins, hand-overs, fencing, static members.

Method: each request goes to both; codes, epochs and assigned partitions must be equal. The topic has one partition, so
that nothing depends on the order of member ids, and Kafka computes each assignment at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.kafka.apache import ApacheKafka
from tests.kafka.line import Line
from tests.reference_broker.broker_bench import BrokerBench

#: Name of the member, epoch, partitions it says it owns, other fields; a name is given by the first response.
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


@pytest.fixture(scope="module")
def prompt_kafka() -> Iterator[ApacheKafka]:
    """A node that computes assignments at once: by default it gathers changes for a while."""
    with ApacheKafka(settings={"group.consumer.assignment.interval.ms": "0"}) as node:
        yield node


def test_steps(prompt_kafka: ApacheKafka, tmp_path: Path) -> None:
    bench = BrokerBench(tmp_path / "data")
    host, _, port = prompt_kafka.bootstrap.rpartition(":")
    line = Line((host, int(port)))

    def ask_kafka(message: Message, version: int) -> Any:
        line.send(message, version)
        return line.receive()

    create = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("steps", 1, 1)])
    topic_ids = [bytes(ask(create, 7).topics[0].topic_id) for ask in (bench.ask, ask_kafka)]
    group = uuid.uuid4().hex[:8]
    while any(
        ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code
        for ask in (bench.ask, ask_kafka)
    ):
        pass
    first = ConsumerGroupHeartbeatRequest(group, "nobody", 1)
    while ask_kafka(first, 0).error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        pass
    names: dict[str, tuple[str, str]] = {}
    for number, (name, epoch, owned, changes) in enumerate(STEPS):
        answers = []
        for place, ask in enumerate((bench.ask, ask_kafka)):
            fields: dict[str, Any] = {"group_id": group, "member_epoch": epoch}
            # Not known to either yet: a member that joins gets its id in the response.
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
        assert shape(ours) == shape(theirs), f"step {number}, {name!r} {epoch} {owned} {changes}"
    line.frames.close()


def shape(response: Any) -> tuple[int, int, list[int] | None]:
    """Return what must be equal in a response."""
    assignment = None
    if response.assignment is not None:
        assignment = [n for part in response.assignment.topic_partitions for n in part.partitions]
    return response.error_code, response.member_epoch, assignment
