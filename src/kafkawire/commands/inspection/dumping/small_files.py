"""Dump the small files next to segments: transaction indexes, producer snapshots, checkpoints, properties.

Source: `DumpLogSegments.dumpTxnIndex`, `dumpProducerIdSnapshot` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kafkawire.commands.inspection.dumping.files import FileKind, StoredFile
from kafkawire.commands.inspection.dumping.limits import PRODUCERS_BYTES_MAX, SMALL_FILE_BYTES_MAX
from kafkawire.commands.inspection.dumping.output import Kind, Output
from kafkawire.commands.inspection.dumping.problems import Problems
from kafkawire.commands.inspection.dumping.window import Window, open_file
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.storage.checkpoints import parse_epochs, parse_offsets
from kafkawire.sdk.storage.damage import DamagedContent, OnDamage
from kafkawire.sdk.storage.partition_metadata import PARTITION_METADATA_VERSION, parse_partition_metadata
from kafkawire.sdk.storage.producer_snapshots import parse_snapshot
from kafkawire.sdk.storage.properties import stored_properties
from kafkawire.sdk.storage.quorum_state import parse_quorum_state
from kafkawire.sdk.storage.transaction_index import ENTRY_BYTES, AbortedTransaction, parse_transactions

__all__ = ["dump_small_file", "dump_transaction_index"]

#: How many bytes of a transaction index are read at a time.
_PIECE_BYTES = 1024 * ENTRY_BYTES
#: The JSON member that distinguishes lines; no member read from a file may replace it.
_KIND = "kind"
#: Kafka's file has three levels, with the voters in a list. Content that is nested very deeply could not be written as
#: JSON again.
_DEPTH_MAX = 20


def dump_transaction_index(file: StoredFile, output: Output) -> None:
    """Write the aborted transactions of a segment.

    Raises:
        OSError: the file cannot be read.
    """
    problems = Problems(output)
    waiting: list[DamagedContent] = []  # until the entry is shown
    with open_file(file.path) as stream:
        window = Window(stream)
        for entry in parse_transactions(_pieces(window), file.base_offset or 0, on_damage=waiting.append):
            output.say(Kind.ENTRY, _transaction(entry))
            while waiting:
                problems.tell_damage(waiting.pop())
        for damage in waiting:
            problems.tell_damage(damage)
        if window.is_cut:
            output.note(f"the file shrank to {window.end} bytes while it was being read")
    problems.end()


def _pieces(window: Window) -> Iterator[memoryview]:
    at = 0
    while piece := window.at(at, _PIECE_BYTES):
        yield piece
        at += len(piece)


def _transaction(entry: AbortedTransaction) -> Mapping[str, object]:
    return {
        "version": entry.version,
        "producerId": entry.producer_id,
        "firstOffset": entry.first_offset,
        "lastOffset": entry.last_offset,
        "lastStableOffset": entry.last_stable_offset,
    }


def dump_small_file(file: StoredFile, output: Output) -> None:
    """Write the content of a small file other than a transaction index.

    Raises:
        OSError: the file cannot be read.
    """
    limit = PRODUCERS_BYTES_MAX if file.kind is FileKind.PRODUCERS else SMALL_FILE_BYTES_MAX
    with open_file(file.path) as stream:
        window = Window(stream)
        size = window.end
        if size > limit:
            output.damage(f"the file has {size} bytes; the limit for a file of this kind is {limit}", 0, size)
            return
        content = bytes(window.at(0, size))
    problems = Problems(output)
    try:
        for members in _READERS[file.kind](content, problems.tell_damage):
            output.say(Kind.ENTRY, members)
    except DamagedContent as damage:
        problems.tell_damage(damage)
    problems.end()


def _producers(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    for entry in parse_snapshot(content, on_damage):
        members: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": None if entry.current_txn_first_offset < 0 else entry.current_txn_first_offset,
            "lastTimestamp": entry.timestamp,
        }
        if entry.last_offset >= 0:
            members |= {
                "firstSequence": _sequence_before(entry.last_sequence, entry.offset_delta),
                "lastSequence": entry.last_sequence,
                "lastOffset": entry.last_offset,
                "offsetDelta": entry.offset_delta,
                "timestamp": entry.timestamp,
            }
        yield members


def _leader_epochs(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    for epoch, offset in parse_epochs(content, on_damage):
        yield {"leaderEpoch": epoch, "startOffset": offset}


def _offsets(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    for (topic, partition), offset in parse_offsets(content, on_damage):
        yield {"topic": topic, "partition": partition, "offset": offset}


def _properties(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    for name, value in stored_properties(content, on_damage).items():
        yield {"name": name, "value": value}


def _partition_metadata(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    topic_id = parse_partition_metadata(content)
    yield {"version": PARTITION_METADATA_VERSION, "topicId": format_uuid(topic_id)}


def _quorum_state(content: bytes, on_damage: OnDamage) -> Iterator[Mapping[str, object]]:
    found = parse_quorum_state(content)
    if _KIND in found:
        raise DamagedContent(f"unexpected key {_KIND!r}")
    if _depth(found) > _DEPTH_MAX:
        raise DamagedContent(f"values are nested more than {_DEPTH_MAX} levels deep")
    yield found


def _depth(value: object) -> int:
    """Return the nesting depth of lists and objects, at most one more than the limit."""
    level: list[object] = [value]
    for depth in range(_DEPTH_MAX + 1):
        level = [each for found in level for each in _children(found)]
        if not level:
            return depth
    return _DEPTH_MAX + 1


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_READERS: dict[FileKind, Callable[[bytes, OnDamage], Iterator[Mapping[str, object]]]] = {
    FileKind.PRODUCERS: _producers,
    FileKind.LEADER_EPOCHS: _leader_epochs,
    FileKind.OFFSETS: _offsets,
    FileKind.PROPERTIES: _properties,
    FileKind.PARTITION_METADATA: _partition_metadata,
    FileKind.QUORUM_STATE: _quorum_state,
}


def _sequence_before(sequence: int, delta: int) -> int:
    """Return the sequence number `delta` records before another, wrapping from 0 to 2147483647."""
    return sequence - delta if sequence >= delta else sequence - delta + INT32_MAX + 1
