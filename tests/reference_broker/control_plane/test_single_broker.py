"""A standalone broker leads all its partitions, and needs no other broker.

Method: run a core on an in-memory disk.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.control_plane.single_broker import SingleBroker
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.directories import on


@pytest.fixture
def bench() -> BrokerBench:
    return BrokerBench(MemoryDisk())


def test_partitions_of_the_image_are_led(bench: BrokerBench) -> None:
    bench.create("t", 2)
    assert [type(each) for each in bench.core.replicas.of("t")] == [Replica, Replica]
    bench.restart()
    assert [each.role for each in bench.core.replicas.of("t")] == [Role.LEADER, Role.LEADER]


def test_own_markers_and_transactions(bench: BrokerBench) -> None:
    control = SingleBroker(on(MemoryDisk()), read_options({}), {}, load())
    own = bench.core.transactions
    assert control.verifier(own, lambda: 1) is own

    def write(*arguments: object) -> None:
        """Write nothing."""

    assert control.write_marker(write) is write  # type: ignore[arg-type, comparison-overlap]  # it is merely passed on
    assert bench.core.parts["verifier"] is own


def test_features_are_those_of_the_served_apis() -> None:
    served = load()
    names = {each.name for each in SingleBroker(on(MemoryDisk()), read_options({}), {}, served).features}
    del served.handlers[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    fewer = {each.name for each in SingleBroker(on(MemoryDisk()), read_options({}), {}, served).features}
    assert names - fewer == {"group.version"}


def test_offsets_of_a_topic_before_the_groups_are_there() -> None:
    control = SingleBroker(on(MemoryDisk()), read_options({}), {}, load())
    told: list[object] = []
    control.sources.topics.create_by_default("t", told.append)
    (topic,) = told
    control.sources.topics.delete(topic, 0, told.append)  # type: ignore[arg-type]  # it is the topic
    assert told[1:] == [None], "no offsets are committed for the topic"


def test_offsets_of_a_deleted_topic_are_forgotten(bench: BrokerBench) -> None:
    topic_id = bench.create("t")
    bench.offsets_topic()
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", topic_id, [partition])
    bench.ask(OffsetCommitRequest("g", topics=[topic]))
    assert list(bench.core.groups.offsets("g")) == [("t", 0)]
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=60_000))
    assert not bench.core.groups.offsets("g")
