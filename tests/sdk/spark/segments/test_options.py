"""Options are parsed as Spark passes them; errors give their name, their value and the allowed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.schema import CONNECTOR, CORRUPT, HEADERS
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.options import SegmentOptions, option_texts, parse_options, shown_paths
from kafkawire.sdk.spark.segments.plan import Wanted
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_options

PATH = "/data"


def options(**given: str) -> SegmentOptions:
    return parse_options({"path": PATH, **given})


def segment(topic: str = "orders", partition: int = 0) -> FoundSegment:
    return FoundSegment("/x.log", TopicPartition(topic, partition), 0, 1, None)


def test_defaults() -> None:
    assert options() == SegmentOptions((PATH,))
    assert options().wanted(segment()) == Wanted()
    assert options().columns == CONNECTOR


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("PATH", "a, b,", "paths", ("a", "b")),
        ("pathpattern", r"(?P<topic>x)", "path_pattern", r"(?P<topic>x)"),
        ("startingTimestamp", "0", "starting_timestamp_ms", 0),
        ("EndingTimestamp", "7", "ending_timestamp_ms", 7),
        ("splitBytes", "1048576", "split_bytes", 1 << 20),
        ("splitbytes", "64M", "split_bytes", 64 << 20),
        ("splitBytes", " 1gb ", "split_bytes", 1 << 30),
        ("includeHeaders", "TRUE", "columns", (*CONNECTOR, HEADERS)),
        ("extra", "leaderepoch, path", "columns", (*CONNECTOR, "leaderEpoch", "path")),
        ("mode", "permissive", "columns", (*CONNECTOR, CORRUPT)),
        ("mode", "DropMalformed", "mode", Mode.DROPMALFORMED),
        ("isolationLevel", "READ_COMMITTED", "is_committed_only", True),
        ("decompressedBytesMax", "1", "decompressed_bytes_max", 1),
        ("pushdown", "true", "pushdown", True),
        ("maxBytesPerTrigger", "1k", "trigger_bytes_max", 1024),
        ("maxOffsetsPerTrigger", "5", "trigger_offsets_max", 5),
        ("failOnDataLoss", "false", "fails_on_loss", False),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    given = {name: text} if name.lower() == "path" else {"path": PATH, name: text}
    assert getattr(parse_options(given), field) == value


def test_paths_of_spark() -> None:
    assert parse_options({"paths": '["a", "b,c"]'}).paths == ("a", "b,c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (5, "5"),
        (["a", "b"], "a,b"),
        ({"a": 1}.keys(), "a"),
        ({1: "a"}.values(), "a"),
        ((each for each in ("a", "b")), "a,b"),
        ({"a": range(2)}, '{"a": [0, 1]}'),
        ({"a": {"0": -1}}, '{"a": {"0": -1}}'),
    ],
)
def test_values_of_python(value: object, text: str) -> None:
    assert option_texts(PATH, {"x": value}) == {"path": PATH, "x": text}


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/a,/b ", ("/a", "/b")),
        (["/a", Path("/b")], ("/a", "/b")),
        (Path("/a"), ("/a",)),
        (Path("/a,1 "), ("/a,1 ",)),
        (["/a,1"], ("/a,1",)),
        ("/{a,b}/c,/d{1,2}", ("/{a,b}/c", "/d{1,2}")),
        ("/a{,/b}c", ("/a{,/b}c",)),
        ((each for each in (" /a", "/b")), (" /a", "/b")),
    ],
)
def test_paths_of_python(path: Any, paths: tuple[str, ...]) -> None:
    texts = option_texts(path, {})
    assert parse_options(texts).paths == paths
    assert shown_paths(texts) == (path if isinstance(path, str) else ",".join(paths))


@pytest.mark.parametrize(
    ("path", "given", "reason"),
    [
        ([], {}, "path='': a folder of segments is required"),
        ([""], {}, "paths='[\"\"]': expected a JSON list of paths"),
        (b"/a", {}, "path=b'/a': expected text or a pathlib.Path"),
        (None, {}, "path=None: expected text or a pathlib.Path"),
        ("/a", {"Paths": ["/b"]}, "Paths='/b': paths are given separately: expected a list of them"),
    ],
)
def test_refused_paths_of_python(path: Any, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_options(option_texts(path, given))
    assert str(caught.value).startswith(reason)


def test_none_is_what_nobody_gave() -> None:
    assert parse_options(option_texts(PATH, {"topics": None, "pushdown": None})) == options()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"orders", "topics=b'orders': expected text, a number, true or false, a list or a dictionary"),
        (object, "topics=<class 'object'>: expected text"),
        (["a", None], "topics=None: expected text"),
        ({"a": None}.values(), "topics=None: expected text"),
        (
            {("a", 0): 1},
            "topics={('a', 0): 1}: contains a value that is neither text nor a number: keys must be str",
        ),
        ({"a": object}, "topics={'a': <class 'object'>}: contains a value that is neither text nor a number"),
    ],
)
def test_refused_values_of_python(value: object, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        option_texts(PATH, {"topics": value})
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"path": ""}, "path='': a folder of segments is required: load(path)"),
        ({"paths": "a"}, "paths='a': expected a JSON list of paths"),
        ({"splitByte": "1m"}, "splitByte='1m': no such option; did you mean splitBytes?"),
        (
            {"kafka.bootstrap.servers": "x"},
            "kafka.bootstrap.servers='x': this format reads files; the format kafkawire",
        ),
        ({"splitBytes": "1"}, "splitBytes='1': expected 1048576 to 9223372036854775807 bytes, such as 64m"),
        ({"splitBytes": "-1m"}, "splitBytes='-1m': expected 1048576 to"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': expected 1 to 9223372036854775807"),
        ({"startingTimestamp": "soon"}, "startingTimestamp='soon': expected milliseconds since 1970"),
        ({"includeHeaders": "1"}, "includeHeaders='1': expected true or false"),
        ({"extra": "offset"}, "extra='offset': available columns: leaderEpoch, "),
        ({"extra": ","}, "extra=',': expected names, separated by commas"),
        ({"mode": "x"}, "mode='x': expected PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"isolationLevel": "x"}, "isolationLevel='x': expected read_uncommitted or read_committed"),
        ({"subscribePattern": "("}, "subscribePattern='(': not a regular expression: "),
        ({"subscribePattern": ""}, "subscribePattern='': expected a regular expression"),
        ({"topics": "a", "assign": '{"a":[0]}'}, "topics='a': assign is also given; expected only one"),
        ({"assign": "{}"}, "assign='{}': expected JSON such as {\"orders\":[0,1]}, but the value lists no partition"),
        ({"assign": '{"a":[]}'}, "assign='{\"a\":[]}': expected JSON"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "startingTimestamp=2: expected at most endingTimestamp=1"),
    ],
)
def test_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_options({"path": PATH, **given} if "paths" not in given else given)
    assert str(caught.value).startswith(reason)


def test_wanted() -> None:
    found = options(
        subscribePattern="ord.*",
        startingOffsets='{"orders":{"0":23,"1":-2}}',
        endingOffsets='{"orders":{"0":-1,"1":99}}',
        startingTimestamp="5",
    )
    assert found.wanted(segment("other")) is None
    assert found.wanted(segment("orders", 0)) == Wanted(23, None, 5)
    assert found.wanted(segment("orders", 1)) == Wanted(0, 99, 5)
    assert found.wanted(segment("orders", 2)) == Wanted(0, None, 5)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topics": "orders,ordres"}, "topics='ordres': available topics: bills, orders; did you mean orders?"),
        ({"subscribe": "ordres,b"}, "subscribe='b, ordres': available topics: bills, orders; did you mean orders?"),
        ({"assign": '{"orders":[0,2]}'}, "assign='orders-2': available partitions: orders-0, orders-10"),
        ({"assign": '{"ordres":[0]}'}, "assign='ordres-0': available partitions: bills-7, orders-0, orders-10"),
    ],
)
def test_what_is_not_there(given: dict[str, str], reason: str) -> None:
    found = [segment("orders", 10), segment("bills", 7), segment("orders", 0)]
    for allowed in ({}, {"topics": "orders"}, {"assign": '{"bills":[7]}'}, {"subscribePattern": "x"}):
        options(**allowed).check_there(found)
    with pytest.raises(ConfigurationError) as caught:
        options(**given).check_there(found)
    assert str(caught.value) == reason


def test_first_of_many_that_are_there() -> None:
    with pytest.raises(
        ConfigurationError, match=r"topics='x': available topics: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, …$"
    ):
        options(topics="x").check_there([segment(f"t{number}") for number in range(10)] + [segment("t99")])
    with pytest.raises(ConfigurationError, match=r"topics='x': there are no topics$"):
        options(topics="x").check_there([])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets='latest': a batch query would read nothing"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, """startingOffsets='{"a":{"0":-1}}'"""),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest'"),
    ],
)
def test_batch(given: dict[str, str], reason: str) -> None:
    options(startingOffsets="earliest", endingOffsets="latest").check_batch()
    options(**given).check_stream() if "endingOffsets" not in given else None
    with pytest.raises(ConfigurationError, match=reason):
        options(**given).check_batch()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets='latest': only batch queries support this option"),
        ({"endingTimestamp": "0"}, "endingTimestamp=0: only"),
        ({"pushdown": "true"}, "pushdown=True: only"),
        (
            {"maxBytesPerTrigger": "5", "maxOffsetsPerTrigger": "6"},
            "maxOffsetsPerTrigger=6: maxBytesPerTrigger",
        ),
    ],
)
def test_stream(given: dict[str, Any], reason: str) -> None:
    options(**given).check_batch()
    with pytest.raises(ConfigurationError, match=reason):
        options(**given).check_stream()


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"topics": "a,b"}, "topics"),
        ({"subscribe": "a,b"}, "subscribe"),
        ({"subscribePattern": "[ab]"}, "subscribePattern"),
        ({"assign": '{"a":[0,1],"b":[1]}'}, "assign"),
    ],
)
def test_offsets_of_what_is_not_selected(given: dict[str, str], option: str) -> None:
    """A stream may name selected partitions that do not exist yet; without a selection, it may name any partition."""
    selected = {**given, "startingOffsets": '{"b":{"1":5}}'}
    for allowed in (selected, {"startingOffsets": '{"c":{"0":5}}'}, given):
        options(**allowed).check_batch()
        options(**allowed).check_new_stream()
    others = options(**given, startingOffsets='{"d":{"0":5},"b":{"1":5},"c":{"1":-2}}')
    reason = f"startingOffsets='c-1, d-0': expected only partitions that {option} selects"
    for check in (others.check_batch, others.check_new_stream):
        with pytest.raises(ConfigurationError) as caught:
            check()
        assert str(caught.value) == reason
    with pytest.raises(ConfigurationError, match=f"^endingOffsets='c-0': expected only partitions that {option}"):
        options(**given, endingOffsets='{"c":{"0":-1}}').check_batch()


@pytest.mark.parametrize(
    ("start", "end", "is_allowed"), [(5, 5, True), (5, -1, True), (-2, 0, True), (5, 4, False), (1, 0, False)]
)
def test_offsets_in_order(start: int, end: int, is_allowed: bool) -> None:
    found = options(startingOffsets=f'{{"a":{{"0":7,"1":{start}}}}}', endingOffsets=f'{{"a":{{"1":{end}}}}}')
    if is_allowed:
        found.check_batch()
        return
    with pytest.raises(ConfigurationError, match=f"^startingOffsets={start}: a-1 would begin at offset {start}, but"):
        found.check_batch()


def test_limits_of_streams_in_a_batch_query(caplog: pytest.LogCaptureFixture) -> None:
    options(maxOffsetsPerTrigger="5", maxBytesPerTrigger="1k").check_batch()
    assert caplog.messages == [
        "maxBytesPerTrigger=1024 is only for streams and has no effect here",
        "maxOffsetsPerTrigger=5 is only for streams and has no effect here",
    ]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"includeHeaders": "true", "extra": "path"}, "includeHeaders='true': only supported when records are read"),
        ({"extra": "sequence,path"}, "extra='sequence, path': only supported when records are read"),
    ],
)
def test_columns_where_none_are_read(given: dict[str, str], reason: str) -> None:
    """The audit reads rows that describe batches, and these have no record columns."""
    read_options(options(includeHeaders="false", mode="PERMISSIVE"), (), False)
    read_options(options(**given), ("offset",), False)
    with pytest.raises(ConfigurationError, match=reason):
        read_options(options(**given), (), False)


def test_what_tasks_are_told() -> None:
    given = {"mode": "DROPMALFORMED", "isolationLevel": "read_committed", "decompressedBytesMax": "7"}
    found = read_options(options(**given), ("offset",), False)
    assert found == ReadOptions(("offset",), Mode.DROPMALFORMED, True, 7, False)
