"""The embedded registry behaves like any other; what it reports is durable; a simulation can inject faults.

Method: run the registry suite, with and without a journal; run a sequence of steps, injecting each fault into each
operation in turn; use a disk whose work is delayed, and one that fails.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest

from kafkawire.reference_broker.cluster import embedded_registry
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedSession, Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_journal import REGISTRY_JOURNAL, RegistryJournal
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.registry.registry import (
    Check,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    EventKind,
    Exists,
    GetChildren,
    GetData,
    RegistryCode,
    RegistryError,
    SessionListener,
    SetData,
    Stat,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import (
    Steps,
    checked,
    create_ephemeral,
    create_with_parents,
    read,
    set_data,
    set_or_create,
)
from tests.reference_broker.cluster.embedded_bench import EmbeddedBench
from tests.reference_broker.storage.held_work import HeldWork
from tests.sdk.registry.owner import SessionNotes
from tests.sdk.registry.registry_cases import CASES, RegistryBench

EPHEMERAL = CreateMode.EPHEMERAL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("has_journal", [False, True])
def test_case(case: Callable[[RegistryBench], None], has_journal: bool) -> None:
    case(EmbeddedBench(MemoryDisk() if has_journal else None))


# Failures.


def registration(registry: EmbeddedSession) -> Steps[bytes]:
    """Register a broker, and write a node while checking an epoch; each step may be repeated."""
    yield from create_with_parents("/brokers/ids")
    yield from set_or_create("/epoch", b"")
    epoch = yield from set_data("/epoch", b"1")
    stat = yield from create_ephemeral("/brokers/ids/1", b"one", lambda: registry.session_id)
    assert stat.ephemeral_owner == registry.session_id
    yield from checked(Check("/epoch", epoch.version), [Create("/fact", b"x")])
    found = yield from read("/brokers/ids/1")
    return b"" if found is None else found.data


#: The number of operations in the sequence if there are no faults.
OPERATIONS = 9


def test_the_sequence_has_so_many_operations() -> None:
    bench = EmbeddedBench()
    one = bench.registry()
    assert bench.owner.run(one, registration(one)) == b"one"
    assert bench.embedded.calls == OPERATIONS


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_meets_each_fault(fault: Fault, number: int) -> None:
    bench = EmbeddedBench()
    one = bench.registry()
    notes = SessionNotes(one)
    met: list[RegistryCall] = []

    def plan(call: RegistryCall) -> Fault | None:
        if call.number == number:
            met.append(call)
            return fault
        return None

    bench.embedded.plan = plan
    if fault in (Fault.LOSE_REQUEST, Fault.LOSE_RESPONSE):
        assert bench.owner.run(one, registration(one)) == b"one"
        assert notes.told == ["opened", "suspended", "connected"]
    else:
        with pytest.raises(RegistryError, match=r"SESSION_EXPIRED: .*: the registry in this process, as embedded"):
            bench.owner.run(one, registration(one))
        bench.owner.run_all()
        assert notes.told == ["opened", "expired", "opened"]
        # The owner starts over, as it does after every expiry.
        assert bench.owner.run(one, registration(one)) == b"one"
    assert len(met) == 1
    nodes = {node.path: node.ephemeral_owner for node in bench.embedded.tree.nodes()}
    assert nodes["/brokers/ids/1"] == one.session_id
    assert "/fact" in nodes


def test_an_operation_is_done_twice_if_its_response_is_lost() -> None:
    bench = EmbeddedBench()
    one = bench.registry()
    bench.embedded.plan = lambda call: Fault.LOSE_RESPONSE if call.number == 1 else None
    assert bench.owner.code(one, Create("/a")) == "NODE_EXISTS"
    assert bench.embedded.calls == 2


def test_a_planned_refusal() -> None:
    bench = EmbeddedBench()
    one = bench.registry()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if isinstance(call.operation, Create) else None
    outcome = bench.owner.ask(one, Create("/a"))
    assert isinstance(outcome, RegistryError)
    assert str(outcome) == "NO_AUTH: /a: planned"
    assert bench.owner.code(one, Exists("/a")) == "NO_NODE"


def test_operations_wait_for_a_connection() -> None:
    bench = EmbeddedBench()
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask_all(one, Create("/a"), GetData("/a", owner.note))
    one.disconnect()
    one.disconnect()
    ended = owner.submit(one, SetData("/a", b"1"), GetData("/a"))
    owner.ask(two, SetData("/a", b"2"))
    owner.run_all()
    assert (ended, owner.events, notes.told) == ([], [], ["opened", "suspended"])
    assert one.session_id
    order: list[object] = []
    owner.submit(one, GetData("/a", order.append))
    one.reconnect()
    one.reconnect()
    owner.until(lambda: bool(ended))
    # The connection missed the event, but the session did not; the event comes before the outcome that shows the
    # change.
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]
    assert notes.told == ["opened", "suspended", "connected"]
    data = ended[0][1]
    assert isinstance(data, Data)
    assert (data.data, data.stat.version) == (b"1", 2)


def test_events_that_a_lost_connection_has_not_delivered() -> None:
    """The owner learns of the differences, not the history; a watch that was reported does not fire again."""
    work = HeldWork()
    bench = EmbeddedBench(MemoryDisk(), work)
    one, two, owner = bench.registry(), bench.registry(), bench.owner

    def settle() -> None:
        owner.run_all()
        while work.pending:
            work.run()
            owner.run_all()

    for path in ("/a", "/b", "/c", "/unchanged"):
        owner.submit(one, Create(path), GetData(path, owner.note), GetChildren(path, owner.note))
    settle()
    owner.submit(two, SetData("/b", b"1"))
    settle()
    assert owner.events == [WatchEvent("/b", EventKind.CHANGED)]
    # When the connection is lost, another session's change and one of the owner's operations are not durable yet; the
    # other changes are made while there is no connection.
    owner.submit(two, SetData("/a", b"1"))
    own = owner.submit(one, Create("/own"))
    owner.run_all()
    one.disconnect()
    owner.submit(two, Delete("/a"), Create("/a"), Delete("/c"), SetData("/b", b"2"))
    settle()
    assert (len(owner.events), own) == (1, [])
    one.reconnect()
    settle()
    told = [WatchEvent("/a", EventKind.CHANGED), WatchEvent("/c", EventKind.DELETED)]
    assert owner.events[1:] == [*told, WatchEvent("/a", EventKind.CHILDREN_CHANGED)]
    # The operation is performed a second time.
    assert [str(outcome) for outcome in own[0]] == ["NODE_EXISTS: /own"]


def test_what_was_answered_of_a_submission_is_not_done_again() -> None:
    bench = EmbeddedBench()
    one, owner = bench.registry(), bench.owner
    bench.embedded.plan = lambda call: Fault.LOSE_REQUEST if call.number == 3 else None
    outcomes = owner.ask_all(one, *[Create(f"/{name}") for name in "abcd"])
    assert outcomes == tuple(Created(f"/{name}") for name in "abcd")


def test_a_session_ends_by_its_timeout() -> None:
    bench = EmbeddedBench()
    one = bench.embedded.session(bench.owner.post, timeout_ms=500)
    one.start()
    two, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask(one, Create("/e", mode=EPHEMERAL))
    owner.ask(two, Exists("/e", owner.note))
    waiting = owner.submit(one, Exists("/e"))
    one.disconnect()
    bench.now_ms += 500
    bench.embedded.expire_silent()
    assert isinstance(owner.ask(two, Exists("/e")), Stat)
    bench.now_ms += 1
    bench.embedded.expire_silent()
    assert owner.code(two, Exists("/e")) == "NO_NODE"
    assert owner.events == [WatchEvent("/e", EventKind.DELETED)]
    # The owner cannot know this until it is connected.
    owner.run_all()
    assert (notes.told, waiting) == (["opened", "suspended"], [])
    one.reconnect()
    owner.run_all()
    assert notes.told == ["opened", "suspended", "expired", "opened"]
    assert [str(outcome).partition(":")[0] for outcome in waiting[0]] == ["SESSION_EXPIRED"]
    bench.now_ms += 10_000
    bench.embedded.expire_silent()  # both are connected
    assert isinstance(owner.ask(one, Exists("/")), Stat)
    assert isinstance(owner.ask(two, Exists("/")), Stat)


def test_a_registry_that_is_closed_without_a_connection() -> None:
    bench = EmbeddedBench()
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask(one, Create("/e", mode=EPHEMERAL))
    one.disconnect()
    one.close(0)
    one.reconnect()
    assert owner.code(one, Exists("/e")) == "CLOSED"
    assert isinstance(owner.ask(two, Exists("/e")), Stat)
    bench.now_ms += embedded_registry.SESSION_TIMEOUT_MS + 1
    bench.embedded.expire_silent()
    assert owner.code(two, Exists("/e")) == "NO_NODE"


def test_the_session_of_an_abandoned_registry_ends_by_its_timeout() -> None:
    bench = EmbeddedBench()
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    early = bench.embedded.session(owner.post)
    early.abandon()
    owner.ask(one, Create("/e", mode=EPHEMERAL))
    owner.ask(one, GetData("/", owner.note))
    waiting = owner.submit(one, Exists("/e"))
    one.abandon()
    assert bench.embedded.tree.submit(two.session_id, SetData("/", b""), 1).notifications == ()
    one.reconnect()
    owner.until(lambda: bool(waiting))
    assert [str(outcome) for outcome in waiting[0]] == [f"CLOSED: /e: {one.describe()}"]
    bench.now_ms += embedded_registry.SESSION_TIMEOUT_MS
    bench.embedded.expire_silent()
    assert isinstance(owner.ask(two, Exists("/e")), Stat)
    bench.now_ms += 1
    bench.embedded.expire_silent()
    assert owner.code(two, Exists("/e")) == "NO_NODE"
    assert bench.embedded.tree.sessions == [two.session_id]


def test_operations_wait_for_a_start() -> None:
    bench = EmbeddedBench()
    one = bench.embedded.session(bench.owner.post, name="early")
    ended = bench.owner.submit(one, Create("/a"))
    bench.owner.run_all()
    assert (ended, one.session_id) == ([], 0)
    assert one.describe() == "the registry in this process, as early"
    one.start()
    bench.owner.run_all()
    assert ended == [(Created("/a"),)]


def test_too_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_registry, "PENDING_MAX", 3)
    monkeypatch.setattr(embedded_registry, "PENDING_BYTES_MAX", 200)
    bench = EmbeddedBench()
    one, owner = bench.registry(), bench.owner
    one.disconnect()
    kept = owner.submit(one, Exists("/a"), Exists("/b"), Exists("/c"))
    error = owner.ask(one, Exists("/d"))
    assert isinstance(error, RegistryError)
    assert str(error) == "TOO_MANY_PENDING: /d: more than 3 operations are waiting"
    assert error.retriable
    one.reconnect()
    owner.until(lambda: bool(kept))
    assert owner.code(one, Create("/a", bytes(200))) == "TOO_MANY_PENDING"
    assert owner.ask(one, Create("/a", bytes(100))) == Created("/a")
    assert owner.ask(one, Create("/b", bytes(100))) == Created("/b")


# Callbacks.


@pytest.mark.parametrize("error", [pytest.param(ValueError, marks=pytest.mark.defect), KeyboardInterrupt])
def test_a_callback_that_fails_stops_no_other(error: type[BaseException]) -> None:
    bench = EmbeddedBench()
    one, owner = bench.registry(), bench.owner

    def fails(*_: object) -> None:
        raise error

    class Listener(SessionListener):
        def suspended(self) -> None:
            fails()

    one.add_listener(Listener())
    notes = SessionNotes(one)
    owner.ask_all(one, Create("/a"), GetData("/a", fails), GetData("/a", owner.note))
    owner.submit(one, SetData("/a", b"x"))
    one.disconnect()
    for _ in range(3):
        with suppress(KeyboardInterrupt):
            owner.run_all()
    one.reconnect()
    for _ in range(3):
        with suppress(KeyboardInterrupt):
            owner.run_all()
    assert notes.told == ["opened", "suspended", "connected"]
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]


def test_the_loop_of_the_owner_does_other_things_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_registry, "_TURN_MAX", 10)
    bench = EmbeddedBench()
    one, owner = bench.registry(), bench.owner
    owner.run_all()
    ended = owner.submit(one, *[Exists("/")] * 100)
    counts = [bench.embedded.calls]
    while not ended:
        owner.turn()
        counts.append(bench.embedded.calls)
    assert max(after - before for before, after in pairwise(counts)) == 10


def test_a_closed_registry_is_not_started() -> None:
    bench = EmbeddedBench()
    one = bench.embedded.session(bench.owner.post)
    one.close(0)
    one.start()
    bench.owner.run_all()
    assert (one.session_id, bench.embedded.tree.sessions) == (0, [])


# Durability.


@pytest.mark.defect
def test_what_cannot_be_encoded_ends_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(journal: RegistryJournal, *_: object) -> bytes:
        raise ValueError("a defect of the journal")

    bench = EmbeddedBench(MemoryDisk())
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/a"))
    monkeypatch.setattr(RegistryJournal, "frame_of", fails)
    assert owner.code(one, SetData("/a", b"x")) == "STORAGE_FAILED"


def test_nothing_is_told_before_it_is_durable() -> None:
    work = HeldWork()
    bench = EmbeddedBench(MemoryDisk(), work)
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    before = owner.submit(one, Exists("/a", owner.note))
    owner.run_all()
    assert before
    written = owner.submit(two, Create("/a", b"1"), SetData("/a", b"2"))
    owner.run_all()
    read_later = owner.submit(one, GetData("/a"))
    owner.run_all()
    assert (written, read_later, owner.events) == ([], [], [])
    work.run(1)
    owner.run_all()
    # The second write was submitted during the first, and comes after it.
    assert (written, owner.events) == ([], [WatchEvent("/a", EventKind.CREATED)])
    work.run()
    owner.run_all()
    assert len(written) == len(read_later) == 1


def test_writes_that_wait_are_written_together() -> None:
    work = HeldWork()
    disk = MemoryDisk()
    bench = EmbeddedBench(disk, work)
    one, owner = bench.registry(), bench.owner
    ended = owner.submit(one, *[Create(f"/{number}") for number in range(10)])
    owner.run_all()
    writes = 0
    while work.pending:
        work.run(1)
        writes += 1
        owner.run_all()
    assert (writes, len(ended)) == (2, 1)


def test_persistent_nodes_outlive_the_process() -> None:
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one, owner = bench.registry(), bench.owner
    owner.ask_all(
        one, Create("/p", b"x"), Create("/p/e", mode=EPHEMERAL), Create("/p/s-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    )
    before = bench.embedded.tree.zxid
    after = EmbeddedBench(disk.crash())
    two = after.registry()
    data = after.owner.ask(two, GetData("/p"))
    assert isinstance(data, Data)
    assert (data.data, data.stat.children) == (b"x", 1)
    # The node of the session that ended with the process is gone, but its transaction number is not reused.
    assert data.stat.pzxid > before
    created = after.owner.ask(two, Create("/p/s-", mode=CreateMode.PERSISTENT_SEQUENTIAL))
    assert created == Created("/p/s-0000000002")
    third = EmbeddedBench(disk.crash())
    assert {node.path for node in third.embedded.tree.nodes()} >= {"/p", "/p/s-0000000001"}


def test_a_failed_disk_ends_the_registry(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(one, Create("/a"), GetData("/a", owner.note))
    disk.plan = fail_at(disk.calls + 1)
    error = owner.ask(one, SetData("/a", b"1"))
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.STORAGE_FAILED
    assert "planned" in error.detail
    for registry in (one, two):
        for operation in (GetData("/a"), Create("/b"), Delete("/a"), GetChildren("/")):
            assert owner.code(registry, operation) == "STORAGE_FAILED"
    assert owner.events == []
    assert "could not write the registry, which is shutting down" in caplog.text
    after = EmbeddedBench(disk.crash())
    data = after.owner.ask(after.registry(), GetData("/a"))
    assert isinstance(data, Data)
    assert data.data == b""


# A full disk.

#: The size of everything else on the disk.
OTHER = "other"


def test_everything_waits_for_room(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk(100_000)
    bench = EmbeddedBench(disk)
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(one, Create("/a"), GetData("/a", owner.note))
    other = disk.open(OTHER, create=True)
    other.append(bytes(100_000 - disk.used_bytes))
    written = owner.submit(two, SetData("/a", b"1"))
    owner.run_all()
    read_later = owner.submit(one, GetData("/a"))
    owner.run_all()
    assert (written, read_later, owner.events) == ([], [], [])
    assert str(bench.embedded.shortage).startswith("[Errno 28] No space left on device")
    assert disk.used_bytes == 100_000, "part of a write was left behind"
    bench.embedded.write_again()
    owner.run_all()
    assert (written, caplog.text.count("could not write the registry, and will retry")) == ([], 1)
    other.truncate(0)
    # The next operation retries the write, but not immediately.
    more = owner.submit(one, Exists("/a"))
    owner.run_all()
    assert not more
    bench.now_ms += embedded_registry.REPEAT_PAUSE_MS
    again = owner.submit(one, Exists("/a"))
    owner.run_all()
    assert len(written) == len(read_later) == len(more) == len(again) == 1
    assert bench.embedded.shortage is None
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]
    after = EmbeddedBench(disk.crash(1))
    data = after.owner.ask(after.registry(), GetData("/a"))
    assert isinstance(data, Data)
    assert data.data == b"1"


@pytest.mark.parametrize("has_torn_tail", [False, True])
def test_a_full_disk_does_not_keep_the_registry_from_loading(has_torn_tail: bool) -> None:
    disk = MemoryDisk(100_000)
    bench = EmbeddedBench(disk)
    bench.owner.ask_all(bench.registry(), Create("/a", b"1"), Create("/e", mode=EPHEMERAL))
    if has_torn_tail:
        disk.open(REGISTRY_JOURNAL).append(b"\xf0RJ")
    other = disk.open(OTHER, create=True)
    other.append(bytes(100_000 - disk.used_bytes))
    after = EmbeddedBench(disk)
    one, owner = after.registry(), after.owner
    asked = owner.submit(one, GetData("/a"), Create("/b"))
    owner.run_all()
    assert not asked, "a read was reported before the data was durable"
    other.truncate(0)
    after.embedded.write_again()
    owner.run_all()
    (outcomes,) = asked
    assert isinstance(outcomes[0], Data)
    assert outcomes[1] == Created("/b")
    left = EmbeddedBench(disk.crash(1))
    assert {node.path for node in left.embedded.tree.nodes()} == {"/", "/a", "/b"}


def test_another_failure_ends_a_registry_that_waits_for_room() -> None:
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/a"))
    disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    written = owner.submit(one, SetData("/a", b"1"))
    owner.run_all()
    assert not written
    disk.plan = fail_at(disk.calls + 1)
    bench.embedded.write_again()
    owner.run_all()
    ((error,),) = written
    assert isinstance(error, RegistryError)
    assert (error.code, bench.embedded.shortage) == (RegistryCode.STORAGE_FAILED, None)
