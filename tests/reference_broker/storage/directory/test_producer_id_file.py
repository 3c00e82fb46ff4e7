"""Producer ids are reserved durably; if the file is lost, they continue far after those in the logs.

Method: test the file alone, on an in-memory disk; `test_damaged_directory.py` tests damaged files in a complete
directory.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.directory.producer_id_file import ProducerIdFile, write_next_producer_id
from kafkawire.reference_broker.storage.disk.disk import write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at


def test_reservations_are_durable_and_follow_each_other() -> None:
    disk = MemoryDisk()
    write_next_producer_id(disk, 0)
    ids = ProducerIdFile(disk, ())
    assert [ids.reserve(1000) for _ in range(3)] == [0, 1000, 2000]
    for seed in range(4):
        assert ProducerIdFile(disk.crash(seed), ()).reserve(1) == 3000


def test_reservation_that_fails_is_none() -> None:
    disk = MemoryDisk()
    write_next_producer_id(disk, 0)
    ids = ProducerIdFile(disk, ())
    disk.plan = fail_at(disk.calls + 1)
    with pytest.raises(OSError, match="planned"):
        ids.reserve(1000)
    assert ids.reserve(1000) == 0


@pytest.mark.parametrize("content", [None, b"", b"next.producer.id=-1\n", b"next.producer.id=4611686018427387905\n"])
@pytest.mark.parametrize(
    ("known", "first"), [((), 2**32), ((5, 1700), 1701 + 2**32), ((5, 2**61 + 1, 2**63 - 1), 6 + 2**32)]
)
def test_ids_after_a_loss(content: bytes | None, known: tuple[int, ...], first: int) -> None:
    disk = MemoryDisk()
    if content is not None:
        write_file(disk, "producer-ids", content)
    assert ProducerIdFile(disk, known).reserve(10) == first
    assert ProducerIdFile(disk, ()).reserve(10) == first + 10
