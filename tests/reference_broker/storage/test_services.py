"""Without threads, blocking work happens in place, and its failure is reported as from a thread."""

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices, at_once, one_by_one, storage_error
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_at_once():
    order = []
    at_once(lambda: order.append("work"), lambda error: order.append(error))
    assert order == ["work", None]


def test_failure_of_the_disk():
    error = OSError(5, "broken")
    told = []

    def work():
        raise error

    at_once(work, told.append)
    assert told == [error]


def test_storage_error_says_what_failed():
    error = storage_error(OSError(5, "gone"))
    assert (error.code, str(error)) == (ErrorCode.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR: [Errno 5] gone")


def test_defaults():
    one, other = LogServices(MemoryDisk()), LogServices(MemoryDisk())
    assert one.background is at_once
    assert one.timers is not other.timers


def test_one_by_one():
    order = []
    one_by_one([lambda: order.append(1), lambda: order.append(2)])
    assert order == [1, 2]
