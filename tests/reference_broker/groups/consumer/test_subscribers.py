"""Assignors learn the members' ids, which of their topics exist, and the previous target assignment."""

from __future__ import annotations

from kafkawire.reference_broker.groups.consumer import changes
from kafkawire.reference_broker.groups.consumer.assignors import range_assignment
from kafkawire.reference_broker.groups.consumer.subscribers import Subscriber
from tests.reference_broker.groups.consumer_bench import ConsumerBench, T


def test_a_subscriber_has_what_the_last_assignment_gave_it(monkeypatch):
    seen = []

    def assignor(members, counts, *, is_homogeneous):
        seen.append(members)
        return range_assignment(members, counts)

    monkeypatch.setattr(changes, "ASSIGNORS", {"uniform": assignor})
    bench = ConsumerBench()
    bench.beat("a", instance_id="i", topics=["t", "gone"])
    bench.beat("b", topics=["gone"])
    first, second = seen
    assert first == {"a": Subscriber("i", frozenset({T}), {})}
    assert second == {
        "a": Subscriber("i", frozenset({T}), {T: frozenset(range(4))}),
        "b": Subscriber(None, frozenset(), {}),
    }
