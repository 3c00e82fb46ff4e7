"""Read the record of a cluster that another process runs or has run, and act on its members.

Each command first looks for the supervisor. If there is none, it kills any members left by a killed supervisor and
corrects `cluster.json`.
"""

from __future__ import annotations

import os
import time
from typing import Final

from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder, ClusterRecord
from kafkawire.local_cluster.control import request_action
from kafkawire.local_cluster.supervisor import end_left_members

__all__ = ["act_on", "current_record"]

#: A supervisor accepts requests a few milliseconds after taking the lock, and releases the lock just as quickly after
#: the last request.
_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.02


def current_record(folder: ClusterFolder) -> tuple[ClusterRecord, bool]:
    """Return the content of `cluster.json`, and whether a supervisor keeps it up to date.

    Raises:
        ClusterError: there is no cluster in the folder, or the file is damaged.
        OSError: the file cannot be read or corrected.
    """
    if not folder.path.is_dir():
        raise ClusterError(f"there is no cluster in {folder.path}")
    lock = folder.lock(0)
    try:
        record = folder.read() if lock is None else end_left_members(folder)
    finally:
        if lock is not None:
            os.close(lock)
    if record is None:
        raise ClusterError(f"there is no cluster in {folder.path}")
    return record, lock is None


def act_on(folder: ClusterFolder, action: str, member: str | None) -> None:
    """Perform an action on a member of a running cluster, and wait until it is complete.

    Args:
        folder: the folder of the cluster.
        action: kill, stop, pause, resume or restart.
        member: a broker's id, or "zookeeper"; None to stop the whole cluster.

    Raises:
        ClusterError: no cluster is running there, the cluster refused, or the action failed.
        OSError: the folder cannot be read.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _request(folder, action, member):
        if time.monotonic() > deadline:
            raise ClusterError(f"the cluster in {folder.path} does not accept requests")
        time.sleep(_PAUSE_SECONDS)
    if member is None:  # wait until the supervisor's process has released the folder
        lock = folder.lock(_PATIENCE_SECONDS)
        if lock is not None:
            os.close(lock)


def _request(folder: ClusterFolder, action: str, member: str | None) -> bool:
    _, runs = current_record(folder)
    if not runs:
        raise ClusterError(f"no cluster is running in {folder.path}")
    return request_action(folder, action, member)
