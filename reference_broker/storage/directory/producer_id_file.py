"""The first unreserved producer id, in the file `producer-ids` of a single broker's data directory."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kafkawire.reference_broker.storage.checkpoints import PRODUCER_IDS, DamagedFile, read_properties
from kafkawire.reference_broker.storage.disk.disk import Disk, has_file, replace_file
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["ProducerIdFile", "write_next_producer_id"]

logger = logging.getLogger("kafkawire.broker")

_NEXT_PRODUCER_ID = "next.producer.id"

#: No broker ever assigns this many ids, so a higher id in a file is a sign of damage, and one in a log was made up by a
#: client.
_GIVEN_IDS_MAX = 2**62
_KNOWN_IDS_MAX = _GIVEN_IDS_MAX // 2

#: If the reservation of producer ids is lost, this many ids after those in the logs are skipped. Producers that have
#: not written yet may have these ids, and two producers with one id would look like a single producer that repeats
#: itself.
_SILENT_IDS = 2**32


class ProducerIdFile:
    """The reservations of producer ids.

    Args:
        disk: the data directory.
        known: the ids of all producers in the logs; read only if the file is lost.

    Raises:
        OSError: the disk failed.
    """

    def __init__(self, disk: Disk, known: Iterable[int]) -> None:
        self._disk = disk
        self._next = self._find(known)

    def _find(self, known: Iterable[int]) -> int:
        """Return the first unreserved id; if the file is lost, an id far above those in the logs."""
        where = self._disk.describe(PRODUCER_IDS)
        try:
            if not has_file(self._disk, PRODUCER_IDS):
                raise DamagedFile(where, "the file is missing")
            text = read_properties(self._disk, PRODUCER_IDS).get(_NEXT_PRODUCER_ID, "")
            if text.isdecimal() and len(text) <= len(str(_GIVEN_IDS_MAX)) and int(text) <= _GIVEN_IDS_MAX:
                return int(text)
            raise DamagedFile(where, f"{_NEXT_PRODUCER_ID} is {text!r:.40}")
        except DamagedFile as error:
            first = max((number for number in known if number <= _KNOWN_IDS_MAX), default=-1) + 1 + _SILENT_IDS
            logger.warning("%s; producer ids continue at %d, far above those in the logs", error, first)
            return first

    def reserve(self, count: int) -> int:
        """Reserve producer ids on disk, so they are never assigned twice, and return the first of them.

        Raises:
            OSError: the reservation could not be written.
        """
        first = self._next
        write_next_producer_id(self._disk, first + count)
        self._next = first + count
        return first


def write_next_producer_id(disk: Disk, number: int) -> None:
    """Replace the file, durably.

    Args:
        disk: the data directory.
        number: the first unreserved producer id.

    Raises:
        OSError: the disk failed.
    """
    replace_file(disk, PRODUCER_IDS, properties_content({_NEXT_PRODUCER_ID: number}))
