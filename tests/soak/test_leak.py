"""A short run covers every kind of work and measures memory."""

from __future__ import annotations

import mmap

import pytest

from kafkawire.testing import Broker
from tools.soak import leak


def test_memory_is_that_of_this_process() -> None:
    kept = mmap.mmap(-1, 64 << 20)  # new pages, however much spare memory the allocator has
    before = leak.resident_bytes()
    kept[:] = bytes(1) * len(kept)
    assert leak.resident_bytes() - before > len(kept) // 2


@pytest.mark.thorough
def test_a_short_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(leak, "GROWTH_MAX", 10)
    with Broker() as broker:
        assert leak.main(["--seconds", "3", "--bootstrap", broker.bootstrap]) == 0
    assert "MB at the end" in capsys.readouterr().out
