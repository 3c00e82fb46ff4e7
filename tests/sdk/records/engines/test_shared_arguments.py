"""Builders refuse wrong arguments with an error that gives name, value and limits; see also `test_python_builder.py`.

Method: call each check with arguments that it accepts and with arguments that it refuses.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records import Compression, TimestampType, batch_builder_class
from kafkawire.sdk.records.engines.shared_arguments import (
    checked_compression,
    checked_content,
    checked_name,
    checked_number,
    checked_time,
    checked_timestamp_type,
    pairs,
    whole_number,
)
from tests.sdk.records.conftest import AVAILABLE


class Index:
    def __index__(self) -> int:
        return 3


def test_whole_numbers() -> None:
    assert repr([whole_number("path", value) for value in (5, True, Index())]) == "[5, 1, 3]"
    with pytest.raises(EncodeError, match=r"^path: expected an integer, got 5\.0 of float$"):
        whole_number("path", 5.0)


def test_limits_are_inside() -> None:
    assert [checked_number("path", value, -1, 1) for value in (-1, 1)] == [-1, 1]
    with pytest.raises(EncodeError, match=r"^path: 2 is not within -1 and 1$"):
        checked_number("path", 2, -1, 1)


@pytest.mark.parametrize("codec", Compression)
def test_compressions(codec: Compression) -> None:
    assert checked_compression(int(codec), None) is codec
    assert checked_compression(codec, 1) is codec


@pytest.mark.parametrize(("codec", "wrong"), [(Compression.GZIP, 0), (Compression.LZ4, -1), (Compression.ZSTD, 23)])
def test_levels(codec: Compression, wrong: int) -> None:
    assert checked_compression(Compression.GZIP, -1) is Compression.GZIP  # Kafka's name for the default
    with pytest.raises(EncodeError, match=f"^level: {codec.name.lower()} has levels .*, not {wrong}$"):
        checked_compression(codec, wrong)


def test_contents() -> None:
    assert checked_content("path", memoryview(b"abc")[1:]) == b"bc"
    for wrong in (5, memoryview(b"abcd")[::2]):
        with pytest.raises(EncodeError, match=r"^path: expected bytes or another contiguous buffer, got "):
            checked_content("path", wrong)


def test_names_of_headers() -> None:
    assert checked_name("名") == "名".encode()
    for wrong, reason in ((b"h", "expected a string as the name, got bytes"), ("\ud800", "is not encodable as UTF-8")):
        with pytest.raises(EncodeError, match=f"^headers: .*{reason}"):
            checked_name(wrong)


def test_times() -> None:
    assert repr([checked_time(value) for value in (-1, True, 2**63 - 1)]) == f"[-1, 1, {2**63 - 1}]"
    for wrong in (-2, 2**63):
        with pytest.raises(EncodeError, match=f"^timestamp_ms: {wrong} is not a time in ms, nor -1 for none$"):
            checked_time(wrong)


def test_timestamp_types() -> None:
    assert checked_timestamp_type(1) is TimestampType.LOG_APPEND_TIME
    with pytest.raises(EncodeError, match=r"^timestamp_type: 2 is not within 0 and 1$"):
        checked_timestamp_type(2)


@pytest.mark.parametrize("wrong", [5, None, [5], [("a",)], [("a", b"", b"")]])
def test_pairs(wrong: Any) -> None:
    assert pairs(iter([("a", None), ["b", b""]])) == [("a", None), ("b", b"")]
    with pytest.raises(EncodeError, match=r"^headers: expected pairs of a name and a value: "):
        pairs(wrong)


@pytest.mark.parametrize("engine", [name for name in AVAILABLE if name != "construct"])
@pytest.mark.parametrize(
    "name",
    ["compression", "count", "delete_horizon_ms", "is_control", "level", "log_append_time", "timestamp_type"],
)
def test_what_the_records_follow_from_is_read_only(engine: str, name: str) -> None:
    builder = batch_builder_class(engine)(compression=Compression.GZIP, level=1)
    before = getattr(builder, name)
    with pytest.raises(AttributeError, match=f"^attribute '{name}' of .* is not writable$"):
        setattr(builder, name, before)
    assert getattr(builder, name) == before
