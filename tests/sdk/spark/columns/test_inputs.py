"""Columns of other types are refused with their name and type, and are never interpreted as something else.

Method: check arrays of each type that Spark has for such columns, and of other types.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.columns.inputs import check_binary, check_text  # noqa: E402 - it needs pyarrow

BINARY = [pyarrow.binary(), pyarrow.large_binary(), pyarrow.null()]
TEXT = [pyarrow.string(), pyarrow.large_string(), pyarrow.null()]
OTHERS = [pyarrow.int32(), pyarrow.int64(), pyarrow.list_(pyarrow.binary())]


@pytest.mark.parametrize("kind", BINARY, ids=str)
def test_binary(kind: Any) -> None:
    check_binary("frames", pyarrow.nulls(1, kind))


@pytest.mark.parametrize("kind", TEXT, ids=str)
def test_text(kind: Any) -> None:
    check_text("topics", pyarrow.nulls(1, kind))


@pytest.mark.parametrize("kind", [*OTHERS, pyarrow.string()], ids=str)
def test_no_binary(kind: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_binary("frames", pyarrow.nulls(1, kind))
    assert str(caught.value) == f"column='frames {kind}': must be binary"


@pytest.mark.parametrize("kind", [*OTHERS, pyarrow.binary()], ids=str)
def test_no_text(kind: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_text("topics", pyarrow.nulls(1, kind))
    assert str(caught.value) == f"column='topics {kind}': must be a string"


def test_what_is_no_array() -> None:
    check_binary("frames", [])
    check_text("topics", [])
