"""Records that wait until their topic is known, in the order of arrival; from any thread, without a lock.

The sender takes them by closing these arrivals and opening others. A record, or the end, takes the next place in one
step (`dict.setdefault`). So a record is either among those that were taken, or its thread learns of the end, and no
record overtakes another.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.producer.arguments import Held

__all__ = ["Arrivals", "End"]


class End(NamedTuple):
    """Why no more records are taken here.

    Attributes:
        partitions: how many the topic has; 0 while that is not known.
        others: the arrivals for records that must still wait; None if the topic was forgotten.
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
        """Add a record; return the end if these arrivals are closed."""
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
        """Close these arrivals if no record has arrived; return whether they are closed."""
        return self._places.setdefault(0, end) is end
