"""The image follows the controller's requests, and no request can corrupt it or make it huge.

Method: build requests as the controller of Apache Kafka 3.9.1 does, and pass them through the codec. Check a table of
sequences of requests with the expected images; then send requests that only a faulty controller sends. Count work in
steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kafkawire.reference_broker.metadata.cluster_metadata import GAPS_MAX, ClusterMetadata
from kafkawire.reference_broker.metadata.image import (
    UNKNOWN_PARTITION,
    BrokerRegistration,
    MetadataDelta,
    PartitionImage,
    TopicChange,
)
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.tables.enums import LEADER_DURING_DELETION, NO_CONTROLLER_ID, NO_LEADER_ID
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address

Topic = UpdateMetadataRequest.UpdateMetadataTopicState
State = UpdateMetadataRequest.UpdateMetadataPartitionState
Broker = UpdateMetadataRequest.UpdateMetadataBroker
Endpoint = UpdateMetadataRequest.UpdateMetadataEndpoint

VERSIONS = UpdateMetadataRequest.SCHEMA.known_versions
X, Y = b"x" * 16, b"y" * 16


def state(number: int, leader: int = 1, epoch: int = 0, isr: Iterable[int] = (1, 2), partition_epoch: int = 0) -> State:
    return State("", number, 1, leader, epoch, tuple(isr), partition_epoch, (1, 2))


def deleted(number: int) -> State:
    """Return the state of a partition whose topic is being deleted: only ISR and replicas are kept."""
    return State("", number, 1, LEADER_DURING_DELETION, 0, (1, 2), 0, (1, 2))


def broker(broker_id: int, rack: str | None = None) -> Broker:
    return Broker(broker_id, endpoints=[Endpoint(9092, f"host{broker_id}", "PLAINTEXT")], rack=rack)


def request(
    *topics: Topic, brokers: Iterable[Broker] = (broker(1), broker(2)), controller: int = 1, controller_epoch: int = 1
) -> Any:
    return UpdateMetadataRequest(controller, False, 0, controller_epoch, 7, (), topics, tuple(brokers))


def topic(*states: State, topic_id: bytes = X, name: str = "t") -> Topic:
    return Topic(name, topic_id, states)


def image(leader: int = 1, epoch: int = 0, isr: Iterable[int] = (1, 2)) -> PartitionImage:
    return PartitionImage(leader, epoch, tuple(isr), (1, 2))


def finish(work: Work[Any]) -> tuple[Any, int]:
    """Perform work in steps; return its result and the number of steps."""
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, steps
        steps += 1


def through(message: UpdateMetadataRequest, version: int = VERSIONS.last) -> UpdateMetadataRequest:
    """Return a request as the broker reads it."""
    known = codec(UpdateMetadataRequest, version)
    return known.decode(known.encode(message))[0]


class Cluster:
    """The metadata of a broker, and the changes that its listeners were told."""

    def __init__(self) -> None:
        self.configs: dict[str, Mapping[str, str]] = {}
        self.metadata = ClusterMetadata("cluster", 1, lambda name: self.configs.get(name, {}))
        self.deltas: list[MetadataDelta] = []
        self.metadata.metadata.listen(self.deltas.append)

    def apply(self, *messages: UpdateMetadataRequest) -> None:
        for message in messages:
            finish(self.metadata.apply(through(message)))

    @property
    def image(self) -> Any:
        return self.metadata.metadata.image

    @property
    def partitions(self) -> dict[str, tuple[bytes, tuple[PartitionImage, ...]]]:
        """The id and the partitions of each topic; also checks that both tables have the same topics."""
        named = {each.topic_id: each for each in self.image.topics.values() if each.topic_id != ZERO_UUID}
        assert named == self.image.topics_by_id
        return {each.name: (each.topic_id, each.partitions) for each in self.image.topics.values()}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_at_first_nothing_is_known(cluster: Cluster):
    assert cluster.image == ("cluster", NO_CONTROLLER_ID, {}, {}, {}, ({}, -1))


GAP = UNKNOWN_PARTITION

SEQUENCES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "brokers alone": ([request()], {}),
    "a topic": ([request(topic(state(0), state(1, 2)))], {"t": (X, (image(), image(2)))}),
    "the next leader": (
        [request(topic(state(0), state(1))), request(topic(state(1, 2, 1, [2])))],
        {"t": (X, (image(), image(2, 1, [2])))},
    ),
    "no leader": ([request(topic(state(0))), request(topic(state(0, -1, 1)))], {"t": (X, (image(-1, 1),))}),
    "more partitions": (
        [request(topic(state(0))), request(topic(state(1), state(2)))],
        {"t": (X, (image(), image(), image()))},
    ),
    "a partition that never had a leader": ([request(topic(state(1)))], {"t": (X, (GAP, image()))}),
    "and then has one": ([request(topic(state(2), state(1))), request(topic(state(0)))], {"t": (X, (image(),) * 3)}),
    "a deletion": ([request(topic(state(0), state(1))), request(topic(deleted(0), deleted(1)))], {}),
    "a deletion in two requests": (
        [request(topic(state(0), state(1))), request(topic(deleted(1))), request(topic(deleted(0)))],
        {},
    ),
    "half of a deletion": (
        [request(topic(state(0), state(1))), request(topic(deleted(0)))],
        {"t": (X, (GAP, image()))},
    ),
    "the other half": ([request(topic(state(0), state(1))), request(topic(deleted(1)))], {"t": (X, (image(),))}),
    "a deletion of unknown partitions": ([request(topic(deleted(0), deleted(5)))], {}),
    "the deletion of one of two": (
        [request(topic(state(0)), topic(state(0), topic_id=Y, name="u")), request(topic(deleted(0)))],
        {"u": (Y, (image(),))},
    ),
    "created again": (
        [request(topic(state(0))), request(topic(deleted(0))), request(topic(state(0), topic_id=Y))],
        {"t": (Y, (image(),))},
    ),
    "created again, and the deletion was missed": (
        [request(topic(state(0), state(1))), request(topic(state(0, 2), topic_id=Y))],
        {"t": (Y, (image(2),))},
    ),
    "another id with a gap": (
        [request(topic(state(0), state(2))), request(topic(state(1), topic_id=Y))],
        {"t": (Y, (GAP, image()))},
    ),
    "a deletion of another id": ([request(topic(state(0))), request(topic(deleted(0), topic_id=Y))], {}),
    "no id": ([request(topic(state(0), topic_id=ZERO_UUID))], {"t": (ZERO_UUID, (image(),))}),
    "an id that comes late": (
        [request(topic(state(0), topic_id=ZERO_UUID)), request(topic(state(1)))],
        {"t": (X, (image(), image()))},
    ),
    "an id that is lost": (
        [request(topic(state(0))), request(topic(state(1), topic_id=ZERO_UUID))],
        {"t": (ZERO_UUID, (image(), image()))},
    ),
    "nothing about a topic": ([request(topic(state(0))), request(topic(topic_id=Y))], {"t": (X, (image(),))}),
    "a topic twice": ([request(topic(state(1)), topic(state(0)))], {"t": (X, (image(), image()))}),
    "two ids in one request": (
        [request(topic(state(0), state(1)), topic(state(0, 2), topic_id=Y))],
        {"t": (Y, (image(2),))},
    ),
    "a partition twice": ([request(topic(state(0), state(0, 2)))], {"t": (X, (image(2),))}),
    "deleted and back": ([request(topic(state(0), deleted(0), state(0, 2)))], {"t": (X, (image(2),))}),
    "a leader that is unknown": ([request(topic(state(0, 9)))], {"t": (X, (image(9),))}),
    "an impossible leader": ([request(topic(state(0, -7)))], {"t": (X, (image(NO_LEADER_ID),))}),
    "an impossible epoch": ([request(topic(state(0, 1, -5)))], {"t": (X, (image(1, -1),))}),
    "an impossible number": ([request(topic(state(-1), state(0), state(-(2**31))))], {"t": (X, (image(),))}),
    "a number that is too high": ([request(topic(state(0), state(2**31 - 1)))], {"t": (X, (image(),))}),
    "only numbers that are too high": ([request(topic(state(2**31 - 1)))], {}),
    "no name": ([request(topic(state(0), name=""))], {}),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_topics(cluster: Cluster, name: str):
    requests, expected = SEQUENCES[name]
    cluster.apply(*requests)
    assert cluster.partitions == expected
    gaps = sum(each is GAP for _, partitions in cluster.partitions.values() for each in partitions)
    assert cluster.metadata._gaps == gaps
    cluster.apply(requests[-1])
    assert cluster.partitions == expected, "a request may be repeated"


LATER, EARLIER = state(0, 2, 5, [2], 7), state(0, 1, 4, [1, 2], 6)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([topic(LATER), topic(EARLIER)], image(2, 5, [2])),
        ([topic(LATER), topic(state(0, 2, 5, [1, 2], 6))], image(2, 5, [2])),
        ([topic(LATER), topic(state(0, 2, 5, [1, 2], 8))], image(2, 5)),
        ([topic(LATER), topic(state(0, 1, 6, [1, 2], 8))], image(1, 6)),
        ([topic(LATER), topic(state(0, -1, 5, [2], 7))], image(-1, 5, [2])),
        ([topic(LATER, EARLIER)], image(2, 5, [2])),
        ([topic(LATER), topic(deleted(0)), topic(EARLIER)], image(1, 4)),
        ([topic(LATER), topic(EARLIER, topic_id=Y)], image(1, 4)),
        ([topic(LATER, topic_id=ZERO_UUID), topic(EARLIER, topic_id=ZERO_UUID)], image(1, 4)),
    ],
)
def test_an_earlier_state_that_arrives_last_is_ignored(cluster: Cluster, requests: list[Topic], expected: object):
    cluster.apply(*map(request, requests))
    assert cluster.image.topics["t"].partition(0) == expected


def test_the_next_controller_may_send_any_state(cluster: Cluster):
    """An operator may have deleted the state of a partition, so that its epochs have begun again."""
    cluster.apply(request(topic(LATER, state(1, 2, 5, [2], 7))))
    cluster.apply(request(topic(EARLIER), controller_epoch=2))
    assert cluster.partitions["t"][1] == (image(1, 4), image(2, 5, [2]))
    cluster.apply(request(topic(state(0, 1, 3)), topic(state(1, 1, 3)), controller_epoch=2))
    assert cluster.partitions["t"][1] == (image(1, 4), image(1, 3))


def test_other_entries_of_a_late_request_count(cluster: Cluster):
    cluster.apply(request(topic(LATER)), request(topic(EARLIER, state(1))))
    assert cluster.partitions["t"][1] == (image(2, 5, [2]), image())


PLAINTEXT = {each: BrokerRegistration(each, {"PLAINTEXT": Address(f"host{each}", 9092)}) for each in (1, 2)}


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([broker(1), broker(2)], PLAINTEXT),
        ([broker(2)], {2: PLAINTEXT[2]}),
        ([], {}),
        ([broker(1, "east")], {1: PLAINTEXT[1]._replace(rack="east")}),
        ([broker(1), broker(2), broker(1, "later")], {**PLAINTEXT, 1: PLAINTEXT[1]._replace(rack="later")}),
        ([broker(-1), broker(1), broker(-(2**31))], {1: PLAINTEXT[1]}),
        ([Broker(3)], {3: BrokerRegistration(3, {})}),
        ([Broker(3, endpoints=[Endpoint(1, "h", "", 3)])], {3: BrokerRegistration(3, {"SASL_SSL": Address("h", 1)})}),
        ([Broker(3, endpoints=[Endpoint(1, "h", "", 4), Endpoint(1, "h", "", -1)])], {3: BrokerRegistration(3, {})}),
    ],
)
def test_brokers(cluster: Cluster, brokers: list[Broker], expected: object):
    cluster.apply(request(topic(state(0))), request(brokers=brokers))
    assert cluster.image.brokers == expected
    assert cluster.partitions == {"t": (X, (image(),))}, "a request without topics changes none"


@pytest.mark.parametrize(("controller", "expected"), [(2, 2), (0, 0), (-1, -1), (-5, -1)])
def test_controller(cluster: Cluster, controller: int, expected: int):
    cluster.apply(request(), request(controller=controller))
    assert cluster.image.controller_id == expected


@pytest.mark.parametrize("version", VERSIONS.numbers())
def test_every_version(cluster: Cluster, version: int):
    brokers = [broker(each) if version else Broker(each, f"host{each}", 9092) for each in (1, 2)]
    message = request(brokers=brokers)
    states = [state(0), state(1, 2), deleted(2)]
    if version < 5:
        for each in states:
            each.topic_name = "t"
        message.ungrouped_partition_states = states
    else:
        message.topic_states = [topic(*states)]
    message = through(message, version)
    assert finish(cluster.metadata.new_topics(message))[0] == ["t"]
    finish(cluster.metadata.apply(message))
    assert cluster.image.brokers == PLAINTEXT
    assert cluster.partitions == {"t": (X if version >= 7 else ZERO_UUID, (image(), image(2)))}


def test_a_request_is_one_change(cluster: Cluster):
    cluster.apply(request(topic(state(0)), topic(state(0), topic_id=Y, name="u")))
    again = request(topic(state(0), topic_id=b"z" * 16), topic(deleted(0), topic_id=Y, name="u"), controller=2)
    before = dict(cluster.image.topics)
    cluster.apply(again)
    first, second = cluster.deltas
    assert [change.after and change.after.name for change in first.topics] == ["t", "u"]
    after = cluster.image.topics["t"]
    assert second.topics == [TopicChange(before["t"], None), TopicChange(before["u"], None), TopicChange(None, after)]
    assert second.after.controller_id == 2
    assert second.after.brokers is first.after.brokers, "brokers are compared by identity"


def test_a_request_that_changes_nothing_is_no_change(cluster: Cluster):
    message = request(topic(state(0), state(2)))
    cluster.apply(message, message, message)
    assert len(cluster.deltas) == 1
    cluster.apply(request(topic(state(0))), request())
    assert len(cluster.deltas) == 1


def test_partitions_that_are_alike_share_an_image(cluster: Cluster):
    cluster.apply(request(topic(*map(state, range(100))), topic(*map(state, range(100)), topic_id=Y, name="u")))
    assert len({id(each) for _, partitions in cluster.partitions.values() for each in partitions}) == 1


def test_configurations(cluster: Cluster):
    """Configurations are read before a topic is published, and re-read if the name now belongs to a different topic."""
    message = request(topic(state(0)), topic(deleted(0), name="u"), topic(name="v"), topic(state(0), name="t"))
    assert finish(cluster.metadata.new_topics(message)) == (["t"], 4)
    cluster.configs["t"] = {"a": "1"}
    cluster.apply(message)
    assert cluster.image.topics["t"].configs == {"a": "1"}
    cluster.configs["t"] = {"a": "2"}
    cluster.apply(request(topic(state(1))))
    assert cluster.image.topics["t"].configs == {"a": "1"}
    cluster.metadata.configure("t", {"a": "3"})
    cluster.metadata.configure("t", {"a": "3"})
    cluster.metadata.configure("u", {"a": "3"})
    assert (cluster.image.topics["t"].configs, len(cluster.deltas)) == ({"a": "3"}, 3)
    for other, expected in ((topic(state(0)), []), (topic(state(0), topic_id=Y), ["t"]), (topic(deleted(0)), [])):
        assert finish(cluster.metadata.new_topics(request(other)))[0] == expected
    cluster.apply(request(topic(state(0), topic_id=Y)))
    assert cluster.image.topics["t"].configs == {"a": "2"}


def test_a_configuration_that_comes_meanwhile_is_kept(cluster: Cluster):
    cluster.apply(request(topic(state(0))))
    work = cluster.metadata.apply(request(topic(state(1))))
    next(work)
    cluster.metadata.configure("t", {"a": "1"})
    finish(work)
    assert (cluster.image.topics["t"].configs, len(cluster.image.topics["t"].partitions)) == ({"a": "1"}, 2)


def test_what_is_ignored_is_logged_once(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    cluster.apply(
        request(topic(state(-3), state(2**31 - 1)), topic(state(0), name=""), brokers=[broker(1), broker(-1)])
    )
    assert caplog.messages == ["UpdateMetadata from controller 1: ignoring 4 entries; the first is partition -3 of 't'"]


def test_other_listeners_are_logged_when_they_come(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    others = [broker(1), Broker(2, endpoints=[Endpoint(1, "h", "INSIDE")]), Broker(3)]
    cluster.apply(request(), request(brokers=others), request(brokers=others), request(brokers=others[1:]))
    assert caplog.messages == ["2 brokers have different listeners from this broker, including broker 2"]


def test_gaps_are_limited(cluster: Cluster):
    """Otherwise, a few bytes of a request could use gigabytes, whether the gaps are in one topic or in many."""
    wide = GAPS_MAX // 4
    topics = [topic(state(wide), name=f"t{each}", topic_id=bytes([each] * 16)) for each in range(1, 7)]
    cluster.apply(request(*topics), request(*topics))
    assert [*cluster.image.topics] == ["t1", "t2", "t3", "t4"]
    cluster.apply(request(topic(deleted(wide), name="t1", topic_id=bytes([1] * 16))), request(topics[4]))
    assert [*cluster.image.topics] == ["t2", "t3", "t4", "t5"]
    assert cluster.metadata._gaps == 4 * wide


@pytest.mark.parametrize(
    "shape", ["one topic", "one topic, last first", "a topic for each", "the same topic each time"]
)
def test_work_grows_with_the_request_alone(cluster: Cluster, shape: str):
    """Copying a topic for each of its partitions would take 10^10 steps."""
    count = 100_000
    match shape:
        case "one topic":
            topics = [topic(*map(state, range(count)))]
        case "one topic, last first":
            topics = [topic(*map(state, reversed(range(count))))]
        case "a topic for each":
            topics = [
                topic(state(0), name=f"t{each}", topic_id=each.to_bytes(16, "big")) for each in range(1, count + 1)
            ]
        case _:
            topics = [topic(state(each)) for each in range(count)]
    message = request(*topics)
    _, steps = finish(cluster.metadata.apply(message))
    assert steps == count + len(topics) + len(message.live_brokers)
    assert sum(len(each.partitions) for each in cluster.image.topics.values()) == count
    assert cluster.metadata._gaps == 0
