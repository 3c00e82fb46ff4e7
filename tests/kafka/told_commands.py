"""Run commands of Kafka's tools on two clusters, and return their output without the parts that necessarily differ.

An address is replaced by its broker's name; topic ids, times, folders and the lines of Java stack traces are left out.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.kafka.cluster_pair import ClusterOfThree
from tests.kafka.tool_runner import ToolRunner

__all__ = ["Action", "Command", "Masks", "Step", "Told", "told"]

#: Regular expressions, and the replacements for their matches.
Masks = tuple[tuple[str, str], ...]

#: Output that has not appeared after this time never will: a broker starts, and a session ends, within seconds.
_PATIENCE_SECONDS = 120

#: The pause between runs of a repeated command.
_PAUSE_SECONDS = 0.2

_MASKS: Masks = (
    (r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "TIME"),
    (r"(TopicId: |Cluster ID: )\S+", r"\1ID"),
    (r'("logDir":)"[^"]+"', r"\1FOLDER"),
    (r"^\tat .*\n", ""),
    (r"^\t\.\.\. \d+ (more|common frames omitted)\n", ""),
)


class Command(NamedTuple):
    """One run of a tool.

    Attributes:
        tool: its class.
        arguments: the arguments as in a shell, without the brokers' addresses; `@NAME` stands for a file's path.
        stdin: its standard input.
        until: a regular expression; the command is repeated until its output matches.
        masks: see `Masks`.
    """

    tool: str
    arguments: str
    stdin: str = ""
    until: str = ""
    masks: Masks = ()


class Action(NamedTuple):
    """What to do to a broker: kill, stop or restart it."""

    name: str
    broker: int


Step = Command | Action

#: The exit status of a command, and the lines that it printed.
Told = tuple[int, list[str]]


def told(cluster: ClusterOfThree, tools: ToolRunner, step: Step, files: Mapping[str, Path]) -> Told:
    """Perform a step on a cluster, and return its output.

    Args:
        cluster: the cluster.
        tools: runs commands.
        step: the step to perform.
        files: the files that the command reads, keyed by name.
    """
    if isinstance(step, Action):
        getattr(cluster, step.name)(step.broker)
        return 0, []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        said = _said(cluster, tools, step, files)
        if re.search(step.until, "\n".join(said[1])) or time.monotonic() > deadline:
            return said
        time.sleep(_PAUSE_SECONDS)


def _said(cluster: ClusterOfThree, tools: ToolRunner, command: Command, files: Mapping[str, Path]) -> Told:
    words = [str(files[word[1:]]) if word.startswith("@") else word for word in shlex.split(command.arguments)]
    status, text = tools.run(command.tool, *_placed(words, cluster.bootstrap), stdin=command.stdin)
    for broker_id, address in cluster.addresses.items():
        host, _, port = address.partition(":")
        text = re.sub(rf"{re.escape(host)}([: ]+){port}\b", rf"broker-{broker_id}", text)
    for pattern, mask in (*_MASKS, *command.masks):
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return status, [line.rstrip() for line in text.splitlines() if line.strip()]


def _placed(words: Sequence[str], bootstrap: str) -> list[str]:
    """Return arguments with the brokers' addresses, either in place of ADDRESSES or before all other arguments."""
    if any("ADDRESSES" in word for word in words):
        return [word.replace("ADDRESSES", bootstrap) for word in words]
    return ["--bootstrap-server", bootstrap, *words]
