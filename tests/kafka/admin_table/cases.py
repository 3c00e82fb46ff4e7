"""The forms of a case: a call of Java's Admin, a run of one of Kafka's tools, or a call of our Admin.

    java("createTopics", [[["a", 3, 1]]], validateOnly=True)
    tool("topics", "--create --topic a")
    ours("create_topics", NewTopic("a", 3, 1), validate_only=True)

In a call of Java's Admin, the arguments are JSON: an array stands for a collection, for the pairs of a map, or for the
arguments of a constructor. `make` and `new` build objects in other ways, and `Kept` stands for what an earlier case
kept. The keywords are the setters of the call's options. Without `ask`, an outcome has everything that the getters of
the result return; `ask` names the paths of methods from the result that are of interest instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

__all__ = [
    "TOOLS",
    "Case",
    "Java",
    "Kept",
    "Masks",
    "Ours",
    "Scene",
    "Tool",
    "java",
    "make",
    "new",
    "ours",
    "tool",
]

#: Regular expressions for parts of an outcome that differ from run to run, and their replacements.
Masks = tuple[tuple[str, str], ...]

_TOOLS, _GROUPS = "org.apache.kafka.tools.", "org.apache.kafka.tools.consumer.group."

#: The classes of Kafka's tools, keyed by the names of their scripts without `kafka-`.
TOOLS = {
    "acls": _TOOLS + "AclCommand",
    "broker-api-versions": _TOOLS + "BrokerApiVersionsCommand",
    "client-metrics": _TOOLS + "ClientMetricsCommand",
    "cluster": _TOOLS + "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": _GROUPS + "ConsumerGroupCommand",
    "delegation-tokens": _TOOLS + "DelegationTokenCommand",
    "delete-records": _TOOLS + "DeleteRecordsCommand",
    "features": _TOOLS + "FeatureCommand",
    "get-offsets": _TOOLS + "GetOffsetShell",
    "groups": _TOOLS + "GroupsCommand",
    "leader-election": _TOOLS + "LeaderElectionCommand",
    "log-dirs": _TOOLS + "LogDirsCommand",
    "metadata-quorum": _TOOLS + "MetadataQuorumCommand",
    "reassign-partitions": _TOOLS + "reassign.ReassignPartitionsCommand",
    "share-groups": _GROUPS + "ShareGroupCommand",
    "streams-groups": _TOOLS + "streams.StreamsGroupCommand",
    "topics": _TOOLS + "TopicCommand",
    "transactions": _TOOLS + "TransactionsCommand",
}

#: Operations and tools' actions that change nothing, and may therefore be repeated until a broker knows of a change.
_READS = re.compile(r"(?i)describe|list|lag|hanging|get-offsets|lag|metrics$")


class Kept(NamedTuple):
    """Stands for a value that an earlier case of the same driver kept.

    Attributes:
        name: the name under which it was kept.
    """

    name: str


class Java(NamedTuple):
    """A call of Java's Admin; see above."""

    call: str
    arguments: list[Any]
    options: dict[str, Any] | list[Any]
    ask: Sequence[Any] | None = None
    keep: tuple[tuple[str, Any], ...] = ()
    client: str = ""

    @property
    def is_read(self) -> bool:
        """Whether the call changes nothing."""
        return bool(_READS.match(self.call))


class Tool(NamedTuple):
    """A run of a tool, with arguments as in a shell; `@NAME` stands for the path of a file with the text `files[NAME]`.

    Attributes:
        is_unordered: whether the order of the lines depends on the order of a hash table in the broker.
    """

    name: str
    arguments: str
    files: dict[str, str]
    client: str = ""
    is_unordered: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the run changes nothing."""
        return bool(_READS.search(f"{self.name} {self.arguments}"))


class Ours(NamedTuple):
    """A call of our Admin.

    Attributes:
        keep: a name, and a function that returns what is kept from the result.
        within_ms: the limit for the call, if it is not the client's.
    """

    call: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    keep: tuple[str, Callable[[Any], Any]] | None = None
    client: str = ""
    within_ms: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether the call changes nothing."""
        return bool(_READS.search(self.call))


class Case(NamedTuple):
    """What an administrator does, and what of the outcome is not compared.

    Attributes:
        name: unique within its scene.
        action: what is done.
        masks: see `Masks`; applied to the outcome as text.
    """

    name: str
    action: Java | Tool | Ours
    masks: Masks = ()


class Scene(NamedTuple):
    """Cases that are taken in order, on a broker on which earlier scenes have left only what they document.

    Attributes:
        name: what the cases are about.
        cases: the cases.
        cast: starts what else the cases need, such as the members of a group, on the broker at an address.
    """

    name: str
    cases: Sequence[Case]
    cast: Callable[[str], AbstractContextManager[None]] | None = None


def java(
    name: str,
    call: str,
    arguments: list[Any],
    /,
    *,
    ask: Sequence[Any] | None = None,
    keep: tuple[tuple[str, Any], ...] = (),
    client: str = "",
    masks: Masks = (),
    made: list[Any] | None = None,
    **options: Any,
) -> Case:
    """Return a case that calls Java's Admin.

    Args:
        name: the name of the case.
        call: the operation.
        arguments: its arguments, without the options.
        ask: see the top of this module.
        keep: names for values of the result, and their paths.
        client: the client whose rights it has.
        masks: see `Masks`.
        made: the arguments of the constructor of the options, if it has any.
        options: the options.
    """
    return Case(
        f"Java {call}: {name}", Java(call, arguments, options if made is None else made, ask, keep, client), masks
    )


def tool(
    name: str,
    script: str,
    arguments: str,
    /,
    *,
    client: str = "",
    masks: Masks = (),
    unordered: bool = False,
    **files: str,
) -> Case:
    """Return a case that runs a tool.

    Args:
        name: the name of the case.
        script: the key of `TOOLS`.
        arguments: see `Tool`.
        client: the client whose rights it has.
        masks: see `Masks`.
        unordered: see `Tool`.
        files: see `Tool`.
    """
    return Case(f"kafka-{script}: {name}", Tool(script, arguments, files, client, unordered), masks)


def ours(
    name: str,
    call: str,
    /,
    *arguments: Any,
    keep: tuple[str, Callable[[Any], Any]] | None = None,
    client: str = "",
    masks: Masks = (),
    within_ms: int | None = None,
    **options: Any,
) -> Case:
    """Return a case that calls our Admin.

    Args:
        name: the name of the case.
        call: the method.
        arguments: its arguments.
        keep: see `Ours`.
        client: the client whose rights it has.
        masks: see `Masks`.
        within_ms: see `Ours`.
        options: its keywords.
    """
    return Case(f"our {call}: {name}", Ours(call, arguments, options, keep, client, within_ms), masks)


def make(method: str, *arguments: Any, of: str = "") -> dict[str, Any]:
    """Return an object that a static method of its class makes, for a call of Java's Admin.

    Args:
        method: the name of the method.
        arguments: its arguments.
        of: the class, if it is not the one that the call expects.
    """
    return {"make": method, "new": list(arguments)} | ({"class": of} if of else {})


def new(*arguments: Any, of: str = "", **setters: Any) -> dict[str, Any]:
    """Return an object that a constructor makes, for a call of Java's Admin.

    Args:
        arguments: the constructor's arguments.
        of: the class, if it is not the one that the call expects.
        setters: the methods that are called afterwards, with one argument each.
    """
    return {"new": list(arguments), "set": setters} | ({"class": of} if of else {})
