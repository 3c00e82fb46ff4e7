"""A replica takes every edge of its table and no other, and the operations that a role allows end when the role does.

Method: use a log on an in-memory disk, and hold back its background work to make appends and syncs wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import ROLE_EDGES, Role
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import RefusedEdge
from tests.edges import taken
from tests.reference_broker.replicas.leading import term
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import FOLDER, SMALL, placed

DELETED = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")


class Bench:
    """A replica whose log syncs after each record, and its events in order."""

    def __init__(self) -> None:
        disk = MemoryDisk()
        disk.make_folder(FOLDER)
        self.work = HeldWork()
        config = dataclasses.replace(SMALL, flush_messages=1)
        self.log = PartitionLog(LogServices(disk, self.work), FOLDER, config, high_watermark=0)
        self.heard: list[object] = []
        self.replica = Replica(self.log, self._stepped)
        self.epoch = 0

    def _stepped(self, replica: Replica, before: Role) -> None:
        assert replica is self.replica
        self.heard.append((before, replica.role))

    def lead(self, epoch: int | None = None) -> None:
        """Lead in a later epoch, or in a given one."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.replica.lead(term(self.epoch))

    def promote(self) -> None:
        """Lead in a later epoch during a truncation, which waits for a sync."""
        self.log.sync()
        self.log.truncate_to(0, lambda error: None)
        self.lead()

    def follow(self, epoch: int | None = None) -> None:
        """Follow in a later epoch, or in a given one."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.replica.follow(term(self.epoch, leader=2))

    def fail(self) -> None:
        """Make the disk fail."""
        self.log.fail(OSError("broken"))

    def delete(self) -> None:
        """Delete the partition."""
        self.replica.delete(DELETED)

    def append(self, value: bytes = b"v", name: str = "appended") -> int:
        """Append a batch; return its size in bytes."""
        data = produced(value)
        self.replica.append(data, parse_header(data), NOW_MS, lambda result: self.heard.append((name, code(result))))
        return len(data)

    def wait(self, offset: int) -> None:
        """Wait for the high watermark."""
        self.replica.when_reached(offset, lambda error: self.heard.append(("reached", error and error.code)))

    def watch(self) -> None:
        """Watch for readable and for committed records."""
        self.replica.watch(lambda size_bytes: self.heard.append(("readable", size_bytes)))
        self.replica.watch(lambda size_bytes: self.heard.append(("committed", size_bytes)), is_committed=True)

    def take(self) -> list[object]:
        """Return the events since the last call."""
        heard, self.heard = self.heard, []
        return heard


def code(result: Appended | BrokerError) -> ErrorCode:
    return result.code if isinstance(result, BrokerError) else ErrorCode.NONE


#: The step that puts a replica into each role, from any role that the table allows.
STEPS: dict[Role, Callable[[Bench], None]] = {
    Role.LEADER: Bench.lead,
    Role.PROMOTING: Bench.promote,
    Role.FOLLOWER: Bench.follow,
    Role.STOPPED: lambda bench: bench.replica.stop(),
    Role.OFFLINE: Bench.fail,
    Role.GONE: Bench.delete,
}


def in_role(role: Role) -> Bench:
    bench = Bench()
    if role is not Role.CREATED:
        STEPS[role](bench)
    assert bench.replica.role is role
    return bench


def test_every_edge_is_taken() -> None:
    with taken(ROLE_EDGES) as steps:
        for before, after in ROLE_EDGES:
            bench = in_role(before)
            if (before, after) == (Role.PROMOTING, Role.LEADER):
                bench.work.run()
            else:
                STEPS[after](bench)
            assert bench.replica.role is after, f"the role did not change from {before} to {after}"
    assert steps == set(ROLE_EDGES)


@pytest.mark.parametrize("role", [Role.OFFLINE, Role.GONE])
@pytest.mark.parametrize("step", [Role.LEADER, Role.FOLLOWER, Role.STOPPED])
def test_a_log_that_has_ended_has_no_other_role(role: Role, step: Role) -> None:
    bench = in_role(role)
    with pytest.raises(RefusedEdge, match=f"a replica cannot become {step.name} while it is {role.name}"):
        STEPS[step](bench)
    assert bench.replica.role is role


def test_an_ended_log_can_end_again() -> None:
    bench = in_role(Role.GONE)
    bench.fail()
    bench.delete()
    assert bench.take() == [(Role.CREATED, Role.GONE)]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("epoch", ["none", "older", "same", "newer"])
def test_clients(role: Role, epoch: str) -> None:
    bench = in_role(role)
    current = bench.replica.leader_epoch
    asked = {"none": -1, "older": -2, "same": current, "newer": current + 1}[epoch]
    expected = {"older": ErrorCode.FENCED_LEADER_EPOCH, "newer": ErrorCode.UNKNOWN_LEADER_EPOCH}.get(epoch)
    if role is not Role.LEADER:
        expected = expected or ErrorCode.NOT_LEADER_OR_FOLLOWER
    expected = {Role.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR, Role.GONE: DELETED.code}.get(role, expected)
    if expected is None:
        bench.replica.check(asked)
    else:
        with pytest.raises(BrokerError) as raised:
            bench.replica.check(asked)
        assert raised.value.code is expected


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.CREATED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.PROMOTING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.STOPPED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (Role.GONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_a_leader_appends(role: Role, expected: ErrorCode) -> None:
    bench = in_role(role)
    bench.take()
    bench.append()
    bench.replica.append_marker(Marker(1, 0, True, 0), 2, NOW_MS, lambda result: bench.heard.append(code(result)))
    bench.work.run()
    appended = [each for each in bench.take() if not (isinstance(each, tuple) and isinstance(each[0], Role))]
    assert appended == [("appended", expected), expected]
    assert bench.log.next_offset == 0


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Role.PROMOTING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.STOPPED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Role.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (Role.GONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_who_waits_for_a_leader_is_refused_when_it_leads_no_more(step: Role, expected: ErrorCode) -> None:
    """Role listeners are called first: coordinators resign before the end of the role could look like a failed log."""
    bench = in_role(Role.LEADER)
    bench.append(b"x" * 500)
    bench.append(b"y" * 500, "waiting")  # waits for a new segment
    bench.wait(1)
    bench.watch()
    bench.take()
    STEPS[step](bench)
    told = [
        (Role.LEADER, step),
        ("waiting", expected),
        ("reached", expected),
        ("readable", COMPLETES_ANY_FETCH_BYTES),
        ("committed", COMPLETES_ANY_FETCH_BYTES),
    ]
    if step in (Role.PROMOTING, Role.OFFLINE):  # the log itself refuses appends that wait for a segment
        told[:2] = told[1], told[0]
    assert bench.take() == told
    bench.wait(1)
    assert bench.take() == [("reached", expected)], "later calls need not wait"


def test_a_sync_that_ends_after_the_role_commits_nothing() -> None:
    bench = in_role(Role.LEADER)
    size_bytes = bench.append()
    bench.follow()
    bench.work.run()
    assert (bench.log.acknowledged_to, bench.log.high_watermark) == (1, 0)
    bench.watch()
    bench.take()
    bench.lead()
    assert bench.take() == [(Role.FOLLOWER, Role.LEADER), ("readable", size_bytes), ("committed", size_bytes)]
    assert bench.log.high_watermark == 1, "a leader without followers commits everything on its disk"
    bench.append()
    bench.wait(2)
    bench.work.run()
    assert ("reached", None) in bench.take()


def test_each_epoch_of_a_leader_begins_at_the_end_of_its_log() -> None:
    bench = in_role(Role.LEADER)
    bench.append()
    bench.work.run()
    bench.lead(5)
    bench.append()
    assert bench.log.epochs.entries() == [(1, 0), (5, 1)]
    assert bench.replica.leader_epoch == 5
    assert bench.replica.term == term(5)


def test_a_change_of_the_partition_refuses_nobody() -> None:
    bench = in_role(Role.LEADER)
    bench.append(b"x" * 500)
    bench.append(b"y" * 500, "waiting")
    bench.wait(1)
    bench.take()
    changed = term(1)._replace(isr=(1,), partition_epoch=4)
    bench.replica.lead(changed)
    assert bench.take() == [(Role.LEADER, Role.LEADER)]
    assert bench.replica.term == changed
    bench.work.run()
    assert bench.take() == [("reached", None), ("waiting", ErrorCode.NONE)]


@pytest.mark.parametrize(("epoch", "expected"), [(1, []), (2, [ErrorCode.NOT_LEADER_OR_FOLLOWER])])
def test_what_a_follower_has_fetched_waits_for_a_segment_unless_there_is_another_epoch(
    epoch: int, expected: list[ErrorCode]
) -> None:
    bench = in_role(Role.FOLLOWER)
    results: list[ErrorCode] = []
    parts = b"".join(placed(produced(b"x" * 500), offset, 1) for offset in range(2))
    bench.log.append_as_follower(parts, 0, 1, NOW_MS, lambda result: results.append(code(result)))
    assert (bench.log.next_offset, results) == (1, []), "one part is waiting"
    bench.follow(epoch)
    assert results == expected
    bench.work.run()
    assert results == (expected or [ErrorCode.NONE])
    assert bench.log.high_watermark == 0, "only a leader has this information"


def test_a_replica_leads_once_its_log_is_settled() -> None:
    bench = in_role(Role.LEADER)
    bench.append()
    bench.follow()
    bench.promote()
    bench.lead(7)
    bench.take()
    bench.work.run()
    assert bench.take() == [(Role.PROMOTING, Role.LEADER)]
    bench.append()
    assert bench.log.epochs.entries()[-1] == (7, 0)
    assert bench.take() == [("appended", ErrorCode.NONE)]


def test_a_replica_that_follows_again_before_its_log_is_settled_does_not_lead() -> None:
    bench = in_role(Role.PROMOTING)
    bench.follow()
    bench.work.run()
    assert bench.replica.role is Role.FOLLOWER


def test_nobody_leads_in_an_epoch_before_that_of_the_records() -> None:
    bench = in_role(Role.LEADER)
    bench.append()
    bench.lead(4)
    bench.append()
    bench.follow(4)
    with pytest.raises(LocalProtocolError, match="its last epoch is 4"):
        bench.lead(3)
    assert (bench.replica.role, bench.replica.leader_epoch) == (Role.FOLLOWER, 4)
