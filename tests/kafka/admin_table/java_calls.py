"""The process that calls Java's Admin: `AdminCalls.java`, which takes a call and prints its outcome, line by line."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka.admin_table.cases import Java, Kept
from tests.kafka.apache import java_command

__all__ = ["JavaCalls"]

_PROGRAM = Path(__file__).parents[1] / "AdminCalls.java"

#: A call that is still running after this time is stuck; all have a limit of their own that is far below.
_TIMEOUT_SECONDS = 30


class JavaCalls:
    """A JVM with Java's Admin, alive inside a `with` block.

    Args:
        clients: the properties of each client, keyed by name.

    Attributes:
        operations: the names of all operations.
    """

    def __init__(self, clients: Mapping[str, Mapping[str, str]]) -> None:
        self._clients = clients
        self._folder = tempfile.TemporaryDirectory(prefix="kafkawire-admin-")
        self._process: subprocess.Popen[str] | None = None
        self.operations: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        self._start()
        return self

    def _start(self) -> None:
        command = java_command(Path(self._folder.name), "-Xmx256m")
        logging = Path(self._folder.name, "log4j2.properties")
        logging.write_text("rootLogger.level=OFF\n")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command[:-2], "-XX:TieredStopAtLevel=1", *command[-2:], str(_PROGRAM), json.dumps(self._clients)],
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        assert self._process.stdout is not None
        self.operations = frozenset(json.loads(self._process.stdout.readline()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            _end(self._process)
        self._folder.cleanup()

    def outcome(self, call: Java) -> Any:
        """Return what a call returned, as JSON.

        Raises:
            RuntimeError: the call does not end, or the program cannot build its arguments.
        """
        process = self._process
        assert process is not None, "the calls can only be made inside `with`"
        assert process.stdin is not None
        assert process.stdout is not None
        line = {
            "client": call.client,
            "call": call.call,
            "arguments": _plain(call.arguments),
            "options": _plain(call.options),
            "keep": call.keep,
        }
        if call.ask is not None:
            line["ask"] = [[step] if isinstance(step, str) else step for step in call.ask]
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        limit = threading.Timer(_TIMEOUT_SECONDS, process.kill)
        limit.start()
        try:
            answer = process.stdout.readline()
        finally:
            limit.cancel()
        if not answer:
            _end(process)
            self._start()
            raise RuntimeError(f"{call} took more than {_TIMEOUT_SECONDS} s, or ended the JVM")
        outcome = json.loads(answer)
        if isinstance(outcome, dict) and "misuse" in outcome:
            raise RuntimeError(f"{call}: {outcome['misuse']}")
        return outcome


def _end(process: subprocess.Popen[str]) -> None:
    """End a process, whose pipes may hold what it has not read."""
    process.kill()
    with suppress(BrokenPipeError):
        process.communicate()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Kept):
        return {"kept": value.name}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
