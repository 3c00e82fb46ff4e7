"""Transactions that span the tasks of a micro-batch: tasks prepare them, and the driver commits all of them.

A task uses the transactional id `prefix-number`, so each attempt ends any transaction that an earlier attempt left
open. When a micro-batch is repeated, the marks (`marks.py`) show which rows have already been committed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
from kafkawire.sdk.spark.connecting import connected
from kafkawire.sdk.spark.sink.columns import TOPIC, VALUE, WrittenColumns
from kafkawire.sdk.spark.sink.coordinators import Coordinators
from kafkawire.sdk.spark.sink.marks import Fingerprint, Mark
from kafkawire.sdk.spark.sink.options import WriteOptions, connect_limit_ms
from kafkawire.sdk.spark.sink.refusals import Refusals
from kafkawire.sdk.spark.sink.sending import send_rows
from kafkawire.sdk.spark.sink.task import WriteTask
from kafkawire.sdk.sync.prepared import prepare_transaction
from kafkawire.sdk.sync.producer import Producer

__all__ = ["Prepared", "Uncommitted", "abort", "commit", "prepare"]

logger = logging.getLogger("kafkawire.spark")


class Uncommitted(NamedTuple):
    """Rows that are stored but not yet visible.

    Attributes:
        transaction: the transaction to commit.
        topic: one of its topics.
    """

    transaction: PreparedTransaction
    topic: str


class Prepared(NamedTuple):
    """A task's report to the driver.

    Attributes:
        task: the part of the query that the task has written.
        uncommitted: its uncommitted rows; None if it had no rows, or if they have already been committed.
    """

    task: WriteTask
    uncommitted: Uncommitted | None = None


def prepare(
    options: WriteOptions, columns: WrittenColumns, task: WriteTask, batches: Iterable[pyarrow.RecordBatch]
) -> Prepared:
    """Write rows in a transaction that remains open, and return the data needed to commit it.

    Args:
        options: the user's options.
        columns: the columns of the rows.
        task: the part of the query to which the rows belong.
        batches: the rows.

    Raises:
        LocalProtocolError: this part has already been committed with different rows, or a later micro-batch has been
            committed.
        KafkaWireError: a row could not be written; the transaction is aborted.
    """
    name = f"{options.transactional_id_prefix}-{task.number}"
    given: dict[str, Any] = {**options.producer, "transactional_id": name}
    written = [VALUE, *filter(None, columns), *([] if options.topic is not None else [TOPIC])]
    # Starting the producer ends any transaction that an earlier attempt left open, so the mark can no longer change.
    with Refusals(options, batches) as rows, connected(Producer(**given), connect_limit_ms(given)) as producer:
        counted = _Counted(rows, written if task.is_streaming else [])
        mark = _last_mark(options, name, task)
        if mark is not None and mark.batch_id == task.batch_id:
            counted.drain()
            _check_repeated(name, mark, task, counted.fingerprint)
            return Prepared(task)
        producer.begin_transaction()
        sent = send_rows(producer, options.topic, columns, task if options.has_row_ids else None, counted)
        if sent.topic is None:
            return Prepared(task)
        producer.flush()  # after this, the topic exists
        if task.is_streaming:
            offsets = Mark(task.query_id, task.batch_id, counted.fingerprint).offsets(sent.topic)
            producer.send_offsets(offsets, GroupMetadata(name))
        transaction = prepare_transaction(producer)
        return Prepared(task, None if transaction is None else Uncommitted(transaction, sent.topic))


def commit(options: WriteOptions, prepared: Sequence[Prepared]) -> None:
    """Commit the transactions of all tasks.

    Args:
        options: the user's options.
        prepared: the reports of the tasks.

    Raises:
        LocalProtocolError: part of the micro-batch has already been committed with a different number of tasks.
        KafkaWireError: a transaction was not committed; other transactions may have been.
    """
    left = _uncommitted(prepared)
    if not left:
        return
    task, transactions = prepared[0].task, [each.transaction for each in left]
    with Coordinators(options.producer) as coordinators:
        if task.is_streaming:
            _mark_commit(coordinators, options.transactional_id_prefix or "", task, left[0], len(prepared))
            coordinators.end(transactions[:1], commits=True)
            coordinators.end(transactions[1:], commits=True)
        else:
            coordinators.end(transactions, commits=True)


def abort(options: WriteOptions, prepared: Sequence[Prepared]) -> None:
    """Abort the transactions of those tasks that have prepared one; if that fails, they time out later."""
    transactions = [each.transaction for each in _uncommitted(prepared)]
    if not transactions:
        return
    try:
        with Coordinators(options.producer) as coordinators:
            coordinators.end(transactions, commits=False)
    except KafkaWireError as error:
        logger.warning("%s: a transaction was not aborted: %s", prepared[0].task, error)


class _Counted:
    """Arrow batches in transit, and the fingerprint of those that have passed."""

    def __init__(self, batches: Iterable[pyarrow.RecordBatch], names: Sequence[str]) -> None:
        self._batches = batches
        self._names = names
        self.fingerprint = Fingerprint()

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._batches:
            self.fingerprint = self.fingerprint.with_rows(batch, self._names)
            yield batch

    def drain(self) -> None:
        for _ in self:
            pass


def _last_mark(options: WriteOptions, group_id: str, task: WriteTask) -> Mark | None:
    if not task.is_streaming:
        return None
    with Coordinators(options.producer) as coordinators:
        mark = Mark.last(coordinators.committed(group_id), task)
    if mark is not None and mark.batch_id > task.batch_id:
        reason = f"micro-batch {mark.batch_id} has already been committed; was the checkpoint rolled back?"
        raise LocalProtocolError(f"transactional id {group_id}: {task}: {reason}")
    return mark


def _check_repeated(transactional_id: str, mark: Mark, task: WriteTask, found: Fingerprint) -> None:
    """Raise an error if rows to be skipped differ from the committed ones."""
    if mark.what != found:
        was = Fingerprint(*mark.what)
        raise LocalProtocolError(
            f"transactional id {transactional_id}: {task}: {was.rows} rows have already been committed, but now "
            f"there are {found.rows} different ones: "
            "the query must split a micro-batch in the same way when it is repeated"
        )


def _mark_commit(coordinators: Coordinators, prefix: str, task: WriteTask, first: Uncommitted, tasks: int) -> None:
    """Store the micro-batch's number of tasks in the first transaction; raise an error if it has changed."""
    group_id = f"{prefix}-commit"  # cannot be a task's id, because those end with a number
    mark = Mark.last(coordinators.committed(group_id), task)
    if mark is None or mark.batch_id < task.batch_id:
        offsets = Mark(task.query_id, task.batch_id, (tasks,)).offsets(first.topic)
        coordinators.add_offsets(first.transaction, group_id, offsets)
    elif mark.what != (tasks,):
        raise LocalProtocolError(
            f"transactional id prefix {prefix}: query {task.query_id}, micro-batch {task.batch_id}: part of it has "
            f"already been committed with {mark.what[0]} tasks, but now there are {tasks}: "
            "the query must split a micro-batch in the same way when it is repeated"
        )


def _uncommitted(prepared: Iterable[Prepared]) -> list[Uncommitted]:
    return [each.uncommitted for each in prepared if each.uncommitted is not None]
