"""kazoo's requests correspond to the operations, and kazoo's responses become their outcomes.

Method: check tables of operations, kazoo's results for them, and outcomes; compare the request that kazoo lacks with
its bytes.
"""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL
from kafkawire.sdk.registry.kazoo_requests import KazooTranslation, SetWatches, code_of
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
    GetAcl,
    GetChildren,
    GetData,
    NodeAcl,
    Operation,
    Outcome,
    RegistryCode,
    RegistryError,
    SetAcl,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    WatchEvent,
)

exceptions: Any = pytest.importorskip("kazoo.exceptions")
security: Any = pytest.importorskip("kazoo.security")

STAT = Stat(*range(11))
CHANGES = Transaction((Check("/e", 1), Create("/a"), SetData("/a", b"x"), Delete("/b")))
ROLLED_BACK, INCONSISTENT = RegistryCode.ROLLED_BACK, RegistryCode.RUNTIME_INCONSISTENCY
OPEN = [security.ACL(31, security.Id("world", "anyone"))]


def watcher(event: WatchEvent) -> None:
    """Ignore an event."""


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        (Create("/a", None), ("Create", "/top/a", None, OPEN, 0)),
        (Create("/a", b"x", CreateMode.EPHEMERAL), ("Create", "/top/a", b"x", OPEN, 1)),
        (Create("/a", b"x", CreateMode.PERSISTENT_SEQUENTIAL), ("Create", "/top/a", b"x", OPEN, 2)),
        (Create("/a", b"x", CreateMode.EPHEMERAL_SEQUENTIAL), ("Create", "/top/a", b"x", OPEN, 3)),
        (
            Create("/a", b"x", acl=CREATOR_ACL),
            ("Create", "/top/a", b"x", [security.ACL(31, security.Id("auth", ""))], 0),
        ),
        (SetData("/a", b"x", 3), ("SetData", "/top/a", b"x", 3)),
        (Delete("/a", 3), ("Delete", "/top/a", 3)),
        (GetData("/a", watcher), ("GetData", "/top/a", watcher)),
        (Exists("/", watcher), ("Exists", "/top", watcher)),
        (GetChildren("/a"), ("GetChildren2", "/top/a", None)),
        (GetAcl("/a"), ("GetACL", "/top/a")),
        (SetAcl("/a", OPEN_ACL, 2), ("SetACL", "/top/a", OPEN, 2)),
    ],
    ids=lambda value: type(value).__name__,  # a watcher's repr has an address
)
def test_request(operation: Operation, fields: tuple[Any, ...]) -> None:
    request = KazooTranslation("/top").request_of(operation)
    assert (type(request).__name__, *request) == fields


def test_request_of_a_transaction() -> None:
    request = KazooTranslation("").request_of(CHANGES)
    assert [(type(part).__name__, part.path) for part in request.operations] == [
        ("CheckVersion", "/e"),
        ("Create", "/a"),
        ("SetData", "/a"),
        ("Delete", "/b"),
    ]


@pytest.mark.parametrize(
    ("operation", "response", "outcome"),
    [
        (Create("/a-"), "/top/a-0000000000", Created("/a-0000000000")),
        (SetData("/a", b""), STAT, STAT),
        (SetAcl("/a", OPEN_ACL), STAT, STAT),
        (Delete("/a"), True, Deleted("/a")),
        (Exists("/a"), STAT, STAT),
        (GetData("/a"), (b"x", STAT), Data(b"x", STAT)),
        (GetData("/a"), (None, STAT), Data(b"", STAT)),
        (GetChildren("/a"), (["c", "b"], STAT), Children(("b", "c"), STAT)),
        (GetAcl("/a"), (OPEN, STAT), NodeAcl(OPEN_ACL, STAT)),
        (
            CHANGES,
            [True, "/top/a", STAT, True],
            Committed((VersionChecked("/e"), Created("/a"), STAT, Deleted("/b"))),
        ),
    ],
    ids=repr,
)
def test_outcome(operation: Operation, response: Any, outcome: Outcome) -> None:
    found = KazooTranslation("/top").outcome_of(operation, response)
    assert found == outcome
    assert type(found) is type(outcome)


def test_a_node_that_does_not_exist() -> None:
    found = KazooTranslation("").outcome_of(Exists("/a"), None)
    assert isinstance(found, RegistryError)
    assert str(found) == "NO_NODE: /a"


def test_a_failed_transaction() -> None:
    responses = [
        exceptions.RolledBackError(),
        exceptions.NodeExistsError(),
        *[exceptions.RuntimeInconsistency()] * 2,
    ]
    found = KazooTranslation("").outcome_of(CHANGES, responses)
    assert isinstance(found, TransactionFailed)
    assert found.codes == (ROLLED_BACK, RegistryCode.NODE_EXISTS, INCONSISTENT, INCONSISTENT)
    assert (found.index, found.path) == (1, "/a")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NoNodeError", RegistryCode.NO_NODE),
        ("NodeExistsError", RegistryCode.NODE_EXISTS),
        ("BadVersionError", RegistryCode.BAD_VERSION),
        ("NotEmptyError", RegistryCode.NOT_EMPTY),
        ("NoChildrenForEphemeralsError", RegistryCode.NO_CHILDREN_FOR_EPHEMERALS),
        ("NoAuthError", RegistryCode.NO_AUTH),
        ("InvalidACLError", RegistryCode.INVALID_ACL),
        ("BadArgumentsError", RegistryCode.BAD_ARGUMENTS),
        ("AuthFailedError", RegistryCode.AUTH_FAILED),
        ("SessionExpiredError", RegistryCode.SESSION_EXPIRED),
        ("ConnectionClosedError", RegistryCode.SESSION_EXPIRED),  # its base class
        ("RolledBackError", ROLLED_BACK),
        ("RuntimeInconsistency", INCONSISTENT),
        ("QuotaExceededError", RegistryCode.UNEXPECTED),
    ],
)
def test_code(name: str, code: RegistryCode) -> None:
    error = getattr(exceptions, name)()
    assert code_of(error) is code
    found = KazooTranslation("").outcome_of(Delete("/a"), error)
    assert isinstance(found, RegistryError)
    assert str(found) == (f"UNEXPECTED: /a: {name}" if code is RegistryCode.UNEXPECTED else f"{code.name}: /a")


@pytest.mark.parametrize(
    ("prefix", "path", "full"), [("", "/", "/"), ("", "/a", "/a"), ("/r", "/", "/r"), ("/r", "/a", "/r/a")]
)
def test_paths(prefix: str, path: str, full: str) -> None:
    translation = KazooTranslation(prefix)
    assert translation.full_path(path) == full
    assert translation.own_path(full) == path


def test_setting_watches_again() -> None:
    request = SetWatches(258, ["/d", "/e"], [], ["/\u00e9"])
    expected = "0000000000000102 00000002 00000002 2f64 00000002 2f65 00000000 00000001 00000003 2fc3a9"
    assert request.serialize() == bytes.fromhex(expected)
    assert (request.type, SetWatches.deserialize(b"", 0)) == (101, True)


def test_without_kazoo(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("kazoo"):
            raise ImportError(name)
        return found(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r'needs the package kazoo: pip install "kafkawire\[zookeeper\]"'):
        KazooTranslation("")
