"""A data directory belongs to one broker, whose identity is written last and survives any crash.

Method: test the file alone, on an in-memory disk; `test_log_directory.py` tests complete startups.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.directory.identity import read_identity, take_identity_alone, write_identity
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.storage.meta_properties import WITH_BROKER_ID, WITH_NODE_ID, MetaProperties

FIRST, SECOND = b"1" * 16, b"2" * 16


def taken(disk: MemoryDisk, node_id: int = 7) -> MetaProperties:
    uuids = iter((FIRST, SECOND))
    return take_identity_alone(disk, node_id, lambda: next(uuids))


def test_new_directory_begins_a_cluster() -> None:
    disk = MemoryDisk()
    assert read_identity(disk) is None
    identity = MetaProperties(format_uuid(FIRST), "7", format_uuid(SECOND), WITH_NODE_ID)
    assert taken(disk) == read_identity(disk) == identity
    assert read_file(disk, "producer-ids") == b"next.producer.id=0\n"
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n0\n"


def test_known_directory_is_not_written_again() -> None:
    disk = MemoryDisk()
    identity = taken(disk)
    write_file(disk, "producer-ids", b"next.producer.id=1000\n")
    assert taken(disk) == identity
    assert read_file(disk, "producer-ids") == b"next.producer.id=1000\n"


def test_identity_comes_after_the_files_that_it_vouches_for() -> None:
    disk = MemoryDisk()
    taken(disk)
    for number in range(1, disk.calls + 1):
        for seed in range(4):
            disk = MemoryDisk()
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                taken(disk)
            disk = disk.crash(seed)
            if read_identity(disk) is not None:
                assert {"producer-ids", "recovery-point-offset-checkpoint"} < {*disk.names("")}


def test_directory_of_another_broker_is_refused() -> None:
    disk = MemoryDisk()
    taken(disk, 1)
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        taken(disk, 2)


def test_directory_of_a_broker_with_zookeeper_is_refused() -> None:
    disk = MemoryDisk()
    write_identity(disk, MetaProperties("cluster", "7", "", WITH_BROKER_ID))
    with pytest.raises(ConfigurationError, match="the data directory belongs to a broker in a ZooKeeper cluster"):
        taken(disk, 7)


def test_identity_that_is_missing_or_damaged_is_refused() -> None:
    disk = MemoryDisk()
    disk.make_folder("t-0")
    with pytest.raises(DamagedFile, match="the file is missing, although the data directory has partitions"):
        taken(disk)
    write_file(disk, "meta.properties", b"node.id=7\n")
    with pytest.raises(DamagedFile, match=r"it has no cluster\.id"):
        taken(disk)


def test_written_identity_is_durable() -> None:
    disk = MemoryDisk()
    identity = MetaProperties("cluster", "3", "directory", WITH_BROKER_ID)
    write_identity(disk, identity)
    for seed in range(4):
        assert read_identity(disk.crash(seed)) == identity
