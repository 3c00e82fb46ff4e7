"""Errors say what failed and where; operations that ZooKeeper would refuse are refused here, naming the limit.

Method: compare the sizes with those from kazoo's own encoder.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL, READ_ACL
from kafkawire.sdk.registry.kazoo_requests import KazooTranslation
from kafkawire.sdk.registry.registry import (
    REQUEST_BYTES_MAX,
    SESSION_ENDED,
    Check,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Operation,
    RegistryCode,
    RegistryError,
    SessionListener,
    SetAcl,
    SetData,
    Transaction,
    TransactionFailed,
    path_of,
    refusal_of,
    request_size_bytes,
)


@pytest.mark.parametrize("code", RegistryCode)
def test_error(code: RegistryCode) -> None:
    error = RegistryError(code, "/a", "why")
    assert (str(error), error.code, error.path, error.detail) == (f"{code.name}: /a: why", code, "/a", "why")
    assert error.retriable == (code in (RegistryCode.SESSION_EXPIRED, RegistryCode.TOO_MANY_PENDING))
    assert str(RegistryError(code, "")) == code.name
    assert (code in SESSION_ENDED) == (code.name in ("SESSION_EXPIRED", "AUTH_FAILED", "CLOSED"))


def test_a_failed_transaction_names_the_operation() -> None:
    codes = (RegistryCode.ROLLED_BACK, RegistryCode.BAD_VERSION, RegistryCode.RUNTIME_INCONSISTENCY)
    error = TransactionFailed((Check("/a", 1), SetData("/b", b"", 2), Delete("/c")), codes)
    assert (error.index, error.code, error.path, error.codes) == (1, RegistryCode.BAD_VERSION, "/b", codes)
    assert str(error) == "BAD_VERSION: /b: operation 2 of 3 in a transaction, SetData"


def test_modes() -> None:
    assert {mode.name for mode in CreateMode if mode.is_ephemeral} == {"EPHEMERAL", "EPHEMERAL_SEQUENTIAL"}
    assert {mode.name for mode in CreateMode if mode.is_sequential} == {"PERSISTENT_SEQUENTIAL", "EPHEMERAL_SEQUENTIAL"}


def test_a_listener_may_ignore_everything() -> None:
    class Listener(SessionListener):
        """A listener that overrides no methods."""

    listener = Listener()
    for event in (listener.opened, listener.suspended, listener.connected, listener.expired):
        event()
    listener.refused(RegistryError(RegistryCode.AUTH_FAILED, ""))


def test_path_of() -> None:
    assert path_of(GetAcl("/a")) == path_of(Transaction((Check("/a", 1), Delete("/b")))) == "/a"
    assert path_of(Transaction(())) == ""


EVERY_KIND: list[Operation] = [
    Create("/a", b"data", acl=CREATOR_ACL + READ_ACL),
    Create("/\u00e9", None),
    SetData("/a", b"data"),
    SetData("/a", None),
    Delete("/a"),
    GetData("/a"),
    Exists("/a"),
    GetChildren("/a"),
    GetAcl("/a"),
    SetAcl("/a", OPEN_ACL),
    Transaction((Check("/a", 1), Create("/b", b"data"), SetData("/b", b""), Delete("/c"))),
    Transaction(()),
]


@pytest.mark.parametrize("operation", EVERY_KIND, ids=lambda operation: type(operation).__name__)
@pytest.mark.parametrize("prefix", ["", "/chroot"])
def test_size(operation: Operation, prefix: str) -> None:
    kazoo = pytest.importorskip("kazoo.protocol.serialization")
    request = KazooTranslation(prefix).request_of(operation)
    header = len(kazoo.int_struct.pack(0) + kazoo.int_struct.pack(request.type))
    assert request_size_bytes(operation, len(prefix)) == header + len(request.serialize())


def test_limit() -> None:
    left = REQUEST_BYTES_MAX - request_size_bytes(Create("/a", b""))
    assert refusal_of(Create("/a", bytes(left))) is None
    refused = refusal_of(Create("/a", bytes(left + 1)))
    assert refused is not None
    text = f"the request takes {REQUEST_BYTES_MAX + 1} bytes, but at most {REQUEST_BYTES_MAX} are allowed"
    assert str(refused) == f"REQUEST_TOO_LARGE: /a: {text}"
    assert refusal_of(Create("/a", bytes(left)), 1) is not None


@pytest.mark.parametrize(
    ("operation", "is_refused"),
    [
        (Create("/a/", None, CreateMode.PERSISTENT_SEQUENTIAL), False),
        (Create("/a/", None), True),
        (Transaction((Check("/a", 1), Delete("b"))), True),
        (Exists("/"), False),
    ],
)
def test_paths_are_looked_at(operation: Operation, is_refused: bool) -> None:
    refused = refusal_of(operation)
    assert (refused is not None) == is_refused
    assert refused is None or refused.code is RegistryCode.BAD_ARGUMENTS
