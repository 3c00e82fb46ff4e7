"""Programs that use third-party clients, each in the client's language: PROGRAM BOOTSTRAP SCENARIO TOPIC [ARGUMENT…]

Each prints one line of JSON. Clients are fetched from registries on first use; builds are cached.
    admin                 create the topic, describe its partitions and `retention.ms`, delete it, list the others
    administer MS         change a topic, and the broker's `log.retention.ms` to MS; describe all; print each answer
    produce CODEC KIND    store 200 records; KIND is `default`, or `idempotent` if that is not the default
    group PROTOCOL COUNT  read COUNT records in the group named after the topic, commit, leave when stdin ends
    fetch                 read all records, without a group
    stream                store 500 records for each line of standard input, with acks=all; report errors when it ends
    follow COUNT          read until COUNT distinct values have arrived, in a group with auto-commit
    transactions          commit one, with an offset for the group named after the topic; abort one; be fenced
    mistake KIND          make a mistake that a broker refuses, and print the error from the client
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.kafka.apache import fetch_jars, kept_folder
from tests.needs import Need

__all__ = [
    "BUILD_TIMEOUT_SECONDS",
    "PROGRAMS",
    "TIMEOUT_SECONDS",
    "Program",
    "javas_share_members",
    "name_of",
    "usable",
]

CLIENTS = Path(__file__).parent / "clients"

#: The root of the project; Python programs run as modules from there.
_ROOT = Path(__file__).parents[2]

TIMEOUT_SECONDS = 60

#: The first build fetches and compiles everything; on two idle cores, that takes a minute or two.
BUILD_TIMEOUT_SECONDS = 900

#: The oldest version of each tool that can build the pinned clients.
TOOLS = {"go": (1, 26), "node": (18, 0), "npm": (8, 0), "cargo": (1, 85), "javac": (17, 0)}

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Program(NamedTuple):
    """A program that uses one client, with the client's abilities.

    Attributes:
        tools: the tools that the build needs in addition to Python.
        command: builds the program if necessary, and returns the command that starts it.
        codecs: the codecs that the client supports without further packages.
        idempotent: whether its producer is idempotent by default; None if it cannot be.
        protocols: the group protocols that the client supports.
        python_before: the first Python version for which the client has no wheel.
    """

    name: str
    tools: tuple[str, ...]
    command: Callable[[], list[str]]
    codecs: tuple[str, ...] = ALL_CODECS
    idempotent: bool | None = False
    protocols: tuple[str, ...] = ("classic",)
    python_before: tuple[int, int] = (4, 0)

    def start(self, bootstrap: str, *arguments: str) -> subprocess.Popen[str]:
        """Start the program with a scenario."""
        command = [*self.command(), bootstrap, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, bootstrap: str, *arguments: str) -> dict[str, Any]:
        """Run a scenario, which must succeed, and return its observations."""
        return self.seen(self.start(bootstrap, *arguments))

    def seen(self, process: subprocess.Popen[str], timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        """Wait for a scenario, which must succeed, and return its observations."""
        try:
            shown, errors = process.communicate(timeout=timeout_seconds)
        finally:
            process.kill()
        assert process.returncode == 0, f"{self.name}: {shown}{errors}"
        seen: dict[str, Any] = json.loads(shown.splitlines()[-1])
        return seen


def name_of(program: Program) -> str:
    """Return a program's name, for test ids."""
    return program.name


def usable(program: Program) -> Program:
    """Return a program that can be built here; skip the running test if it cannot."""
    Need(f"what builds {program.name}: {_obstacle(program)}", lambda: _obstacle(program) is None).require()
    return program


@cache
def _obstacle(program: Program) -> str | None:
    """Return the reason why a program cannot be built on this machine, or None if it can."""
    for tool in program.tools:
        oldest = TOOLS[tool]
        if shutil.which(tool) is None or _version(tool) < oldest:
            return f"{tool} {'.'.join(map(str, oldest))} or newer is not installed"
    if sys.version_info >= program.python_before:
        return f"{program.name} has no wheel for this Python"
    return None


def _version(tool: str) -> tuple[int, ...]:
    command = [tool, "version"] if tool == "go" else [tool, "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _built(name: str, build: Callable[[Path], list[str]]) -> Path:
    """Return the folder in which `build` built a copy of the sources; it is reused until the sources change."""
    sources = CLIENTS / name
    content = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        content.update(f"{path.relative_to(sources)}\n".encode() + path.read_bytes())

    def fill(folder: Path) -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)  # an interrupted build can resume
        _do(build(folder), folder)

    return kept_folder(f"clients/{name}-{content.hexdigest()[:12]}", fill)


def _do(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}"


@cache
def _go(name: str) -> list[str]:
    folder = _built("go", lambda _: ["go", "build", "-o", "built/", "./franz", "./sarama"])
    return [str(folder / "built" / name)]


@cache
def _node() -> list[str]:
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    return ["node", str(_built("node", lambda _: install) / "index.js")]


@cache
def _rust() -> list[str]:
    return [str(_built("rust", lambda _: ["cargo", "build", "--quiet"]) / "target" / "debug" / "clients")]


@cache
def _java() -> list[str]:
    jars = f"{fetch_jars()}/*"
    folder = _built("java", lambda _: ["javac", "-cp", jars, "Client.java"])
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}{os.pathsep}{jars}", "Client"]


@cache
def javas_share_members() -> list[str]:
    """Return the command that starts share consumers of the Java client; see share_drivers.py."""
    jars = f"{fetch_jars()}/*"
    folder = _built("share", lambda _: ["javac", "-cp", jars, "ShareMembers.java"])
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}{os.pathsep}{jars}", "ShareMembers"]


@cache
def _python(name: str) -> list[str]:
    return [sys.executable, "-m", f"tests.kafka.clients.python.{name}_user"]


@cache
def _older_confluent(version: str) -> list[str]:
    """Return the command that runs with a version of confluent-kafka other than the environment's."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]

    def fill(folder: Path) -> None:
        _do([*pip, "--target", str(folder), f"confluent-kafka=={version}"], folder)

    folder = kept_folder(f"clients/confluent-kafka-{version}-{sys.implementation.cache_tag}", fill)
    return ["env", f"PYTHONPATH={folder}", *_python("confluent")]


PROGRAMS = (
    Program("kafka-python", (), lambda: _python("kafka_python"), idempotent=True),
    Program("aiokafka", (), lambda: _python("aiokafka")),
    Program("confluent-kafka", (), lambda: _python("confluent"), protocols=("classic", "consumer")),
    # This is the last version that compresses only if the broker offers versions of Produce that Kafka has removed.
    Program(
        "confluent-kafka-2.5",
        (),
        lambda: _older_confluent("2.5.3"),
        protocols=("classic", "consumer"),
        python_before=(3, 13),
    ),
    Program("java", ("javac",), _java, idempotent=True, protocols=("classic", "consumer")),
    Program("franz-go", ("go",), lambda: _go("franz"), idempotent=True, protocols=("classic", "consumer")),
    Program("sarama", ("go",), lambda: _go("sarama")),
    Program("kafkajs", ("node", "npm"), _node, codecs=("none", "gzip")),
    Program("rskafka", ("cargo",), _rust, idempotent=None, protocols=()),
)
