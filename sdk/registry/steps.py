"""Sequences of operations on the registry that read like blocking code but need no thread.

    def register(path: str) -> Steps[int]:
        yield from create_with_parents(parent_of(path))
        stat = yield from create_ephemeral(path, data, session_id)
        return stat.czxid

A generator yields operations that do not depend on one another, and is sent their outcomes. `run` drives the generator
with a registry. Unless their docstrings say otherwise, the small steps in this module raise a `RegistryError` if an
operation fails. After a lost connection, a step may be carried out twice (`Registry.submit`).

Source: `KafkaZkClient` in Apache Kafka, for the small steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Final, Generic, TypeVar

from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.paths import ancestors_of, child_path
from kafkawire.sdk.registry.registry import (
    ANY_VERSION,
    SESSION_ENDED,
    Change,
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
    Registry,
    RegistryCode,
    RegistryError,
    Result,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    Watcher,
)

__all__ = [
    "ATTEMPTS_MAX",
    "BATCH_MAX",
    "CheckFailed",
    "Run",
    "Steps",
    "across_sessions",
    "checked",
    "create",
    "create_ephemeral",
    "create_with_parents",
    "delete",
    "delete_recursively",
    "expected",
    "found",
    "list_children",
    "perform",
    "read",
    "read_all",
    "read_each",
    "run",
    "set_data",
    "set_or_create",
    "stat_of",
    "together",
]

R = TypeVar("R")
K = TypeVar("K", bound=Result)
T = TypeVar("T")

#: A sequence of steps with a result of type R.
Steps = Generator[Sequence[Operation], Sequence[Outcome], R]

#: The maximum number of operations of one sequence that are submitted together; more follow once those are done. The
#: limit leaves room for other sequences (`PENDING_MAX`), and an in-process registry handles this many in one iteration
#: of its loop.
BATCH_MAX: Final = 1_000

#: How many times a step is attempted while other programs create and delete the same nodes.
ATTEMPTS_MAX: Final = 10


class CheckFailed(RegistryError):
    """A node whose version was checked has changed or is gone; nothing was written.

    For a controller, this means that another controller has been elected.

    Args:
        check: the expected node and version.
        code: BAD_VERSION or NO_NODE.
    """

    def __init__(self, check: Check, code: RegistryCode) -> None:
        super().__init__(code, check.path, f"expected version {check.version}")
        self.check = check


class Run(Generic[R]):
    """A sequence of steps that is being carried out.

    Args:
        registry: carries out the operations.
        steps: the steps.
        done: called with the result.
        failed: called with the error that the sequence raised.
    """

    def __init__(
        self, registry: Registry, steps: Steps[R], done: Callable[[R], None], failed: Callable[[Exception], None]
    ) -> None:
        self._registry = registry
        self._steps = steps
        self._done = done
        self._failed = failed
        self._is_over = False
        self._operations: Sequence[Operation] = ()
        self._outcomes: list[Outcome] = []

    @property
    def is_over(self) -> bool:
        """Whether the sequence has ended or was cancelled."""
        return self._is_over

    def begin(self) -> None:
        """Run the first step."""
        self._advance(None)

    def cancel(self) -> None:
        """End the sequence at its current step: no more operations are submitted, and neither callback is called.

        Operations that were already submitted are still carried out.
        """
        if not self._is_over:
            self._is_over = True
            self._steps.close()

    def _advance(self, outcomes: Sequence[Outcome] | None) -> None:
        try:
            # None starts the generator; after that, it is sent outcomes.
            self._operations = next(self._steps) if outcomes is None else self._steps.send(outcomes)
        except StopIteration as end:
            self._is_over = True
            self._done(end.value)
        except Exception as error:
            self._is_over = True
            self._failed(error)
        else:
            self._outcomes = []
            self._submit()

    def _submit(self) -> None:
        begin = len(self._outcomes)
        self._registry.submit(self._operations[begin : begin + BATCH_MAX], self._take)

    def _take(self, outcomes: tuple[Outcome, ...]) -> None:
        if self._is_over:
            return
        self._outcomes += outcomes
        if len(self._outcomes) < len(self._operations):
            self._submit()
        else:
            self._advance(self._outcomes)


def run(registry: Registry, steps: Steps[R], done: Callable[[R], None], failed: Callable[[Exception], None]) -> Run[R]:
    """Carry out a sequence of steps.

    Args:
        registry: carries out the operations.
        steps: the steps; everything before their first operation runs inside this call.
        done: called with the result; if there are no operations at all, it is called before `run` returns.
        failed: called instead with the error that the sequence raises: a `RegistryError`, or an error from its own
            code.

    Returns:
        The running sequence, which can be cancelled.
    """
    running = Run(registry, steps, done, failed)
    running.begin()
    return running


def together(sequences: Iterable[Steps[R]]) -> Steps[list[R]]:
    """Carry out independent sequences in parallel: the next operations of all of them are submitted together.

    Returns:
        Their results, in order.

    Raises:
        RegistryError: a sequence has failed. The other sequences stop where they are.
    """
    started = list(sequences)
    results: dict[int, R] = {}
    asked: dict[int, Sequence[Operation]] = {}
    try:
        for index, steps in enumerate(started):
            try:
                asked[index] = next(steps)
            except StopIteration as end:
                results[index] = end.value
        while asked:
            outcomes = yield [operation for operations in asked.values() for operation in operations]
            position = 0
            for index, operations in list(asked.items()):
                own = outcomes[position : position + len(operations)]
                position += len(operations)
                try:
                    asked[index] = started[index].send(own)
                except StopIteration as end:
                    del asked[index]
                    results[index] = end.value
    finally:
        for steps in started:
            steps.close()
    return [results[index] for index in range(len(started))]


def across_sessions(begin: Callable[[], Steps[R]]) -> Steps[R]:
    """Carry out a sequence; if the session ends before the sequence does, start over in the next session.

    Args:
        begin: returns the sequence. An earlier run may have carried out any of its steps.

    Raises:
        RegistryError: SESSION_EXPIRED in each of `ATTEMPTS_MAX` sessions, or another code.
    """
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return (yield from begin())
        except RegistryError as error:
            if error.code is not RegistryCode.SESSION_EXPIRED:
                raise
    return (yield from begin())


# Outcomes.


def expected(outcome: Outcome, kind: type[K]) -> K:
    """Return an outcome, typed as the result of its operation.

    Raises:
        RegistryError: the outcome is an error.
    """
    if isinstance(outcome, kind):
        return outcome
    if isinstance(outcome, RegistryError):
        raise outcome
    raise TypeError(f"the outcome of an operation is a {type(outcome).__name__}, not a {kind.__name__}")


def found(outcome: Outcome, kind: type[K]) -> K | None:
    """Return the result in an outcome; None if the outcome is NO_NODE.

    Raises:
        RegistryError: the outcome is any other error.
    """
    if isinstance(outcome, RegistryError) and outcome.code is RegistryCode.NO_NODE:
        return None
    return expected(outcome, kind)


# Small steps.


def perform(operation: Operation) -> Steps[Outcome]:
    """Carry out one operation and return its outcome, which may be an error."""
    (outcome,) = yield (operation,)
    return outcome


def read(path: str, watcher: Watcher | None = None) -> Steps[Data | None]:
    """Read a node; if it does not exist, return None and set no watch."""
    return found((yield from perform(GetData(path, watcher))), Data)


def read_all(paths: Sequence[str], watcher: Watcher | None = None) -> Steps[list[Data | None]]:
    """Read nodes; None for each that does not exist."""
    outcomes = yield [GetData(path, watcher) for path in paths]
    return [found(outcome, Data) for outcome in outcomes]


def read_each(items: Iterable[T], path_of: Callable[[T], str], take: Callable[[T, Data | None], None]) -> Steps[None]:
    """Read a node for each item; pass on what was found, and None for a node that does not exist.

    The outcomes of a batch arrive in the order in which the registry carried out the reads, and before the outcomes of
    later reads, so what is passed on never replaces anything newer.

    Args:
        items: what the nodes are about; repetitions are ignored.
        path_of: returns the path of an item's node.
        take: called with each item and its node.

    Raises:
        RegistryError: the error from the first node that could not be read; the other nodes have been read.
    """
    wanted = list(dict.fromkeys(items))
    refusals: list[RegistryError] = []
    for begin in range(0, len(wanted), BATCH_MAX):
        batch = wanted[begin : begin + BATCH_MAX]
        outcomes = yield [GetData(path_of(item)) for item in batch]
        for item, outcome in zip(batch, outcomes, strict=True):
            try:
                take(item, found(outcome, Data))
            except RegistryError as error:
                refusals.append(error)
    if refusals:
        raise refusals[0]


def stat_of(path: str, watcher: Watcher | None = None) -> Steps[Stat | None]:
    """Look for a node; return None if it does not exist. The watch is set either way."""
    return found((yield from perform(Exists(path, watcher))), Stat)


def list_children(path: str, watcher: Watcher | None = None) -> Steps[Children | None]:
    """List the children of a node; if it does not exist, return None and set no watch."""
    return found((yield from perform(GetChildren(path, watcher))), Children)


def create(
    path: str,
    data: bytes | None = None,
    mode: CreateMode = CreateMode.PERSISTENT,
    acl: tuple[Acl, ...] = OPEN_ACL,
) -> Steps[str]:
    """Create a node and return its path."""
    return expected((yield from perform(Create(path, data, mode, acl))), Created).path


def set_data(path: str, data: bytes | None, version: int = ANY_VERSION) -> Steps[Stat]:
    """Replace the data of a node and return its new state."""
    return expected((yield from perform(SetData(path, data, version))), Stat)


def delete(path: str, version: int = ANY_VERSION) -> Steps[bool]:
    """Delete a node; return whether it existed."""
    return found((yield from perform(Delete(path, version))), Deleted) is not None


def create_with_parents(path: str, data: bytes | None = None, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[bool]:
    """Create a node, and any missing parents without data.

    Args:
        path: the node.
        data: its content; an existing node keeps its data.
        acl: the access control list of every created node.

    Returns:
        Whether the node did not exist before.

    Raises:
        RegistryError: the node, or a missing parent, cannot be created.
    """
    outcome = yield from perform(Create(path, data, acl=acl))
    ancestors = ancestors_of(path)
    for _ in range(ATTEMPTS_MAX):
        if not isinstance(outcome, RegistryError) or outcome.code is not RegistryCode.NO_NODE:
            break
        # All nodes are created in order, in one round trip. It is unknown which parents exist, and creating an existing
        # parent may be refused with NO_AUTH, so only the last outcome matters.
        creations = [*(Create(ancestor, acl=acl) for ancestor in ancestors), Create(path, data, acl=acl)]
        *parents, outcome = yield creations
        if isinstance(outcome, RegistryError) and outcome.code is RegistryCode.NO_NODE:
            for parent in parents:
                if isinstance(parent, RegistryError) and parent.code is not RegistryCode.NODE_EXISTS:
                    raise parent
    if isinstance(outcome, RegistryError) and outcome.code is RegistryCode.NODE_EXISTS:
        return False
    expected(outcome, Created)
    return True


def create_ephemeral(
    path: str,
    data: bytes,
    session_id: Callable[[], int],
    acl: tuple[Acl, ...] = OPEN_ACL,
    former_sessions: Collection[int] = (),
) -> Steps[Stat]:
    """Create an ephemeral node and write it, in one transaction. Its parent must exist.

    A node that this session already owns is treated as created and keeps its data: it was made by an attempt whose
    outcome was lost, or by an earlier call.

    Args:
        path: the node.
        data: its content.
        session_id: returns the current session.
        acl: its access control list.
        former_sessions: sessions of this program that have expired. A node of such a session is replaced, since
            ZooKeeper may fail to delete it (ZOOKEEPER-2985). As in Kafka, it is deleted whatever its version: the
            version would not distinguish it from another program's node, which has also been written once.

    Returns:
        The state of the node; the `czxid` of a broker's registration is its epoch.

    Raises:
        RegistryError: NODE_EXISTS, with the session that owns the node; or another code.

    Source:
        `KafkaZkClient.CheckedEphemeral`; Kafka only replaces the node of the last session.
    """
    attempt = Transaction((Create(path, None, CreateMode.EPHEMERAL, acl), SetData(path, data, 0)))
    for _ in range(ATTEMPTS_MAX):
        outcome = yield from perform(attempt)
        if not isinstance(outcome, RegistryError) or outcome.code is not RegistryCode.NODE_EXISTS:
            return _written(expected(outcome, Committed))
        known = yield from stat_of(path)
        if known is None:
            continue  # the owning session has just ended
        if known.ephemeral_owner and known.ephemeral_owner == session_id():
            return known
        if known.ephemeral_owner not in former_sessions:
            owner = f"session {known.ephemeral_owner:#x}" if known.ephemeral_owner else "no session: it is persistent"
            raise RegistryError(RegistryCode.NODE_EXISTS, path, f"the node belongs to {owner}")
        yield from delete(path)
    detail = f"another program created and deleted the node during each of {ATTEMPTS_MAX} attempts"
    raise RegistryError(RegistryCode.NODE_EXISTS, path, detail)


def _written(committed: Committed) -> Stat:
    return expected(committed.results[1], Stat)


def set_or_create(path: str, data: bytes, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[None]:
    """Replace the data of a node, whatever its version; create it, with missing parents, if it does not exist."""
    for _ in range(ATTEMPTS_MAX):
        stat = found((yield from perform(SetData(path, data))), Stat)
        if stat is not None or (yield from create_with_parents(path, data, acl)):
            return
    detail = f"another program created and deleted the node during each of {ATTEMPTS_MAX} attempts"
    raise RegistryError(RegistryCode.NO_NODE, path, detail)


def checked(check: Check, changes: Sequence[Change]) -> Steps[list[Result | RegistryError]]:
    """Make changes, each in a separate transaction with a version check.

    Args:
        check: the node and its expected version, `/controller_epoch` for a controller.
        changes: the changes; each one succeeds or fails independently.

    Returns:
        The result or the error of each change.

    Raises:
        CheckFailed: the check has failed; earlier changes may have been made.
        RegistryError: the session has ended, or this session may not read the checked node.
    """
    outcomes = yield [Transaction((check, change)) for change in changes]
    results: list[Result | RegistryError] = []
    for outcome in outcomes:
        if isinstance(outcome, RegistryError):
            _raise_if_of_all(outcome, check)
            results.append(outcome)
        else:
            results.append(expected(outcome, Committed).results[1])
    return results


def _raise_if_of_all(error: RegistryError, check: Check) -> None:
    """Raise the error from a checked change if it means that no change can be made."""
    if isinstance(error, TransactionFailed) and error.index == 0:
        if error.code in (RegistryCode.BAD_VERSION, RegistryCode.NO_NODE):
            raise CheckFailed(check, error.code) from error
        raise error
    if error.code in SESSION_ENDED:
        raise error


def delete_recursively(path: str, check: Check | None = None) -> Steps[bool]:
    """Delete a node and everything below it; nodes that are already gone are ignored.

    Args:
        path: the node.
        check: the check made with each deletion (see `checked`).

    Returns:
        Whether the node existed.

    Raises:
        CheckFailed: the check has failed; some nodes may have been deleted.
        RegistryError: NOT_EMPTY if another program has created a child in the meantime; or another code.
    """
    levels = [[path]]
    while levels[-1]:
        outcomes = yield [GetChildren(parent) for parent in levels[-1]]
        listed = [(parent, found(outcome, Children)) for parent, outcome in zip(levels[-1], outcomes, strict=True)]
        levels.append([child_path(parent, name) for parent, children in listed if children for name in children.names])
    existed = False
    for level in reversed(levels[:-1]):
        deletions = [Delete(each) for each in level]
        outcomes = (yield deletions) if check is None else (yield from checked(check, deletions))
        for outcome in outcomes:
            existed = found(outcome, Deleted) is not None
    return existed
