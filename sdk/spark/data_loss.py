"""What becomes of a query when records that it was to read are gone: the connector's `failOnDataLoss`.

Source: `KafkaSourceProvider.failOnDataLoss` in Apache Spark.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["begins_later", "report_loss"]

_log = logging.getLogger("kafkawire.spark")


def begins_later(partition: object, start: int, first: int, end: int | None = None) -> str:
    """Return what is gone of a partition that begins behind the offset from which on it was to be read.

    Args:
        partition: its name, or what has it as text.
        start: the first offset that was to be read.
        first: the first one that is there.
        end: the offset behind the last one that was to be read; None for all.
    """
    gone = first if end is None else min(first, end)
    return f"{partition}: offsets {start} to {gone - 1} are gone, the first one is {first}"


def report_loss(what: str, *, fails: bool, cause: Exception | None = None) -> None:
    """Log that something is gone, or raise an error.

    Args:
        what: the records that are gone, with their offsets.
        fails: whether it is an error.
        cause: how that was noticed, if by an error.

    Raises:
        LocalProtocolError: it is one.
    """
    if fails:
        raise LocalProtocolError(f"{what}; with failOnDataLoss=false the query goes on") from cause
    _log.warning("lost: %s", what)
