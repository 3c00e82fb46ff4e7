"""A survey of batches summarizes their headers, with the same result in the extension and in Python.

Method: survey batches with known sizes and times, change each byte of a batch, cut it at each length, and survey random
batches with both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.records import BatchBuilder, crc32c, stamp
from kafkawire.sdk.records.engines import selection
from kafkawire.sdk.records.engines.python_survey import Survey, SurveyEntry
from kafkawire.sdk.records.java_integers import INT32_MAX
from tests.needs import EXTENSION
from tests.sdk.records.conftest import message_set

KINDS = [Survey] if selection.built is None else [Survey, selection.built.Survey]
Kind = Callable[[int, int], Survey]


def batch(base_offset: int, *times: int, epoch: int = 0, value: bytes = b"v", **options: Any) -> bytes:
    builder = BatchBuilder(**options)
    for timestamp in times:
        builder.append(timestamp, b"k", value)
    data = bytearray(builder.build())
    stamp(data, base_offset, epoch)
    return bytes(data)


def content(survey: Survey) -> tuple[object, ...]:
    return (
        (survey.base_offset, survey.next_offset, survey.size_bytes, survey.bytes_since_entry),
        (survey.first_timestamp, survey.max_timestamp, survey.max_timestamp_offset),
        (survey.has_producers, survey.epochs),
    )


FIRST, SECOND = batch(10, 5, 7), batch(20, 9, 3, epoch=2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_batches_say(kind: Kind) -> None:
    survey, entries = kind(10, 50), list[SurveyEntry]()
    assert content(survey) == ((10, 10, 0, 0), (None, NO_TIMESTAMP, 10), (False, []))
    size, following = len(FIRST), len(SECOND)
    assert survey.add(FIRST, entries) == size
    assert (content(survey), entries) == (((10, 12, size, size), (7, 7, 11), (False, [(0, 10)])), [])
    assert survey.add(SECOND, entries) == following
    assert entries == [(21, size, 9, 21)]
    epochs = [(0, 10), (2, 20)]
    assert content(survey) == ((10, 22, size + following, following), (7, 9, 21), (False, epochs))
    third = batch(22, 9, 9, epoch=1, producer_id=4, producer_epoch=0, base_sequence=0)
    assert survey.add(memoryview(third), entries) == len(third)
    assert entries[1:] == [(23, size + following, 9, 21)], "the first batch with the highest timestamp must be used"
    assert (survey.has_producers, survey.epochs) == (True, epochs)


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_more_than_the_interval_apart(kind: Kind) -> None:
    batches = [batch(offset, 5) for offset in range(5)]
    for interval, positions in ((len(batches[0]) - 1, [1, 2, 3, 4]), (len(batches[0]), [2, 4])):
        entries: list[SurveyEntry] = []
        assert kind(0, interval).add(b"".join(batches), entries) == len(b"".join(batches))
        assert entries == [(number, number * len(batches[0]), 5, 0) for number in positions]


@pytest.mark.parametrize("kind", KINDS)
def test_control_batch_is_of_a_producer(kind: Kind) -> None:
    survey = kind(0, 50)
    survey.add(batch(0, 5, is_control=True), [])
    assert survey.has_producers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("last_offset_delta", "base_offset"),
    [(1, 11), (-1, 30), (-(2**31), 30), (1, -1), (1, INT32_MAX + 10), (INT32_MAX, 12), (1, 2**63 - 1)],
)
def test_offsets_that_cannot_follow(kind: Kind, last_offset_delta: int, base_offset: int) -> None:
    wrong = bytearray(SECOND)
    wrong[:8] = base_offset.to_bytes(8, "big", signed=True)
    wrong[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
    survey = kind(10, 50)
    assert survey.add(FIRST + bytes(wrong), []) == len(FIRST)
    assert (survey.next_offset, survey.size_bytes, survey.epochs) == (12, len(FIRST), [(0, 10)])


@pytest.mark.parametrize("kind", KINDS)
def test_highest_offset_that_can_follow(kind: Kind) -> None:
    last = bytearray(SECOND)
    last[:8] = (INT32_MAX + 9).to_bytes(8, "big")
    survey = kind(10, 50)
    assert survey.add(FIRST + bytes(last), []) == len(FIRST + last)
    assert survey.next_offset == INT32_MAX + 11


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("base_offset", "is_taken"), [(2**63 - 3, True), (2**63 - 2, False), (2**63 - 1, False)])
def test_the_offset_after_a_batch_is_one_too(kind: Kind, base_offset: int, is_taken: bool) -> None:
    last = bytearray(FIRST)
    last[:8] = base_offset.to_bytes(8, "big")
    survey = kind(2**63 - 5, 50)
    assert survey.add(last, []) == is_taken * len(FIRST)
    assert survey.next_offset == (2**63 - 1 if is_taken else 2**63 - 5)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_taken_of_a_damaged_or_cut_batch(kind: Kind) -> None:
    for position in range(len(SECOND)):
        damaged = bytearray(SECOND)
        damaged[position] ^= 0x81
        survey = kind(10, 50)
        # The checksum covers neither the base offset nor the leader epoch; if the sign changes, the base offset is too
        # low.
        is_taken = position in range(5, 8) or position in range(12, 16)
        assert survey.add(FIRST + bytes(damaged), []) == len(FIRST) + is_taken * len(SECOND), position
        survey = kind(10, 50)
        assert survey.add(FIRST + SECOND[:position], []) == len(FIRST)
        assert survey.add(SECOND, []) == len(SECOND)
    assert kind(0, 50).add(message_set(0), []) == 0
    assert kind(0, 50).add(b"", []) == 0


@EXTENSION.mark
def test_random_batches_say_the_same_in_both() -> None:
    chance = random.Random(8)
    for _ in range(200):
        data, offset = b"", chance.randrange(5)
        for _ in range(chance.randrange(30)):
            times = [chance.randrange(-1, 50) for _ in range(chance.randrange(1, 4))]
            options = {"producer_id": 3, "producer_epoch": 0, "base_sequence": 0} if chance.random() < 0.02 else {}
            data += batch(offset, *times, epoch=chance.randrange(4), value=bytes(chance.randrange(90)), **options)
            offset += len(times) + chance.choice((0, 0, 0, 5))
        if chance.random() < 0.3 and data:
            damaged = bytearray(data)
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            data = bytes(damaged)
        results = []
        interval, cut = chance.randrange(400), chance.randrange(len(data) + 1)
        for kind in KINDS:
            survey, entries = kind(0, interval), list[SurveyEntry]()
            added = survey.add(data[:cut], entries)
            added += survey.add(data[added:], entries)
            results.append((added, content(survey), entries))
        assert results[0] == results[1]
