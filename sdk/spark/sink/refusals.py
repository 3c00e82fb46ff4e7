"""Explain why brokers refuse a task's rows: which permission is missing, or which limit is too low.

Source: `KafkaApis.handleInitProducerIdRequest`, `AclEntry` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import pyarrow
import pyarrow.compute

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.spark.sink.columns import KEY, VALUE
from kafkawire.sdk.spark.sink.options import WriteOptions

__all__ = ["Refusals"]

#: Most of its functions are created at import time, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute

#: The maximum number of causes to follow; no client error has more.
_CAUSES_MAX: Final = 10


class Refusals:
    """A task's rows on their way to the brokers; in a `with` block, a broker's refusal is raised with advice added.

    Args:
        options: the user's options.
        batches: the rows.

    Raises:
        BrokerError: replaces a less detailed error, or an error that it caused.
    """

    def __init__(self, options: WriteOptions, batches: Iterable[pyarrow.RecordBatch]) -> None:
        self._options = options
        self._batches = batches
        #: The size of the key and the value of the largest row so far, in bytes.
        self._largest = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        refusal = _refusal(error)
        advice = None if refusal is None else self._advice(refusal.code)
        if refusal is None or advice is None:
            return
        explained = BrokerError(refusal.code, f"{refusal.detail}; {advice}")
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        raise explained from error

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._batches:
            self._largest = max(self._largest, _largest(batch))
            yield batch

    def _advice(self, code: ErrorCode) -> str | None:
        topic, prefix = self._options.topic, self._options.transactional_id_prefix
        match code:
            case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
                largest = f"the largest row of the task so far has {self._largest} bytes of key and value"
                return f"{largest}; the limit is the topic's max.message.bytes or the brokers' message.max.bytes"
            case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return "the user needs Write on that topic"
            case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                wanted = "the topics of the column `topic`" if topic is None else f"topic {topic}"
                return f"the user needs Write on {wanted}, and before Apache Kafka 2.8 IdempotentWrite on the cluster"
            case ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return f"the user needs Write on transactional ids that begin with {prefix}-"
            case ErrorCode.GROUP_AUTHORIZATION_FAILED:
                return f"the user needs Read on groups that begin with {prefix}-"
        return None


def _refusal(error: BaseException | None) -> BrokerError | None:
    """Return the broker's error, which is either the given error or one of its causes."""
    for _ in range(_CAUSES_MAX):
        if error is None or isinstance(error, BrokerError):
            return error
        error = error.__cause__
    return None


def _largest(rows: pyarrow.RecordBatch) -> int:
    """Return the size of the key and the value of the largest row."""
    total = None
    for name in {KEY, VALUE}.intersection(rows.schema.names):
        column = rows.column(name)
        if not pyarrow.types.is_null(column.type):
            sizes = _COMPUTE.fill_null(_COMPUTE.binary_length(column), 0)
            total = sizes if total is None else _COMPUTE.add(total, sizes)
    return 0 if total is None else _COMPUTE.max(total).as_py() or 0
