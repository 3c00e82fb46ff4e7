"""Ids for consumers that register in ZooKeeper, and for their threads.

Source: `ZookeeperConsumerConnector` and `ConsumerThreadId` in Apache Kafka 1.1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

__all__ = ["ConsumerThread", "new_consumer_id"]

_UUID_BITS: Final = 64
_UUID_DIGITS: Final = 8

#: A thread number is an int32 that Kafka writes without leading zeros.
_THREAD: Final = re.compile("(?P<consumer_id>.+)-(?P<thread>0|[1-9][0-9]{0,9})", re.DOTALL)
_THREADS_MAX: Final = 1 << 31


def new_consumer_id(group_id: str, host: str, now_ms: int, random_bits: int) -> str:
    """Return an id for a member of a group, for example `group_host-1795881572997-a9b5ff47`.

    Args:
        group_id: the group.
        host: the name of this machine.
        now_ms: the time in ms since the epoch.
        random_bits: a 64-bit random number; its first eight hexadecimal digits are used.
    """
    digits = f"{random_bits % (1 << _UUID_BITS):x}"[:_UUID_DIGITS]
    return f"{group_id}_{host}-{now_ms}-{digits}"


class ConsumerThread(NamedTuple):
    """A thread of a consumer, which can own partitions. Kafka sorts threads by their text form.

    Attributes:
        consumer_id: the id of the group member.
        thread: the number of the thread within the member, from 0.
    """

    consumer_id: str
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.thread}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the content of a `CONSUMER_OWNER`.

        Raises:
            ValueError: the text does not end with a hyphen and a thread number.
        """
        found = _THREAD.fullmatch(text)
        if found is None or int(found["thread"]) >= _THREADS_MAX:
            raise ValueError(f"{text[:60]!r} does not end with a hyphen and a thread number")
        return cls(found["consumer_id"], int(found["thread"]))
