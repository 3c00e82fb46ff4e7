"""Checkpoint files of a broker are read as a broker reads them: a damaged one says nothing."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.spark.segments.checkpoints import data_folder, parse_checkpoint


def test_what_it_says() -> None:
    assert parse_checkpoint(b"0\n2\nt 0 20\nt-x 1 7\n") == {TopicPartition("t", 0): 20, TopicPartition("t-x", 1): 7}
    assert parse_checkpoint(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "content", [b"", b"0", b"1\n1\nt 0 20\n", b"0\n2\nt 0 20\n", b"0\n1\nt 0\n", b"0\n1\nt 0 x\n", b"\xff\n1\nt 0 20\n"]
)
def test_damage(content: bytes) -> None:
    assert parse_checkpoint(content) == {}


def test_where_it_is() -> None:
    assert data_folder("/data/t-0/00000000000000000000.log") == "/data"
