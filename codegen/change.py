"""One change between two states of the schemas, and what it means for programs that speak the old state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkawire.codegen.versions import NONE, Versions

__all__ = ["Change", "Verdict"]


class Verdict(StrEnum):
    """What a change means for programs that speak the old state."""

    #: Nothing: they work as before.
    COMPATIBLE = "compatible"
    #: The bytes are as before, but somebody should know.
    NOTE = "note"
    #: They would misread the bytes, or send bytes that are misread.
    BREAKS = "breaks the wire"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        subject: the message, record format or enumeration, such as `FetchRequest`; `ErrorCode` for the error codes.
        field: the path of the field or the name of the value; empty for the subject itself.
        what: the change in words.
        verdict: what it means.
        versions: the versions of the message that have it; none for what has no versions.
    """

    subject: str
    field: str
    what: str
    verdict: Verdict
    versions: Versions = NONE

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, str(self.versions) if self.versions else "", self.field)))
        return f"{where}: {self.what} ({self.verdict})"
