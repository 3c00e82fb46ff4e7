"""The selected batches give the same producer states as all batches; the extension and Python select the same ones.

Method: select from a few batches for which the result is known, and from random histories of several producers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.records import BatchBuilder, stamp
from kafkawire.sdk.records.engines import selection
from kafkawire.sdk.records.engines.python_last_batches import LastBatches, last_batches
from tests.needs import EXTENSION
from tests.sdk.records.conftest import message_set

KINDS = [last_batches] if selection.built is None else [last_batches, selection.built.last_batches]
Kind = Callable[[Any, int, int, int], LastBatches]

ALL = 2**63 - 1


def batch(offset: int, producer_id: int = -1, **options: Any) -> bytes:
    if producer_id >= 0:
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, **options}
    builder = BatchBuilder(**options)
    builder.append(5, b"k", b"v")
    data = bytearray(builder.build())
    stamp(data, offset, 0)
    return bytes(data)


def batches(*producer_ids: int, first: int = 0, **options: Any) -> list[bytes]:
    return [batch(first + number, producer_id, **options) for number, producer_id in enumerate(producer_ids)]


def numbers(kind: Kind, data: list[bytes], from_offset: int = 0, end_offset: int = ALL, kept: int = 2) -> list[int]:
    """Return the numbers of the selected batches; all batches must have been scanned."""
    found, passed, last = kind(b"".join(data), from_offset, end_offset, kept)
    places = [len(b"".join(data[:number])) for number in range(len(data) + 1)]
    assert (passed, last) == (places[-1], places[-2])
    return [places.index(place) for place in found]


@pytest.mark.parametrize("kind", KINDS)
def test_last_ones_of_each_producer(kind: Kind) -> None:
    data = batches(3, 4, 3, -1, 3, 5, 3, -1)
    assert numbers(kind, data) == [1, 4, 5, 6]
    assert numbers(kind, data, kept=1) == [1, 5, 6]
    assert numbers(kind, data, kept=9) == [0, 1, 2, 4, 5, 6]
    assert numbers(kind, data, from_offset=2, kept=9) == [2, 4, 5, 6]
    assert numbers(kind, batches(-1, -1)) == []
    assert numbers(kind, batches(*range(40), *range(40))) == list(range(80)), "there must be room for many producers"


@pytest.mark.parametrize("kind", KINDS)
def test_first_of_a_transaction_and_every_control_batch(kind: Kind) -> None:
    data = batches(3, 3) + batches(3, 3, 3, 3, 3, first=2, is_transactional=True)
    assert numbers(kind, data) == [2, 5, 6]
    assert numbers(kind, data, kept=5) == [2, 3, 4, 5, 6], "the first batch may be one of the last batches"
    data += [batch(7, 4, is_transactional=True, is_control=True), *batches(3, 3, 3, first=8)]
    assert numbers(kind, data) == [2, 5, 6, 7, 9, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_stops(kind: Kind) -> None:
    data = batches(3, 3, 3)
    size = len(data[0])
    whole = b"".join(data)
    assert kind(whole, 0, 2, 5) == ([0, size], 2 * size, size)
    assert kind(whole, 0, 0, 5) == ([], 0, None)
    assert kind(b"", 0, ALL, 5) == ([], 0, None)
    assert kind(whole + message_set(0), 0, ALL, 5) == ([0, size, 2 * size], 3 * size, 2 * size)
    for cut in range(size):
        assert kind(memoryview(whole)[: size + cut], 0, ALL, 5) == ([0], size, 0)
    with pytest.raises(ValueError, match="0 batches are to be kept, but at least 1 is needed"):
        kind(whole, 0, ALL, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_undamaged_batch_may_have_a_gap_after_it(kind: Kind) -> None:
    size = len(batch(0, 3))
    with_gap = batch(0, 3) + batch(5, 3)
    assert kind(with_gap, 0, ALL, 5) == ([0, size], 2 * size, size)
    damaged = bytearray(with_gap)
    damaged[size - 1] ^= 1
    assert kind(damaged, 0, ALL, 5) == ([0], size, 0)
    without_gap = bytearray(batch(4, 3) + batch(5, 3))
    without_gap[size - 1] ^= 1
    assert kind(without_gap, 0, ALL, 5) == ([0, size], 2 * size, size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offsets", [(5, 5), (5, 4), (5, 0), (5, -1), (2**63 - 2, 0), (5, -(2**63))])
def test_no_batch_goes_back(kind: Kind, offsets: tuple[int, int]) -> None:
    first, second = (batch(offset, 3) for offset in offsets)
    assert kind(first + second, -(2**63), ALL, 5) == ([0], len(first), 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("base_offset", "delta"), [(-1, 0), (-(2**63), 0), (7, -1), (7, -(2**31))])
def test_no_batch_has_offsets_below_its_first_or_0(kind: Kind, base_offset: int, delta: int) -> None:
    data = bytearray(batch(0, 3))
    data[:8] = base_offset.to_bytes(8, "big", signed=True)
    data[23:27] = delta.to_bytes(4, "big", signed=True)
    assert kind(data, -(2**63), ALL, 5) == ([], 0, None)


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_near_the_highest(kind: Kind) -> None:
    data = bytearray(batch(2**63 - 2, 3))
    data[23:27] = (2**31 - 1).to_bytes(4, "big")
    size = len(data)
    assert kind(data, 0, ALL, 5) == ([0], size, 0)
    assert kind(data + batch(2**63 - 2, 3), 0, ALL, 5) == ([0], size, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [2**20, 2**58, 2**61, 2**63 - 1])
def test_any_number_of_batches_may_be_kept(kind: Kind, kept: int) -> None:
    data = batches(*range(12), *range(12))
    assert numbers(kind, data, kept=kept) == list(range(24))
    assert kind(b"", 0, 10**9, kept) == ([], 0, None)


@EXTENSION.mark
def test_random_batches_give_the_same_in_both() -> None:
    chance = random.Random(9)
    for _ in range(200):
        data, offset = bytearray(), 0
        for _ in range(chance.randrange(60)):
            options = {"is_transactional": chance.random() < 0.3, "is_control": chance.random() < 0.05}
            data += batch(offset, chance.randrange(4), **options)
            offset += chance.choice((1, 1, 1, 4))
        if chance.random() < 0.3 and data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        arguments = chance.randrange(20), chance.choice((ALL, chance.randrange(60))), chance.randrange(1, 7)
        assert KINDS[0](data, *arguments) == KINDS[1](data, *arguments)
