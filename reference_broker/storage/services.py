"""What logs need from outside: a disk, a thread for what may block, and timers.

Work that blocks (syncing, creating and removing files, checkpoints) is handed to `background`; everything else, and
all state, stays where requests are handled.
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
    """What logs need from outside.

    Attributes:
        disk: where the files are.
        background: see `Background`.
        timers: for what is due later.
        clock: returns the time in milliseconds, for `lines` and for what is tried again.
        lines: what clients bring about is written by it, with repetitions held back.
    """

    disk: Disk
    background: Background = at_once
    timers: Timers = field(default_factory=Timers)
    clock: Callable[[], int] = lambda: 0
    lines: LogLimit = field(default_factory=lambda: LogLimit(logger))


def storage_error(error: Exception) -> BrokerError:
    """Return what clients are told of a disk that has failed."""
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
