"""JSON for partitions and offsets means the same as in Spark's connector; anything else is refused."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.selection import (
    EARLIEST,
    LATEST,
    Bound,
    Offsets,
    Selection,
    Times,
    check_not_empty,
    check_order,
    parse_offsets,
    parse_partitions,
    parse_pattern,
    parse_times,
)

ORDERS = TopicPartition("orders", 0)


def test_offsets() -> None:
    assert parse_offsets("o", " Earliest", LATEST).of(ORDERS) == EARLIEST
    assert parse_offsets("o", "latest", EARLIEST).of(ORDERS) == LATEST
    found = parse_offsets("o", '{"orders":{"0":23,"1":-2},"a-b":{"7":-1}}', LATEST)
    assert [found.of(TopicPartition(*each)) for each in [("orders", 0), ("orders", 1), ("a-b", 7), ("a-b", 8)]] == [
        23,
        EARLIEST,
        LATEST,
        LATEST,
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", 'expected "earliest", "latest" or JSON such as'),
        ("[]", 'expected "earliest", "latest" or JSON such as'),
        ("[" * 100_000, 'expected "earliest", "latest" or JSON such as'),
        ('{"a":5}', "'a' has no object"),
        ('{"a":{"x":5}}', "'x' of 'a' is not a partition number"),
        ('{"a":{"-1":5}}', "'-1' of 'a' is not a partition number"),
        ('{"a":{"2147483648":5}}', "'2147483648' of 'a' is not a partition number"),
        ('{"a":{"0":-3}}', "-3 of a-0: 0 to 9223372036854775807, -1 for latest or -2 for earliest is expected"),
        ('{"a":{"0":true}}', "True of a-0"),
        ('{"a":{"0":1.5}}', "1.5 of a-0"),
        ("{}", "the value lists no partition"),
        ('{"a":{"0":9223372036854775808}}', "9223372036854775808 of a-0"),
    ],
)
def test_other_offsets(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_offsets("startingOffsets", text, LATEST)
    assert reason in str(caught.value)
    assert caught.value.option == "startingOffsets"


def test_times() -> None:
    assert parse_times("t", '{"orders":{"0":5}}') == Times(None, {ORDERS: 5})
    for text, reason in [
        ("5", "expected JSON such as"),
        ('{"orders":5}', "'orders' has no object"),
        ('{"orders":{"0":-1}}', "-1 of orders-0: 0 to 9223372036854775807 ms is expected"),
    ]:
        with pytest.raises(ConfigurationError, match=reason):
            parse_times("startingOffsetsByTimestamp", text)


def test_partitions() -> None:
    found = parse_partitions("assign", '{"orders":[0,1],"other":[]}')
    assert found == {ORDERS, TopicPartition("orders", 1)}
    for text in ("x", "[]", '{"a":5}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}'):
        with pytest.raises(ConfigurationError, match="assign="):
            parse_partitions("assign", text)


def test_selection() -> None:
    assert Selection().has(ORDERS)
    assert Selection(topics=frozenset(["orders"])).has(ORDERS)
    assert not Selection(topics=frozenset(["order"])).has(ORDERS)
    assert Selection(pattern="ord.*").has(ORDERS)
    assert not Selection(pattern="ord").has(ORDERS)
    assert Selection(partitions=frozenset([ORDERS])).has(ORDERS)
    assert not Selection(partitions=frozenset([TopicPartition("orders", 1)])).has(ORDERS)


def test_pattern() -> None:
    for text in ("a|b", " a|b\n"):
        assert parse_pattern("subscribePattern", text) == "a|b"
    for text, reason in (("(", "not a regular expression"), ("", "expected a regular"), (" ", "expected a regular")):
        with pytest.raises(ConfigurationError, match=f"^subscribePattern='.?': {reason}"):
            parse_pattern("subscribePattern", text)


@pytest.mark.parametrize(
    ("text", "end", "shown"),
    [
        ("latest", LATEST, "'latest'"),
        ("EARLIEST", EARLIEST, "'earliest'"),
        ('{"a":{"0":-1}}', LATEST, """'{"a":{"0":-1}}'"""),
        ('{"a":{"0":5,"2":-2},"b":{"1":-2}}', EARLIEST, """'{"a":{"2":-2},"b":{"1":-2}}'"""),
    ],
)
def test_nothing_between(text: str, end: int, shown: str) -> None:
    """The error shows the option's own text, not the end for which the text stands."""
    other = EARLIEST if end == LATEST else LATEST
    offsets = parse_offsets("o", text, other)
    with pytest.raises(ConfigurationError) as caught:
        check_not_empty("o", offsets, end)
    assert str(caught.value) == f"o={shown}: a batch query would read nothing"


@pytest.mark.parametrize(
    ("starting", "ending", "reason"),
    [
        (
            Offsets(EARLIEST),
            Offsets(LATEST, {ORDERS: 4}),
            "'earliest': orders-0 would begin at offset 5, but end earlier",
        ),
        (
            Offsets(LATEST, {ORDERS: 5}),
            Offsets(LATEST),
            "5: orders-0 would begin at offset 5, but end earlier, at 4, because of",
        ),
        (
            Times(7),
            Times(None, {ORDERS: 8}),
            "7: orders-0 would begin at offset 5, but end earlier, at 4, because of end=8",
        ),
    ],
)
def test_order(starting: Offsets | Times, ending: Offsets | Times, reason: str) -> None:
    """The error shows the option's value and the offset for which it stands."""
    bounds = Bound("start", starting), Bound("end", ending)
    check_order(*bounds, ORDERS, 4, 4)
    with pytest.raises(ConfigurationError) as caught:
        check_order(*bounds, ORDERS, 5, 4)
    assert str(caught.value).startswith(f"start={reason}")
