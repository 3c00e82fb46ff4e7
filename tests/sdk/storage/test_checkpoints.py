"""Checkpoints are read as Kafka writes them, and damage is always noticed.

Method: read exact contents, copied by hand from files of Apache Kafka 4.3, and cut them at every byte.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.checkpoints import checkpoint_content, parse_epochs, parse_offsets
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.partitions import Partition


@pytest.mark.parametrize(
    "offsets", [{}, {("t", 0): 20, ("t-x", 1): 7}, {("t", 2**31 - 1): 2**63 - 1, ("a.b_c-1", 10): 0}]
)
def test_offsets(offsets: dict[Partition, int]) -> None:
    content = checkpoint_content([(*partition, offset) for partition, offset in offsets.items()])
    assert content.startswith(b"0\n%d\n" % len(offsets))
    assert dict(parse_offsets(content)) == offsets


def test_epochs() -> None:
    assert list(parse_epochs(b"0\n2\n0 0\n3 120\n")) == [(0, 0), (3, 120)]
    assert list(parse_epochs(b"0\n0\n")) == []
    highest = [(2**31 - 1, 2**63 - 1)]
    assert list(parse_epochs(checkpoint_content(highest))) == highest


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "on the first line, got ''"),
        (b"\0" * 20, "expected version 0 on the first line"),
        (b"1\n0\n", "expected version 0 on the first line"),
        (b"0\n2\nt 0 5\n", "there are 1 entries, but the header says 2"),
        (b"0\n1\nt 0\n", "'t 0' does not have 3 columns"),
        (b"0\n1\nt 0 x\n", "'x' is not a number"),
        (b"0\n1\nt 0 -1\n", "'-1' is not a number"),
        ("0\n1\nt 0 ٣\n".encode(), "is not a number"),
        (b"0\n1\n\xff 0 5\n", "not UTF-8: invalid start byte 0xff"),
        (b"0\n1\nt 0 %d\n" % (2**63), f"{2**63} is too high; the limit is {2**63 - 1}"),
        (b"0\n1\nt %d 0\n" % (2**31), f"{2**31} is too high; the limit is {2**31 - 1}"),
        (b"0\n1\nt 0 %s\n" % (b"9" * 5000), f"{'9' * 20} is too high"),
    ],
)
def test_damage(content: bytes, problem: str) -> None:
    with pytest.raises(DamagedContent, match=problem):
        dict(parse_offsets(content))


def test_what_a_crash_has_cut() -> None:
    whole = b"0\n2\n0 0\n3 120\n"
    for size in range(len(whole)):
        with pytest.raises(DamagedContent):
            list(parse_epochs(whole[:size]))


@pytest.mark.parametrize(
    ("epochs", "problem"),
    [
        ([(2**31, 0)], "is too high"),
        ([(0, 2**63)], "is too high"),
        ([(1, 0), (1, 5)], "out of order"),
        ([(1, 5), (2, 4)], "out of order"),
    ],
)
def test_epochs_that_no_log_has(epochs: list[tuple[int, int]], problem: str) -> None:
    with pytest.raises(DamagedContent, match=problem):
        list(parse_epochs(checkpoint_content(epochs)))


@pytest.mark.parametrize(
    ("content", "offsets", "reasons"),
    [
        (b"", {}, ["expected version 0 on the first line, got ''"]),
        (b"0\n1\n\xff 0 5\n", {}, ["not UTF-8: invalid start byte 0xff"]),
        (b"0\n3\na 0 1\nb 0\nc 0 x\n", {("a", 0): 1}, ["'b 0' does not have 3 columns", "'x' is not a number"]),
        (b"0\n3\na 0 1\nb 0 2\n", {("a", 0): 1, ("b", 0): 2}, ["there are 2 entries, but the header says 3"]),
        (b"0\n2\na 0 1\nb 0 2", {("a", 0): 1}, ["its last line is incomplete, and may have lost digits"]),
        (b"0\n2", {}, ["its last line is incomplete, and may have lost digits"]),
    ],
)
def test_what_is_sound_of_a_damaged_file(content: bytes, offsets: dict[Partition, int], reasons: list[str]) -> None:
    told: list[DamagedContent] = []
    assert dict(parse_offsets(content, told.append)) == offsets
    assert [damage.reason for damage in told] == reasons


def test_epochs_out_of_order_are_given() -> None:
    told: list[DamagedContent] = []
    assert list(parse_epochs(checkpoint_content([(1, 5), (2, 4), (3, 7)]), told.append)) == [(1, 5), (2, 4), (3, 7)]
    assert [damage.reason for damage in told] == ["its epochs are out of order: 2, 4 follows 1, 5"]
