"""Files that must be durable are synced in order, and a failure is recorded on the disk.

Method: record the calls to an in-memory disk.
"""

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.syncing import make_durable
from tests.reference_broker.storage.produced_batches import produced


@pytest.fixture
def disk():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    return disk


def segments(disk):
    config = log_config({"index.interval.bytes": "0"})
    first, second = (Segment.create(disk, "t-0", base, config) for base in (0, 5))
    for offset in range(2):
        data = produced(b"x")
        first.append(data, parse_header(data), offset)
    first.seal()
    return first, second


@pytest.mark.parametrize("with_names", [True, False])
def test_calls(disk, with_names):
    first, second = segments(disk)
    calls = []
    disk.plan = lambda call: calls.append((call.name, call.path)) if "sync" in call.name else None
    make_durable(disk, "t-0", [first], [second], with_names=with_names)
    assert calls == [
        ("sync", f"t-0/{0:020}.log"),
        ("sync", f"t-0/{0:020}.index.tmp"),
        ("sync", f"t-0/{0:020}.timeindex.tmp"),
        ("sync", f"t-0/{5:020}.log"),
        *([("sync_folder", "t-0")] if with_names else []),
    ]


@pytest.mark.parametrize("number", range(1, 10))
def test_failure_leaves_a_file_behind(disk, number):
    first, second = segments(disk)
    disk.plan = fail_at(disk.calls + number)
    with pytest.raises(OSError, match="planned"):
        make_durable(disk, "t-0", [first], [second], with_names=True)
    assert ".sync-failed" in disk.names("t-0")


def test_disk_that_is_gone_altogether(disk):
    first, second = segments(disk)

    def plan(call):
        raise OSError(5, f"gone at {call.name}")

    disk.plan = plan
    with pytest.raises(OSError, match="gone at sync"):
        make_durable(disk, "t-0", [first], [second], with_names=True)
