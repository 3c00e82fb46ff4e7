"""One change between two states of the schemas, and its effect on programs that use the old state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkawire.codegen.versions import NONE, Versions

__all__ = ["Change", "Verdict"]


class Verdict(StrEnum):
    """The effect of a change on programs that use the old state."""

    #: No effect: programs work as before.
    COMPATIBLE = "compatible"
    #: The bytes are unchanged, but users should know about it.
    NOTE = "note"
    #: Programs would misread bytes, or send bytes that their peers misread.
    BREAKS = "breaks the wire"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        subject: the message, record format or enumeration, such as `FetchRequest`; `ErrorCode` for the error codes.
        field: the path of the field, or the name of the value; empty for the subject itself.
        what: the change in words.
        verdict: its effect.
        versions: the versions of the message that the change affects; none for subjects without versions.
    """

    subject: str
    field: str
    what: str
    verdict: Verdict
    versions: Versions = NONE

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, str(self.versions) if self.versions else "", self.field)))
        return f"{where}: {self.what} ({self.verdict})"
