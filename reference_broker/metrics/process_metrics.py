"""The process: CPU time, memory, and open files, with the names that Prometheus' own clients use."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkawire.reference_broker.metrics.exposition import Measured, Sample
from kafkawire.reference_broker.metrics.families import FAMILIES
from kafkawire.reference_broker.network.descriptors import open_descriptors

__all__ = ["process_metrics"]

#: On Linux, the second number is the number of pages in RAM; elsewhere, the file does not exist.
_PAGES: Final = Path("/proc/self/statm")


def process_metrics() -> Iterator[Measured]:
    """Yield the current values; those that the system does not tell are missing."""
    used = os.times()
    yield Measured(FAMILIES["cpu"], (Sample(used.user + used.system),))
    try:
        pages = int(_PAGES.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        pass
    else:
        yield Measured(FAMILIES["resident"], (Sample(pages * resource.getpagesize()),))
    count = open_descriptors()
    if count is not None:
        yield Measured(FAMILIES["open_files"], (Sample(count),))
    yield Measured(FAMILIES["open_files_max"], (Sample(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),))
