"""A stream with invalid options.

PySpark closes the reader of a stream even if it could not be created. An error from `streamReader` would therefore be
followed by one about an unassigned variable, which is the last line that a user sees. To avoid that, the reader's first
call raises the error instead.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["RefusedStream"]


class RefusedStream(DataSourceStreamReader):
    """Takes the place of a stream's reader, and raises the error.

    Args:
        error: the reason.
    """

    def __init__(self, error: ConfigurationError) -> None:
        self._error = error.with_traceback(None)  # the traceback is useless to a user

    def initialOffset(self) -> NoReturn:
        """Raise the error, as every other call does."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: Any) -> NoReturn:
        """Raise the error; this is called if a checkpoint contains the start of the stream."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Raise the error; this is called if a checkpoint has a micro-batch to repeat."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        """Raise the error; this is never called."""
        raise self._error
