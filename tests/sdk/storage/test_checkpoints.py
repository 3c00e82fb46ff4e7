"""Checkpoints are read as Kafka writes them, and nothing that is damaged passes for one.

Method: exact contents, written by hand from files of Apache Kafka 4.3; a cut at every byte.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.checkpoints import DamagedCheckpoint, checkpoint_content, parse_epochs, parse_offsets


@pytest.mark.parametrize(
    "offsets", [{}, {("t", 0): 20, ("t-x", 1): 7}, {("t", 2**31 - 1): 2**63 - 1, ("a.b_c-1", 10): 0}]
)
def test_offsets(offsets: dict[tuple[str, int], int]) -> None:
    content = checkpoint_content([(*partition, offset) for partition, offset in offsets.items()])
    assert content.startswith(b"0\n%d\n" % len(offsets))
    assert parse_offsets(content) == offsets


def test_epochs() -> None:
    assert parse_epochs(b"0\n2\n0 0\n3 120\n") == [(0, 0), (3, 120)]
    assert parse_epochs(b"0\n0\n") == []
    highest = [(2**31 - 1, 2**63 - 1)]
    assert parse_epochs(checkpoint_content(highest)) == highest


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "begins with ''"),
        (b"\0" * 20, "begins with"),
        (b"1\n0\n", "not with version 0"),
        (b"0\n2\nt 0 5\n", "1 entries, 2 announced"),
        (b"0\n1\nt 0\n", "'t 0', 3 columns expected"),
        (b"0\n1\nt 0 x\n", "'x' is not a number"),
        (b"0\n1\nt 0 -1\n", "'-1' is not a number"),
        ("0\n1\nt 0 ٣\n".encode(), "is not a number"),
        (b"0\n1\n\xff 0 5\n", "can't decode"),
        (b"0\n1\nt 0 %d\n" % (2**63), f"{2**63} is too high, {2**63 - 1} is the limit"),
        (b"0\n1\nt %d 0\n" % (2**31), f"{2**31} is too high, {2**31 - 1} is the limit"),
        (b"0\n1\nt 0 %s\n" % (b"9" * 5000), f"{'9' * 20} is too high"),
    ],
)
def test_damage(content: bytes, problem: str) -> None:
    with pytest.raises(DamagedCheckpoint, match=problem):
        parse_offsets(content)


def test_what_a_crash_has_cut() -> None:
    whole = b"0\n2\n0 0\n3 120\n"
    for size in range(len(whole)):
        with pytest.raises(DamagedCheckpoint):
            parse_epochs(whole[:size])


@pytest.mark.parametrize(
    ("epochs", "problem"),
    [
        ([(2**31, 0)], "is too high"),
        ([(0, 2**63)], "is too high"),
        ([(1, 0), (1, 5)], "not in order"),
        ([(1, 5), (2, 4)], "not in order"),
    ],
)
def test_epochs_that_no_log_has(epochs: list[tuple[int, int]], problem: str) -> None:
    with pytest.raises(DamagedCheckpoint, match=problem):
        parse_epochs(checkpoint_content(epochs))
