"""The reserves of file descriptors of this process: for files, connections, and short-lived uses.

Clients that used up all descriptors would prevent records from being stored and topics from being created; logs that
used them up would lock out even an administrator who wants to delete topics. From the top of the process's limit:

    an eighth       is unavailable to connections: new segments and background threads need it
    half of that    is unavailable to log files, too
    half of these   is still available to the first connections; the rest is for short-lived files
"""

from __future__ import annotations

__all__ = ["few_connections", "kept_for_files", "kept_from_logs"]

#: Background threads need a dozen, and each new segment one. A process with few descriptors keeps a quarter, so that at
#: least some clients can connect.
_SHARE, _MIN, _MAX = 8, 32, 1_024
_SHARE_OF_FEW = 4


def kept_for_files(limit: int) -> int:
    """Return the number of descriptors that are unavailable to connections.

    Args:
        limit: the limit of the process.
    """
    return min(max(limit // _SHARE, _MIN), _MAX, limit // _SHARE_OF_FEW)


def kept_from_logs(limit: int) -> int:
    """Return the number of descriptors unavailable to files that stay open; for the argument see `kept_for_files`."""
    return kept_for_files(limit) // 2


def few_connections(limit: int) -> int:
    """Return the number of connections allowed whatever files are open; for the argument see `kept_for_files`."""
    return kept_from_logs(limit) // 2
