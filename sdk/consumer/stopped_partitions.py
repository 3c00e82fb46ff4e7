"""What an error says if it stops a partition, which then only the application can continue to read.

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
    """Add to the message of an error how to read the stopped partition again; return the error."""
    calls = "skip(error), resume(partition)" if isinstance(error, DeserializationFailed) else "resume(partition)"
    error.args = (f"{error}; the partition is not read until {calls} or seek", *error.args[1:])
    return error
