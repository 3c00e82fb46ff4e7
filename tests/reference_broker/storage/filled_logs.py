"""Logs of numbered batches on real files, and functions that read them."""

import dataclasses

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.records import walk
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in

__all__ = ["CONFIG", "SMALL", "append", "batches_read", "damage_a_length", "filled", "opened", "values"]

CONFIG = dataclasses.replace(log_config({}), index_interval_bytes=100)
SMALL = dataclasses.replace(CONFIG, segment_bytes=500)


def opened(folder, config, background=at_once, **arguments):
    disk = MachineDisk(folder.parent)
    disk.make_folder(folder.name)
    return PartitionLog(LogServices(disk, background), folder.name, config, **arguments)


def append(log, *values, now_ms=NOW_MS, **fields):
    """Append a batch; return the result, or raise the error."""
    data = produced(*values, **fields)
    results = []
    log.append(data, parse_header(data), now_ms, results.append)
    (result,) = results
    if isinstance(result, BrokerError):
        raise result
    return result


def filled(folder, config=SMALL, batches=30):
    log = opened(folder, config)
    for number in range(batches):
        append(log, b"%d" % number, b"x" * 20, timestamps=(NOW_MS + number, NOW_MS + number))
    return log


def values(log):
    found = []
    for _, value in records_in(log):
        assert value is not None
        found.append(bytes(value))
    return found


def batches_read(read):
    """Return the batches in the result of a read; there must be at least one."""
    assert read.records is not None
    return list(walk(read.records.read()))


def damage_a_length(path):
    """Damage the length of a segment's first batch so that it ends beyond the end of the file."""
    content = bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(content)
