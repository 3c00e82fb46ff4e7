"""A member of a share group in a process: `python -m tools.soak.share_member BOOTSTRAP TOPIC FILE SEED OPTIONS`.

It accepts most records, and releases, rejects, renews or forgets the others, depending on the seed. Each delivery, each
acknowledgement and each outcome is written to the file, in a form that survives SIGKILL: deliveries and
acknowledgements before they can have an effect, outcomes once they are known. SIGTERM closes the consumer and ends the
process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any

from kafkawire import BrokerError, ShareConsumer, ShareDelivery, ShareDeliveryState
from kafkawire.errors import ConnectFailed, KafkaWireError

__all__ = ["ENTRY", "Event", "main"]

#: Partition, offset, event, delivery count, and the time in seconds on the system's monotonic clock.
ENTRY = Struct(">iqbhd")

#: How long a read waits; a signal is noticed afterwards.
READ_MS = 500

#: How long the last commit waits for a broker that may be away.
COMMIT_MS = 5_000

#: One read in this many is followed by a commit; other acknowledgements are sent with the next fetch.
COMMIT_ONE_IN = 4


class Event(IntEnum):
    """What happened to a record."""

    #: The application received it.
    DELIVERED = 0
    #: It is about to be accepted, rejected or released.
    ACCEPTED = 1
    REJECTED = 2
    RELEASED = 3
    #: A broker has confirmed that it is accepted, or rejected.
    ENDED = 4


#: How many records in a thousand are not accepted.
_PER_MILLE = {Event.REJECTED: 5, Event.RELEASED: 20}
_FORGOTTEN_PER_MILLE = 3
_RENEWED_PER_MILLE = 3

Delivery = ShareDelivery[bytes, bytes]


class ShareMember:
    """One member.

    Args:
        file: the descriptor of the file to write to.
        random: chooses what happens to each record.
    """

    def __init__(self, file: int, random: Random) -> None:
        self._file = file
        self._random = random
        self.is_ending = False
        #: What has been accepted or rejected, until the outcome is known.
        self._open: list[Delivery] = []

    async def read(self, consumer: ShareConsumer[bytes, bytes]) -> None:
        """Process records until the end; errors of the broker pass."""
        while not self.is_ending:
            try:
                found = await consumer.getmany(READ_MS)
                deliveries = [each for several in found.values() for each in several]
                self._note([(each, Event.DELIVERED) for each in deliveries])
                await self._acknowledge(deliveries)
                if not self._random.randrange(COMMIT_ONE_IN):
                    await consumer.commit()
            except KafkaWireError as error:
                print(f"{type(error).__name__}: {error}", flush=True)
                await asyncio.sleep(0.1)
            self.settle()

    async def _acknowledge(self, deliveries: list[Delivery]) -> None:
        chosen = [(each, self._event()) for each in deliveries]
        self._note([(each, event) for each, event in chosen if event is not None])
        for each, event in chosen:
            match event:
                case Event.ACCEPTED:
                    if self._random.randrange(1_000) < _RENEWED_PER_MILLE:
                        with suppress(BrokerError):  # the lock has run out; the acknowledgement will fail
                            await each.renew()
                    each.accept()
                case Event.REJECTED:
                    each.reject()
                case Event.RELEASED:
                    each.release()
            if event in (Event.ACCEPTED, Event.REJECTED):
                self._open.append(each)

    def _event(self) -> Event | None:
        number = self._random.randrange(1_000)
        for event, count in _PER_MILLE.items():
            if number < count:
                return event
            number -= count
        return None if number < _FORGOTTEN_PER_MILLE else Event.ACCEPTED

    def settle(self) -> None:
        """Write what has been confirmed since the last call."""
        self._note([(each, Event.ENDED) for each in self._open if each.state is ShareDeliveryState.CONFIRMED])
        self._open = [each for each in self._open if each.state is ShareDeliveryState.ACKNOWLEDGED]

    def _note(self, events: list[tuple[Delivery, Event]]) -> None:
        now_seconds = time.monotonic()
        entries = (
            ENTRY.pack(each.record.partition, each.record.offset, event, each.delivery_count, now_seconds)
            for each, event in events
        )
        if data := b"".join(entries):
            os.write(self._file, data)


async def _run(bootstrap: str, topic: str, member: ShareMember, options: dict[str, Any]) -> None:
    def end() -> None:
        member.is_ending = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    while not member.is_ending:
        consumer = ShareConsumer(bootstrap, topic, share_acknowledgement_mode="explicit", **options)
        try:
            await consumer.start()
        except ConnectFailed:  # the broker is away
            await asyncio.sleep(0.2)
            continue
        await member.read(consumer)
        with suppress(KafkaWireError):  # the broker is away; the outcome stays unknown
            await consumer.commit(COMMIT_MS)
        member.settle()
        await consumer.close()


def main(arguments: list[str]) -> int:
    """Read until SIGTERM."""
    bootstrap, topic, path, seed, options = arguments
    file = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(_run(bootstrap, topic, ShareMember(file, Random(seed)), json.loads(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
