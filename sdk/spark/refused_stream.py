"""A stream whose options cannot be used.

PySpark closes the reader of a stream even if none could be made. An error of `streamReader` is then followed by one
about a variable without a value, which is the last line that a user sees. So the error comes with the first call.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["RefusedStream"]


class RefusedStream(DataSourceStreamReader):
    """Stands for the reader of a stream, and raises why there is none.

    Args:
        error: what cannot be used.
    """

    def __init__(self, error: ConfigurationError) -> None:
        self._error = error.with_traceback(None)  # where it was noticed says nothing to a user

    def initialOffset(self) -> NoReturn:
        """Raise the error; so does every other call."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: Any) -> NoReturn:
        """Raise the error, where a checkpoint says where the stream begins."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Raise the error, where a checkpoint has a micro-batch to repeat."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        """Raise the error; nobody gets as far as this."""
        raise self._error
