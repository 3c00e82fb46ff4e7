"""Run a program that ends when its parent does: `python -I -S bound_process.py PARENT_PID COMMAND ARGUMENT…`.

This process asks the kernel to send it SIGKILL once its parent is gone, and is then replaced by the program. Only Linux
supports this. The file runs as a script, once for each member of a cluster, so it imports little.

Source: `PR_SET_PDEATHSIG` in prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["run_bound"]

_PR_SET_PDEATHSIG = 1


def run_bound(parent_pid: int, command: list[str]) -> None:
    """Replace this process with a program that ends when its parent does.

    Args:
        parent_pid: the present or former parent of this process.
        command: the program's path and its arguments.

    Raises:
        OSError: the program cannot be run.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent ended before the request
        return
    os.execv(command[0], command)


if __name__ == "__main__":
    run_bound(int(sys.argv[1]), sys.argv[2:])
