"""Whom the last file descriptors of this process are kept for: files, connections, and what is open for a moment.

Clients that use up all of them would keep records from being stored, and topics from being created; logs that do would
keep even the administrator out who comes to delete topics. From the top of what the process may have:

    an eighth       is kept from connections: new segments, and the threads in the background, need it
    half of that    is kept from the files of logs, too
    half of these   the first connections may take nevertheless; the rest is for files that are open for a moment
"""

from __future__ import annotations

__all__ = ["few_connections", "kept_for_files", "kept_from_logs"]

#: The threads in the background need a dozen, each new segment one. A process with few of them keeps a quarter, so that
#: somebody can connect at all.
_SHARE, _MIN, _MAX = 8, 32, 1_024
_SHARE_OF_FEW = 4


def kept_for_files(limit: int) -> int:
    """Return how many descriptors are kept from connections.

    Args:
        limit: how many the process may have.
    """
    return min(max(limit // _SHARE, _MIN), _MAX, limit // _SHARE_OF_FEW)


def kept_from_logs(limit: int) -> int:
    """Return how many descriptors are kept from files that stay open; the argument is that of `kept_for_files`."""
    return kept_for_files(limit) // 2


def few_connections(limit: int) -> int:
    """Return how many connections there may be whatever files are open; the argument is that of `kept_for_files`."""
    return kept_from_logs(limit) // 2
