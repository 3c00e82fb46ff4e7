"""The lines that `kafkawire dump` writes: text in the words of Kafka's DumpLogSegments, or JSON objects.

Every line has a kind; docs/guide/dump.md describes the kinds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from kafkawire.commands.streams import printable
from kafkawire.sdk.records.lines import RecordLines

__all__ = ["DEFAULT_KINDS", "Kind", "Output", "members_text"]


class Kind(StrEnum):
    """The kind of a line."""

    FILE = "file"
    BATCH = "batch"
    RECORD = "record"
    CONTROL = "control"
    GAP = "gap"
    ENTRY = "entry"
    NOTE = "note"
    DAMAGE = "damage"
    END = "end"


#: Compaction and transaction markers leave gaps in the offsets, so gaps are just counted.
DEFAULT_KINDS: Final = frozenset(Kind) - {Kind.GAP}


class Output:
    """Writes lines in order, and counts damage.

    Args:
        write: receives the lines, many at a time.
        as_json: whether to write JSON objects instead of text.
        kinds: the kinds of lines to write; damage is always written.
        with_content: whether records are shown with their key and value.
        from_offset: the offset before which records are left out.

    Attributes:
        kinds: see above.
        as_json: see above.
        damaged: the number of faults.
        lines: the writer of records.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        as_json: bool = False,
        kinds: frozenset[Kind] = DEFAULT_KINDS,
        with_content: bool = True,
        from_offset: int = 0,
    ) -> None:
        self.kinds = kinds | {Kind.DAMAGE}
        self.as_json = as_json
        self.with_content = with_content
        self.from_offset = from_offset
        self.damaged = 0
        self._write = write
        self.lines = self._record_lines(0)

    def begin_log(self, next_offset: int) -> None:
        """Begin the records of another file.

        Args:
            next_offset: the expected first offset.
        """
        self.lines.flush()
        self.lines = self._record_lines(next_offset)

    def _record_lines(self, next_offset: int) -> RecordLines:
        return RecordLines(
            self._write,
            as_json=self.as_json,
            with_records=Kind.RECORD in self.kinds,
            with_content=self.with_content,
            with_gaps=Kind.GAP in self.kinds,
            next_offset=next_offset,
            from_offset=self.from_offset,
        )

    def say(self, kind: Kind, members: Mapping[str, object], text: str | None = None) -> None:
        """Write a line, if its kind was requested.

        Args:
            kind: see above.
            members: the members of the JSON object.
            text: the text of the line; by default, the names and values of the members.
        """
        if kind not in self.kinds:
            return
        if self.as_json:
            line = json.dumps({"kind": kind, **members}, ensure_ascii=True, separators=(",", ":"))
        else:
            line = members_text(members) if text is None else text
        self.lines.put(printable(line).encode(errors="backslashreplace") + b"\n")

    def note(self, text: str, **members: object) -> None:
        """Write a note, which is not damage."""
        self.say(Kind.NOTE, {"text": text, **members}, f"note: {text}")

    def damage(self, reason: str, position: int | None = None, passed_over: int | None = None) -> None:
        """Report damage.

        Args:
            reason: the fault, including the values.
            position: its position in the file in bytes, if it has one.
            passed_over: the number of bytes skipped because of the fault.
        """
        self.damaged += 1
        place = "" if position is None else f"position {position}: "
        left_out = "" if passed_over is None else f"; skipped {passed_over} bytes"
        members = {"position": position, "reason": reason, "passedOver": passed_over}
        self.say(Kind.DAMAGE, members, f"damage: {place}{reason}{left_out}")

    def flush(self) -> None:
        """Pass all pending lines to `write`."""
        self.lines.flush()


def members_text(members: Mapping[str, object]) -> str:
    """Return names and values in Kafka's form."""
    return " ".join(f"{name}: {_value_text(value)}" for name, value in members.items())


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "none" if value is None else str(value)
