"""Logs get default services, and a disk failure becomes a storage error that says what failed."""

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_storage_error_says_what_failed():
    error = storage_error(OSError(5, "gone"))
    assert (error.code, str(error)) == (ErrorCode.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR: [Errno 5] gone")


def test_defaults():
    one, other = LogServices(MemoryDisk()), LogServices(MemoryDisk())
    assert one.background is at_once
    assert one.timers is not other.timers
