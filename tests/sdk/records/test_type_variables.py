"""Type checkers know the types of keys and values, from serializers and deserializers or from annotations.

Method: check one program with mypy and pyright; `assert_type` states what they must infer, and a comment marks each
line that they must refuse.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """\
from typing import Any, assert_type
from kafkawire import Consumer, ConsumerInterceptor, Delivery, Producer, Record, sync
import json


class Order:
    def __init__(self, data: bytes) -> None: ...
    def encoded(self) -> bytes: return b""


async def asynchronous() -> None:
    async with Consumer("a:1", "t", key_deserializer=bytes.decode, value_deserializer=Order) as consumer:
        assert_type(consumer, Consumer[str, Order])
        async for record in consumer:
            assert_type(record, Record[str, Order])
            assert_type(record.key, str | None)
            assert_type(record.value, Order | None)
        for records in (await consumer.getmany()).values():
            assert_type(records, list[Record[str, Order]])
        async for record in consumer.records(stop_at_end=True):
            assert_type(record.value, Order | None)
    async with Consumer("a:1", "t") as plain:
        async for each in plain:
            assert_type(each.value, bytes | None)
    async with Producer("a:1", value_serializer=Order.encoded) as producer:
        assert_type(producer.send("t", Order(b""), key="k"), Delivery)
        producer.send("t", b"order")  # refused
        await producer.send_many("t", [Order(b""), None])
        await producer.send_many("t", [b"order"])  # refused
    async with Producer("a:1") as bytes_or_text:
        bytes_or_text.send("t", "text", key=b"bytes")
        bytes_or_text.send("t", 5)  # refused


def blocking(given: "sync.Consumer[str, Any]", plain: sync.Consumer, producer: sync.Producer) -> None:
    for record in given:
        assert_type(record.key, str | None)
    for each in plain.records():
        assert_type(each, Record[bytes, bytes])
    producer.send("t", b"x").result().offset
    with sync.Consumer("a:1", "t", value_deserializer=json.loads) as consumer:
        blocking(consumer, plain, producer)  # refused
    with sync.Producer("a:1", key_serializer=lambda key: b"", value_serializer=Order.encoded) as orders:
        orders.send("t", Order(b""))
        orders.send("t", "x")  # refused


class Seen(ConsumerInterceptor[str, Order]):
    def on_consume(self, record: Record[str, Order]) -> Record[str, Order]:
        return record


Consumer("a:1", key_deserializer=bytes.decode, value_deserializer=Order, interceptors=[Seen()])
Consumer("a:1", value_deserializer="json")  # refused
"""


def test_the_classes_take_types_when_a_program_runs() -> None:
    script = (
        "from kafkawire import Consumer, Producer, Record, sync\n"
        "kinds = [kind[str, int] for kind in (Consumer, Producer, Record, sync.Consumer, sync.Producer)]\n"
        "print(len(kinds))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "5\n"
