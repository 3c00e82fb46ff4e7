"""Translates the registry's operations into kazoo's requests, and kazoo's responses into outcomes.

kazoo is an optional package (the extra `zookeeper`), so it is imported only when a `KazooTranslation` is created.

Source: `MultiTransactionRecord`, `SetWatches` in Apache ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.acls import Acl, Permission
from kafkawire.sdk.registry.registry import (
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
    path_of,
)

__all__ = ["SET_WATCHES_BYTES_MAX", "KazooTranslation", "SetWatches", "code_of"]

#: The maximum size in bytes of the paths in one `SetWatches`: far less than the largest request, and the same limit as
#: in Java's client.
SET_WATCHES_BYTES_MAX: Final = 128 * 1024

_FLAGS = {
    CreateMode.PERSISTENT: 0,
    CreateMode.EPHEMERAL: 1,
    CreateMode.PERSISTENT_SEQUENTIAL: 2,
    CreateMode.EPHEMERAL_SEQUENTIAL: 3,
}

#: The code of each kazoo error, by class name; any other error is UNEXPECTED.
_CODES = {
    "RolledBackError": RegistryCode.ROLLED_BACK,
    "RuntimeInconsistency": RegistryCode.RUNTIME_INCONSISTENCY,
    "BadArgumentsError": RegistryCode.BAD_ARGUMENTS,
    "NoNodeError": RegistryCode.NO_NODE,
    "NoAuthError": RegistryCode.NO_AUTH,
    "BadVersionError": RegistryCode.BAD_VERSION,
    "NoChildrenForEphemeralsError": RegistryCode.NO_CHILDREN_FOR_EPHEMERALS,
    "NodeExistsError": RegistryCode.NODE_EXISTS,
    "NotEmptyError": RegistryCode.NOT_EMPTY,
    "InvalidACLError": RegistryCode.INVALID_ACL,
    "AuthFailedError": RegistryCode.AUTH_FAILED,
    "SessionExpiredError": RegistryCode.SESSION_EXPIRED,
}


class SetWatches:
    """The request that restores the watches of a session on another connection; kazoo lacks it.

    The registry immediately fires the watches whose nodes have changed since `zxid`.

    Args:
        zxid: the last transaction that the session has seen.
        data: paths watched by GetData.
        existence: paths on which Exists set a watch while the node did not exist.
        children: paths watched by GetChildren.
    """

    type: Final = 101

    def __init__(self, zxid: int, data: Sequence[str], existence: Sequence[str], children: Sequence[str]) -> None:
        self.zxid = zxid
        self.paths = (data, existence, children)

    def serialize(self) -> bytes:
        """Return the body of the request."""
        parts = [self.zxid.to_bytes(8, "big")]
        for paths in self.paths:
            parts.append(len(paths).to_bytes(4, "big"))
            for path in paths:
                text = path.encode()
                parts += [len(text).to_bytes(4, "big"), text]
        return b"".join(parts)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> bool:
        """Return True: the response has no body."""
        return True


class KazooTranslation:
    """Translates operations and outcomes for one registry.

    Args:
        prefix: the chroot, which is prepended to each path; empty, or a path other than `/`.

    Raises:
        ConfigurationError: kazoo is not installed.
    """

    def __init__(self, prefix: str) -> None:
        try:
            from kazoo import security
            from kazoo.protocol import serialization
        except ImportError:
            reason = 'needs the package kazoo: pip install "kafkawire[zookeeper]"'
            raise ConfigurationError("zookeeper_connect", prefix, reason) from None
        self._prefix = prefix
        self._wire: Any = serialization
        self._security: Any = security

    def full_path(self, path: str) -> str:
        """Return the path on the server."""
        return (self._prefix if path == "/" else self._prefix + path) if self._prefix else path

    def own_path(self, path: str) -> str:
        """Return the path without the prefix."""
        return path[len(self._prefix) :] or "/"

    def request_of(self, operation: Operation | Check) -> Any:
        """Return the request for an operation, without its watcher."""
        wire, path = self._wire, self.full_path(path_of(operation))
        match operation:
            case Create():
                return wire.Create(path, operation.data, self._kazoo_acl(operation.acl), _FLAGS[operation.mode])
            case SetData():
                return wire.SetData(path, operation.data, operation.version)
            case Delete():
                return wire.Delete(path, operation.version)
            case Check():
                return wire.CheckVersion(path, operation.version)
            case GetData():
                return wire.GetData(path, operation.watcher)
            case Exists():
                return wire.Exists(path, operation.watcher)
            case GetChildren():
                return wire.GetChildren2(path, operation.watcher)
            case GetAcl():
                return wire.GetACL(path)
            case SetAcl():
                return wire.SetACL(path, self._kazoo_acl(operation.acl), operation.version)
            case Transaction():
                return wire.Transaction([self.request_of(part) for part in operation.operations])

    def _kazoo_acl(self, acl: tuple[Acl, ...]) -> list[Any]:
        kazoo = self._security
        return [kazoo.ACL(int(entry.permissions), kazoo.Id(entry.scheme, entry.id)) for entry in acl]

    def outcome_of(self, operation: Operation, response: Any) -> Outcome:
        """Return the outcome of an operation.

        Args:
            operation: the operation.
            response: the response as deserialized by kazoo's request, or the exception.
        """
        path = path_of(operation)
        if isinstance(response, Exception):
            return _error(response, path)
        match operation:
            case Create():
                return Created(self.own_path(response))
            case SetData() | SetAcl():
                return _stat(response)
            case Delete():
                return Deleted(path)
            case Exists():
                # kazoo treats NO_NODE as a normal answer.
                return RegistryError(RegistryCode.NO_NODE, path) if response is None else _stat(response)
            case GetData():
                return Data(response[0] or b"", _stat(response[1]))
            case GetChildren():
                return Children(tuple(sorted(response[0])), _stat(response[1]))
            case GetAcl():
                acl = tuple(Acl(Permission(entry.perms), entry.id.scheme, entry.id.id) for entry in response[0])
                return NodeAcl(acl, _stat(response[1]))
            case Transaction():
                return self._committed(operation.operations, response)

    def _committed(self, operations: Sequence[Change | Check], responses: Sequence[Any]) -> Outcome:
        if any(isinstance(response, Exception) for response in responses):
            return TransactionFailed(operations, [code_of(response) for response in responses])
        results: list[Created | Stat | Deleted | VersionChecked] = []
        for operation, response in zip(operations, responses, strict=True):
            match operation:
                case Create():
                    results.append(Created(self.own_path(response)))
                case SetData():
                    results.append(_stat(response))
                case Delete():
                    results.append(Deleted(operation.path))
                case Check():
                    results.append(VersionChecked(operation.path))
        return Committed(tuple(results))


def code_of(error: Exception) -> RegistryCode:
    """Return the code of one of kazoo's exceptions."""
    for kind in type(error).__mro__:
        if kind.__name__ in _CODES:
            return _CODES[kind.__name__]
    return RegistryCode.UNEXPECTED


def _error(error: Exception, path: str) -> RegistryError:
    code = code_of(error)
    detail = f"{type(error).__name__} {error}".rstrip() if code is RegistryCode.UNEXPECTED else ""
    return RegistryError(code, path, detail)


def _stat(stat: Any) -> Stat:
    # kazoo's tuple has its fields in protocol order, as does `Stat`.
    return Stat(*stat)
