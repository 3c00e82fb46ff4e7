"""A single broker reserves blocks of producer ids in a file, without blocking.

Method: use background work that waits for the test, and a disk that fails.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.producer_id_blocks import BLOCK_IDS, LocalProducerIdBlocks
from kafkawire.reference_broker.storage.directory.producer_id_file import ProducerIdFile, write_next_producer_id
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.held_work import HeldWork


def blocks_on(disk: MemoryDisk, work: HeldWork) -> LocalProducerIdBlocks:
    return LocalProducerIdBlocks(ProducerIdFile(disk, ()), LogServices(disk, work))


def test_blocks_come_from_the_background_and_follow_each_other() -> None:
    disk, work, given = MemoryDisk(), HeldWork(), list[range | BrokerError]()
    write_next_producer_id(disk, 5000)
    blocks = blocks_on(disk, work)
    for _ in range(2):
        blocks.reserve(given.append)
    assert not given
    work.run()
    assert given == [range(5000, 5000 + BLOCK_IDS), range(5000 + BLOCK_IDS, 5000 + 2 * BLOCK_IDS)]
    assert ProducerIdFile(disk.crash(0), ()).reserve(1) == 5000 + 2 * BLOCK_IDS


def test_a_failed_disk_is_an_error_for_the_client() -> None:
    disk, work, given = MemoryDisk(), HeldWork(), list[range | BrokerError]()
    write_next_producer_id(disk, 0)
    blocks = blocks_on(disk, work)
    disk.plan = fail_at(disk.calls + 1)
    blocks.reserve(given.append)
    work.run()
    (error,) = given
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.plan = None
    blocks.reserve(given.append)
    work.run()
    assert given[1:] == [range(BLOCK_IDS)]
