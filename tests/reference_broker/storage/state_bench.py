"""A log on an in-memory disk; the test holds back its background work."""

import dataclasses

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, values_in

__all__ = ["ROLLING", "SYNCING", "Bench"]

#: A configuration that rolls after every fourth batch.
ROLLING = dataclasses.replace(log_config({}), index_interval_bytes=0, segment_bytes=4 * len(produced(b"v")))
SYNCING = dataclasses.replace(log_config({}), flush_messages=1)


class Bench:
    """A log on an in-memory disk."""

    def __init__(self, config, disk=None, **arguments):
        self.disk = disk or MemoryDisk()
        self.disk.make_folder("t-0")
        self.work = HeldWork()
        self.services = LogServices(self.disk, self.work)
        self.log = PartitionLog(self.services, "t-0", config, **arguments)
        self.replica = leading(self.log)
        self.results = []
        self.reached = []

    def append(self, value=b"v", now_ms=NOW_MS):
        data = produced(value)
        self.log.append(data, parse_header(data), now_ms, self._done)

    def _done(self, result):
        self.results.append(result)
        if isinstance(result, Appended):
            offset = result.last_offset + 1
            self.replica.when_reached(offset, lambda error: self.reached.append((offset, error and error.code)))

    def syncs(self, run):
        """Return the paths of the files that `run` syncs."""
        paths = []
        self.disk.plan = lambda call: paths.append(call.path) if call.name == "sync" else None
        run()
        self.disk.plan = None
        return paths

    def values(self, offset=0):
        read = self.log.read(offset, 10_000, at_least_one=True)
        return [] if read.records is None else values_in(read.records.read())
