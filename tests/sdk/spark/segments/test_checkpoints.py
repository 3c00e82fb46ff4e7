"""Checkpoint files are read as a broker reads them; a damaged file is logged and ignored."""

from __future__ import annotations

import pytest

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.storage import data_folder, offsets_in


def test_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    assert offsets_in(b"0\n2\nt 0 20\nt-x 1 7\n", "/c") == {TopicPartition("t", 0): 20, TopicPartition("t-x", 1): 7}
    assert offsets_in(b"0\n0\n", "/c") == offsets_in(b"", "/c") == {}
    assert not caplog.records


def test_damage(caplog: pytest.LogCaptureFixture) -> None:
    assert offsets_in(b"0\n1\nt 0 20", "/data/c") == {}
    assert "/data/c is damaged and ignored: its last line is incomplete" in caplog.text


def test_where_it_is() -> None:
    assert data_folder("/data/t-0/00000000000000000000.log") == "/data"
