"""The metrics of the process are plausible, and missing where the system does not tell them.

Method: compare with what Python itself says about this process.
"""

from __future__ import annotations

import os
import resource

from kafkawire.reference_broker.metrics import process_metrics as module
from kafkawire.reference_broker.metrics.process_metrics import process_metrics


def values() -> dict[str, float]:
    return {family.name: samples[0].value for family, samples in process_metrics()}


def test_this_process():
    before = sum(os.times()[:2])
    found = values()
    assert before <= found["process_cpu_seconds"] <= sum(os.times()[:2])
    highest_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 1_000_000 < found["process_resident_memory_bytes"] <= highest_bytes * 1.1
    assert 3 <= found["process_open_fds"] <= found["process_max_fds"]


def test_what_is_unknown_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PAGES", tmp_path / "missing")
    monkeypatch.setattr(module, "open_descriptors", lambda: None)
    assert set(values()) == {"process_cpu_seconds", "process_max_fds"}
