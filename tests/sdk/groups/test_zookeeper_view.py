"""A member sees its group's members, threads and partitions, is told about changes, and skips damaged nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.groups.zookeeper_view import THREADS_MAX, GroupView, read_group, topics_of
from kafkawire.sdk.protocol.tables.znodes import CONSUMER, TOPIC, ConsumerRegistration
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.registry.registry import WatchEvent
from kafkawire.sdk.registry.steps import run
from tests.sdk.groups.memory_registry import MemoryRegistry
from tests.sdk.groups.zookeeper_members import Group


class Scene:
    """A group in a tree, and member `a`'s view of it."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.group = Group(topics)
        self.tree = self.group.tree
        self.registry = MemoryRegistry(self.tree)
        self.events: list[str] = []
        self.damages: list[str] = []
        self.watcher = self.note

    def note(self, event: WatchEvent) -> None:
        self.events.append(event.path)

    def register(self, member: str, pattern: str = "static", /, **subscription: int) -> None:
        content = CONSUMER.encode(ConsumerRegistration(subscription, pattern))
        self.tree.put(CONSUMER.path("g", member), content)

    def read(self, *, reads_all_topics: bool = False) -> GroupView:
        views: list[GroupView] = []
        errors: list[Any] = []
        steps = read_group(
            "g",
            "a",
            self.watcher,
            lambda error: self.damages.append(str(error)),
            reads_all_topics=reads_all_topics,
            excludes_internal=True,
        )
        run(self.registry, steps, views.append, errors.append)
        self.registry.run()
        assert not errors
        return views[0]


def test_members_threads_and_partitions() -> None:
    scene = Scene({"t": 2, "u": 1, "x": 5})
    scene.register("a", t=1, missing=1)
    scene.register("b", t=2, u=1)
    view = scene.read()
    a, b, c = ConsumerThread("a", 0), ConsumerThread("b", 0), ConsumerThread("b", 1)
    assert view == GroupView(
        frozenset("ab"), {"t": (a, b, c), "missing": (a,), "u": (b,)}, {"t": (0, 1), "missing": ()}, True
    )
    assert scene.read(reads_all_topics=True).partitions == {"t": (0, 1), "missing": (), "u": (0,)}
    assert not scene.damages


def test_filters_choose_among_existing_topics() -> None:
    scene = Scene({"t": 1, "t2": 1, "u": 1, "__consumer_offsets": 1})
    scene.register("a", "white_list", **{"t.*,nothing": 1})
    scene.register("b", "black_list", t=2)
    view = scene.read()
    assert view.partitions == {"t": (0,), "t2": (0,)}
    b = (ConsumerThread("b", 0), ConsumerThread("b", 1))
    assert view.threads == {"t": (ConsumerThread("a", 0),), "t2": (ConsumerThread("a", 0), *b), "u": b}


@pytest.mark.parametrize(
    ("change", "is_news"),
    [
        (lambda scene: scene.register("c", t=1), True),
        (lambda scene: scene.tree.remove(CONSUMER.path("g", "b")), True),
        (lambda scene: scene.group.add_broker(2), True),
        (lambda scene: scene.group.set_partitions("t", 3), True),
        (lambda scene: scene.tree.remove(TOPIC.path("t")), True),
        (lambda scene: scene.group.set_partitions("missing", 1), True),
        (lambda scene: scene.group.set_partitions("u", 3), False),
        (lambda scene: scene.group.set_partitions("new", 1), False),
    ],
)
def test_changes_that_matter_are_told_once(change: Any, is_news: bool) -> None:
    scene = Scene({"t": 2, "u": 1})
    scene.register("a", t=1, missing=1)
    scene.register("b", u=1)
    scene.read()
    change(scene)
    change(scene) if not is_news else None
    scene.registry.run()
    assert bool(scene.events) == is_news


def test_a_new_topic_is_news_for_a_filter_and_any_topic_of_the_group_for_round_robin() -> None:
    scene = Scene({"t": 2, "u": 1})
    scene.register("a", "white_list", t=1)
    scene.read()
    scene.group.set_partitions("new", 1)
    scene.registry.run()
    assert scene.events == ["/brokers/topics"]
    other = Scene({"t": 2, "u": 1})
    other.register("a", t=1)
    other.register("b", u=1)
    other.read(reads_all_topics=True)
    other.group.set_partitions("u", 2)
    other.registry.run()
    assert other.events == ["/brokers/topics/u"]


def test_no_brokers_and_no_folder_for_them() -> None:
    scene = Scene({"t": 1})
    scene.register("a", t=1)
    scene.tree.remove("/brokers/ids")
    assert not scene.read().has_brokers
    scene.group.add_broker(1)
    scene.registry.run()
    assert scene.events[0] == "/brokers/ids", "its creation must be reported"
    assert scene.read().has_brokers


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"{", "/consumers/g/ids/b"),
        (b'{"version":1,"pattern":"static"}', "subscription"),
        (b'{"version":1,"subscription":{"t":0},"pattern":"static"}', "at least 1 thread per topic"),
        (b'{"version":1,"subscription":{"t":2000000000},"pattern":"static"}', str(THREADS_MAX)),
        (b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}', "unterminated"),
    ],
)
def test_a_damaged_registration_is_left_out(content: bytes, damage: str) -> None:
    scene = Scene({"t": 1})
    scene.register("a", t=1)
    scene.tree.put(CONSUMER.path("g", "b"), content)
    view = scene.read()
    assert view.members == {"a", "b"}
    assert view.threads == {"t": (ConsumerThread("a", 0),)}
    assert len(scene.damages) == 1
    assert damage in scene.damages[0]


def test_a_damaged_topic_has_no_partitions() -> None:
    scene = Scene({"t": 1, "u": 1})
    scene.register("a", t=1, u=1)
    scene.register("b", **{"a/b": 1})
    scene.tree.put(TOPIC.path("t"), b"[]")
    assert scene.read(reads_all_topics=True).partitions == {"t": (), "u": (0,), "a/b": ()}
    assert len(scene.damages) == 2


def test_topics_of_a_registration() -> None:
    assert topics_of(ConsumerRegistration({"t": 2}, "any other word"), ["u"]) == {"t": 2}
    assert topics_of(ConsumerRegistration({}, "white_list"), ["u"]) == {}
    with pytest.raises(EncodeError):
        topics_of(ConsumerRegistration({"t": THREADS_MAX, "u": 1}, "static"), [])
    assert issubclass(EncodeError, KafkaWireError)
