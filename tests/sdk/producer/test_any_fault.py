"""Whatever fails, each delivery is settled once and in time, and acknowledged records are stored once and in order.

Method: inject seeded faults on a simulated clock; the name of a failing test contains the seed.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.producer.simulated import SimulatedProducer, chance, outcome_of, sent
from tests.sdk.simulation import SILENT
from tests.thorough import sampled

#: A delivery is settled at most this long after `delivery_timeout_ms`.
GRACE_MS = 100

LATE = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("seed", sampled(range(40), 3))
def test_each_record_is_stored_once_or_fails_by_its_deadline(seed: int) -> None:
    """Despite all faults, deliveries are settled once and in time; acknowledged records are stored once, in order."""
    random = Random(seed)
    timeout_ms = random.choice([1_500, 5_000, 60_000])
    producer = SimulatedProducer(
        {"t": [1, 2, 3, 1]},
        fraction=chance(seed),
        batch_size=random.choice([128, 400, 4096]),
        linger_ms=random.choice([0, 5, 50]),
        delivery_timeout_ms=timeout_ms,
        request_timeout_ms=random.choice([300, 2_000]),
        max_in_flight=random.choice([1, 5]),
        compression=random.choice(["none", "gzip"]),
    )
    producer.simulation.latency_ms = random.choice([1, 20])
    faults = _Faults(producer, random)
    settled: Counter[int] = Counter()
    records: list[tuple[int, int, bytes, Delivery]] = []

    def note(delivery: Delivery) -> None:
        settled[id(delivery)] += 1

    for number in range(150):
        if number % 10 == 0:
            faults.happen()
        partition = random.randrange(4)
        value = b"%05d" % number + b"x" * random.choice([0, 30, 200])
        delivery = producer.send("t", value, partition=partition, on_delivery=note)
        records.append((producer.simulation.now_ms, partition, value, delivery))
        producer.run(random.choice([0, 0, 1, 30]))
    while not all(delivery.done for *_, delivery in records):
        late = [at for at, *_, delivery in records if not delivery.done]
        assert producer.simulation.now_ms <= min(late) + timeout_ms + GRACE_MS
        producer.run(50)
        if random.random() < 0.1:
            faults.happen()
    faults.end()
    producer.run(120_000)
    assert set(settled.values()) == {1}
    assert producer.accumulator.bytes_held == 0
    for partition in range(4):
        stored = producer.values("t", partition)
        assert max(Counter(stored).values(), default=1) == 1, "no record may be stored twice"
        mine = [(value, delivery) for _, at, value, delivery in records if at == partition]
        good = [value for value, delivery in mine if isinstance(outcome_of(delivery), RecordMetadata)]
        kept = set(good)
        assert [value for value in stored if value in kept] == good, "acknowledged records must be stored in order"
        for value, delivery in mine:
            place = outcome_of(delivery)
            if isinstance(place, RecordMetadata) and place.offset >= 0:
                assert producer.log("t", partition).values[place.offset] == value
    # Whatever happened, the producer must work again.
    assert all(isinstance(outcome_of(sent(producer, b"end", partition=number)), RecordMetadata) for number in range(4))


class _Faults:
    """Random faults."""

    def __init__(self, producer: SimulatedProducer, random: Random) -> None:
        self.producer = producer
        self.random = random
        self.modes = dict.fromkeys(producer.nodes, "fine")
        for node in producer.nodes:
            store = producer.simulation.handlers[node, ProduceRequest]
            producer.simulation.handlers[node, ProduceRequest] = self._handler(node, store)

    def happen(self) -> None:
        """Change the state of the brokers at random."""
        producer, random = self.producer, self.random
        node = random.choice(producer.nodes)
        self.modes[node] = random.choice(["fine", "fine", "lost", "stored, then lost", "silent", "stored, then silent"])
        producer.simulation.down = {random.choice(producer.nodes)} if random.random() < 0.2 else set()
        if random.random() < 0.2:
            producer.simulation.break_connections(node)
        if random.random() < 0.3:
            producer.leaders["t"][random.randrange(4)] = random.choice([1, 2, 3, None])
        codes = [0, 0, 0, LATE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_RECORD]
        weights = [random.choice(codes) for _ in range(4)]
        producer.refuse = lambda topic, number, batch: random.choice(weights) if random.random() < 0.3 else 0
        producer.max_batch_bytes = random.choice([1 << 20, 1 << 20, 350])

    def end(self) -> None:
        """Make everything work from now on."""
        self.modes = dict.fromkeys(self.producer.nodes, "fine")
        self.producer.simulation.down = set()
        self.producer.leaders["t"] = [1, 2, 3, 1]
        self.producer.refuse = lambda topic, number, batch: 0
        self.producer.max_batch_bytes = 1 << 20

    def _handler(self, node: int, store: Any) -> Any:
        def handle(request: ProduceRequest, version: int) -> Any:
            mode = self.modes[node]
            if mode != "fine" and self.random.random() < 0.3:
                self.modes[node] = "fine"
            answer = store(request, version) if mode == "fine" or "stored" in mode else SILENT
            if "lost" in mode:
                return ConnectionLost("reset by peer")
            return SILENT if "silent" in mode else answer

        return handle
