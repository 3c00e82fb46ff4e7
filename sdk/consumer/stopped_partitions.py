"""What an error says that has stopped a partition, whose reading only the application can continue.

A partition stops if going on would skip or repeat records silently (an offset out of range without a reset policy,
damaged data), or fail in the same way again. Errors that end by themselves, or through an administrator, do not stop
it; see `partition_fetch.py`.
"""

from __future__ import annotations

from typing import TypeVar

from kafkawire.sdk.errors import DeserializationFailed, KafkaWireError

__all__ = ["stopping"]

Error = TypeVar("Error", bound=KafkaWireError)


def stopping(error: Error) -> Error:
    """Say in an error's message how to read the partition again that it stops; return the error."""
    calls = "skip(error), resume(partition)" if isinstance(error, DeserializationFailed) else "resume(partition)"
    error.args = (f"{error}; the partition is not read until {calls} or seek", *error.args[1:])
    return error
