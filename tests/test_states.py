"""The page on state machines draws every table, edge by edge, and every table can be drawn.

Method: search the sources for tables, and check the diagrams for characters that would end a label; Mermaid does not
render them here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.states import Edges
from tools import states
from tools.states import MACHINES, Machine

ROOT = Path(__file__).parents[1]
ALL = [pytest.param(machine, id=machine.title) for machines in MACHINES.values() for machine in machines]

#: A transition between two states in a diagram.
_EDGE = re.compile(r"^ {4}(\w+) --> (\w+): (.+)$", re.MULTILINE)


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert states.main(["--check"]) == 0
    assert capsys.readouterr().out == "the page of the tables of edges is up to date\n"


def test_drift_is_noticed_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(states, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    assert states.main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/states.md differs from the tables of edges; run `python -m tools.states`\n"
    assert states.main([]) == 0
    assert states.main(["--check"]) == 0
    (tmp_path / "docs/states.md").write_text("# State machines\n", "utf-8")
    assert states.main(["--check"]) == 1


def test_every_table_is_on_the_page() -> None:
    listed = [machine.source for machines in MACHINES.values() for machine in machines]
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("sdk", "reference_broker", "src/kafkawire/local_cluster")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for _ in re.findall(r"^\w+: Final = Edges\(", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(listed) == sorted(found)


@pytest.mark.parametrize("machine", ALL)
def test_the_page_has_every_edge(machine: Machine) -> None:
    page = states.page()
    diagram = page[page.index(f"### {machine.title}\n") :].split("```")[1]
    drawn = {(before, after): label.replace("<br/>", " ") for before, after, label in _EDGE.findall(diagram)}
    table = machine.edges.edges
    assert drawn == {
        (before.name, after.name): event for before, follows in table.items() for after, event in follows.items()
    }
    for state in machine.edges.first:
        assert f"    [*] --> {state.name}\n" in diagram
    for state, event in machine.edges.from_any.items():
        assert f"- From every state to {state.name}: {event}.\n" in page


@pytest.mark.parametrize("machine", ALL)
def test_a_table_is_whole(machine: Machine) -> None:
    """Every target state is reachable from the initial ones, and every edge has a label."""
    edges = machine.edges
    events = [event for follows in (*edges.edges.values(), edges.from_any) for event in follows.values()]
    assert all(re.fullmatch(r"[\w' ,.-]+", event) for event in events), "Mermaid must accept every label unquoted"
    reached = set(edges.first)
    while new := {after for before, after in edges if before in reached} - reached:
        reached |= new
    # States written by a later release also count as initial.
    assert {state for _, state in edges} <= reached


class Door(Enum):
    """A door."""

    #: Nobody can pass,
    #: unless by the window.
    SHUT = auto()
    #: Of no state.

    AJAR = auto()
    OPEN = auto()


def diagram(first: Iterable[Door], edges: dict[Door, dict[Door, str]]) -> str:
    table: Edges[Any] = Edges("a door", tuple(first), edges)
    return states.drawn(table)


def test_a_diagram() -> None:
    long = "somebody pushes it who has come with both hands full"
    assert diagram([Door.SHUT, Door.AJAR], {Door.SHUT: {Door.OPEN: long}, Door.OPEN: {Door.SHUT: "the wind"}}) == (
        "stateDiagram-v2\n"
        "    [*] --> SHUT\n"
        "    [*] --> AJAR\n"
        "    SHUT --> OPEN: somebody pushes it who has<br/>come with both hands full\n"
        "    OPEN --> SHUT: the wind"
    )


def test_what_a_state_means_is_read_from_the_comment_on_it() -> None:
    assert list(states.meanings(Door)) == [("SHUT", "Nobody can pass, unless by the window.")]
