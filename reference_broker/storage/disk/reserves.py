"""This process's file descriptor reserves: for files, connections, and short-lived uses.

If clients used up all descriptors, no records could be stored and no topics created. If logs used them up, even an
administrator who wants to delete topics would be locked out. Counting down from the process's limit:

    an eighth       is unavailable to connections: new segments and background threads need it
    half of that    is unavailable to log files as well
    half of those   remain available to the first connections; the rest is for short-lived files
"""

from __future__ import annotations

__all__ = ["few_connections", "kept_for_files", "kept_from_logs"]

#: Background threads need a dozen, and each new segment needs one. A process with few descriptors reserves only a
#: quarter, which leaves enough for some clients to connect.
_SHARE, _MIN, _MAX = 8, 32, 1_024
_SHARE_OF_FEW = 4


def kept_for_files(limit: int) -> int:
    """Return the number of descriptors that are unavailable to connections.

    Args:
        limit: the maximum number of descriptors of the process.
    """
    return min(max(limit // _SHARE, _MIN), _MAX, limit // _SHARE_OF_FEW)


def kept_from_logs(limit: int) -> int:
    """Return the number of descriptors unavailable to files that stay open; see `kept_for_files` for the argument."""
    return kept_for_files(limit) // 2


def few_connections(limit: int) -> int:
    """Return how many connections are allowed regardless of open files; see `kept_for_files` for the argument."""
    return kept_from_logs(limit) // 2
