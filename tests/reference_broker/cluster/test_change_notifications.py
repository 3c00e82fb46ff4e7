"""The owner of notifications reads what has changed, whatever happens to notifications, connections and sessions.

Method: use the embedded registry, a second session that makes notifications, a clock that the test moves, and an owner
that notes what it is asked to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kafkawire.reference_broker.cluster.change_notifications import EXPIRATION_MS, RETRY_MS, ChangeNotifications
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.tables.znodes import ACL_CHANGE, ACL_CHANGES
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    RegistryCode,
    RegistryError,
)
from kafkawire.sdk.registry.steps import Steps, read
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at

PARENT = "/kafka-acl-changes"
CHANGE = f"{PARENT}/acl_changes_"


class Owner:
    """Notes what it is asked to read; each time, it reads one node."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read_all(self) -> Steps[None]:
        yield from read("/what")
        self.asked.append("all")

    def read_changed(self, notifications: Mapping[str, bytes | None]) -> Steps[None]:
        yield from read("/what")
        self.asked += [(content or b"").decode() for content in notifications.values()]

    def take(self) -> list[str]:
        """Return what has been read since the last call."""
        asked, self.asked = self.asked, []
        return asked


class Bench(ClusterBench):
    """A broker that follows notifications.

    Attributes:
        ready: the outcomes reported by `start`.
        reader: the owner of the notifications.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.reader = Owner()
        self.ready: list[Exception | None] = []
        self.changes = self.follower()

    def follower(self) -> ChangeNotifications:
        return ChangeNotifications(
            self.one, ACL_CHANGES, ACL_CHANGE, self.reader, "ACLs", self.timers, lambda: self.now_ms
        )

    def start(self) -> None:
        self.changes.start(self.ready.append)
        self.owner.run_all()

    def notify(self, text: str) -> None:
        self.write(Create(CHANGE, text.encode(), CreateMode.PERSISTENT_SEQUENTIAL))
        self.owner.run_all()

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.start()
    assert (bench.ready, bench.reader.take()) == ([None], ["all"])
    return bench


def test_what_notifications_name_is_read(bench: Bench) -> None:
    for text in ("a", "b"):
        bench.notify(text)
    assert bench.reader.take() == ["a", "b"]


def test_a_gap_has_everything_read(bench: Bench) -> None:
    bench.notify("a")
    bench.one.disconnect()
    bench.notify("b")
    bench.write(Delete(f"{CHANGE}0000000001"))
    bench.notify("c")
    bench.reader.take()
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.reader.take() == ["all"]


def test_a_notification_that_is_deleted_before_it_is_read(bench: Bench) -> None:
    def plan(call: RegistryCall) -> None:
        if call.operation == GetData(f"{CHANGE}0000000000") and call.session_id == bench.one.session_id:
            bench.embedded.plan = None
            bench.other.submit([Delete(f"{CHANGE}0000000000")], lambda outcomes: None)
            bench.other._deliver()  # before the read

    bench.embedded.plan = plan
    bench.notify("a")
    assert bench.reader.take() == ["all"]


def test_a_notification_that_comes_while_another_is_read(bench: Bench) -> None:
    def plan(call: RegistryCall) -> None:
        if call.operation == GetData("/what") and call.session_id == bench.one.session_id:
            bench.embedded.plan = None
            bench.other.submit([Create(CHANGE, b"b", CreateMode.PERSISTENT_SEQUENTIAL)], lambda outcomes: None)
            bench.other._deliver()

    bench.embedded.plan = plan
    bench.notify("a")
    assert bench.reader.take() == ["a", "b"]


def test_children_of_other_names_are_no_notifications(bench: Bench) -> None:
    bench.write(Create(f"{PARENT}/acl_changes_1"), Create(f"{PARENT}/other"))
    bench.owner.run_all()
    assert bench.reader.take() == []
    bench.notify("a")
    # The number counts all children, so this one looks like a gap.
    assert bench.reader.take() == ["all"]


def test_a_parent_that_was_made_anew(bench: Bench) -> None:
    bench.notify("a")
    bench.one.disconnect()
    bench.write(Delete(f"{CHANGE}0000000000"), Delete(PARENT), Create(PARENT))
    bench.notify("b")
    bench.reader.take()
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.reader.take() == ["all"]
    bench.notify("c")
    assert bench.reader.take() == ["c"]


def test_notifications_are_deleted_when_they_are_old(bench: Bench) -> None:
    bench.notify("a")
    bench.now_ms += EXPIRATION_MS
    bench.notify("b")
    assert bench.data(f"{CHANGE}0000000000") is not None, "the notification is not 15 minutes old yet"
    bench.now_ms += 1
    bench.notify("c")
    assert [bench.data(f"{CHANGE}000000000{number}") is None for number in range(3)] == [True, False, False]
    assert bench.reader.take() == ["a", "b", "c"]


@pytest.mark.parametrize("code", [RegistryCode.NO_NODE, RegistryCode.NO_AUTH])
def test_an_old_notification_that_cannot_be_deleted(bench: Bench, code: RegistryCode) -> None:
    bench.notify("a")
    bench.embedded.plan = lambda call: code if isinstance(call.operation, Delete) else None
    bench.now_ms += EXPIRATION_MS + 1
    bench.notify("b")
    assert bench.timers.next_deadline_ms is None, "this must not cause another read"
    assert bench.reader.take() == ["a", "b"]


def test_a_new_session_reads_everything(bench: Bench) -> None:
    bench.one.disconnect()
    bench.expire(bench.one)
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.reader.take() == ["all"]
    bench.notify("a")
    assert bench.reader.take() == ["a"]


#: The operations: a list, a notification, what it is about.
OPERATIONS = 3


@pytest.mark.parametrize("fault", [*Fault, RegistryCode.NO_AUTH, RegistryCode.TOO_MANY_PENDING])
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_meets_each_fault(bench: Bench, number: int, fault: Fault | RegistryCode) -> None:
    bench.one.disconnect()
    bench.notify("a")
    met = fault_at(bench, number, fault)
    bench.one.reconnect()
    bench.owner.run_all()
    bench.embedded.plan = None
    bench.advance(RETRY_MS)
    assert len(met) == 1
    assert {"a", "all"} & set(bench.reader.take())
    bench.notify("b")
    assert {"b", "all"} & set(bench.reader.take())
    bench.notify("c")
    assert bench.reader.take() == ["c"]


def test_a_failure_is_told_and_mended_later(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, GetChildren) else None
    bench.start()
    (error,) = bench.ready
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.NO_AUTH
    assert "changed ACLs could not be read, and will be re-read later: NO_AUTH" in caplog.text
    bench.embedded.plan = None
    bench.advance(RETRY_MS - 1)
    assert bench.reader.take() == []
    bench.advance(1)
    assert (bench.reader.take(), len(bench.ready)) == (["all"], 1)


def test_a_parent_that_others_delete_again_and_again() -> None:
    bench = Bench()
    bench.embedded.plan = lambda call: RegistryCode.NO_NODE if isinstance(call.operation, GetChildren) else None
    bench.start()
    (error,) = bench.ready
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.NO_NODE


def test_it_waits_for_the_first_session() -> None:
    bench = Bench()
    bench.one = bench.embedded.session(bench.owner.post)
    bench.changes = bench.follower()
    bench.start()
    assert bench.ready == []
    bench.one.start()
    bench.owner.run_all()
    assert bench.ready == [None]


CLOSED: list[Callable[[Bench], object]] = [
    lambda bench: bench.notify("a"),
    lambda bench: bench.advance(RETRY_MS),
    lambda bench: (bench.expire(bench.one), bench.owner.run_all()),
]


@pytest.mark.parametrize("event", range(len(CLOSED)))
@pytest.mark.parametrize("has_failed", [False, True])
def test_nothing_happens_after_the_end(event: int, has_failed: bool) -> None:
    bench = Bench()
    if has_failed:
        bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, GetChildren) else None
    bench.start()
    bench.embedded.plan = None
    bench.changes.close()
    bench.reader.take()
    CLOSED[event](bench)
    assert bench.reader.take() == []


def test_closed_in_the_midst_of_reading() -> None:
    bench = Bench()
    bench.changes.start(bench.ready.append)
    bench.changes.close()
    bench.owner.run_all()
    assert bench.ready == []
