"""A member of a group in a separate process: `python -m tools.soak.member BOOTSTRAP TOPIC FILE OPTIONS`.

For each record that is handed out, the partition, offset and time are written to the file before the next record is
requested, in a form that survives SIGKILL. SIGTERM closes the consumer and ends the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Any

from kafkawire import Consumer, TopicPartition

__all__ = ["ASSIGNED", "ENTRY", "LOST", "main"]

#: The entry for a record that was handed out: partition, offset, and the time in seconds on the system's monotonic
#: clock. A negative offset means that the partition was assigned or lost.
ENTRY = Struct(">iqd")
ASSIGNED, LOST = -1, -2


class _Listener:
    def __init__(self, file: int) -> None:
        self._file = file

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._note(partitions, ASSIGNED)

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        pass

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._note(partitions, LOST)

    def _note(self, partitions: frozenset[TopicPartition], event: int) -> None:
        for partition in partitions:
            os.write(self._file, ENTRY.pack(partition.partition, event, time.monotonic()))


async def _read(bootstrap: str, topic: str, file: int, options: dict[str, Any]) -> None:
    consumer = Consumer(bootstrap, topic, listener=_Listener(file), **options)
    closing: list[asyncio.Future[None]] = []
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: closing.append(asyncio.ensure_future(consumer.close()))
    )
    await consumer.start()
    async for record in consumer:
        os.write(file, ENTRY.pack(record.partition, record.offset, time.monotonic()))
    await asyncio.gather(*closing)


def main(arguments: list[str]) -> int:
    """Read until SIGTERM."""
    bootstrap, topic, path, options = arguments
    file = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(_read(bootstrap, topic, file, json.loads(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
