"""A change is described in one line of text.

Method: print a change with all attributes, and one with only a subject.
"""

from __future__ import annotations

from kafkawire.codegen.change import Change, Verdict
from kafkawire.codegen.versions import Versions


def test_text() -> None:
    change = Change("FetchRequest", "topics.name", "removed", Verdict.BREAKS, Versions(0, 3))
    assert str(change) == "FetchRequest 0-3 topics.name: removed (breaks the wire)"
    assert str(Change("Colour", "", "new enumeration", Verdict.COMPATIBLE)) == "Colour: new enumeration (compatible)"
