"""What becomes of a query when records that it was to read are gone: the connector's `failOnDataLoss`.

Source: `KafkaSourceProvider.failOnDataLoss` in Apache Spark.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["report_loss"]

_log = logging.getLogger("kafkawire.spark")


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
