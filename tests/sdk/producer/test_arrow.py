"""Every row of an Arrow table becomes the record that `send` would create from it; an error names the row.

Method: send the same rows with `send_arrow` and with `send`, with each type of column, and compare the records that the
scripted broker stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire import KafkaWireError, Producer, Record, sync
from kafkawire.errors import BufferFull, Closed, EncodeError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.producer import arrow
from kafkawire.sdk.producer.arrow import arrow_rows
from kafkawire.sdk.producer.engines.selection import native
from kafkawire.sdk.records import walk
from tests.sdk.scripted_broker import BROKER, StoringBroker

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

VALUES = [b"one", None, b"", b"four" * 30, b"five"]
KEYS = [b"a", b"b", None, b"", b"b"]
TIMES = [5, 6, None, 8, 0]
PARTITIONS = [2, None, 0, 1, None]
BEYOND = pa.array([2**62, 2**63], pa.uint64())


def stored(broker: StoringBroker) -> list[list[tuple[object, ...]]]:
    """Return the records in each partition, without timestamps taken from the clock."""
    return [
        [
            content(record)
            for data in broker.logs.get(("t", number), [])
            for batch in walk(data)
            for record in batch.records()
        ]
        for number in range(3)
    ]


def content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.headers, record.timestamp_ms if record.timestamp_ms < 1_000 else "now"


def sent(send: Callable[[sync.Producer], object], **options: Any) -> list[list[tuple[object, ...]]]:
    """Return the records that a function stores in a topic that has three partitions and is known to the producer."""
    broker = StoringBroker({"t": 3})
    with sync.Producer(str(BROKER), network=broker.network, **options) as producer:
        for number in range(3):
            producer.send("t", b"first", partition=number).result()
        send(producer)
    return stored(broker)


def one_by_one(rows: list[dict[str, Any]]) -> list[list[tuple[object, ...]]]:
    def send(producer: sync.Producer) -> None:
        for row in rows:
            producer.send("t", **row)

    return sent(send)


@pytest.mark.parametrize("kind", ["binary", "large_binary", "binary_view", "dictionary"])
@pytest.mark.parametrize("offset", [0, 1, 8, 11])
def test_every_column(kind: str, offset: int) -> None:
    """Sliced arrays may begin anywhere in their buffers."""
    filler: list[Any] = [None] * offset
    of = pa.dictionary(pa.int32(), pa.binary()) if kind == "dictionary" else getattr(pa, kind)()

    def column(values: list[Any], kind: Any) -> Any:
        if kind == of and "dictionary" in str(of):
            return pa.array(filler + values, pa.binary()).dictionary_encode()
        return pa.array(filler + values, kind)

    table = pa.table(
        {
            "value": column(VALUES, of),
            "k": column(KEYS, of),
            "at": column(TIMES, pa.timestamp("ms")),
            "to": column(PARTITIONS, pa.int64()),
        }
    ).slice(offset)
    rows = [
        {"value": value, "key": key, "timestamp_ms": time, "partition": partition}
        for value, key, time, partition in zip(VALUES, KEYS, TIMES, PARTITIONS, strict=True)
    ]
    counts: list[int] = []
    found = sent(
        lambda producer: counts.append(producer.send_arrow("t", table, key="k", timestamp_ms="at", partition="to"))
    )
    assert counts == [len(VALUES)]
    assert found == one_by_one(rows)


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(["ä", None, "c"]), ["ä".encode(), None, b"c"]),
        (pa.array(["ä", None], pa.large_string()), ["ä".encode(), None]),
        (pa.array(["ä", None], pa.string_view()), ["ä".encode(), None]),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"]),
        (pa.nulls(2), [None, None]),
        (pa.array([b"x", None] * 100), [b"x", None] * 100),
        (pa.array([], pa.binary()), []),
        (pa.array([b"", b""]), [b"", b""]),
    ],
)
def test_types_of_values(array: Any, values: list[bytes | None]) -> None:
    found = sent(lambda producer: producer.send_arrow("t", pa.record_batch({"value": array}), partition=1))
    assert [value for _, value, *_ in found[1][1:]] == values


def test_headers_and_units_of_times() -> None:
    pairs = pa.struct([("name", pa.string()), ("content", pa.binary())])
    lists = pa.array([[{"name": "a", "content": b"1"}, {"name": "a", "content": None}], None, []], pa.list_(pairs))
    maps = pa.array([[("a", b"1"), ("a", None)], None, []], pa.map_(pa.string(), pa.binary()))
    for column in (lists, maps):
        table = pa.table(
            {"h": column, "value": pa.array([b"x", b"y", b"z"]), "at": pa.array([1_999, 2_000, -1_000_000 + 1_001_000])}
        )
        table = table.set_column(2, "at", table["at"].cast(pa.timestamp("us", tz="UTC")))
        found = sent(
            lambda producer, table=table: producer.send_arrow("t", table, headers="h", timestamp_ms="at", partition=0)
        )
        assert found[0][1:] == [
            (None, b"x", (("a", b"1"), ("a", None)), 1),
            (None, b"y", (), 2),
            (None, b"z", (), 1),
        ]


def test_whatever_has_the_interface() -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"value": [b"x", b"y"]}).__arrow_c_stream__(requested_schema)

    class Array:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.record_batch({"value": pa.array([b"z"])}).__arrow_c_array__(requested_schema)

    async def run() -> None:
        async with Producer(str(BROKER), network=broker.network) as producer:
            assert await producer.send_arrow("t", Stream()) == 2
            assert await producer.send_arrow("t", Array()) == 1
            with pytest.raises(
                LocalProtocolError, match=r"expected a pyarrow\.Table or RecordBatch, or an object with .*got list"
            ):
                await producer.send_arrow("t", [b"x"])

    broker = StoringBroker({"t": 1})
    asyncio.run(run())
    assert broker.values("t") == [b"x", b"y", b"z"]


def test_many_rows_wait_for_room() -> None:
    """Rows keep the table's order across conversions, batches and chunks; equal keys go to the same partition."""
    count = 150_000
    values = pa.array([b"%06d" % number for number in range(count)])
    table = pa.table(
        {"value": pa.chunked_array([values[:70_001], values[70_001:]]), "key": [b"%d" % (n % 7) for n in range(count)]}
    )
    found = sent(lambda producer: producer.send_arrow("t", table, key="key"), buffer_memory=200_000, batch_size=20_000)
    assert sum(map(len, found)) == count + 3
    homes = [{key for key, *_ in records[1:]} for records in found]
    assert sum(map(len, homes)) == 7
    for records in found:
        numbers = [value for _, value, *_ in records[1:]]
        assert numbers == sorted(numbers)  # type: ignore[type-var]  # they are bytes


def test_a_partitioner_of_the_user_is_asked() -> None:
    table = pa.table({"value": [b"x", b"y"], "key": [b"1", b"2"]})
    found = sent(lambda producer: producer.send_arrow("t", table, key="key"), partitioner=lambda key, count: int(key))
    assert [len(records) for records in found] == [1, 2, 2]


@pytest.mark.parametrize(
    ("columns", "given", "kind", "message"),
    [
        ({"value": [b"a"]}, {"value": "nowhere"}, EncodeError, "column 'nowhere': not found; the table has v"),
        ({"value": [1]}, {}, EncodeError, "column 'value': is int64, but a value must be binary or text"),
        ({"value": [b"a"], "k": [1.5]}, {"key": "k"}, EncodeError, "column 'k': is double, but a key must be binary"),
        ({"value": [b"a"], "p": ["x"]}, {"partition": "p"}, EncodeError, "column 'p': is string; expected integers"),
        ({"value": [b"a"] * 2, "p": [0, 2**40]}, {"partition": "p"}, EncodeError, "row 1, column 'p': 1099511627776"),
        ({"value": [b"a"] * 3, "p": [-(2**31), None, 2**31]}, {"partition": "p"}, EncodeError, "row 2, .*2147483647$"),
        ({"value": [b"a"] * 2, "t": BEYOND}, {"timestamp_ms": "t"}, EncodeError, "row 1, .*9223372036854775807$"),
        ({"value": [b"a"] * 3, "p": [0, 2, -3]}, {"partition": "p"}, LocalProtocolError, "^row 2: .* 0 to 2, not -3"),
        ({"value": [b"a"] * 3, "p": [0, -1, 3]}, {"partition": "p"}, LocalProtocolError, "^row 1: .*not -1"),
        ({"value": [b"a"]}, {"partition": 2**40}, LocalProtocolError, "^partition: expected .* got 1099511627776"),
        ({"value": [b"a"]}, {"partition": -1}, LocalProtocolError, "^partition: expected .* got -1"),
        ({"value": [b"a"] * 2, "t": [1, -5]}, {"timestamp_ms": "t"}, EncodeError, "^row 1, timestamp_ms: -5"),
        ({"value": [b"a", b"x" * 2_000_000]}, {}, RecordTooLarge, "^row 1: the record may take"),
        ({"value": [b"a"] * 2, "h": [[], [5]]}, {"headers": "h"}, EncodeError, "^row 1, headers: "),
    ],
)  # fmt: skip
def test_errors_name_the_row(
    columns: dict[str, Any], given: dict[str, Any], kind: type[KafkaWireError], message: str
) -> None:
    broker = StoringBroker({"t": 3})
    with sync.Producer(str(BROKER), network=broker.network) as producer:
        producer.send("t", b"first", partition=0).result()
        with pytest.raises(kind, match=message):
            producer.send_arrow("t", pa.table(columns), **given)


@pytest.mark.parametrize("partition", [True, 1.5, -1, 10**5_000], ids=type)
def test_what_is_no_partition(partition: Any) -> None:
    broker = StoringBroker({"t": 3})
    with sync.Producer(str(BROKER), network=broker.network) as producer:
        producer.send("t", b"first", partition=0).result()
        with pytest.raises(LocalProtocolError, match=r"^partition: expected "):
            producer.send_arrow("t", pa.table({"value": [b"x"]}), partition=partition)


def test_rows_before_the_topic_is_known() -> None:
    broker = StoringBroker({"t": 3})
    with sync.Producer(str(BROKER), network=broker.network) as producer:
        assert producer.send_arrow("t", pa.table({"value": [b"x"] * 100})) == 100
    assert len(broker.values("t")) == 100


@pytest.mark.parametrize("key", [None, "key"])
def test_the_extension_takes_rows_without_python(key: str | None) -> None:
    broker = StoringBroker({"t": 1})
    table = pa.table({"value": [b"x"] * 1_000, "key": [b"k"] * 1_000})
    with sync.Producer(str(BROKER), network=broker.network, linger_ms=60_000) as producer:
        producer.send("t", b"first")
        producer.flush()
        for value in (b"large" * 500, b"more"):  # makes the batch take more memory than it needs
            producer.send("t", value, key=None if key is None else b"k")
        assert producer._inner._core is not None
        appender = producer._inner._core.accumulator.appender
        (rows,) = arrow_rows(table, value="value", key=key, headers=None, partition=None, timestamp_ms=None)
        taken = appender.send_columns("t", rows, 0, 1_000)
        assert taken > 10 if native is not None else taken == 0


def test_a_row_that_is_large_by_itself_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_BYTES", 100)
    table = pa.table({"value": pa.array([b"x" * size for size in (10, 300, 10, 10)], pa.binary())})
    columns = {"value": "value", "key": None, "headers": None, "partition": None, "timestamp_ms": None}
    assert [(rows.first, rows.count) for rows in arrow_rows(table, **columns)] == [(0, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LocalProtocolError("no"), "row 3: no"),
        (RecordTooLarge("large"), "row 3: large"),
        (Closed("over"), "over"),
        (BufferFull("full"), "full"),
    ],
)
def test_an_error_that_concerns_all_rows_names_none(error: KafkaWireError, text: str) -> None:
    found = arrow.at_row(error, 3)
    assert (type(found), str(found)) == (type(error), text)
