"""The part of a query that a task writes, according to Spark.

Source: `MicroBatchExecution`, `StreamExecution` in Apache Spark, which store the micro-batch in the job's properties.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["WriteTask", "current_task"]

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class WriteTask(NamedTuple):
    """A part of a query, identical for all attempts at it.

    Attributes:
        query_id: the query id, which does not change as long as the query keeps its checkpoint.
        batch_id: the number of the micro-batch; -1 for a batch query.
        number: the task's number within the micro-batch, starting at 0.
    """

    query_id: str
    batch_id: int
    number: int

    @property
    def is_streaming(self) -> bool:
        """Whether the task belongs to a micro-batch of a stream."""
        return self.batch_id >= 0

    def __str__(self) -> str:
        batch = f", micro-batch {self.batch_id}" if self.is_streaming else ""
        return f"query {self.query_id}{batch}, task {self.number}"


def current_task(query_id: str | None) -> WriteTask:
    """Return the part that this process writes.

    Args:
        query_id: the id of a batch query; None for a stream, whose id Spark knows.

    Raises:
        LocalProtocolError: this is not a task, or Spark does not report its micro-batch.
    """
    context = TaskContext.get()
    if context is None:
        raise LocalProtocolError("only Spark tasks can write, and this process is not running one")
    if query_id is not None:
        return WriteTask(query_id, -1, context.partitionId())
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise LocalProtocolError(f"Spark reports no micro-batch: {_QUERY_ID} is {query!r}, {_BATCH_ID} is {batch!r}")
    return WriteTask(query, int(batch), context.partitionId())
