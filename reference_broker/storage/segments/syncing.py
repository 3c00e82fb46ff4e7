"""Make segments durable, on any thread, and remember a failure.

After a failed sync, the operating system considers the pages written, so every later sync succeeds without writing
them. A file in the folder records the failure, and the next startup rewrites the affected segments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kafkawire.reference_broker.storage.disk.disk import Disk, is_short_of_descriptors
from kafkawire.reference_broker.storage.segments.segment import Segment

__all__ = ["SYNC_FAILED", "make_durable"]

#: The file that records a failed sync.
SYNC_FAILED = ".sync-failed"


def make_durable(
    disk: Disk, folder: str, sealed: Sequence[Segment], others: Sequence[Segment], *, with_names: bool
) -> None:
    """Make segments durable.

    Args:
        disk: holds the segments.
        folder: the partition's folder.
        sealed: complete segments, to be stored with their indexes.
        others: segments whose batches and transaction index have to be durable.
        with_names: whether there are new names in the folder.

    Raises:
        OSError: the disk failed, or no file descriptor was free, in which case the sync can be retried.
    """
    try:
        for segment in sealed:
            with_names |= segment.sync(with_indexes=True)
        for segment in others:
            with_names |= segment.sync(with_indexes=False)
        if with_names:
            disk.sync_folder(folder)
    except OSError as error:
        if is_short_of_descriptors(error):
            raise
        with contextlib.suppress(OSError):
            disk.open(f"{folder}/{SYNC_FAILED}", create=True)
        raise
