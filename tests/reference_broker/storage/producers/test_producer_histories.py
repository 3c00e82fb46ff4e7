"""Whatever is sent, the producer state gives the same answers as a model that keeps all batches.

Method: send random batches, duplicates, gaps, new epochs and transactions; the model searches its lists.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.producers.producer_snapshots import (
    decode_snapshot,
    encode_snapshot,
    producer_state_entries,
)
from kafkawire.reference_broker.storage.producers.producers import BATCHES_KEPT, CompletedTransaction, Producers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.producer_cases import EPOCH, HIGHEST, ORDER, Log, batch


class Model:
    """Keeps every batch of every producer in lists, and answers by searching them."""

    def __init__(self) -> None:
        self.history: dict[int, list[tuple[int, int, int, int]]] = {}  # (epoch, first, last, offset)
        self.end_offset = 0

    def append(self, header: BatchHeader) -> int | ErrorCode:
        appended = self.history.setdefault(header.producer_id, [])
        first, count, epoch = header.base_sequence, header.last_offset_delta + 1, header.producer_epoch
        last = (first + count - 1) % 2**31
        current = appended[-1][0] if appended else None
        of_epoch = [entry for entry in appended if entry[0] == epoch] if epoch == current else []
        for entry in of_epoch[-BATCHES_KEPT:]:
            if entry[1:3] == (first, last):
                return entry[3]
        if current is not None:
            if epoch < current:
                return EPOCH
            if first != ((of_epoch[-1][2] + 1) % 2**31 if of_epoch else 0):
                return ORDER
        offset, self.end_offset = self.end_offset, self.end_offset + count
        appended.append((epoch, first, last, offset))
        return offset


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_beside_a_model(seed: int) -> None:
    chance = random.Random(seed)
    log, model = Log(), Model()
    sent: list[BatchHeader] = []
    next_sequence = {producer: chance.choice([0, HIGHEST - 3]) for producer in range(3)}
    epochs = dict.fromkeys(range(3), 0)
    for step in range(400):
        producer = chance.randrange(3)
        kind = chance.random()
        if sent and kind < 0.3:
            header = sent[-1 - min(int(chance.expovariate(0.3)), len(sent) - 1)]
        elif kind < 0.4:
            header = batch(chance.randrange(6), chance.randint(1, 3), producer=producer, epoch=epochs[producer])
        else:
            if kind > 0.97:
                epochs[producer] += 1
                next_sequence[producer] = 0
            count = chance.randint(1, 4)
            header = batch(next_sequence[producer], count, producer=producer, epoch=epochs[producer])
            next_sequence[producer] = (next_sequence[producer] + count) % 2**31
        sent.append(header)
        try:
            answer: int | ErrorCode = log.append(header)
        except BrokerError as error:
            answer = error.code
        assert answer == model.append(header), f"seed {seed}, step {step}: {header}"
    assert log.producers.end_offset == model.end_offset


@pytest.mark.parametrize("seed", range(30))
def test_random_transactions_beside_a_model(seed: int) -> None:
    chance = random.Random(seed)
    log = Log()
    sequences = dict.fromkeys(range(4), 0)
    is_open: dict[int, int] = {}  # the first offset of each producer
    ended: list[tuple[int, int]] = []  # (first offset, offset of the marker)
    high_watermark = 0
    for step in range(300):
        producer, end = chance.randrange(4), log.producers.end_offset
        if chance.random() < 0.2:
            high_watermark = chance.randint(high_watermark, end)
            log.producers.note_high_watermark(high_watermark)
        elif producer in is_open and chance.random() < 0.4:
            is_commit = chance.random() < 0.5
            first = is_open.pop(producer)
            stable = min(is_open.values(), default=end + 1)
            expected = CompletedTransaction(producer, first, end, not is_commit, stable)
            assert log.end(is_commit, producer) == expected, f"seed {seed}, step {step}"
            ended.append((first, end))
        else:
            if producer in is_open:
                log.append(batch(sequences[producer], producer=producer, transactional=True))
            else:
                is_open[producer] = log.begin(sequences[producer], producer)
            sequences[producer] += 1
        unstable = [*is_open.values(), *(first for first, marker in ended if marker >= high_watermark)]
        assert log.producers.first_unstable_offset == min(unstable, default=None), f"seed {seed}, step {step}"
        restored = Producers()
        restored.restore(
            decode_snapshot(encode_snapshot(producer_state_entries(log.producers))), log.producers.end_offset
        )
        assert restored.first_unstable_offset == min(is_open.values(), default=None)
