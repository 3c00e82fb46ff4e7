"""The ids of consumers that register in ZooKeeper, and of their threads.

Source: `ZookeeperConsumerConnector` and `ConsumerThreadId` in Apache Kafka 1.1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

__all__ = ["ConsumerThread", "new_consumer_id"]

_UUID_BITS: Final = 64
_UUID_DIGITS: Final = 8

#: The number of a thread is an int32, and Kafka writes it without leading zeros.
_THREAD: Final = re.compile("(?P<consumer_id>.+)-(?P<thread>0|[1-9][0-9]{0,9})", re.DOTALL)
_THREADS_MAX: Final = 1 << 31


def new_consumer_id(group_id: str, host: str, now_ms: int, random_bits: int) -> str:
    """Return an id for a member of a group, as in `group_host-1795881572997-a9b5ff47`.

    Args:
        group_id: the group.
        host: the name of this machine.
        now_ms: ms since epoch.
        random_bits: a random number of 64 bits; its first eight hexadecimal digits are used.
    """
    digits = f"{random_bits % (1 << _UUID_BITS):x}"[:_UUID_DIGITS]
    return f"{group_id}_{host}-{now_ms}-{digits}"


class ConsumerThread(NamedTuple):
    """A thread of a consumer, the owner of a partition. Kafka sorts threads by their text.

    Attributes:
        consumer_id: the member of the group.
        thread: its number in the member, from 0.
    """

    consumer_id: str
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.thread}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of a `CONSUMER_OWNER`.

        Raises:
            ValueError: the text does not end with a hyphen and the number of a thread.
        """
        found = _THREAD.fullmatch(text)
        if found is None or int(found["thread"]) >= _THREADS_MAX:
            raise ValueError(f"{text[:60]!r} does not end with a hyphen and the number of a thread")
        return cls(found["consumer_id"], int(found["thread"]))
