"""A Kafka Streams application that counts words, in the streams groups of KIP-1071."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.apache import RELEASE, copy_jars, java_command

__all__ = ["COUNTS", "LINES", "WordCount", "word_count"]

#: The topic that the application reads, and the one that it writes.
LINES, COUNTS = "lines", "counts"

#: Begins the lines that name a state; the others are from the log.
_STATE = "state: "

_SOURCE = Path(__file__).parent / "clients" / "streams" / "WordCount.java"


class WordCount:
    """A running instance of the application.

    Args:
        process: its process.

    Attributes:
        states: the states that it has reached, in order.
        process: see above.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.states: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(_STATE):
                self.states.append(line.removeprefix(_STATE).strip())

    def kill(self) -> None:
        """Kill the instance if it is still running."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def close(self, timeout_seconds: float = 60) -> None:
        """Have the instance leave its group and exit."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout_seconds)
        self._reader.join(timeout_seconds)


@contextmanager
def word_count(bootstrap: str, application_id: str, folder: Path, *settings: str) -> Iterator[WordCount]:
    """Run an instance of the application.

    Args:
        bootstrap: the broker's address.
        application_id: the name of its group, and the prefix of its internal topics.
        folder: the folder for its state and its log, `streams.log`.
        settings: further settings, such as `processing.guarantee=exactly_once_v2`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jars = copy_jars("streams_pom.xml", f"kafka-streams-{RELEASE}", {"kafka.version": RELEASE})
    *java, path = java_command(folder, "-Xmx256m")
    command = [*java, f"{jars}/*{os.pathsep}{path}", "-XX:TieredStopAtLevel=1", str(_SOURCE)]
    command += [bootstrap, application_id, str(folder / "state"), *settings]
    with (folder / "streams.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    instance = WordCount(process)
    try:
        yield instance
    finally:
        instance.kill()
