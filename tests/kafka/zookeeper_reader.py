"""A program that reads as a member of a group in ZooKeeper until SIGTERM: TOPIC OPTIONS

OPTIONS are the consumer's options as JSON; with `pattern` or `excluded_pattern`, it reads the matching topics instead.

It prints a line for each record and for each change to its partitions, with the machine's monotonic time:

    r VALUE
    + NANOSECONDS PARTITION…
    - NANOSECONDS PARTITION…
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

from kafkawire import Consumer, TopicPartition

__all__: list[str] = []


class _Listener:
    """Prints each event that it receives."""

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        _show("+", partitions)

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        _show("-", partitions)

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        _show("-", partitions)


def _show(sign: str, partitions: frozenset[TopicPartition]) -> None:
    print(sign, time.monotonic_ns(), *sorted(each.partition for each in partitions), flush=True)


async def _read(topic: str, options: dict[str, Any]) -> None:
    patterns = {name: options.pop(name, None) for name in ("pattern", "excluded_pattern")}
    consumer = Consumer(options.pop("bootstrap_servers"), listener=_Listener(), **options)
    closing: list[asyncio.Task[None]] = []
    async with consumer:
        await consumer.subscribe(*(() if any(patterns.values()) else (topic,)), **patterns)

        def end() -> None:
            closing.append(asyncio.create_task(consumer.close()))

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        async for record in consumer:
            print("r", (record.value or b"").decode(), flush=True)
        for task in closing:
            await task


if __name__ == "__main__":
    asyncio.run(_read(sys.argv[1], json.loads(sys.argv[2])))
