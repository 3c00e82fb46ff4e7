"""The batches of a fetch that are for the application: no control batches, none of aborted transactions.

Source: Apache Kafka, `CompletedFetch`; KIP-98 (aborted transactions in responses).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.sdk.consumer.fetching.queue import Fetched
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import Batch, MessageBatch, RecordBatch, walk

__all__ = ["fetched_batches"]


def fetched_batches(fetched: Fetched, check_crcs: bool) -> Iterator[Batch]:
    """Yield the batches of a fetch from the requested offset on; a partial one at the end is left out.

    Raises:
        DecodeError: a size, a magic number or a checksum is wrong; earlier batches were yielded.
    """
    aborted = list(reversed(fetched.aborted))
    aborting: set[int] = set()
    try:
        for batch in walk(fetched.records, check_crcs):
            if isinstance(batch, MessageBatch):
                if batch.next_offset > fetched.start:
                    yield batch
                continue
            while aborted and aborted[-1][0] <= batch.last_offset:
                aborting.add(aborted.pop()[1])
            if batch.is_control:
                if batch.producer_id in aborting and _is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif batch.next_offset > fetched.start and not (
                aborting and batch.is_transactional and batch.producer_id in aborting
            ):
                yield batch
    except PartialBatch:
        return


def _is_abort(batch: RecordBatch) -> bool:
    from kafkawire.sdk.records.control import control_type  # only readers of aborted transactions need it

    records = batch.records()
    return bool(records) and control_type(records[0]).type is ControlRecordType.ABORT
