"""Sums over records do not depend on where the records are split, and never hold more than allowed.

Method: add random records in pieces of several sizes, and compare the merged results with a plain loop.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

import pyarrow

from kafkawire.sdk.spark.audit.sums import KEY_BYTES_MAX, Sums, short_key

Record = tuple[bytes | None, int, int, bytes | None]


def table(records: Iterable[Record]) -> Any:
    keys, offsets, times, values = zip(*records, strict=True)
    return pyarrow.table(
        {
            "key": pyarrow.array(keys, pyarrow.binary()),
            "offset": pyarrow.array(offsets, pyarrow.int64()),
            "timestamp": pyarrow.array(times, pyarrow.int64()),
            "value": pyarrow.array(values, pyarrow.binary()),
        }
    )


def some_records(count: int) -> list[Record]:
    chance = random.Random(3)
    return [
        (
            None if chance.random() < 0.1 else b"key %d" % chance.randrange(20),
            offset,
            chance.choice([-1, -60_001, 0, 59_999, 60_000, 10**13 + offset * 999]),
            None if chance.random() < 0.2 else chance.randbytes(chance.randrange(9)),
        )
        for offset in range(count)
    ]


def expected(records: Iterable[Record]) -> tuple[dict[bytes | None, tuple[Any, ...]], dict[int | None, list[int]]]:
    keys: dict[bytes | None, tuple[Any, ...]] = {}
    minutes: dict[int | None, list[int]] = {}
    for key, offset, time, value in records:
        size = len(key or b"") + len(value or b"")
        count, total = keys.get(key, (0, 0))[:2]
        keys[key] = count + 1, total + size, offset, size, value is None
        of = minutes.setdefault(None if time == -1 else time // 60_000, [0, 0])
        of[0] += 1
        of[1] += size
    return keys, minutes


@pytest.mark.parametrize("piece", [1, 7, 100, 400])
def test_pieces(piece: int) -> None:
    records = some_records(400)
    sums = Sums(rows_max=30, held_max=25)
    for start in range(0, len(records), piece):
        sums.add(table(records[start : start + piece]))
        assert sums.take_full()[0] is None  # 21 keys are fewer than the limit
    keys, minutes = sums.take()
    assert keys is not None
    assert minutes is not None
    wanted_keys, wanted_minutes = expected(records)
    assert {row["key"]: tuple(row.values())[1:] for row in keys.to_pylist()} == wanted_keys
    found: dict[int | None, list[int]] = {}
    for row in minutes.to_pylist():
        of = found.setdefault(row["minute"], [0, 0])
        of[0] += row["records"]
        of[1] += row["recordBytes"]
    assert found == wanted_minutes
    assert sums.take() == (None, None)


def test_many_keys_are_handed_over() -> None:
    sums = Sums(rows_max=10, held_max=5)
    sums.add(table([(b"%d" % number, number, 0, b"") for number in range(10)]))
    keys, minutes = sums.take_full()
    assert keys is not None
    assert keys.num_rows == 10
    assert minutes is None
    assert sums.take()[0] is None


def test_long_keys() -> None:
    first, second = b"x" * KEY_BYTES_MAX + b"1", b"x" * KEY_BYTES_MAX + b"2"
    sums = Sums()
    sums.add(table([(first, 0, 0, b"v"), (second, 1, 0, b"v"), (first, 2, 0, None), (None, 3, 0, b"v")]))
    keys, _ = sums.take()
    assert keys is not None
    found = {row["key"]: (row["records"], row["recordBytes"]) for row in keys.to_pylist()}
    assert found == {short_key(first): (2, 2 * 129 + 1), short_key(second): (1, 130), None: (1, 1)}
    assert all(key is None or len(key) <= KEY_BYTES_MAX for key in found)
    assert short_key(b"x" * KEY_BYTES_MAX) == b"x" * KEY_BYTES_MAX
