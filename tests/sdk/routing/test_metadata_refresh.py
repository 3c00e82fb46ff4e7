"""Stale metadata is refreshed with one request at a time, and at most once per pause.

Method: simulate brokers that contradict each other for minutes, and count the requests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kafkawire.sdk.errors import ConnectFailed, KafkaWireError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Target
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import SILENT, Later, Simulation, address, backoff, cluster, options


@pytest.fixture
def simulation() -> Simulation:
    """A simulated cluster with two nodes and two topics."""
    simulation = Simulation(Router(options(metadata_max_age_ms=60_000), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1], "b": [2]})
    return simulation


def asked(simulation: Simulation) -> list[set[str | None] | None]:
    """Return the topic names in each request."""
    found = [request.topics for request in simulation.requests(MetadataRequest)]
    return [None if topics is None else {topic.name for topic in topics} for topics in found]


def test_the_first_request_comes_at_once_and_the_next_by_age(simulation: Simulation) -> None:
    simulation.router.metadata.wanted = {"a"}
    simulation.run(59_000)
    assert asked(simulation) == [{"a"}]
    simulation.run(2_000)
    assert asked(simulation) == [{"a"}, {"a"}]
    assert simulation.sent[-1][0] - simulation.sent[0][0] >= 60_000


def test_all_topics(simulation: Simulation) -> None:
    simulation.router.metadata.wanted = None
    simulation.run(100)
    assert asked(simulation) == [None]
    assert set(simulation.router.metadata.topics) == {"a", "b"}
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"b": [2]})
    simulation.router.metadata.invalidate()
    simulation.run(2_000)
    assert set(simulation.router.metadata.topics) == {"b"}


def test_a_topic_that_is_wanted_anew_does_not_wait(simulation: Simulation) -> None:
    simulation.run(10)
    metadata = simulation.router.metadata
    assert metadata.wanted is not None
    for names in ({"a"}, {"a", "b"}):
        metadata.wanted |= names
        simulation.run(5)
        assert set(metadata.topics) == names


def test_a_new_topic_that_is_being_created_is_asked_for_after_the_first_pause(simulation: Simulation) -> None:
    """This holds whatever earlier requests found missing: the broker has the topic soon after its first answer."""
    metadata = simulation.router.metadata
    for _ in range(5_000):
        metadata.invalidate()
        simulation.run(1)
    assert metadata.wanted is not None
    metadata.wanted |= {"new"}
    begun_ms = simulation.now_ms
    simulation.run(5)
    assert metadata.errors["new"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1], "b": [2], "new": [1]})
    metadata.invalidate()
    simulation.run(120)
    assert "new" in metadata.topics
    assert 80 <= simulation.sent[-1][0] - begun_ms <= 121


def test_a_topic_that_was_not_wanted_for_a_while_does_not_wait_either(simulation: Simulation) -> None:
    """The topic may have gained partitions while requests named only other topics."""
    metadata = simulation.router.metadata
    metadata.wanted = {"a", "b"}
    simulation.run(10)
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1, 2], "b": [2]})
    metadata.wanted = {"b"}
    metadata.invalidate()
    simulation.run(5_000)
    metadata.wanted = {"a", "b"}
    simulation.run(5)
    assert len(metadata.topics["a"].partitions) == 2
    assert asked(simulation) == [{"a", "b"}, {"b"}, {"a", "b"}]


def test_all_topics_wanted_anew_do_not_wait(simulation: Simulation) -> None:
    simulation.router.metadata.wanted = {"a"}
    simulation.run(10)
    simulation.router.metadata.wanted = None
    simulation.run(5)
    assert asked(simulation) == [{"a"}, None]
    simulation.run(30_000)
    assert asked(simulation) == [{"a"}, None]


@pytest.mark.parametrize("missing", ["gone", "b"])
def test_a_missing_topic_is_asked_for_once_a_second_at_most(simulation: Simulation, missing: str) -> None:
    simulation.router.metadata.wanted = {"a", missing}
    simulation.run(1_000)
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1]})
    simulation.router.metadata.invalidate()
    before = len(asked(simulation))
    simulation.run(60_000)
    assert 55 <= len(asked(simulation)) - before <= 65
    assert simulation.router.metadata.errors[missing] == 3
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1], missing: [1]})
    simulation.run(1_100)
    assert simulation.router.metadata.missing({"a", missing}) == []


def test_metadata_that_is_contradicted_at_once_is_not_asked_for_at_once(simulation: Simulation) -> None:
    simulation.run(1_000)
    before = len(asked(simulation))
    for _ in range(10_000):
        simulation.router.metadata.invalidate()
        simulation.run(1)
    assert 10 <= len(asked(simulation)) - before <= 14, "pauses of 100, 200, 400, 800, then 1,000 ms"


def test_after_a_calm_while_a_contradiction_is_believed_at_once(simulation: Simulation) -> None:
    simulation.run(30_000)
    simulation.router.metadata.invalidate()
    before_ms = simulation.now_ms
    simulation.run(10)
    assert simulation.sent[-1][0] == before_ms


def test_one_request_at_a_time(simulation: Simulation) -> None:
    simulation.run(10)
    simulation.handlers[MetadataRequest] = lambda request, version: SILENT
    for _ in range(50):
        simulation.router.metadata.invalidate()
        simulation.run(200)
    assert len(asked(simulation)) == 2


@pytest.mark.parametrize(
    ("event", "requests"), [("an error", 2), ("a caller asks", 2), ("a topic is missing", 1), ("nothing", 1)]
)
def test_what_happens_while_a_request_is_under_way_is_made_up_for_by_another(
    simulation: Simulation, event: str, requests: int
) -> None:
    """A broker that answered before a topic grew must not have the last word unless it names the missing topic."""
    metadata = simulation.router.metadata
    metadata.wanted = {"a"}
    simulation.run(10_000)
    later, usual = Later(), simulation.handlers[MetadataRequest]
    errors: list[KafkaWireError | None] = []
    simulation.handlers[MetadataRequest] = lambda request, version: later
    metadata.invalidate()
    simulation.run(10)
    before = len(asked(simulation)) - 1
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1, 2]})
    match event:
        case "an error":
            metadata.invalidate()
        case "a caller asks":
            simulation.router.refresh(errors.append)
        case "a topic is missing":
            metadata.expire()
    older = usual(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="a")]), 13)
    assert isinstance(older, MetadataResponse)
    later.answer(older)
    simulation.run(10)
    assert len(metadata.topics["a"].partitions) == 1
    assert errors == []
    simulation.run(30_000)
    assert len(asked(simulation)) - before == len(metadata.topics["a"].partitions) == requests
    assert errors == ([None] if event == "a caller asks" else [])


def test_a_silent_broker_is_given_up_and_the_other_one_is_asked(simulation: Simulation) -> None:
    simulation.run(10)
    good = simulation.handlers[MetadataRequest]
    silent: list[int] = []

    def once(request: Any, version: int) -> Any:
        silent.append(1)
        return SILENT if len(silent) == 1 else good(request, version)

    simulation.handlers[MetadataRequest] = once
    simulation.router.metadata.wanted = {"a"}
    simulation.run(31_000)
    assert set(simulation.router.metadata.topics) == {"a"}
    assert simulation.router.metadata.cluster_id == "simulated"
    assert isinstance(good(MetadataRequest(None), 1), MetadataResponse)


def test_a_broker_that_lists_no_brokers_is_asked_again_after_pauses(simulation: Simulation) -> None:
    """The known metadata is kept, and callers that wait for a refresh learn that there was none."""
    simulation.router.metadata.wanted = {"a"}
    simulation.run(1_000)
    usual = simulation.handlers[MetadataRequest]
    simulation.handlers[MetadataRequest] = lambda request, version: MetadataResponse()
    errors: list[KafkaWireError | None] = []
    simulation.router.refresh(errors.append)
    before = len(asked(simulation))
    simulation.run(10_000)
    assert 10 <= len(asked(simulation)) - before <= 14, "pauses of 100, 200, 400, 800, then 1,000 ms"
    assert [error and error.retriable for error in errors] == [True]
    assert set(simulation.router.metadata.brokers) == {1, 2}
    assert simulation.router.metadata.leader(TopicPartition("a", 0)) == 1
    simulation.handlers[MetadataRequest] = usual
    simulation.run(1_100)
    before = len(asked(simulation))
    simulation.run(30_000)
    assert len(asked(simulation)) == before


class Refused(ConnectFailed):
    retriable = False


def refused() -> Simulation:
    """Return a client whose login is refused by two brokers, after its first attempt."""
    servers = f"{address(1)},{address(2)}"
    simulation = Simulation(Router(options(servers=servers, metadata_max_age_ms=600_000), backoff()))
    simulation.handlers[MetadataRequest] = cluster([1, 2], {"a": [1]})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    simulation.down = {1, 2}
    simulation.refusal = Refused
    simulation.run(500)
    return simulation


def heartbeat(target: Target) -> Call:
    return Call(target, lambda _: (HeartbeatRequest("g"), None), HeartbeatResponse, 120_000, lambda _, now_ms: None)


def test_a_refused_login_is_repeated_slowly_until_it_is_accepted() -> None:
    """The brokers take turns, and share the pauses."""
    simulation = refused()
    simulation.run(120_000)
    times, nodes = zip(*simulation.opened, strict=True)
    assert nodes == (1, 2, 1, 2, 1, 2, 1, 2)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == [1_001, 2_001, 4_001, 8_001, 16_001, 30_001, 30_001], "each follows an attempt of 1 ms"
    simulation.down.clear()
    simulation.run(30_000)
    assert set(simulation.router.metadata.brokers) == {1, 2}


def test_a_refresh_of_the_metadata_waits_for_the_next_attempt() -> None:
    simulation = refused()
    errors: list[KafkaWireError | None] = []

    def refreshed(error: KafkaWireError | None) -> None:
        assert simulation.router._refresh.refusal is error, "the router must have the error that the caller gets"
        errors.append(error)

    simulation.router.refresh(refreshed)
    simulation.run(400)
    assert (errors, len(simulation.opened)) == ([], 1)
    simulation.run(200)
    assert [type(error) for error in errors] == [Refused]
    assert len(simulation.opened) == 2
    with pytest.raises(Refused):
        simulation.call(heartbeat(ANY_BROKER), duration_ms=2_010)
    assert len(simulation.opened) == 3


def test_an_accepted_login_is_enough_for_all_calls() -> None:
    simulation = refused()
    simulation.down.clear()
    simulation.call(heartbeat(ANY_BROKER), duration_ms=600)
    simulation.run(100)
    assert set(simulation.router.metadata.brokers) == {1, 2}


def test_a_machine_that_keeps_asking_for_a_dead_broker_does_not_keep_the_metadata_from_another(
    simulation: Simulation,
) -> None:
    """A consumer of one partition knows only one broker; its leader dies, and another broker knows the new leader."""

    class Reader:
        def poll(self, now_ms: int) -> None:
            simulation.router.reach(1, now_ms)

        def due_ms(self, now_ms: int) -> int | None:
            return now_ms + 50

        def fail(self, error: KafkaWireError, now_ms: int) -> None: ...

    simulation.machines.append(Reader())
    simulation.router.metadata.wanted = {"a"}
    simulation.run(1_000)
    assert simulation.router.metadata.leader(TopicPartition("a", 0)) == 1
    simulation.down.add(1)
    simulation.break_connections(1)
    simulation.handlers[MetadataRequest] = cluster([2], {"a": [2]})
    simulation.run(5_000)
    assert simulation.router.metadata.leader(TopicPartition("a", 0)) == 2
