"""Measure a broker's work on a produced batch before writing it: checks, checksum and stamping.

The batches have 16 and 256 KiB with records of 100 B and 1 KiB, uncompressed, and 16 KiB with every compression type;
values are random hexadecimal digits. `validate and stamp` is the complete work for a topic's configuration;
`idempotent` also checks and updates the log's producers. The same bytes are stamped repeatedly, which does not affect
the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from benchmarks.goals import Goal
from benchmarks.timing import best_seconds
from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.log.validation import validate
from kafkawire.reference_broker.storage.producers.producers import Producers
from kafkawire.sdk.records import BatchBuilder, Compression, stamp
from kafkawire.sdk.records.engines.selection import native
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.produced import ProduceLimits, check_batch

__all__ = ["CASES", "Result", "goals", "measure", "tables"]

#: Batch size, value size, and compression type.
CASES = (
    (16 * 1024, 100, Compression.NONE),
    (16 * 1024, 1024, Compression.NONE),
    (256 * 1024, 100, Compression.NONE),
    (256 * 1024, 1024, Compression.NONE),
    *((16 * 1024, 100, codec) for codec in Compression if codec != Compression.NONE),
)

_NATIVE = "native check_batch"
_PYTHON = "python check_batch"
_ALL = "validate and stamp"
_IDEMPOTENT = "idempotent"

#: Time limit in µs for the complete work on an uncompressed 16 KiB batch of 100 B records.
_LIMIT_US = 25.0

_NOW_MS = 1_790_000_000_000
_LIMITS = ProduceLimits(INT32_MAX, False, False, 2**63 - 1, 3_600_000)
_MICROSECONDS = 1_000_000


class Result(NamedTuple):
    """The times for one batch.

    Attributes:
        name: the name of the case.
        records_count: the number of records in the batch.
        size_bytes: the size of the batch.
        seconds: the times, keyed by kind of work.
    """

    name: str
    records_count: int
    size_bytes: int
    seconds: dict[str, float]


def measure(batch_bytes: int, value_bytes: int, compression: Compression, seconds: float = 0.2) -> Result:
    """Measure all kinds of work on one batch in turn.

    Args:
        batch_bytes: the maximum size of the batch before compression, in bytes.
        value_bytes: the size of each value.
        compression: the compression type of the batch.
        seconds: the time per function.
    """
    builder = BatchBuilder(batch_bytes, compression, producer_id=1, producer_epoch=0, base_sequence=0)
    while builder.append(_NOW_MS, None, os.urandom(value_bytes // 2).hex().encode()) is not None:
        pass
    data = bytearray(builder.seal())
    checked = check_batch(data, _LIMITS, _NOW_MS)
    config = log_config({})
    producers = Producers()

    def validated() -> None:
        found, _ = validate(data, config, _NOW_MS, allow_zstandard=True)
        stamp(found, 0, 0)

    def idempotent() -> None:
        found, header = validate(data, config, _NOW_MS, allow_zstandard=True)
        producers.check(header)
        stamp(found, 0, 0)
        producers.note(header, 0)

    functions: dict[str, Callable[[], object]] = {}
    if native is not None:
        functions[_NATIVE] = partial(check_batch, data, _LIMITS, _NOW_MS)
    functions |= {
        _PYTHON: partial(check_batch, data, _LIMITS, _NOW_MS, engine="python"),
        _ALL: validated,
        _IDEMPOTENT: idempotent,
    }
    kind = "" if compression == Compression.NONE else f", {compression.name.lower()}"
    name = f"{batch_bytes // 1024} KiB of {value_bytes} B{kind}"
    return Result(name, checked.records_count, len(data), best_seconds(functions, seconds))


def goals(results: Iterable[Result]) -> list[Goal]:
    """Return the goal: the time limit for the complete work divided by the measured time."""
    first = next(iter(results))
    ratios = {} if native is None else {first.name: _LIMIT_US / (first.seconds[_ALL] * _MICROSECONDS)}
    return [Goal(f"a produced batch: {_LIMIT_US:g} µs over the time of checks and stamp", 1.0, ratios)]


def tables(results: Iterable[Result]) -> str:
    """Return the times in microseconds as a Markdown table."""
    found = list(results)
    columns = list(found[0].seconds)
    lines = [
        f"| batch | records | bytes | {' | '.join(columns)} |",
        f"|---|--:|--:|{'--:|' * len(columns)}",
    ]
    for result in found:
        times = " | ".join(f"{seconds * _MICROSECONDS:,.1f}" for seconds in result.seconds.values())
        lines.append(f"| {result.name} | {result.records_count:,} | {result.size_bytes:,} | {times} |")
    return "\n".join(lines)
