"""Values are parsed in the form in which Spark writes them; for any other value, the error says what was expected."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.option_values import (
    INT64_MAX,
    OptionTable,
    Parser,
    client_reason,
    one_of,
    parse_columns,
    parse_duration,
    parse_flag,
    parse_names,
    parse_number,
    parse_size,
    parse_time,
    parse_topics,
    there_are,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_names, "a, b,", ("a", "b")),
        (parse_topics, "a,b,a", frozenset("ab")),
        (parse_columns, "LeaderEpoch,sequence", ("leaderEpoch", "sequence")),
        (parse_flag, "TRUE", True),
        (parse_flag, "false", False),
        (parse_size(1), " 64M ", 64 << 20),
        (parse_size(1), "1gb", 1 << 30),
        (parse_size(1), "7", 7),
        (parse_number(0), " 0 ", 0),
        (parse_number(-5), "-5", -5),
        (parse_number(0), str(INT64_MAX), INT64_MAX),
        (parse_time, " 1767225600000 ", 1_767_225_600_000),
        (parse_time, "0", 0),
        (parse_time, str(INT64_MAX), INT64_MAX),
        (parse_duration, "15m", 900_000),
        (parse_duration, "15 min", 900_000),
        (parse_duration, "30s", 30_000),
        (parse_duration, "500ms", 500),
        (parse_duration, "500", 500),
        (parse_duration, "1h", 3_600_000),
        (parse_duration, "1D", 86_400_000),
    ],
)
def test_values(parse: Parser, text: str, value: object) -> None:
    assert parse("o", text) == value


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_names, " , ", "expected names, separated by commas"),
        (parse_flag, "1", "expected true or false"),
        (parse_size(5), "4", f"expected 5 to {INT64_MAX} bytes, such as 64m"),
        (parse_size(5), "5x", f"expected 5 to {INT64_MAX} bytes, such as 64m"),
        (parse_number(1, 3), "4", "expected 1 to 3"),
        (parse_number(1, 3), "0", "expected 1 to 3"),
        (parse_number(1, 3), "2.0", "expected 1 to 3"),
        (parse_time, "2026-01-01", "expected milliseconds since 1970, such as 1767225600000"),
        (parse_time, "-1", "expected milliseconds since 1970, such as 1767225600000"),
        (parse_time, str(INT64_MAX + 1), "expected milliseconds since 1970, such as 1767225600000"),
        (parse_duration, "soon", "expected a time, such as 500ms, 30s or 15m"),
        (parse_duration, "-1s", "expected a time, such as 500ms, 30s or 15m"),
    ],
)
def test_refused(parse: Parser, text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse("o", text)
    assert str(caught.value) == f"o={text!r}: {expected}"


def test_table() -> None:
    table = OptionTable({"splitBytes": parse_size(1), "mode": lambda option, text: (option, text)})
    assert table.read({"SPLITBYTES": "1k", "Mode": "x"}) == {"splitBytes": 1024, "mode": ("mode", "x")}
    for name, reason in [("splitByte", "no such option; did you mean splitBytes?"), ("xyz", "no such option")]:
        with pytest.raises(ConfigurationError) as caught:
            table.read({name: "1"})
        assert str(caught.value) == f"{name}='1': {reason}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bootstrap.servers", "no such option; did you mean kafka.bootstrap.servers?"),
        ("bootstrap_servers", "no such option; did you mean kafka.bootstrap.servers?"),
        ("Security.Protocoll", "no such option; did you mean kafka.security.protocol?"),
        ("mod", "no such option; did you mean mode?"),
        ("TOPICS", "no such option; ask otherwise"),
        ("xyz", "no such option!"),
    ],
)
def test_other_names(name: str, reason: str) -> None:
    table = OptionTable({"mode": parse_flag}, ConsumerOptions, {"topics": "ask otherwise"}, "!")
    with pytest.raises(ConfigurationError) as caught:
        table.read({name: "1"})
    assert str(caught.value) == f"{name}='1': {reason}"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("did you mean fetch.min.bytes?", "did you mean kafka.fetch.min.bytes?"),
        ("did you mean retries?", "did you mean retries?"),  # a producer option
        ("did you mean io?", "did you mean kafka.io?"),
        ("here it is ssl_truststore_location", "here it is kafka.ssl.truststore.location"),
        ("at most fetch_max_bytes=7", "at most kafka.fetch.max.bytes=7"),
        ("use kafka.fetch.max.bytes, not an ssl.SSLContext", "use kafka.fetch.max.bytes, not an ssl.SSLContext"),
        ("the listener of a consumer", "the listener of a consumer"),
    ],
)
def test_names_in_reasons(reason: str, shown: str) -> None:
    assert client_reason(reason, ConsumerOptions) == shown


def test_table_of_a_catalog() -> None:
    """Spark passes some of its metadata when a table is created, but nothing when the table is read."""
    given = {"option.mode": "x", "owner": "me", "Provider": "kafkawire", "mode": "x"}
    with pytest.raises(ConfigurationError, match=r"^provider='kafkawire': .* use CREATE TEMPORARY VIEW … USING$"):
        OptionTable({"mode": parse_flag}).read(given)


def test_one_of() -> None:
    names = ("subscribe", "assign")
    assert one_of({}, {}, names) is None
    assert one_of({"assign": 1, "other": 2}, {"ASSIGN": "1"}, names) == "assign"
    with pytest.raises(ConfigurationError, match="subscribe='a': assign is also given; expected only one"):
        one_of({"assign": 1, "subscribe": 2}, {"ASSIGN": "1", "Subscribe": "a"}, names)


def test_there_are() -> None:
    assert there_are([]) == "there are no topics"
    assert there_are(["a", "b"]) == "available topics: a, b"
    names = list("abcdefghijk")
    assert there_are(names) == f"available topics: {', '.join(names[:10])}, …"
    assert there_are(names[:10]) == f"available topics: {', '.join(names[:10])}"
    asked = there_are([*names, "Orders-v2", "orders-v1"], asked=["orders-2", "nothing"])
    assert asked.endswith("…; did you mean Orders-v2, orders-v1?")
    assert there_are(["orders"], asked=["ordres"]) == "available topics: orders; did you mean orders?"
