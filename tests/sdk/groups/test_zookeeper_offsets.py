"""Offsets in ZooKeeper are plain numbers; each commit ends once, and each lookup reports each partition once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced, Outcome, Rebalanced
from kafkawire.sdk.groups.commit_waiters import MAX_COMMITS
from kafkawire.sdk.groups.committed_offsets import Found
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.groups.zookeeper_offsets import ZookeeperCommittedOffsets, ZookeeperOffsets
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Operation, RegistryCode, RegistryError, SetData
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.memory_registry import MemoryRegistry, Tree
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import backoff

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH = "/consumers/g/offsets/t"


class Signer:
    """A member, or none at the moment."""

    def __init__(self) -> None:
        self.failure: KafkaWireError | None = None
        self.is_member = True

    def sign(self) -> GroupMetadata | None:
        return GroupMetadata("g") if self.is_member else None

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        raise AssertionError("there is no coordinator to reject anything")


class Scene:
    """A group's offsets in a tree."""

    def __init__(self, interval_ms: int | None = None) -> None:
        self.tree = Tree("/consumers")
        self.registry = MemoryRegistry(self.tree)
        self.reader = MemoryReader()
        self.reader.assign([T0, T1])
        self.offsets = ZookeeperOffsets(self.registry, backoff(), "g", self.reader, interval_ms, 5_000)
        self.signer = Signer()
        self.offsets.member = self.signer
        self.committed = ZookeeperCommittedOffsets(self.registry, "g")
        self.now_ms = 1_000

    def commit(self, offsets: dict[TopicPartition, int], timeout_ms: int = 5_000) -> list[Outcome | KafkaWireError]:
        outcomes: list[Outcome | KafkaWireError] = []
        given = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        self.offsets.commit(given, self.now_ms + timeout_ms, lambda outcome, _: outcomes.append(outcome), self.now_ms)
        return outcomes

    def find(self, *partitions: TopicPartition, timeout_ms: int = 5_000) -> tuple[list[Found], Callable[[], None]]:
        found: list[Found] = []
        end = self.committed.find(partitions, self.now_ms + timeout_ms, lambda results, _: found.append(results))
        return found, end

    def run(self, duration_ms: int = 0) -> None:
        end_ms = self.now_ms + duration_ms
        while True:
            for _ in range(20):
                self.offsets.poll(self.now_ms)
                self.committed.poll(self.now_ms)
                self.registry.run()
            if self.now_ms >= end_ms:
                return
            self.now_ms += 50

    def written(self) -> dict[str, bytes]:
        return {name: self.tree.nodes[f"{PATH}/{name}"].data for name in self.tree.children(PATH)}


def test_offsets_are_written_as_decimal_text_and_found() -> None:
    scene = Scene()
    first = scene.commit({T0: 12, T1: 0})
    scene.run()
    assert first == [Committed({T0: OffsetAndMetadata(12), T1: OffsetAndMetadata(0)})]
    assert scene.written() == {"0": b"12", "1": b"0"}
    assert scene.reader.stored == {T0: OffsetAndMetadata(12), T1: OffsetAndMetadata(0)}
    scene.commit({T0: 13})
    scene.run()
    assert scene.written()["0"] == b"13"
    found, _ = scene.find(T0, TopicPartition("u", 5))
    scene.run()
    assert found == [{T0: OffsetAndMetadata(13), TopicPartition("u", 5): None}]


def test_later_offsets_replace_earlier_ones() -> None:
    scene = Scene()
    first, second = scene.commit({T0: 1}), scene.commit({T0: 2})
    scene.offsets.poll(scene.now_ms)
    third, fourth = scene.commit({T0: 3}), scene.commit({T0: 4})
    scene.run()
    two, four = Committed({T0: OffsetAndMetadata(2)}), Committed({T0: OffsetAndMetadata(4)})
    assert (first, second, third, fourth) == ([two], [two], [four], [four])
    assert [each.data for each in scene.registry.carried_out if isinstance(each, SetData)] == [b"2", b"4"]


def test_partitions_that_are_not_assigned_given_up_or_lost() -> None:
    scene = Scene()
    assert scene.commit({TopicPartition("x", 0): 1}) == [Rebalanced({}, frozenset({TopicPartition("x", 0)}))]
    pending = scene.commit({T0: 1})
    scene.offsets.release([T0], scene.now_ms)
    assert pending == [Rebalanced({}, frozenset({T0}))]
    sent = scene.commit({T0: 2, T1: 3})
    scene.offsets.poll(scene.now_ms)
    scene.offsets.release([T0], scene.now_ms)
    scene.run()
    assert sent == [Rebalanced({T1: OffsetAndMetadata(3)}, frozenset({T0}))]
    lost, cause = scene.commit({T0: 4}), RequestTimedOut("lost")
    scene.offsets.poll(scene.now_ms)
    scene.offsets.release(None, scene.now_ms, cause)
    assert lost == [Fenced({}, frozenset({T0}), cause)]
    scene.run()
    assert T0 not in scene.reader.stored


def test_commits_wait_for_the_membership() -> None:
    scene = Scene()
    scene.signer.is_member = False
    outcomes = scene.commit({T0: 1}, 1_000)
    scene.run(900)
    assert not outcomes
    assert not scene.registry.carried_out
    scene.run(200)
    assert isinstance(outcomes[0], RequestTimedOut)
    assert "group g did not commit t-0 in time" in str(outcomes[0])
    assert scene.offsets.due_ms(scene.now_ms) is None
    scene.signer.is_member = True
    scene.run()
    assert not scene.registry.carried_out, "no commit may be waiting for the membership"
    scene.signer.failure = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert scene.commit({T0: 1}) == [scene.signer.failure]


def test_without_a_membership_anything_can_be_committed() -> None:
    scene = Scene()
    scene.offsets.member = None
    outcomes = scene.commit({TopicPartition("x", 0): 5})
    scene.run()
    assert isinstance(outcomes[0], Committed)


def test_errors_are_final_or_tried_again() -> None:
    scene = Scene()
    codes = [RegistryCode.TOO_MANY_PENDING]

    def refuse(operation: Operation) -> RegistryError | None:
        if not isinstance(operation, SetData):
            return None
        if operation.path.endswith("/1"):
            return RegistryError(RegistryCode.NO_AUTH, operation.path)
        return RegistryError(codes.pop(), operation.path) if codes else None

    scene.registry.refuse = refuse
    both, one = scene.commit({T0: 1, T1: 1}), scene.commit({T0: 2})
    scene.run(50)
    assert not both
    assert not one, "it must not end before the pause has ended"
    scene.run(1_000)
    assert isinstance(both[0], RegistryError)
    assert one == [Committed({T0: OffsetAndMetadata(2)})]
    assert scene.written() == {"0": b"2"}


def test_a_new_session_writes_what_the_former_one_did_not() -> None:
    scene = Scene()
    scene.registry.disconnect()
    outcomes = scene.commit({T0: 1})
    scene.offsets.poll(scene.now_ms)
    scene.registry.expire()
    scene.run(500)
    assert outcomes == [Committed({T0: OffsetAndMetadata(1)})]


def test_the_end_and_the_limit() -> None:
    scene = Scene(interval_ms=100)
    scene.run(100)
    scene.reader.read()
    scene.run(150)
    assert scene.written() == {"0": b"1", "1": b"1"}, "the offset must be committed automatically"
    scene.registry.disconnect()
    outcomes = scene.commit({T0: 2})
    scene.offsets.poll(scene.now_ms)
    waiting = scene.commit({T0: 3})
    assert scene.commit({}) == [Committed({})]
    for _ in range(MAX_COMMITS - 2):
        scene.commit({T0: 3}, 50_000)
    assert isinstance(scene.commit({T0: 4})[0], LocalProtocolError)
    closed = Closed("the client")
    scene.offsets.fail(closed, scene.now_ms)
    assert outcomes == waiting == [closed]
    assert scene.offsets.due_ms(scene.now_ms) is None


@pytest.mark.parametrize(("data", "offset"), [(b"-1", None), (b"0", 0), (b"9223372036854775807", (1 << 63) - 1)])
def test_offsets_of_other_programs(data: bytes, offset: int | None) -> None:
    scene = Scene()
    scene.tree.put(f"{PATH}/0", data)
    found, _ = scene.find(T0)
    scene.run()
    assert found == [{T0: None if offset is None else OffsetAndMetadata(offset)}]


def test_a_damaged_offset_is_an_error() -> None:
    scene = Scene()
    scene.tree.put(f"{PATH}/0", b"twelve")
    found, _ = scene.find(T0, T1)
    scene.run()
    assert isinstance(found[0][T0], DamagedZnode)
    assert found[0][T1] is None


def test_look_ups_end_by_their_deadline_at_the_end_or_when_withdrawn() -> None:
    scene = Scene()
    scene.registry.disconnect()
    late, _ = scene.find(T0, timeout_ms=500)
    other, end = scene.find(T1, timeout_ms=500)
    end()
    assert scene.committed.due_ms(scene.now_ms) == 1_500
    scene.run(600)
    assert isinstance(late[0][T0], RequestTimedOut)
    assert not other
    again, _ = scene.find(T0)
    scene.registry.expire()
    scene.run()
    assert again == [{T0: None}], "the offset must be read again in the next session"
    scene.registry.disconnect()
    ended, _ = scene.find(T0)
    closed = Closed("the client")
    scene.committed.fail(closed, scene.now_ms)
    assert ended == [{T0: closed}]
    assert scene.committed.due_ms(scene.now_ms) is None
