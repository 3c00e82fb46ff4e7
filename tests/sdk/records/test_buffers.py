"""Contiguous buffers of every kind are accepted as bytes; nothing else is accepted.

Method: compare buffers with other elements and dimensions with their bytes; pass objects that are not buffers, and
buffers with gaps.
"""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import pytest

from kafkawire.sdk.records.buffers import bytes_of, size_of

EMPTY = memoryview(bytearray(8)).cast("B", (2, 4))[:0]


@pytest.mark.parametrize(
    "buffer",
    [
        b"bytes",
        bytearray(b"x"),
        memoryview(b"abc")[1:],
        array("i", [1, 2]),
        (ctypes.c_int32.__ctype_be__ * 2)(1, 2),
        EMPTY,
    ],
)
def test_buffers(buffer: Any) -> None:
    view = bytes_of(buffer)
    assert (view.format, view.ndim) == ("B", 1)
    assert view == memoryview(buffer).tobytes()


@pytest.mark.parametrize("wrong", [None, 5, "text", [1], memoryview(b"abcd")[::2]])
def test_refused(wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        bytes_of(wrong)
    assert str(caught.value) == f"expected bytes or another contiguous buffer, got {type(wrong).__name__}"


def test_a_view_that_was_released() -> None:
    view = memoryview(b"")
    view.release()
    with pytest.raises(TypeError, match="got memoryview"):
        bytes_of(view)


def test_sizes() -> None:
    assert repr([size_of(value) for value in (True, -(2**63), 2**63 - 1)]) == f"[1, {-(2**63)}, {2**63 - 1}]"
    for wrong, error in ((2**63, OverflowError), (-(2**63) - 1, OverflowError), (1.0, TypeError), (None, TypeError)):
        with pytest.raises(error):
            size_of(wrong)
