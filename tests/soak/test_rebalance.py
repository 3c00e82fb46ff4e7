"""Duplicates are attributed to a crash, to a member that was considered dead, or to a graceful change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.soak.member import ASSIGNED, ENTRY, LOST
from tools.soak.rebalance import Member, Result, counted


class Ended(Member):
    """A member that has ended, with the records that it received."""

    def __init__(self, path: Path, *entries: tuple[int, int, float], killed: float | None = None) -> None:
        path.write_bytes(b"".join(ENTRY.pack(*entry) for entry in entries) + b"cut off")
        self.path = path
        self.killed = killed


@pytest.mark.parametrize(
    ("first", "killed", "expected"),
    [
        ([(0, 0, 1.0)], None, Result(2, 1, 1, 0, 0, 0.0)),
        ([(0, 0, 1.0)], 1.5, Result(2, 1, 0, 0, 1, 0.5)),
        ([(0, 0, 1.0)], 9.0, Result(2, 1, 1, 0, 0, 0.0)),
        ([(0, 0, 1.0), (0, LOST, 3.0)], None, Result(2, 1, 0, 1, 0, 0.0)),
    ],
    ids=["graceful", "killed", "killed later", "lost"],
)
def test_counts(tmp_path: Path, first: list[Any], killed: float | None, expected: Result) -> None:
    members: list[Member] = [
        Ended(tmp_path / "first", (0, ASSIGNED, 0.5), *first, killed=killed),
        Ended(tmp_path / "second", (0, 0, 2.0), (0, 1, 2.1)),
    ]
    assert counted(members) == expected
