"""Services for logs: a disk, threads for blocking work, and timers.

Blocking work (syncing, creating and removing files, checkpoints) is handed to `background`; everything else, and all
state, stays on the request thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LogServices", "storage_error"]

logger = logging.getLogger("kafkawire.broker")


@dataclass(slots=True)
class LogServices:
    """The services that logs need.

    Attributes:
        disk: holds the files.
        background: see `Background`.
        timers: schedule work for later.
        clock: returns the time in milliseconds, for `lines` and for retries.
        lines: writes log lines caused by clients, with repetitions suppressed.
    """

    disk: Disk
    background: Background = at_once
    timers: Timers = field(default_factory=Timers)
    clock: Callable[[], int] = lambda: 0
    lines: LogLimit = field(default_factory=lambda: LogLimit(logger))

    def tell_shortage(self, folder: str, error: Exception) -> None:
        """Report that work on a log will be retried later because no file descriptor was free."""
        where = self.disk.describe(folder)
        text = "%s: retrying later, since too few file descriptors are available (ulimit -n): %s"
        self.lines.error(("descriptors", where), self.clock(), text, where, error)


def storage_error(error: Exception) -> BrokerError:
    """Return the error that clients get after a disk failure."""
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
