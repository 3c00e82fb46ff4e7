"""Dump a segment or a snapshot of cluster metadata: its batches and records, and any damage.

Source: `DumpLogSegments.dumpLog` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafkawire.commands.inspection.dumping.batches import Damage, StoredBatch, read_batches
from kafkawire.commands.inspection.dumping.files import FileKind, StoredFile
from kafkawire.commands.inspection.dumping.indexes import position_before
from kafkawire.commands.inspection.dumping.internal import ContentDecoder
from kafkawire.commands.inspection.dumping.limits import BATCH_BYTES_MAX
from kafkawire.commands.inspection.dumping.output import Kind, Output
from kafkawire.commands.inspection.dumping.window import Window, open_file
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE, NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_COMPRESSION_MASK,
    BATCH_HAS_DELETE_HORIZON_MASK,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_TIMESTAMP_TYPE_MASK,
    MESSAGE_V0_COMPRESSION_MASK,
    MESSAGE_V0_MAGIC,
    Compression,
)
from kafkawire.sdk.records import MessageBatch, RecordBatch
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS, RecordTypes
from kafkawire.sdk.records.java_integers import int64, sequence_after

__all__ = ["SegmentOptions", "dump_segment"]

#: Kafka's names for record timestamps, indexed by the timestamp type bit of the attributes; magic 0 has no timestamps.
_TIMES: Final = (b"CreateTime", b"LogAppendTime")
_NO_TIME: Final = b"NoTimestampType"

_COMPRESSIONS: Final = {each.value: each.name.lower() for each in Compression}


class SegmentOptions(NamedTuple):
    """Options for reading segments.

    Attributes:
        from_offset: the offset before which records are skipped.
        topic: the topic whose format is used to decode records; None for the folder's topic, empty for none.
        max_bytes: maximum number of bytes to read from each file.
        batch_bytes_max: larger batches are not opened.
        types: the record types of topics.
    """

    from_offset: int = 0
    topic: str | None = None
    max_bytes: int | None = None
    batch_bytes_max: int = BATCH_BYTES_MAX
    types: RecordTypes = KAFKA_RECORDS


def dump_segment(file: StoredFile, output: Output, options: SegmentOptions, read: Callable[[int], object]) -> None:
    """Write the content of a segment or a snapshot.

    Args:
        file: the segment or snapshot.
        output: receives the lines.
        options: see above.
        read: called regularly with the position.

    Raises:
        OSError: the file cannot be read.
    """
    _describe(file, output)
    with open_file(file.path) as stream:
        window = Window(stream, options.max_bytes)
        position = position_before(file, window, options.from_offset) if options.from_offset else 0
        _Segment(file, output, options).dump(window, position, read)


def _describe(file: StoredFile, output: Output) -> None:
    if file.kind is FileKind.LOG:
        if file.base_offset is None:
            output.note("the file name contains no offset")
        else:
            output.say(Kind.NOTE, {"baseOffset": file.base_offset}, f"Log starting offset: {file.base_offset}")
    elif file.base_offset is None:
        output.say(Kind.NOTE, {"text": "KRaft bootstrap snapshot"}, "KRaft bootstrap snapshot")
    else:
        text = f"Snapshot end offset: {file.base_offset}, epoch: {file.epoch}"
        output.say(Kind.NOTE, {"endOffset": file.base_offset, "epoch": file.epoch}, text)


class _Segment:
    """The state of a segment while its batches are read."""

    def __init__(self, file: StoredFile, output: Output, options: SegmentOptions) -> None:
        self._output = output
        self._options = options
        topic = file.topic if options.topic is None else options.topic
        self._decoder = ContentDecoder(topic, output.as_json, options.types)
        #: The faults in the current batch.
        self._problems = self._decoder.problems
        self._decode = self._decoder.record if topic in options.types.topics and output.with_content else None
        #: The offset after the batches read so far; it starts at 0 in a snapshot.
        self._next_offset = (file.base_offset or 0) if file.kind is FileKind.LOG else 0
        self._is_nameless = file.kind is FileKind.LOG and file.base_offset is None
        self._batches = self._records = 0
        self._with_batches = Kind.BATCH in output.kinds
        # Batches are opened only if records, or nothing but damage, were requested.
        self._is_deep = bool(output.kinds & {Kind.RECORD, Kind.CONTROL, Kind.GAP}) or output.kinds == {Kind.DAMAGE}

    def dump(self, window: Window, position: int, read: Callable[[int], object]) -> None:
        """Write the batches starting at a position, and then the totals."""
        output = self._output
        output.begin_log(max(self._next_offset, self._options.from_offset) if position else self._next_offset)
        is_start = position > 0 or self._is_nameless
        for found in read_batches(window, position, batch_bytes_max=self._options.batch_bytes_max, read=read):
            if isinstance(found, Damage):
                output.damage(found.reason, found.position, found.passed_over)
                continue
            self._batch(found, is_start)
            is_start = False
        if window.is_cut:
            output.note(f"the file shrank to {window.end} bytes while it was being read")
        gaps = output.lines.gaps if self._is_deep else None
        members = {"batches": self._batches, "records": self._records if self._is_deep else None, "gaps": gaps}
        output.say(Kind.END, {**members, "bytes": max(window.end - position, 0)})

    def _batch(self, found: StoredBatch, is_start: bool) -> None:
        """Write a batch and its records.

        Args:
            found: the batch from `read_batches`.
            is_start: whether the records before it are unknown.
        """
        is_old = found.magic != BATCH_MAGIC
        base_offset, last_offset = found.base_offset, found.last_offset
        if (base_offset or 0) <= last_offset < self._options.from_offset:
            self._next_offset = max(self._next_offset, last_offset + 1)
            self._output.lines.next_offset = self._next_offset
            return
        if is_start and base_offset is not None:
            self._output.lines.next_offset = base_offset
        self._batches += 1
        if self._with_batches:
            self._output.lines.put(_batch_line(found, self._output.as_json))
        first = last_offset if base_offset is None else base_offset
        if found.is_valid and first < self._next_offset and not is_start:
            before = self._next_offset - 1
            self._output.damage(f"offsets go back, from {before} to {first}", found.position)
        if not is_old and last_offset < (base_offset or 0):
            self._output.damage(
                f"the last offset {last_offset} is lower than the first offset {base_offset}", found.position
            )
        if self._is_deep:
            self._open(found, last_offset)
        if found.is_valid:
            self._next_offset = last_offset + 1

    def _open(self, found: StoredBatch, last_offset: int) -> None:
        """Write the records of a batch; if its checksum is wrong, write the readable ones and report nothing more."""
        output, batch = self._output, found.batch
        if batch is None:
            limit = self._options.batch_bytes_max
            output.note(
                f"position {found.position}: a batch of {found.size} bytes was not opened, because the limit is {limit}"
            )
            output.lines.next_offset = last_offset + 1
            return
        try:
            if isinstance(batch, MessageBatch):
                self._old_records(found, batch)
            else:
                self._new_records(found, batch, last_offset)
        except DecodeError as error:
            self._problems.append(f"{error.path}: {error.reason}")
            output.lines.next_offset = last_offset + 1
        if found.is_valid:
            for problem in self._problems:
                output.damage(problem, found.position)
        self._problems.clear()

    def _new_records(self, found: StoredBatch, batch: RecordBatch, last_offset: int) -> None:
        output, lines = self._output, self._output.lines
        if batch.is_control:
            lines.with_records = Kind.CONTROL in output.kinds
            count = lines.add(batch, b"control", _time(found), self._decoder.control)
        else:
            lines.with_records = Kind.RECORD in output.kinds
            count = lines.add(batch, b"record", _time(found), self._decode)
        self._records += count
        if lines.backward is not None:
            self._problems.append(f"offsets of records go back, to {lines.backward}")
        elif count and lines.next_offset > last_offset + 1:
            after = lines.next_offset - 1
            self._problems.append(f"a record has offset {after}, but the batch's last offset is {last_offset}")

    def _old_records(self, found: StoredBatch, batch: MessageBatch) -> None:
        lines, as_json = self._output.lines, self._output.as_json
        lines.with_records = Kind.RECORD in self._output.kinds
        text = b',"isValid":%s,"crc":%d' if as_json else b" isValid: %s crc: %d"
        backward = None
        for record, crc, is_valid in batch.checked_records():
            more = text % (b"true" if is_valid else b"false", crc)
            lines.add_record(record, b"record", _time(found), more, self._decode)
            backward = lines.backward if backward is None else backward
            self._records += 1
        if backward is not None:
            self._problems.append(f"offsets of records go back, to {backward}")


def _time(found: StoredBatch) -> bytes:
    if found.magic == MESSAGE_V0_MAGIC:
        return _NO_TIME
    return _TIMES[bool(found.attributes & BATCH_TIMESTAMP_TYPE_MASK)]


def _batch_line(found: StoredBatch, as_json: bool) -> bytes:
    """Return the line for a batch, formatted by hand for speed, since a segment can have one batch per record."""
    position, size, magic, header, is_valid, _ = found
    valid = "true" if is_valid else "false"
    time = _time(found).decode()
    if magic != BATCH_MAGIC:
        offset, _, crc, _, attributes = header
        codec = _compression(attributes & MESSAGE_V0_COMPRESSION_MASK)
        timestamp = NO_TIMESTAMP if found.batch is None else found.batch.max_timestamp
        if as_json:
            return (
                f'{{"kind":"batch","offset":{offset},"position":{position},"timestampType":"{time}","maxTimestamp":'
                f'{timestamp},"size":{size},"magic":{magic},"compression":"{codec}","crc":{crc},"isValid":{valid}}}\n'
            ).encode()
        return (
            f"offset: {offset} position: {position} {time}: {timestamp} size: {size} magic: {magic} "
            f"compresscodec: {codec} crc: {crc} isvalid: {valid}\n"
        ).encode()
    base, _, epoch, _, crc, attributes, delta, horizon, timestamp, producer_id, producer_epoch, sequence, count = header
    last, last_sequence = int64(base + delta), sequence if sequence == NO_SEQUENCE else sequence_after(sequence, delta)
    transactional = "true" if attributes & BATCH_IS_TRANSACTIONAL_MASK else "false"
    control = "true" if attributes & BATCH_IS_CONTROL_MASK else "false"
    codec = _compression(attributes & BATCH_COMPRESSION_MASK)
    has_horizon = attributes & BATCH_HAS_DELETE_HORIZON_MASK
    if as_json:
        return (
            f'{{"kind":"batch","baseOffset":{base},"lastOffset":{last},"count":{count},"baseSequence":{sequence},'
            f'"lastSequence":{last_sequence},"producerId":{producer_id},"producerEpoch":{producer_epoch},'
            f'"partitionLeaderEpoch":{epoch},"isTransactional":{transactional},"isControl":{control},'
            f'"deleteHorizonMs":{horizon if has_horizon else "null"},"position":{position},"timestampType":"{time}",'
            f'"maxTimestamp":{timestamp},"size":{size},"magic":{magic},"compression":"{codec}","crc":{crc},'
            f'"isValid":{valid}}}\n'
        ).encode()
    return (
        f"baseOffset: {base} lastOffset: {last} count: {count} baseSequence: {sequence} lastSequence: {last_sequence} "
        f"producerId: {producer_id} producerEpoch: {producer_epoch} partitionLeaderEpoch: {epoch} "
        f"isTransactional: {transactional} isControl: {control} "
        f"deleteHorizonMs: {horizon if has_horizon else 'none'} position: {position} {time}: {timestamp} size: {size} "
        f"magic: {magic} compresscodec: {codec} crc: {crc} isvalid: {valid}\n"
    ).encode()


def _compression(number: int) -> str:
    return _COMPRESSIONS.get(number, f"unknown-{number}")
