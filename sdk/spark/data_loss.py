"""The reaction of a query to missing records: the connector's `failOnDataLoss`.

Source: `KafkaSourceProvider.failOnDataLoss` in Apache Spark.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["begins_later", "report_loss"]

_log = logging.getLogger("kafkawire.spark")


def begins_later(partition: object, start: int, first: int, end: int | None = None) -> str:
    """Return a message about the missing offsets of a partition that begins after the requested start.

    Args:
        partition: its name, or an object whose text form is the name.
        start: the first offset to read.
        first: the first existing offset.
        end: the offset after the last one to read; None for all.
    """
    gone = first if end is None else min(first, end)
    return f"{partition}: offsets {start} to {gone - 1} are gone; the partition begins at {first}"


def report_loss(what: str, *, fails: bool, cause: Exception | None = None) -> None:
    """Log a loss, or raise an error.

    Args:
        what: the missing records, with their offsets.
        fails: whether to raise an error.
        cause: the error that revealed the loss, if any.

    Raises:
        LocalProtocolError: `fails` is true.
    """
    if fails:
        raise LocalProtocolError(f"{what}; with failOnDataLoss=false the query continues") from cause
    _log.warning("lost: %s", what)
