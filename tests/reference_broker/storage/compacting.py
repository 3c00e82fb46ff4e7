"""Helpers that compact a log and return its content."""

from __future__ import annotations

from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs, Job
from kafkawire.reference_broker.storage.cleaning.compaction import Compacted, Compaction, CompactionServices
from kafkawire.reference_broker.storage.cleaning.log_to_clean import CompactionBounds, log_to_clean
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from kafkawire.sdk.records import RecordBatch
from tests.reference_broker.storage.produced_batches import NOW_MS, records_in

__all__ = ["batches_of", "compact", "entries_of", "latest_of"]


def compact(
    log: PartitionLog,
    services: LogServices,
    *,
    cleaned_to: int = 0,
    now_ms: int = NOW_MS,
    keys_bytes: int = 2**20,
    retired: list[str] | None = None,
) -> Compacted:
    """Compact a log whose background work happens immediately; return the result or raise the error."""
    bounds = CompactionBounds(cleaned_to, log.log_start_offset, log.last_stable_offset, log.recovery_point)
    to_clean = log_to_clean(log.segments, log.config, bounds, now_ms)
    paths: list[str] = [] if retired is None else retired
    tools = CompactionServices(services, BackgroundQueue(services.background), keys_bytes, paths.extend)
    results: list[Compacted] = []
    errors: list[Exception] = []

    def job() -> Job:
        results.append((yield from Compaction(tools, log, to_clean, now_ms).run()))

    BackgroundJobs().add(job(), errors.append)
    for error in errors:
        raise error
    return results[0]


def batches_of(log: PartitionLog) -> list[RecordBatch]:
    """Check the batches of a log, and return them."""
    batches = [RecordBatch(file.read(header.position, header.size_bytes)) for file, header in log.headers()]
    for batch in batches:
        batch.check_crc()
    return batches


def entries_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the offset, key and value of every record that is not a marker."""
    return [
        (
            record.offset,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
        )
        for batch in batches_of(log)
        if not batch.is_control
        for record in batch.records()
    ]


def latest_of(log: PartitionLog) -> dict[bytes, bytes]:
    """Return the latest value of each key, leaving out keys whose latest record is a tombstone."""
    latest = {bytes(key or b""): value for key, value in records_in(log)}
    return {key: bytes(value) for key, value in latest.items() if value is not None}
