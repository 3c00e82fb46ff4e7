"""Keys are returned in the order in which Java's hash tables iterate.

Method: compare with hashes and orders that were recorded from a Java virtual machine.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.java_order import java_order, long_hash, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("t0", 3644),
        ("consumer-group-1-5f0c", 63532133),
        ("日本", 835047),
        ("\N{GRINNING FACE}", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_string_hash(text: str, expected: int) -> None:
    assert string_hash(text) == expected % 2**32


@pytest.mark.parametrize(("number", "expected"), [(0, 0), (70000, 70000), (2**32 + 1, 0), (2**63 - 1, 2**31), (-1, 0)])
def test_long_hash(number: int, expected: int) -> None:
    assert long_hash(number) == expected


@pytest.mark.parametrize(
    "keys",
    [
        "gf1x azkd 1zep 3yvw dr0h",
        "16b8 4xkt sj9 1cel 66jy l2rb 963z at5q wf7 ky2b dx3e gejo",
        "7e2q h4w2 geh2 9zqb jcs9 1tgg legh kcy0 gna 3mf5 15hr 97yd g6ls",
        "ei4r hoy0 gfx8 2kkj 2dk4 6874 lt5h m46j mg0r lf3r 6qgn 1o9a 4wt 9250 7jig i5qq im9r mfmr 4wzr dga2 7a4n 9fc8 "
        "e002 17gv lb6r",
    ],
    ids=["5 in 16 buckets", "12 in 16 buckets", "13 in 32 buckets", "25 in 64 buckets"],
)
def test_order(keys: str) -> None:
    members = [f"member-{key}" for key in keys.split()]
    assert java_order(sorted(members), string_hash) == members


def test_equal_buckets_keep_the_order_of_insertion() -> None:
    assert string_hash("Aa") == string_hash("BB")
    assert java_order(["BB", "x", "Aa"], string_hash).index("BB") < java_order(["BB", "x", "Aa"], string_hash).index(
        "Aa"
    )
    assert java_order([], string_hash) == []
