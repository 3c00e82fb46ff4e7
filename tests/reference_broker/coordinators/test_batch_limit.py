"""The records of a request must fit into one batch in the topic; records from timers and deletions are not limited.

Method: use a partition with an in-memory log.
"""

from __future__ import annotations

from kafkawire.reference_broker.coordinators.partition import CoordinatorPartition
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog, record

NAME = "x" * 900


def written(*records: CoordinatorRecord) -> tuple[ErrorCode | None, dict[str, int]]:
    """Have a request write records after `NAME` was set to 1; return its error and the shard's numbers."""
    log = MemoryLog()
    log.max_batch_bytes = 1_000
    partition = CoordinatorPartition("topic-0", log, Timers(), CountingShard)
    partition.load(0)
    replies: list[object] = []
    for each in ([record(NAME, 1)], records):
        partition.submit(lambda shard, each=each: Result(None, each), replies.append, 0)
    first, second = replies
    assert first is None
    return second.code if isinstance(second, BrokerError) else None, partition.shard.numbers


def test_one_record_or_all_together_are_too_large() -> None:
    too_large = ErrorCode.UNKNOWN_SERVER_ERROR, {NAME: 1}
    assert written(record("y" * 1_000, 1)) == too_large
    assert written(record(NAME, 2), record("y" * 100, 1)) == too_large
    assert written(record(NAME, 2), record("y", 1)) == (None, {NAME: 2, "y": 1})


def test_what_only_deletes() -> None:
    assert written(record(NAME, None), record("y" * 1_000, None)) == (None, {})


def test_what_nobody_has_asked_for() -> None:
    log, timers = MemoryLog(), Timers()
    log.max_batch_bytes = 1_000
    partition = CoordinatorPartition("topic-0", log, timers, CountingShard)
    partition.load(0)
    partition.submit(lambda shard: shard.add_later(NAME * 2, 5, 10), lambda reply: None, 0)
    timers.fire(10)
    assert partition.shard.numbers == {NAME * 2: 5}
