"""What one engine refuses the others refuse too, with the same error and the same text.

Method: a table of calls with wrong arguments, each made on every engine; and one of calls that are taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records import BinaryColumn, batch_builder_class, record_batch_class, walk
from tests.sdk.records.conftest import AVAILABLE, batch_of

DATA = batch_of([(1, b"k", b"v", ())])
GAPS = memoryview(bytearray(8))[::2]
HEADERS = [("h", GAPS)]
EMPTY = memoryview(bytearray(8)).cast("B", (2, 4))[:0]
#: Elements that Python has no letter for.
FOREIGN: Any = (ctypes.c_int32.__ctype_be__ * 1)(0x61626364)
NOT_BYTES = "expected bytes or another contiguous buffer, got "


class Engine:
    """The classes of an engine, behind names that do not differ."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batch: Any = record_batch_class(name)

    def builder(self, **options: Any) -> Any:
        return batch_builder_class(self.name)(**options)

    def walk(self, buffer: Any, **options: Any) -> Any:
        return walk(buffer, engine=self.name, **options)


#: What is called, the error, and its text.
REFUSED: list[tuple[Callable[[Engine], object], type[Exception], str]] = [
    (lambda engine: engine.builder().append(1, GAPS, None), EncodeError, f"key: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, None, GAPS), EncodeError, f"value: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, b"", b"", HEADERS), EncodeError, f"headers: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, "key", None), EncodeError, f"key: {NOT_BYTES}str"),
    (lambda engine: engine.builder().append_many([GAPS], 1), EncodeError, f"value: {NOT_BYTES}memoryview"),
    (lambda engine: engine.walk(GAPS), TypeError, f"{NOT_BYTES}memoryview"),
    (lambda engine: engine.walk(5), TypeError, f"{NOT_BYTES}int"),
    (lambda engine: engine.batch(GAPS), TypeError, f"{NOT_BYTES}memoryview"),
    (lambda engine: engine.batch("text"), TypeError, f"{NOT_BYTES}str"),
]  # fmt: skip

#: What is called, and what comes back.
TAKEN: list[tuple[Callable[[Engine], object], object]] = [
    (lambda engine: engine.builder().append(1, EMPTY, EMPTY, [("h", EMPTY)]), 0),
    (lambda engine: engine.builder().append(1, FOREIGN, FOREIGN, [("h", FOREIGN)]), 0),
    (lambda engine: list(engine.walk(EMPTY)), []),
]  # fmt: skip


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refused(name: str, call: Callable[[Engine], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(Engine(name))
    assert type(caught.value) is error
    assert str(caught.value) == text


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize(("call", "result"), TAKEN, ids=range(len(TAKEN)))
def test_taken(name: str, call: Callable[[Engine], object], result: object) -> None:
    assert call(Engine(name)) == result


@pytest.mark.parametrize("name", ["offsets", "data", "validity"])
def test_columns_of_what_is_no_buffer(name: str) -> None:
    buffers: dict[str, Any] = {"offsets": bytes(4), "data": b"", "validity": None}
    with pytest.raises(EncodeError, match=f"^{name}: {NOT_BYTES}int$"):
        BinaryColumn(**{**buffers, name: 5})
