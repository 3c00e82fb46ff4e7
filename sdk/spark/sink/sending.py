"""Write a task's rows without transactions: send them, and wait until each is stored, or fail.

In addition to the producer's `buffer_memory`, one Arrow batch is held at a time; when the buffer is full, sending
waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.spark.connecting import connected
from kafkawire.sdk.spark.sink.columns import HEADERS, VALUE, WrittenColumns, by_topic
from kafkawire.sdk.spark.sink.options import WriteOptions, connect_limit_ms
from kafkawire.sdk.spark.sink.refusals import Refusals
from kafkawire.sdk.spark.sink.row_ids import with_row_ids
from kafkawire.sdk.spark.sink.task import WriteTask
from kafkawire.sdk.sync.producer import Producer

__all__ = ["Sent", "send_rows", "write"]


class Sent(NamedTuple):
    """The progress of a task.

    Attributes:
        rows: the number of rows sent.
        topic: a topic to which it has sent rows; None if it has sent none.
    """

    rows: int = 0
    topic: str | None = None


def write(
    options: WriteOptions, columns: WrittenColumns, task: WriteTask | None, batches: Iterable[pyarrow.RecordBatch]
) -> int:
    """Write rows, and return their number once all of them are stored.

    Args:
        options: the user's options.
        columns: the columns of the rows.
        task: the part of the query to which the rows belong; None if the rows get no ids.
        batches: the rows.

    Raises:
        KafkaWireError: a row could not be written; other rows may have been stored.
    """
    given: dict[str, Any] = dict(options.producer)
    with Refusals(options, batches) as rows, connected(Producer(**given), connect_limit_ms(given)) as producer:
        sent = send_rows(producer, options.topic, columns, task, rows)
        producer.flush()
    return sent.rows


def send_rows(
    producer: Producer[Any, Any],
    topic: str | None,
    columns: WrittenColumns,
    task: WriteTask | None,
    batches: Iterable[pyarrow.RecordBatch],
) -> Sent:
    """Buffer rows, waiting whenever the buffer is full.

    Args:
        producer: an open producer.
        topic: the topic of all rows; None if a column contains it.
        columns: the columns of the rows.
        task: the part of the query to which the rows belong; None if the rows get no ids.
        batches: the rows.

    Raises:
        KafkaWireError: a row cannot be written.
    """
    sent = Sent()
    headers = columns.headers if task is None else HEADERS
    for batch in batches:
        numbered = batch if task is None else with_row_ids(batch, task, sent.rows)
        for name, rows in by_topic(numbered, topic):
            try:
                producer.send_arrow(name, rows, VALUE, key=columns.key, headers=headers, partition=columns.partition)
            except KafkaWireError as error:
                error.add_note(f"Row numbers count the rows for topic {name}, starting at row {sent.rows} of the task.")
                raise
            sent = Sent(sent.rows + rows.num_rows, name)
    return sent
