"""Steps submit the operations listed in their table, and end with the result or error that follows from the outcomes.

Method: drive each sequence by hand, with a script of the operations that it must yield and of their outcomes; let `run`
use a registry that only records what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkawire.sdk.registry import steps as module
from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL
from kafkawire.sdk.registry.registry import (
    Check,
    Children,
    Committed,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    RegistryCode,
    RegistryError,
    SessionListener,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    BATCH_MAX,
    CheckFailed,
    Run,
    Steps,
    across_sessions,
    checked,
    create,
    create_ephemeral,
    create_with_parents,
    delete,
    delete_recursively,
    expected,
    list_children,
    perform,
    read,
    read_all,
    read_each,
    run,
    set_data,
    set_or_create,
    stat_of,
    together,
)

OWN, OTHER, FORMER = 7, 8, 6


def stat(owner: int = 0) -> Stat:
    return Stat(1, 2, 3, 4, 5, 6, 7, owner, 8, 9, 10)


def no(code: str, path: str = "/a/b") -> RegistryError:
    return RegistryError(RegistryCode[code], path)


def refused(*codes: str) -> TransactionFailed:
    operations = [Check("/epoch", 1), Delete("/x"), Delete("/y")][: len(codes)]
    return TransactionFailed(operations, [RegistryCode[code] for code in codes])


def watcher(event: WatchEvent) -> None:
    """Ignore an event."""


#: Pairs of yielded operations and their outcomes.
Script = Sequence[tuple[Sequence[Operation], Sequence[Outcome]]]


def play(steps: Steps[Any], script: Script) -> Any:
    """Drive a sequence, and return its result or the error that it raises."""
    outcomes: Sequence[Outcome] | None = None
    for operations, answers in script:
        yielded = steps.send(outcomes)  # type: ignore[arg-type]  # None starts a generator
        assert list(yielded) == list(operations)
        assert [type(each) for each in yielded] == [type(each) for each in operations]
        outcomes = answers
    try:
        steps.send(outcomes)  # type: ignore[arg-type]  # None starts a generator
    except StopIteration as end:
        return end.value
    except RegistryError as error:
        return error
    raise AssertionError("the sequence continues after its script")


NODE = Create("/a/b", b"x", acl=CREATOR_ACL)
EPHEMERAL = Transaction((Create("/a/b", None, CreateMode.EPHEMERAL, OPEN_ACL), SetData("/a/b", b"x", 0)))
REGISTERED = Committed((Created("/a/b"), stat(OWN)))
EXISTING = TransactionFailed(EPHEMERAL.operations, [RegistryCode.NODE_EXISTS, RegistryCode.RUNTIME_INCONSISTENCY])
DATA = Data(b"x", stat())
CHECK = Check("/epoch", 1)
ANCESTORS = [Create("/a", acl=CREATOR_ACL), NODE]


def ephemeral() -> Steps[Stat]:
    return create_ephemeral("/a/b", b"x", lambda: OWN, former_sessions=[FORMER])


def guarded(change: Create | Delete) -> Transaction:
    return Transaction((CHECK, change))


def done(result: Any) -> Committed:
    return Committed((VersionChecked("/epoch"), result))


#: the name, and its sequence, script, and result or the text of the error
TABLE: dict[str, tuple[Callable[[], Steps[Any]], Script, Any]] = {
    "read": (lambda: read("/a", watcher), [([GetData("/a", watcher)], [DATA])], DATA),
    "read nothing": (lambda: read("/a"), [([GetData("/a")], [no("NO_NODE")])], None),
    "read refused": (lambda: read("/a"), [([GetData("/a")], [no("NO_AUTH")])], "NO_AUTH: /a/b"),
    "read all": (
        lambda: read_all(["/a", "/b"]),
        [([GetData("/a"), GetData("/b")], [DATA, no("NO_NODE")])],
        [DATA, None],
    ),
    "stat": (lambda: stat_of("/a", watcher), [([Exists("/a", watcher)], [stat()])], stat()),
    "stat of nothing": (lambda: stat_of("/a"), [([Exists("/a")], [no("NO_NODE")])], None),
    "children": (
        lambda: list_children("/a", watcher),
        [([GetChildren("/a", watcher)], [Children(("b",), stat())])],
        Children(("b",), stat()),
    ),
    "children of nothing": (lambda: list_children("/a"), [([GetChildren("/a")], [no("NO_NODE")])], None),
    "create": (
        lambda: create("/a-", b"", CreateMode.PERSISTENT_SEQUENTIAL, CREATOR_ACL),
        [([Create("/a-", b"", CreateMode.PERSISTENT_SEQUENTIAL, CREATOR_ACL)], [Created("/a-0000000000")])],
        lambda path: path == "/a-0000000000",
    ),
    "set": (lambda: set_data("/a", b"x", 3), [([SetData("/a", b"x", 3)], [stat()])], stat()),
    "delete": (lambda: delete("/a", 3), [([Delete("/a", 3)], [Deleted("/a")])], True),
    "delete nothing": (lambda: delete("/a"), [([Delete("/a")], [no("NO_NODE")])], False),
    "create, the parent exists": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [Created("/a/b")])],
        True,
    ),
    "create, it exists": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NODE_EXISTS")])],
        False,
    ),
    "create, it is refused": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NO_AUTH")])],
        "NO_AUTH: /a/b",
    ),
    "create with a parent": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NO_NODE")]), (ANCESTORS, [Created("/a"), Created("/a/b")])],
        True,
    ),
    "create, the parent is created meanwhile and hidden": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NO_NODE")]), (ANCESTORS, [no("NO_AUTH", "/a"), no("NODE_EXISTS")])],
        False,
    ),
    "create, the parent is refused": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NO_NODE")]), (ANCESTORS, [no("NO_AUTH", "/a"), no("NO_NODE")])],
        "NO_AUTH: /a",
    ),
    "create, the parent comes and goes": (
        lambda: create_with_parents("/a/b", b"x", CREATOR_ACL),
        [([NODE], [no("NO_NODE")]), *[(ANCESTORS, [no("NODE_EXISTS", "/a"), no("NO_NODE")])] * ATTEMPTS_MAX],
        "NO_NODE: /a/b",
    ),
    "ephemeral": (ephemeral, [([EPHEMERAL], [REGISTERED])], stat(OWN)),
    "ephemeral, own exists": (
        ephemeral,
        [([EPHEMERAL], [EXISTING]), ([Exists("/a/b")], [stat(OWN)])],
        stat(OWN),
    ),
    "ephemeral, another's exists": (
        ephemeral,
        [([EPHEMERAL], [EXISTING]), ([Exists("/a/b")], [stat(OTHER)])],
        "NODE_EXISTS: /a/b: the node belongs to session 0x8",
    ),
    "ephemeral, a persistent one exists": (
        ephemeral,
        [([EPHEMERAL], [EXISTING]), ([Exists("/a/b")], [stat(0)])],
        "NODE_EXISTS: /a/b: the node belongs to no session: it is persistent",
    ),
    "ephemeral, the other one is gone": (
        ephemeral,
        [([EPHEMERAL], [EXISTING]), ([Exists("/a/b")], [no("NO_NODE")]), ([EPHEMERAL], [REGISTERED])],
        stat(OWN),
    ),
    "ephemeral, one of a former session": (
        ephemeral,
        [
            ([EPHEMERAL], [EXISTING]),
            ([Exists("/a/b")], [stat(FORMER)]),
            ([Delete("/a/b")], [Deleted("/a/b")]),
            ([EPHEMERAL], [REGISTERED]),
        ],
        stat(OWN),
    ),
    "ephemeral, others come and go": (
        ephemeral,
        [([EPHEMERAL], [EXISTING]), ([Exists("/a/b")], [no("NO_NODE")])] * ATTEMPTS_MAX,
        f"NODE_EXISTS: /a/b: another program created and deleted the node during each of {ATTEMPTS_MAX} attempts",
    ),
    "ephemeral, no parent": (
        ephemeral,
        [([EPHEMERAL], [no("NO_NODE")])],
        "NO_NODE: /a/b",
    ),
    "set or create, it exists": (
        lambda: set_or_create("/a/b", b"x"),
        [([SetData("/a/b", b"x")], [stat()])],
        None,
    ),
    "set or create, it is missing": (
        lambda: set_or_create("/a/b", b"x", CREATOR_ACL),
        [([SetData("/a/b", b"x")], [no("NO_NODE")]), ([NODE], [Created("/a/b")])],
        None,
    ),
    "set or create, it comes": (
        lambda: set_or_create("/a/b", b"x", CREATOR_ACL),
        [
            ([SetData("/a/b", b"x")], [no("NO_NODE")]),
            ([NODE], [no("NODE_EXISTS")]),
            ([SetData("/a/b", b"x")], [stat()]),
        ],
        None,
    ),
    "set or create, it comes and goes": (
        lambda: set_or_create("/a/b", b"x", CREATOR_ACL),
        [([SetData("/a/b", b"x")], [no("NO_NODE")]), ([NODE], [no("NODE_EXISTS")])] * ATTEMPTS_MAX,
        f"NO_NODE: /a/b: another program created and deleted the node during each of {ATTEMPTS_MAX} attempts",
    ),
    "set or create, refused": (
        lambda: set_or_create("/a/b", b"x"),
        [([SetData("/a/b", b"x")], [no("NO_AUTH")])],
        "NO_AUTH: /a/b",
    ),
    "checked": (
        lambda: checked(CHECK, [Create("/x"), Delete("/y")]),
        [
            (
                [guarded(Create("/x")), guarded(Delete("/y"))],
                [done(Created("/x")), refused("ROLLED_BACK", "BAD_VERSION")],
            )
        ],
        lambda result: result[0] == Created("/x") and result[1].code is RegistryCode.BAD_VERSION,
    ),
    "checked, the check fails": (
        lambda: checked(CHECK, [Delete("/x")]),
        [([guarded(Delete("/x"))], [refused("BAD_VERSION", "RUNTIME_INCONSISTENCY")])],
        "BAD_VERSION: /epoch: expected version 1",
    ),
    "checked, the node of the check is gone": (
        lambda: checked(CHECK, [Delete("/x")]),
        [([guarded(Delete("/x"))], [refused("NO_NODE", "RUNTIME_INCONSISTENCY")])],
        "NO_NODE: /epoch: expected version 1",
    ),
    "checked, the node of the check is hidden": (
        lambda: checked(CHECK, [Delete("/x")]),
        [([guarded(Delete("/x"))], [refused("NO_AUTH", "RUNTIME_INCONSISTENCY")])],
        "NO_AUTH: /epoch: operation 1 of 2 in a transaction, Check",
    ),
    "checked, the session ends": (
        lambda: checked(CHECK, [Delete("/x"), Delete("/y")]),
        [([guarded(Delete("/x")), guarded(Delete("/y"))], [done(Deleted("/x")), no("SESSION_EXPIRED", "/y")])],
        "SESSION_EXPIRED: /y",
    ),
    "delete recursively": (
        lambda: delete_recursively("/a"),
        [
            ([GetChildren("/a")], [Children(("b", "c"), stat())]),
            ([GetChildren("/a/b"), GetChildren("/a/c")], [Children(("d",), stat()), no("NO_NODE")]),
            ([GetChildren("/a/b/d")], [Children((), stat())]),
            ([Delete("/a/b/d")], [Deleted("/a/b/d")]),
            ([Delete("/a/b"), Delete("/a/c")], [Deleted("/a/b"), no("NO_NODE")]),
            ([Delete("/a")], [Deleted("/a")]),
        ],
        True,
    ),
    "delete recursively nothing": (
        lambda: delete_recursively("/a"),
        [([GetChildren("/a")], [no("NO_NODE")]), ([Delete("/a")], [no("NO_NODE")])],
        False,
    ),
    "delete recursively, a child comes": (
        lambda: delete_recursively("/a"),
        [([GetChildren("/a")], [Children((), stat())]), ([Delete("/a")], [no("NOT_EMPTY", "/a")])],
        "NOT_EMPTY: /a",
    ),
    "delete recursively, checked": (
        lambda: delete_recursively("/a", CHECK),
        [
            ([GetChildren("/a")], [Children(("b",), stat())]),
            ([GetChildren("/a/b")], [Children((), stat())]),
            ([guarded(Delete("/a/b"))], [done(Deleted("/a/b"))]),
            ([guarded(Delete("/a"))], [refused("BAD_VERSION", "RUNTIME_INCONSISTENCY")]),
        ],
        "BAD_VERSION: /epoch: expected version 1",
    ),
    "together": (
        lambda: together([read("/a"), set_or_create("/a/b", b"x", CREATOR_ACL), read_all([])]),
        [
            ([GetData("/a"), SetData("/a/b", b"x")], [DATA, no("NO_NODE")]),
            ([NODE], [Created("/a/b")]),
        ],
        [DATA, None, []],
    ),
    "together, one fails": (
        lambda: together([read("/a"), read("/b")]),
        [([GetData("/a"), GetData("/b")], [DATA, no("NO_AUTH", "/b")])],
        "NO_AUTH: /b",
    ),
    "read each, refused": (
        lambda: read_each(["/a", "/b", "/a", "/c"], str, lambda path, data: None),
        [([GetData("/a"), GetData("/b"), GetData("/c")], [no("NO_AUTH"), DATA, no("NO_NODE")])],
        "NO_AUTH: /a/b",
    ),
    "read each, nothing": (lambda: read_each([], str, lambda path, data: None), [], None),
    "together, nothing": (lambda: together([]), [], []),
    "across sessions": (
        lambda: across_sessions(lambda: read_all(["/a", "/b"])),
        [
            ([GetData("/a"), GetData("/b")], [DATA, no("SESSION_EXPIRED")]),
            ([GetData("/a"), GetData("/b")], [DATA, DATA]),
        ],
        [DATA, DATA],
    ),
    "across sessions, refused": (
        lambda: across_sessions(lambda: read("/a")),
        [([GetData("/a")], [no("SESSION_EXPIRED")]), ([GetData("/a")], [no("NO_AUTH")])],
        "NO_AUTH: /a/b",
    ),
    "across sessions, each ends": (
        lambda: across_sessions(lambda: read("/a")),
        [([GetData("/a")], [no("SESSION_EXPIRED")])] * ATTEMPTS_MAX,
        "SESSION_EXPIRED: /a/b",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_script(name: str) -> None:
    sequence, script, result = TABLE[name]
    ended = play(sequence(), script)
    if callable(result):
        assert result(ended)
    elif isinstance(result, str):
        assert isinstance(ended, RegistryError)
        assert str(ended) == result
    else:
        assert ended == result


def test_every_step_is_in_the_table() -> None:
    others = {"ATTEMPTS_MAX", "BATCH_MAX", "CheckFailed", "Run", "Steps", "expected", "found", "perform", "run"}
    used = {name for sequence, _, _ in TABLE.values() for name in sequence.__code__.co_names}
    assert set(module.__all__) - others <= used


def test_what_is_read_for_each_item_is_passed_on_batch_by_batch() -> None:
    items = range(BATCH_MAX + 1)
    told: dict[int, Data | None] = {}
    steps = read_each([*items, *items], lambda item: f"/{item}", told.__setitem__)
    assert list(next(steps)) == [GetData(f"/{item}") for item in items[:BATCH_MAX]]
    assert list(steps.send([no("NO_NODE"), *[DATA] * (BATCH_MAX - 1)])) == [GetData(f"/{BATCH_MAX}")]
    assert told == {0: None, **dict.fromkeys(items[1:BATCH_MAX], DATA)}
    with pytest.raises(RegistryError, match="NO_AUTH"):
        steps.send([no("NO_AUTH")])


def test_a_failed_check_is_told_from_a_failed_change() -> None:
    ended = play(checked(CHECK, [Delete("/x")]), [([guarded(Delete("/x"))], [refused("BAD_VERSION", "ROLLED_BACK")])])
    assert isinstance(ended, CheckFailed)
    assert ended.check == CHECK


def test_a_result_of_another_kind_is_a_defect() -> None:
    with pytest.raises(TypeError, match="is a Deleted, not a Created"):
        expected(Deleted("/a"), Created)


class NotingRegistry:
    """A registry that records the operations that it is given."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Sequence[Operation], Callable[[tuple[Outcome, ...]], None]]] = []

    session_id = OWN
    session_timeout_ms = 18_000

    def describe(self) -> str:
        return "noting"

    def start(self) -> None:
        """Do nothing."""

    def close(self, timeout_ms: int) -> None:
        """Do nothing."""

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""

    def add_listener(self, listener: SessionListener) -> None:
        """Do nothing."""

    def remove_listener(self, listener: SessionListener) -> None:
        """Do nothing."""

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        self.submitted.append((operations, done))

    def answer(self, outcome: Outcome) -> None:
        operations, done = self.submitted.pop(0)
        done((outcome,) * len(operations))


class Ends:
    """Records how sequences end."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.errors: list[Exception] = []

    def run(self, registry: NotingRegistry, steps: Steps[Any]) -> Run[Any]:
        return run(registry, steps, self.results.append, self.errors.append)


def test_run() -> None:
    registry, ends = NotingRegistry(), Ends()
    running = ends.run(registry, set_or_create("/a/b", b"x", CREATOR_ACL))
    registry.answer(no("NO_NODE"))
    assert [list(operations) for operations, _ in registry.submitted] == [[NODE]]
    assert not running.is_over
    registry.answer(Created("/a/b"))
    assert (ends.results, ends.errors, running.is_over) == ([None], [], True)


def test_many_operations_are_submitted_in_batches() -> None:
    registry, ends = NotingRegistry(), Ends()
    paths = [f"/{number}" for number in range(2 * BATCH_MAX + 1)]
    ends.run(registry, read_all(paths))
    sizes = []
    while registry.submitted:
        ((operations, _),) = registry.submitted
        sizes.append(len(operations))
        registry.answer(DATA)
    assert sizes == [BATCH_MAX, BATCH_MAX, 1]
    assert ends.results == [[DATA] * len(paths)]


def test_an_error_of_the_registry_ends_a_run() -> None:
    registry, ends = NotingRegistry(), Ends()
    ends.run(registry, read("/a"))
    registry.answer(no("NO_AUTH"))
    assert (ends.results, [str(error) for error in ends.errors]) == ([], ["NO_AUTH: /a/b"])


def test_an_error_of_the_sequence_itself_ends_a_run() -> None:
    def broken() -> Steps[None]:
        yield from read("/a")
        raise ValueError("not JSON")

    registry, ends = NotingRegistry(), Ends()
    ends.run(registry, broken())
    registry.answer(DATA)
    assert [repr(error) for error in ends.errors] == ["ValueError('not JSON')"]


def test_an_error_of_the_callback_is_not_taken_for_one_of_the_sequence() -> None:
    registry, errors = NotingRegistry(), list[Exception]()

    def fails(result: object) -> None:
        raise ValueError("a defect of the caller")

    run(registry, read("/a"), fails, errors.append)
    with pytest.raises(ValueError, match="a defect of the caller"):
        registry.answer(DATA)
    assert errors == []


def test_a_sequence_without_operations() -> None:
    def nothing() -> Steps[int]:
        return 3
        yield ()

    ends = Ends()
    assert ends.run(NotingRegistry(), nothing()).is_over
    assert ends.results == [3]


def test_a_cancelled_run_is_silent() -> None:
    cleaned = []

    def steps() -> Steps[None]:
        try:
            yield from perform(GetData("/a"))
        finally:
            cleaned.append(True)

    registry, ends = NotingRegistry(), Ends()
    running = ends.run(registry, steps())
    running.cancel()
    running.cancel()
    assert (running.is_over, cleaned) == (True, [True])
    registry.answer(DATA)
    assert (ends.results, ends.errors, registry.submitted) == ([], [], [])


def test_the_others_end_when_one_of_those_together_fails() -> None:
    ended = []

    def waiting() -> Steps[None]:
        try:
            yield from perform(GetData("/a"))
            yield from perform(GetData("/c"))
        finally:
            ended.append(True)

    play(together([waiting(), read("/b")]), [([GetData("/a"), GetData("/b")], [DATA, no("NO_AUTH")])])
    assert ended == [True]
