"""Control when Apache Kafka's log cleaner runs, and wait for it or for any other condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.kafka.apache import ApacheKafka, run_tool

__all__ = ["alter", "cleaned_to", "until", "until_async"]

TIMEOUT_SECONDS = 60
PAUSE_SECONDS = 0.02


def alter(node: ApacheKafka, topic: str, configs: dict[str, str]) -> None:
    """Change the configuration of a topic."""
    entries = ",".join(f"{name}={value}" for name, value in configs.items())
    where = ("--bootstrap-server", node.bootstrap, "--entity-type", "topics", "--entity-name", topic)
    result = run_tool("kafka.admin.ConfigCommand", *where, "--alter", "--add-config", entries)
    assert result.returncode == 0, result.stderr


def until(is_so: Callable[[], bool], what: str | Callable[[], str], timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait until a condition holds; on timeout, fail with `what`, or with its result if it is a function."""
    deadline = time.monotonic() + timeout_seconds
    while not is_so():
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(PAUSE_SECONDS)


async def until_async(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    """Like `until`, but on an event loop."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not await is_so():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(PAUSE_SECONDS)


def cleaned_to(node: ApacheKafka, topic: str) -> int:
    """Return the offset up to which the first partition of a topic is cleaned."""
    file = node.data_dir / "cleaner-offset-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    return next((int(line.split(" ")[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)
