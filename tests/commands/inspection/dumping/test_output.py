"""Lines of the selected kinds are written as text or JSON; damage is always reported and counted.

Method: write one line in each form.
"""

from __future__ import annotations

import json

from kafkawire.commands.inspection.dumping.output import DEFAULT_KINDS, Kind, Output, members_text


def lines_of(output: Output, out: list[bytes]) -> list[str]:
    output.flush()
    return b"".join(out).decode().splitlines()


def test_text() -> None:
    out: list[bytes] = []
    output = Output(out.append)
    output.say(Kind.ENTRY, {"offset": 5, "isControl": True, "horizon": None})
    output.say(Kind.NOTE, {"text": "unused"}, "as it is")
    output.say(Kind.GAP, {"after": 1})
    output.note("worth knowing")
    output.damage("wrong", 7, 8)
    output.damage("all wrong")
    assert output.damaged == 2
    assert lines_of(output, out) == [
        "offset: 5 isControl: true horizon: none",
        "as it is",
        "note: worth knowing",
        "damage: position 7: wrong; skipped 8 bytes",
        "damage: all wrong",
    ]


def test_json() -> None:
    out: list[bytes] = []
    output = Output(out.append, as_json=True, kinds=frozenset({Kind.NOTE}))
    output.say(Kind.ENTRY, {"offset": 5})
    output.note("worth knowing", number=1)
    output.damage("wrong", 7)
    assert list(map(json.loads, lines_of(output, out))) == [
        {"kind": "note", "text": "worth knowing", "number": 1},
        {"kind": "damage", "position": 7, "reason": "wrong", "passedOver": None},
    ]


def test_lines_stay_in_order_when_another_log_begins() -> None:
    out: list[bytes] = []
    output = Output(out.append)
    output.note("before")
    output.begin_log(5)
    output.note("after")
    assert lines_of(output, out) == ["note: before", "note: after"]
    assert output.lines.next_offset == 5


def test_the_kinds() -> None:
    assert set(Kind) - DEFAULT_KINDS == {Kind.GAP}
    assert members_text({}) == ""
