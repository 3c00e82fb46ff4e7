"""A session owns only its own nodes, and deletes no others, even if operations are carried out twice.

Method: on a tree, carry out each operation of an ownership twice in turn, with another session acting in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.groups import zookeeper_ownership
from kafkawire.sdk.groups.zookeeper_ownership import Ownership
from kafkawire.sdk.protocol.tables.znodes import CONSUMER, CONSUMER_OWNER, ConsumerRegistration
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.registry.registry import Create, CreateMode, GetChildren, RegistryCode, RegistryError, WatchEvent
from kafkawire.sdk.registry.steps import Steps, run
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.groups.memory_registry import MemoryRegistry, Tree

R = TypeVar("R")

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
REGISTRATION = ConsumerRegistration({"t": 1}, "static", 5)
PATH = CONSUMER.path("g", "a")
ALL = {each: ConsumerThread("a", 0) for each in (T0, T1, U0)}


class Scene:
    """The nodes of member `a`, and another session."""

    def __init__(self) -> None:
        self.tree = Tree("/consumers")
        self.registry = MemoryRegistry(self.tree)
        self.other = MemoryRegistry(self.tree)
        self.ownership = Ownership("g", "a", lambda: self.registry.session_id)

    def run(self, steps: Steps[R], on_step: Callable[[int], None] = lambda index: None) -> R:
        """Carry out steps, and raise their error; before each operation, call a function with its number."""
        results: list[R] = []
        errors: list[Exception] = []
        run(self.registry, steps, results.append, errors.append)
        index = 0
        while not self.registry.is_quiet:
            on_step(index)
            self.registry.step()
            index += 1
        if errors:
            raise errors[0]
        return results[0]

    def own_by_other(self, partition: TopicPartition) -> None:
        """Make another session own a partition."""
        self.tree.put(CONSUMER_OWNER.path("g", *partition).rpartition("/")[0])
        create = Create(CONSUMER_OWNER.path("g", *partition), b"b-0", CreateMode.EPHEMERAL)
        self.tree.carry_out(create, self.other.session_id)


def test_a_member_registers_once_and_can_replace_that() -> None:
    scene = Scene()
    scene.run(scene.ownership.register(REGISTRATION))
    assert scene.tree.nodes[PATH].data == CONSUMER.encode(REGISTRATION)
    assert scene.tree.nodes[PATH].owner == scene.registry.session_id
    told: list[WatchEvent] = []
    watch = GetChildren("/consumers/g/ids", told.append)
    scene.tree.carry_out(watch, scene.other.session_id)
    scene.run(scene.ownership.register(REGISTRATION))
    scene.other.run()
    assert not told
    scene.run(scene.ownership.register(REGISTRATION._replace(subscription={"u": 1})))
    scene.other.run()
    assert told, "the other members must be notified, because they watch the children"
    assert CONSUMER.decode(scene.tree.nodes[PATH].data).subscription == {"u": 1}


def test_another_session_with_the_same_id() -> None:
    scene = Scene()
    scene.tree.put("/consumers/g/ids")
    scene.tree.carry_out(Create(PATH, b"", CreateMode.EPHEMERAL), scene.other.session_id)
    with pytest.raises(RegistryError) as caught:
        scene.run(scene.ownership.register(REGISTRATION))
    assert caught.value.code is RegistryCode.NODE_EXISTS
    scene.ownership.former_sessions.add(scene.other.session_id)
    scene.run(scene.ownership.register(REGISTRATION))
    assert scene.tree.nodes[PATH].owner == scene.registry.session_id


def test_claims_and_releases() -> None:
    scene = Scene()
    scene.run(scene.ownership.register(REGISTRATION))
    scene.own_by_other(T1)
    assert scene.run(scene.ownership.claim(ALL)) == {T1}
    assert scene.tree.owners("g") == {"t/0": "a-0", "t/1": "b-0", "u/0": "a-0"}
    assert scene.run(scene.ownership.claim({T0: ALL[T0]})) == frozenset(), "its own node must count as created"
    scene.run(scene.ownership.release([T0, T1]))
    assert scene.tree.owners("g") == {"t/1": "b-0", "u/0": "a-0"}
    scene.run(scene.ownership.leave([T1, U0]))
    assert scene.tree.owners("g") == {"t/1": "b-0"}
    assert PATH not in scene.tree.nodes
    scene.run(scene.ownership.leave([T0]))


def test_many_owners_are_deleted_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_ownership, "RELEASED_MAX", 2)
    scene = Scene()
    scene.run(scene.ownership.register(REGISTRATION))
    many = {TopicPartition("t", number): ConsumerThread("a", 0) for number in range(25)}
    scene.run(scene.ownership.claim(many))
    scene.run(scene.ownership.release(many))
    assert scene.tree.owners("g") == {}


def test_owners_are_released_without_a_registration() -> None:
    scene = Scene()
    scene.run(scene.ownership.register(REGISTRATION))
    scene.run(scene.ownership.claim(ALL))
    scene.tree.remove(PATH)
    scene.run(scene.ownership.leave(ALL))
    assert scene.tree.owners("g") == {}


@pytest.mark.parametrize("index", range(12))
@pytest.mark.parametrize("steps", ["register", "replace", "claim", "release", "leave"])
def test_an_operation_that_is_carried_out_twice(steps: str, index: int) -> None:
    """Before the second time, another session recreates deleted nodes, which must stay."""
    scene = Scene()
    if steps != "register":
        scene.run(scene.ownership.register(REGISTRATION))
    if steps in ("release", "leave"):
        scene.run(scene.ownership.claim(ALL))

    taken: set[TopicPartition] = set()

    def twice(at: int) -> None:
        if at == index:
            scene.registry.step(is_seen=False)
            if steps in ("release", "leave"):
                taken.update(each for each in ALL if CONSUMER_OWNER.path("g", *each) not in scene.tree.nodes)
            for partition in taken:
                scene.own_by_other(partition)

    made: dict[str, Steps[Any]] = {
        "register": scene.ownership.register(REGISTRATION),
        "replace": scene.ownership.register(REGISTRATION._replace(subscription={"u": 1})),
        "claim": scene.ownership.claim(ALL),
        "release": scene.ownership.release(ALL),
        "leave": scene.ownership.leave(ALL),
    }
    result = scene.run(made.pop(steps), twice)
    for unused in made.values():
        unused.close()
    if steps == "claim":
        assert result == frozenset()
        assert set(scene.tree.owners("g").values()) == {"a-0"}
    elif steps in ("release", "leave"):
        of_other = {f"{each.topic}/{each.partition}": "b-0" for each in taken}
        assert scene.tree.owners("g") == of_other, "its own nodes must be gone, but none of the other session's"
    assert (PATH in scene.tree.nodes) == (steps != "leave")


def test_owners_are_watched() -> None:
    scene = Scene()
    scene.own_by_other(T0)
    told: list[WatchEvent] = []
    assert not scene.run(scene.ownership.watch([T0], told.append))
    assert scene.run(scene.ownership.watch([T0, T1], told.append)), "one of the partitions has no owner"
    scene.tree.end_session(scene.other.session_id)
    scene.registry.run()
    assert told


def test_ids_that_cannot_be_names() -> None:
    with pytest.raises(EncodeError, match="group_id"):
        Ownership("a/b", "c", lambda: 1)
