"""ZooKeeper nodes: their paths, with parameters, and their content.

`tables/znodes.py`, generated from `schemas/registry.yaml`, contains a `Znode` for each of Kafka's nodes:

    >>> from kafkawire.sdk.protocol.tables.znodes import PARTITION_STATE
    >>> PARTITION_STATE.path("payments", 0)
    '/brokers/topics/payments/partitions/0/state'

Source: `ZkData` in Apache Kafka; `PathUtils` in Apache ZooKeeper.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final, Generic, TypeVar, TypeVarTuple

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.registry.content import Content, DamagedZnode
from kafkawire.sdk.registry.paths import path_problem
from kafkawire.sdk.registry.sanitizer import desanitize, sanitize

__all__ = ["DEFAULT_ENTITY", "Access", "Mode", "Znode"]

T = TypeVar("T")
Parameters = TypeVarTuple("Parameters")

#: The name of the node that contains the defaults for all users, client ids, brokers or addresses.
DEFAULT_ENTITY: Final = "<default>"

_PARAMETER: Final = re.compile("{([a-z_]+)}")

_INT32: Final = range(-(1 << 31), 1 << 31)
_INTEGER: Final = re.compile("-?(0|[1-9][0-9]{0,9})")
#: ZooKeeper appends a ten-digit number to the name of a sequential node.
_SEQUENCE: Final = re.compile("[0-9]{10}|-[0-9]{9,10}")


class Mode(Enum):
    """How a node is created."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    PERSISTENT_SEQUENTIAL = "persistent_sequential"


class Access(Enum):
    """Who may access a node if `zookeeper.set.acl` is true. If it is false, anyone may do anything.

    OPEN: anyone may do anything. READABLE: only brokers may write, and anyone may read. SECRET: only brokers may read
    or write.
    """

    OPEN = "open"
    READABLE = "readable"
    SECRET = "secret"


class Znode(Generic[T, *Parameters]):
    """A node, or all nodes whose paths differ only in their parameters.

    Attributes:
        template: the path, with parameter names in braces.
        mode: how it is created.
        access: who may access it.
        is_made_at_startup: whether a broker creates it when it starts.

    Args:
        template: the path, with parameter names in braces.
        content: how to read and write its content.
        mode: how it is created.
        access: who may access it.
        is_made_at_startup: whether a broker creates it when it starts.
        parameters: the kinds of its parameters, in order: `int32`, `string`, `sanitized` or `sequence`; with a question
            mark, None stands for `<default>`.
    """

    def __init__(
        self,
        template: str,
        content: Content[T],
        *parameters: str,
        mode: Mode = Mode.PERSISTENT,
        access: Access = Access.READABLE,
        is_made_at_startup: bool = False,
    ) -> None:
        self.template = template
        self.mode = mode
        self.access = access
        self.is_made_at_startup = is_made_at_startup
        self._content = content
        self._kinds = parameters
        self._names: list[str] = _PARAMETER.findall(template)
        self._pieces: list[str] = _PARAMETER.split(template)[::2]
        # A parameter matches anything, which lets the error name the wrong value.
        self._pattern = re.compile("([^/]*)".join(map(re.escape, self._pieces)))

    def __repr__(self) -> str:
        return f"Znode({self.template!r})"

    @property
    def prefix(self) -> str:
        """The path with which to create a sequential node; ZooKeeper appends the number."""
        return self._pieces[0]

    def path(self, *parameters: *Parameters) -> str:
        """Return the path of one node.

        Args:
            parameters: the parameters, in the order of the template; None for the default entity.

        Raises:
            EncodeError: a parameter cannot be part of a path.
            TypeError: there are too few or too many parameters.
        """
        if len(parameters) != len(self._kinds):
            raise TypeError(f"{self.template} takes {len(self._kinds)} parameters, got {len(parameters)}")
        path = self._pieces[0]
        values: tuple[object, ...] = parameters
        for name, kind, value, piece in zip(self._names, self._kinds, values, self._pieces[1:], strict=True):
            path += _written(name, kind, value) + piece
        return path

    def parameters(self, path: str) -> tuple[*Parameters]:
        """Return the parameters in a path, for example a child's: the inverse of `path`.

        Raises:
            DamagedZnode: the path belongs to another node, or a parameter is not of its kind.
        """
        found = self._pattern.fullmatch(path)
        if found is None:
            raise DamagedZnode(path, "", f"is not a path of the form {self.template}")
        parts = zip(self._names, self._kinds, found.groups(), strict=True)
        values: Any = tuple(_read(path, name, kind, text) for name, kind, text in parts)
        typed: tuple[*Parameters] = values
        return typed

    def decode(self, content: bytes | None, path: str = "") -> T:
        """Return the decoded value.

        Args:
            content: the bytes as read; None is the same as no bytes.
            path: the node, for errors; empty for the template.

        Raises:
            DamagedZnode: Kafka does not accept the content, or it exceeds a limit.
        """
        return self._content.decode(content, path or self.template)

    def encode(self, value: T) -> bytes:
        """Return the bytes that Kafka writes; empty for a node without content.

        Raises:
            EncodeError: the value does not fit; the error's path names the field.
        """
        return self._content.encode(value)


def _written(name: str, kind: str, value: object) -> str:
    """Return a parameter in the form used in paths."""
    if value is None and kind.endswith("?"):
        return DEFAULT_ENTITY
    kind = kind.rstrip("?")
    if kind in ("int32", "sequence"):
        if not isinstance(value, int) or isinstance(value, bool) or value not in _INT32:
            raise EncodeError(name, f"{quoted(value)} is not an int32")
        return f"{value:010d}" if kind == "sequence" else str(value)
    if not isinstance(value, str):
        raise EncodeError(name, f"{quoted(value)} is not text")
    text = value
    if kind == "sanitized":
        try:
            text = sanitize(value)
        except ValueError:
            raise EncodeError(name, f"{quoted(value)} has an unpaired surrogate") from None
    if not text or "/" in text or path_problem(f"/{text}") is not None:
        raise EncodeError(name, f"{quoted(value)} cannot be a name in ZooKeeper")
    return text


def _read(path: str, name: str, kind: str, text: str) -> str | int | None:
    """Return the parameter that one component of a path contains."""
    if text == DEFAULT_ENTITY and kind.endswith("?"):
        return None
    kind = kind.rstrip("?")
    if kind in ("int32", "sequence"):
        form = _INTEGER if kind == "int32" else _SEQUENCE
        if not form.fullmatch(text) or int(text) not in _INT32 or text == "-0":
            expected = "an int32" if kind == "int32" else "the ten-digit number of a sequential node"
            raise DamagedZnode(path, name, f"{quoted(text)} is not {expected}")
        return int(text)
    if not text:
        raise DamagedZnode(path, name, "is empty")
    if kind == "string":
        return text
    try:
        return desanitize(text)
    except ValueError as error:
        raise DamagedZnode(path, name, f"{quoted(text)} is not a sanitized name: {error}") from None
