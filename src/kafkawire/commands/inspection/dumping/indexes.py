"""Dump the indexes of a segment, and compare their entries with its batches.

Source: `DumpLogSegments.dumpIndex`, `dumpTimeIndex` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

from kafkawire.commands.inspection.dumping.files import StoredFile
from kafkawire.commands.inspection.dumping.output import Kind, Output
from kafkawire.commands.inspection.dumping.problems import Problems
from kafkawire.commands.inspection.dumping.window import Window, open_file
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_HEADER,
    MESSAGE_V1_HEADER,
    MESSAGE_V1_MAGIC,
)
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX
from kafkawire.sdk.storage.index_entries import OFFSET_INDEX, TIME_INDEX, IndexEntries, IndexFormat

__all__ = ["dump_offset_index", "dump_time_index", "position_before"]


#: How many batches to check after the last match before searching the index. A search in a large index with spare room
#: reads it in several places, and the next entry of a time index is usually just a few batches further.
_NEAR_BATCHES: Final = 64


class _Header:
    """The header of the batch at a position in the log with which an index is compared."""

    def __init__(self, log: Window, position: int) -> None:
        self.is_whole = False
        head = bytes(log.at(position, BATCH_HEADER_BYTES)) if position >= 0 else b""
        if len(head) < MESSAGE_V0_HEADER.size or (
            head[BATCH_MAGIC_AT] == BATCH_MAGIC and len(head) < BATCH_HEADER_BYTES
        ):
            return
        self.base_offset, length, _, magic, _ = MESSAGE_V0_HEADER.unpack_from(head)
        self.last_offset, self.max_timestamp = self.base_offset, NO_TIMESTAMP
        self.size = length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if magic == BATCH_MAGIC:
            _, _, _, _, _, _, delta, _, self.max_timestamp, *_ = BATCH_HEADER.unpack(head)
            self.last_offset = int64(self.base_offset + delta)
        elif magic == MESSAGE_V1_MAGIC and len(head) >= MESSAGE_V1_HEADER.size:
            self.max_timestamp = MESSAGE_V1_HEADER.unpack_from(head)[-1]
        self.is_whole = 0 <= magic <= BATCH_MAGIC and self.size >= MESSAGE_V0_HEADER.size


def _header_at(log: Window, position: int) -> _Header:
    """Return the header at a position, which a broker may have appended since the log was opened."""
    header = _Header(log, position)
    return _Header(log, position) if not header.is_whole and log.has_grown() else header


class _Index:
    """The code that both kinds of indexes share.

    Args:
        file: the index.
        output: receives the lines.
        index: its format.
        stack: closes the files.
    """

    def __init__(self, file: StoredFile, output: Output, index: IndexFormat, stack: ExitStack) -> None:
        self.window = Window(stack.enter_context(open_file(file.path)))
        self.entries = IndexEntries(self.window, index)
        self.entry_bytes = index.entry_bytes
        self.problems = Problems(output)
        self.base_offset = file.base_offset or 0
        self.log = _sibling(file, LOG_SUFFIX, stack)
        self._output = output
        if file.base_offset is None:
            output.note(
                "the file name contains no offset, so offsets are shown as relative and not compared with a segment"
            )
            self.log = None
        elif self.log is None:
            output.note(f"{file.sibling(LOG_SUFFIX).name} is missing, so entries are not compared with a segment")

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield the position and content of each entry, up to the preallocated space."""
        for number, entry in enumerate(self.entries):  # up to the file's current end
            first, second = entry
            position = number * self.entry_bytes
            if not first and not second:
                if self.window.is_zero_from(position):
                    if (room := self.window.end - position) > 0:
                        self._output.note(f"{room} bytes of zeros at the end, reserved for further entries")
                    self._say_cuts()
                    return
                with suppress(IndexError):  # it was perhaps read as preallocated space, and is an entry now
                    first, second = self.entries[number]
            yield position, first, second
        self._say_cuts()
        if left := self.window.end % self.entry_bytes:
            self.problems.tell(
                f"the last entry is truncated: expected {self.entry_bytes} bytes, got {left}", self.window.end - left
            )
        if not self.window.end:
            self._output.note("the index is empty")

    def _say_cuts(self) -> None:
        """Report that a file was truncated, as happens to a new index when the broker seals its segment."""
        for window, name in ((self.window, "file"), (self.log, "segment")):
            if window is not None and window.is_cut:
                self._output.note(f"the {name} shrank to {window.end} bytes while it was being read")


def dump_offset_index(file: StoredFile, output: Output, read: Callable[[int], object]) -> None:
    """Write the entries of an offset index, and their faults.

    Raises:
        OSError: a file cannot be read.
    """
    with ExitStack() as stack:
        index = _Index(file, output, OFFSET_INDEX, stack)
        before = None
        for at, relative, position in index:
            read(at)
            offset = index.base_offset + relative
            output.say(Kind.ENTRY, {"offset": offset, "position": position})
            if before is not None and (relative <= before[0] or position <= before[1]):
                index.problems.tell(f"entry {offset}, {position} does not follow the previous entry", at)
            if relative < 0 or position < 0:
                index.problems.tell(f"entry {offset}, {position} is before the beginning of the segment", at)
            before = relative, position
            if index.log is None:
                continue
            header = _header_at(index.log, position)
            if not header.is_whole:
                index.problems.tell(f"index offset {offset}: no batch begins at position {position} of the log", at)
            elif header.last_offset != offset:
                found = f"log offset {header.last_offset} at position {position}"
                index.problems.tell(f"index offset {offset}, {found}", at)
        index.problems.end()


def dump_time_index(file: StoredFile, output: Output, read: Callable[[int], object]) -> None:
    """Write the entries of a time index, and their faults.

    Raises:
        OSError: a file cannot be read.
    """
    with ExitStack() as stack:
        index = _Index(file, output, TIME_INDEX, stack)
        places = (
            None if index.log is None else _Places(index.log, _sibling(file, INDEX_SUFFIX, stack), index.base_offset)
        )
        before = NO_TIMESTAMP, -1
        for at, timestamp, relative in index:
            read(at)
            offset = index.base_offset + relative
            output.say(Kind.ENTRY, {"timestamp": timestamp, "offset": offset})
            if timestamp <= before[0]:
                index.problems.tell(
                    f"index timestamp {timestamp} is not later than the previous timestamp, {before[0]}", at
                )
            if relative < max(before[1], 0):
                index.problems.tell(f"index offset {offset} is lower than the previous offset or the base offset", at)
            before = timestamp, relative
            if places is None:
                continue
            header = places.find(offset)
            if header is None or header.last_offset != offset:
                found = "the log ends before it" if header is None else f"found log offset {header.last_offset}"
                index.problems.tell(f"indexed offset {offset}, {found}", at)
            elif header.max_timestamp != timestamp:
                found = f"log timestamp {header.max_timestamp}"
                index.problems.tell(f"index timestamp {timestamp}, {found} at offset {offset}", at)
        index.problems.end()


class _Places:
    """Finds batches in a log by their last offset, starting from the previous match.

    Args:
        log: the segment's log.
        index: its offset index; None if there is none.
        base_offset: the segment's base offset.
    """

    def __init__(self, log: Window, index: Window | None, base_offset: int) -> None:
        self._log = log
        self._entries = None if index is None else IndexEntries(index, OFFSET_INDEX)
        self._base_offset = base_offset
        self._position = 0
        self._offset = base_offset

    def find(self, offset: int) -> _Header | None:
        """Return the first batch whose last offset reaches `offset`; None if there is none, or the log is damaged."""
        start = self._position if offset >= self._offset else 0
        if offset >= self._offset:
            found, start = self._walk(start, offset, _NEAR_BATCHES)
            if found is not None:
                self._offset = offset
                return found
        self._offset = offset
        if self._entries is not None:
            start = max(start, _position_of(self._entries, offset - self._base_offset))
        return self._walk(start, offset, None)[0]

    def _walk(self, start: int, offset: int, most: int | None) -> tuple[_Header | None, int]:
        """Search from a position; return the first batch whose last offset reaches `offset`, and the end reached."""
        count = 0
        while count != most and (header := _header_at(self._log, start)).is_whole:
            self._position = start
            if header.last_offset >= offset:
                return header, start
            start += header.size
            count += 1
        return None, start


def position_before(file: StoredFile, log: Window, offset: int) -> int:
    """Return the position in a segment from which to read an offset; 0 if its index is missing or does not match.

    Raises:
        OSError: the index cannot be read.
    """
    if file.base_offset is None or offset <= file.base_offset:
        return 0
    with ExitStack() as stack:
        index = _sibling(file, INDEX_SUFFIX, stack)
        if index is None:
            return 0
        position = _position_of(IndexEntries(index, OFFSET_INDEX), offset - file.base_offset)
        header = _Header(log, position)
        is_sound = header.is_whole and file.base_offset <= header.base_offset <= header.last_offset
        return position if is_sound and header.base_offset <= offset else 0


def _position_of(entries: IndexEntries, relative: int) -> int:
    """Return the position in the last entry at or below an offset; 0 if there is none."""
    return max(entries.value_at(relative) or 0, 0)


def _sibling(file: StoredFile, suffix: str, stack: ExitStack) -> Window | None:
    path = file.sibling(suffix)
    try:
        return Window(stack.enter_context(open_file(path)))
    except FileNotFoundError:
        return None
