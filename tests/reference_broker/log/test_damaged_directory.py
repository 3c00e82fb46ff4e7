"""Damage to a file of the data directory is told at the start: what can be restored is, and no partition stops another.

Method: directories on real files, damaged while they are closed.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.disk.machine import MachineDisk
from kafkawire.reference_broker.log.batches import parse_header
from tests.reference_broker.log.directories import create, on
from tests.reference_broker.log.produced_batches import NOW_MS, produced


@pytest.fixture
def reopen(tmp_path):
    last: list[Any] = []

    def reopen():
        if last:
            last.pop().abandon()
        last.append(on(MachineDisk(tmp_path)))
        return last[0]

    return reopen


def append_by(producer_id, log):
    data = produced(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(20), b"\xff\xfe", b"next.producer.id=1x\n", b"next.producer.id=" + b"9" * 5000, b"other=1\n"],
    ids=["empty", "zeros", "binary", "no number", "too high", "another name"],
)
def test_reservation_of_producer_ids_is_rebuilt(reopen, tmp_path, caplog, content):
    append_by(1700, create(reopen(), "t").logs[0])
    (tmp_path / "producer-ids").write_bytes(content)
    directory = reopen()
    assert "producer-ids is damaged" in caplog.text
    assert "producer ids go on at 1701, after those in the logs" in caplog.text
    assert directory.reserve_producer_ids(1000) == 1701
    assert reopen().reserve_producer_ids(1000) == 2701


def test_folder_in_place_of_the_reservation_of_producer_ids(reopen, tmp_path):
    reopen()
    (tmp_path / "producer-ids").mkdir()
    with pytest.raises(IsADirectoryError, match="producer-ids"):
        reopen()
