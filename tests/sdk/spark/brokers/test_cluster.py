"""The driver reads metadata and ends from brokers, retries after implausible answers, and reports what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kafkawire import GroupMetadata, OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import ConfigurationError, ConnectFailed
from kafkawire.testing import Broker

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark import connecting
from kafkawire.sdk.spark.brokers.cluster import Cluster
from kafkawire.sdk.spark.brokers.options import parse_options
from kafkawire.sdk.spark.selection import LATEST, Bound, Offsets, Times, parse_offsets
from kafkawire.sync import Admin, Producer
from tests.sdk.spark.brokers.topics import QUICK, create, produce, wire_options

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TIMES = {"ten": 10, "twenty": 20}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, transaction_state_log_num_partitions=1) as node:
        create(node, a=2, b=1)
        with Producer(node.bootstrap) as producer:
            for time_ms in TIMES.values():
                producer.send("a", b"x", partition=1, timestamp_ms=time_ms)
        yield node


def cluster(broker: Broker, **given: str) -> Cluster:
    return Cluster(wire_options(broker, **given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "a,b"}, [A0, A1, B0]),
        ({"subscribePattern": "a|c"}, [A0, A1]),
        ({"subscribePattern": "c"}, []),
        ({"assign": '{"a":[1],"b":[0]}'}, [A1, B0]),
    ],
)
def test_partitions(broker: Broker, given: dict[str, str], expected: list[TopicPartition]) -> None:
    asked = cluster(broker, **given)
    assert asked.partitions() == asked.partitions(()) == expected
    asked.close()
    assert asked.partitions() == expected
    asked.close()


def test_missing(broker: Broker) -> None:
    asked = cluster(broker, subscribe="a,c")
    with pytest.raises(ConfigurationError, match=r"subscribe='c': available topics: a, b"):
        asked.partitions()
    assert vars(asked)["_admin"] is None  # a caller that gives up does not return to close it
    assert asked.partitions(()) == [A0, A1]
    asked.close()
    asked = cluster(broker, assign='{"a":[0,5]}')
    with pytest.raises(ConfigurationError, match="assign='a-5': the cluster has no such partition"):
        asked.partitions([A0])
    assert asked.partitions([TopicPartition("a", 5)]) == [A0]
    asked.close()


def test_ends(broker: Broker) -> None:
    asked = cluster(broker, subscribe="a")
    assert asked.earliest([A0, A1]) == {A0: 0, A1: 0}
    assert asked.latest([A0, A1]) == {A0: 0, A1: 2}
    assert asked.latest([A1], {A1: 5}) == {A1: 2}  # asked more than once
    assert asked.latest([]) == asked.earliest([]) == {}
    asked.close()


@pytest.mark.parametrize(("level", "expected"), [("read_committed", 0), ("read_uncommitted", 1)])
def test_open_transaction(broker: Broker, level: str, expected: int) -> None:
    topic = f"open-{level.replace('_', '-')}"
    create(broker, **{topic: 1})
    with Producer(broker.bootstrap, transactional_id=level) as producer:
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.flush()
        asked = cluster(broker, subscribe=topic, isolationLevel=level)
        assert list(asked.latest([TopicPartition(topic, 0)]).values()) == [expected]
        asked.close()
        producer.abort_transaction()


@pytest.mark.parametrize(
    ("bound", "takes_latest", "expected"),
    [
        (Bound("startingOffsets", Offsets(LATEST)), "error", {A0: 0, A1: 2}),
        (Bound("startingOffsets", parse_offsets("", '{"a":{"0":-2,"1":7}}', -2)), "error", {A0: 0, A1: 7}),
        (Bound("startingTimestamp", Times(15)), "latest", {A0: 0, A1: 1}),
        (Bound("startingOffsetsByTimestamp", Times(None, {A0: 5, A1: 5})), "latest", {A0: 0, A1: 0}),
        (Bound("endingTimestamp", Times(21)), "error", {A0: 0, A1: 2}),
    ],
)
def test_places(broker: Broker, bound: Bound, takes_latest: str, expected: dict[TopicPartition, int]) -> None:
    asked = cluster(broker, subscribe="a", startingOffsetsByTimestampStrategy=takes_latest)
    assert asked.place(bound, [A0, A1]) == expected
    asked.close()


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        (
            Bound("startingTimestamp", Times(15)),
            "startingTimestamp=15: a-0 has no record of that time or later",
        ),
        (
            Bound("endingOffsets", parse_offsets("", '{"a":{"0":1}}', -1)),
            "endingOffsets='a-0': expected exactly the existing partitions: a-0, a-1",
        ),
        (
            Bound("endingOffsets", parse_offsets("", '{"a":{"0":1,"1":1,"2":1}}', -1)),
            "endingOffsets='a-0, a-1, a-2': expected exactly the existing partitions: a-0, a-1",
        ),
        (
            Bound("endingOffsetsByTimestamp", Times(None, {})),
            "endingOffsetsByTimestamp='none': expected exactly the existing partitions",
        ),
    ],
)
def test_refused_places(broker: Broker, bound: Bound, reason: str) -> None:
    asked = cluster(broker, subscribe="a")
    with pytest.raises(ConfigurationError) as caught:
        asked.place(bound, [A0, A1])
    assert str(caught.value).startswith(reason)
    asked.close()


def test_nobody_answers() -> None:
    """The time limit applies to the whole call, no matter how many attempts there are."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a", "kafka.default.api.timeout.ms": "50", **QUICK}
    with pytest.raises(ConnectFailed, match="Connection refused") as caught:
        Cluster(parse_options(given)).partitions()
    assert caught.value.__notes__ == ["Attempts: 1, none started after 50 ms."]


def test_brokers_that_are_away_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(ephemeral=True) as node:
        create(node, orders=1)
        monkeypatch.setattr(connecting, "pause", lambda _: node.start())
        orders = TopicPartition("orders", 0)
        for ask in (lambda each: each.partitions() == [orders], lambda each: each.latest([orders]) == {orders: 0}):
            asked = cluster(node, **{"fetchOffset.numRetries": "1"})
            node.stop()
            assert ask(asked)
            asked.close()


def test_restart() -> None:
    """A cluster that has been unavailable is asked again."""
    with Broker(ephemeral=True) as node:
        create(node, orders=1)
        asked = cluster(node)
        assert asked.partitions() == [TopicPartition("orders", 0)]
        node.stop()
        node.start()
        produce(node, "orders", 0, 3)
        with Admin(node.bootstrap) as admin:
            assert set(admin.list_topics()) == {"orders"}
        assert asked.latest([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): 3}
        asked.close()


def test_a_pattern_does_not_read_internal_topics(broker: Broker) -> None:
    with Producer(broker.bootstrap, transactional_id="with offsets") as producer:
        producer.begin_transaction()
        producer.send_offsets({A0: OffsetAndMetadata(0)}, GroupMetadata("group"))
        producer.commit_transaction()
    with Admin(broker.bootstrap) as admin:
        assert "__consumer_offsets" in admin.list_topics(include_internal=True)
    asked = cluster(broker, subscribePattern=".*")
    found = {each.topic for each in asked.partitions()}
    assert {"a", "b"} <= found
    assert not any(topic.startswith("__") for topic in found)
    asked.close()


def test_pauses(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one pause of the configured length between two attempts."""
    waited: list[float] = []
    event = SimpleNamespace(wait=waited.append)
    monkeypatch.setattr(connecting, "threading", SimpleNamespace(Event=lambda: event))
    given = {"fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "70"}
    asked = cluster(broker, subscribe="a", **given)
    assert asked.latest([A1], {A1: 5}) == {A1: 2}
    assert waited == [0.07, 0.07]
    asked.close()
