"""A day in a small shop, written by the reference broker in seconds, as the data for the demo of the audit.

The broker's clock jumps ten minutes at a time, so the times between a group's commits and the records around them are
realistic. In a copy of the files, a byte is flipped, a segment is removed, and a batch is written twice.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkawire import NewTopic, TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.records.batch import stamp
from kafkawire.sdk.records.walk import walk_headers
from kafkawire.sync import Admin, Consumer, Producer
from kafkawire.testing import Broker

__all__ = ["ShopDay", "write_day"]

#: Monday, 2 March 2026, 00:00 UTC. It is always the same day, so every demo looks the same.
DAY_MS: Final = 1_772_409_600_000
_STEP_MS: Final = 600_000
_STEPS: Final = 144

_TOPICS: Final[dict[str, tuple[int, dict[str, str | None]]]] = {
    "clicks": (8, {}),
    "orders": (6, {}),
    "payments": (3, {}),
    "customers": (4, {"cleanup.policy": "compact"}),
    "sensors": (4, {}),
}

#: For each group, its topic, the step at which it pauses, the step at which it resumes, and the share of its backlog
#: that it reads in each other step.
_GROUPS: Final = {"billing": ("orders", 66, 84, 0.6), "recommendations": ("clicks", 0, 0, 0.07)}

#: The smallest segment size that a broker allows, which makes sure that there are several segments.
_SEGMENT_BYTES: Final = 1024 * 1024

_READING_BYTES: Final = 420

#: The share of transactions that are aborted; the share of orders that arrive late, and their average delay.
_ABORTED: Final = 0.09
_LATE: Final = 0.03
_LATE_MS: Final = 1_500_000

_CLOSE_TIMEOUT_MS: Final = 5_000


class ShopDay(NamedTuple):
    """The data that was written.

    Attributes:
        segments: the folder of the damaged copy.
        records: the number of records written, whatever the copy contains.
        topics: the number of topics.
        damage: a description of the damage.
    """

    segments: Path
    records: int
    topics: int
    damage: str


class _Clock:
    """A clock that jumps on request, and otherwise follows the machine's clock."""

    def __init__(self) -> None:
        self.set(DAY_MS)

    def set(self, time_ms: int) -> None:
        self._ahead_ms = time_ms - monotonic_ms()

    def __call__(self) -> int:
        return monotonic_ms() + self._ahead_ms


def write_day(folder: Path, scale: float = 1.0, seed: int = 2) -> ShopDay:
    """Let a broker write the day's data, and damage a copy of it.

    Args:
        folder: the folder for the broker's files and the copy.
        scale: factor for the number of records.
        seed: the seed for all random choices. The same seed gives the same records, but batch boundaries, and the
            partitions of records without a key, depend on the producers' timing.

    Raises:
        KafkaWireError: the broker refused a request.
        OSError: a file cannot be written.
    """
    clock = _Clock()
    segments = folder / "segments"
    with Broker(
        folder / "broker", wall_ms=clock, log_segment_bytes=_SEGMENT_BYTES, offsets_topic_num_partitions=2
    ) as broker:
        shop = _Shop(broker.bootstrap, clock, random.Random(seed), scale)
        try:
            shop.whole_day()
            shop.leave_a_transaction_open()
            shutil.copytree(broker.data_dir, segments)
        finally:
            shop.close()
    return ShopDay(segments, shop.written, len(_TOPICS), _damage(segments))


class _Shop:
    """The programs of the shop.

    Args:
        bootstrap: the broker's address.
        clock: the broker's clock.
        chance: the source of all random choices.
        scale: factor for the number of records.

    Attributes:
        written: the number of records written.
    """

    def __init__(self, bootstrap: str, clock: _Clock, chance: random.Random, scale: float) -> None:
        self.written = 0
        self._clock = clock
        self._chance = chance
        self._scale = scale
        self._read: dict[TopicPartition, float] = {}
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic(name, count, 1, configs) for name, (count, configs) in _TOPICS.items()])
        self._producers: dict[str, Producer] = {
            "clicks": Producer(bootstrap, compression="snappy"),
            "orders": Producer(bootstrap, compression="zstd"),
            "customers": Producer(bootstrap, compression="gzip"),
            "sensors": Producer(bootstrap, compression="none"),
            "payments": Producer(bootstrap, compression="lz4", transactional_id="checkout"),
        }
        self._groups: dict[str, Any] = {
            name: Consumer(bootstrap, group_id=name, enable_auto_commit=False) for name in _GROUPS
        }
        for each in (*self._producers.values(), *self._groups.values()):
            each.start()

    def close(self) -> None:
        """Disconnect every program."""
        for each in (*self._groups.values(), *self._producers.values()):
            each.close(timeout_ms=_CLOSE_TIMEOUT_MS)

    def whole_day(self) -> None:
        """Write and read the day in steps of ten minutes."""
        for step in range(_STEPS):
            start_ms = DAY_MS + step * _STEP_MS
            self._clock.set(start_ms + _STEP_MS)
            for topic, records in self._records(step, start_ms).items():
                producer = self._producers[topic]
                if topic != "payments":
                    self._send(topic, records)
                    continue
                producer.begin_transaction()
                self._send(topic, records)
                if self._chance.random() < _ABORTED:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
            for group in _GROUPS:
                self._commit(group, step)

    def leave_a_transaction_open(self) -> None:
        """Begin a transaction for a payment, and never end it."""
        self._producers["payments"].begin_transaction()
        self._send("payments", [_Sent(b"order 0", b'{"amount": 12.5}', DAY_MS + _STEPS * _STEP_MS)])

    def _send(self, topic: str, records: Sequence[_Sent]) -> None:
        producer = self._producers[topic]
        for record in records:
            producer.send(topic, record.value, key=record.key, timestamp_ms=record.time_ms)
        producer.flush()
        self.written += len(records)

    def _records(self, step: int, start_ms: int) -> dict[str, list[_Sent]]:
        """Return the records of ten minutes: few at night, most around noon and in the evening."""
        hour = step / 6
        busy = 0.2 + exp(-(((hour - 12.5) / 3.6) ** 2)) + 0.7 * exp(-(((hour - 20) / 1.8) ** 2))
        sale = 3.2 if 14 <= hour < 14.7 else 1
        chance = self._chance
        count = {
            "clicks": 700 * busy * sale,
            "orders": 150 * busy * (sale**0.5),
            "payments": 70 * busy,
            "customers": 45 * busy,
            "sensors": 170,
        }
        makers = {
            "clicks": _click,
            "orders": _order,
            "payments": _payment,
            "customers": _customer,
            "sensors": _reading,
        }
        found = {}
        for topic, make in makers.items():
            number = max(int(count[topic] * self._scale), 1)
            times = sorted(start_ms + chance.randrange(_STEP_MS) for _ in range(number))
            found[topic] = [_Sent(*make(chance), time_ms) for time_ms in times]
        # Some phones are offline, and send their orders later.
        orders = found["orders"]
        for index in range(len(orders)):
            if chance.random() < _LATE:
                late_ms = int(chance.expovariate(1 / _LATE_MS))
                orders[index] = orders[index]._replace(time_ms=max(orders[index].time_ms - late_ms, DAY_MS))
        return found

    def _commit(self, group: str, step: int) -> None:
        """Commit offsets as if the group had read a part of its backlog."""
        topic, pause, resume, part = _GROUPS[group]
        if pause <= step < resume:
            return
        consumer = self._groups[group]
        ends = consumer.end_offsets([TopicPartition(topic, number) for number in range(_TOPICS[topic][0])])
        for partition, end in ends.items():
            before = self._read.get(partition, 0.0)
            self._read[partition] = before + (end - before) * part
        consumer.commit({partition: int(self._read[partition]) for partition in ends})


class _Sent(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    time_ms: int


_Content = tuple[bytes | None, bytes | None]


def _click(chance: random.Random) -> _Content:
    page = chance.choice(["/", "/shoes", "/hats", "/cart", "/search?q=boots", "/help", "/account"])
    session = int(chance.paretovariate(0.12)) % 5000
    text = {"session": session, "page": page, "ms": chance.randrange(20, 900), "agent": "Mozilla/5.0 (X11; Linux)"}
    return (b"session %d" % session if chance.random() < 0.7 else None), json.dumps(text).encode()


def _order(chance: random.Random) -> _Content:
    customer = int(chance.paretovariate(0.25)) % 900
    items = [{"sku": f"S-{chance.randrange(400):04}", "count": 1 + int(chance.expovariate(1))} for _ in range(3)]
    return b"customer %d" % customer, json.dumps({"customer": customer, "items": items, "currency": "EUR"}).encode()


def _payment(chance: random.Random) -> _Content:
    text = {"amount": round(chance.lognormvariate(3.4, 0.7), 2), "method": chance.choice(["card", "transfer"])}
    return b"order %d" % chance.randrange(20_000), json.dumps(text).encode()


def _customer(chance: random.Random) -> _Content:
    customer = chance.randrange(300)
    if chance.random() < 0.05:
        return b"customer %d" % customer, None
    text = {"name": f"Customer {customer}", "city": chance.choice(["Lyon", "Porto", "Graz", "Gent"]), "points": 10}
    return b"customer %d" % customer, json.dumps(text).encode()


def _reading(chance: random.Random) -> _Content:
    sensor = 7 if chance.random() < 0.45 else chance.randrange(40)
    return b"sensor %d" % sensor, chance.randbytes(_READING_BYTES)


def _damage(folder: Path) -> str:
    """Damage the copy of a broker's files, and return a description."""
    clicks = _largest(folder, "clicks")
    batches = list(walk_headers(clicks.read_bytes()))
    flipped = batches[len(batches) // 2]
    content = bytearray(clicks.read_bytes())
    content[flipped.position + flipped.size_in_bytes - 5] ^= 1
    clicks.write_bytes(content)

    orders = _largest(folder, "orders")
    content = bytearray(orders.read_bytes())
    last = list(walk_headers(bytes(content)))[-1]
    again = bytearray(last.data)
    stamp(again, last.next_offset, last.partition_leader_epoch)
    orders.write_bytes(content + again)

    said = [f"a byte of {clicks.parent.name} is flipped", f"a batch of {orders.parent.name} is duplicated"]
    segments = sorted(_largest(folder, "sensors").parent.glob("*.log"))
    if len(segments) > 2:
        segments[1].unlink()
        said.append(f"a segment of {segments[1].parent.name} is missing")
    return ", ".join(said)


def _largest(folder: Path, topic: str) -> Path:
    """Return the last segment of a topic's largest partition."""

    def size(partition: Path) -> tuple[int, str]:
        return sum(segment.stat().st_size for segment in partition.glob("*.log")), partition.name

    return max(max(folder.glob(f"{topic}-*"), key=size).glob("*.log"))
