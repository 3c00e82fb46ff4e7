"""Records that wait until their topic is known, as they arrive: from any thread, without a lock.

The sender takes them away by closing this and opening another. A record takes the next place, or the end does, in one
step (`dict.setdefault`): so each record is either among those that were taken away, or its thread hears what has come
instead, and no record overtakes another.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.producer.contents import Held

__all__ = ["Arrivals", "End"]


class End(NamedTuple):
    """Why no more records are taken here.

    Attributes:
        partitions: that the topic has now; 0 while that is not known.
        others: take those that must still wait; None if the topic was forgotten.
    """

    partitions: int
    others: Arrivals | None


class Arrivals:
    """Records in the order of their arrival, until it is closed."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, Held | End] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, record: Held) -> bool:
        return record in self._places.values()

    def add(self, record: Held) -> End | None:
        """Take a record; return why not if it was closed before."""
        places = self._places
        while True:
            place = len(places)
            last = places[place - 1] if place else None
            found = last if isinstance(last, End) else places.setdefault(place, record)
            if found is record:
                return None
            if isinstance(found, End):
                return found

    def close(self, end: End) -> list[Held]:
        """Take no more records, and return those that have arrived."""
        while self._places.setdefault(len(self._places), end) is not end:
            pass  # a record has arrived
        return [each for each in self._places.values() if isinstance(each, Held)]

    def close_if_empty(self, end: End) -> bool:
        """Take no records if none has arrived; return whether that is so."""
        return self._places.setdefault(0, end) is end
