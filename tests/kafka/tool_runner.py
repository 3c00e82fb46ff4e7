"""Run many of Kafka's command-line tools in one JVM, because starting a JVM takes longer than most tools.

`ToolRunner.java` runs them one after another, and reports each tool's output and exit status.
"""

from __future__ import annotations

import base64
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.apache import java_command

__all__ = ["ToolRunner"]

_PROGRAM = Path(__file__).parent / "ToolRunner.java"

#: A tool that is still running after this time is stuck; most take half a second, but reassignments wait for brokers.
_TIMEOUT_SECONDS = 120


class ToolRunner:
    """A JVM that runs tools, alive inside a `with` block.

    Args:
        release: the Kafka release that the tools come from.
    """

    def __init__(self, release: str) -> None:
        self._release = release
        self._folder = tempfile.TemporaryDirectory(prefix="kafkawire-tools-")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        folder = Path(self._folder.name)
        command = java_command(folder, "-Xmx384m", self._release)
        (folder / "log4j2.properties").write_text("rootLogger.level=OFF\n")
        older = folder / "log4j.properties"  # for releases before 4.0
        older.write_text("log4j.rootLogger=OFF\n")
        options = ["-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration={older.as_uri()}"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command[:-2], *options, *command[-2:], str(_PROGRAM)],
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()

    def run(self, tool: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Run a tool to completion, and return its exit status and its output on both streams.

        Args:
            tool: the tool's class.
            arguments: its arguments.
            stdin: its standard input.

        Raises:
            RuntimeError: the tool does not finish in time, or the JVM has exited.
        """
        process = self._process
        assert process is not None, "the runner can only be used inside `with`"
        assert process.stdin is not None
        assert process.stdout is not None
        fields = (base64.b64encode(each.encode()).decode() for each in (stdin, tool, *arguments))
        process.stdin.write("\t".join(fields) + "\n")
        process.stdin.flush()
        limit = threading.Timer(_TIMEOUT_SECONDS, process.kill)
        limit.start()
        try:
            answer = process.stdout.readline()
        finally:
            limit.cancel()
        if not answer:
            raise RuntimeError(f"{tool} {' '.join(arguments)} took more than {_TIMEOUT_SECONDS} s, or ended the JVM")
        status, _, printed = answer.rstrip("\n").partition("\t")
        return int(status), base64.b64decode(printed).decode()
