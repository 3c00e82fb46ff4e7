"""The record class of the engine in use, and the columns of values that every engine accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.python_record import Headers, Record
from kafkawire.sdk.records.engines.selection import native
from kafkawire.sdk.records.engines.shared_arguments import checked_content

__all__ = ["BinaryColumn", "Headers", "HeadersLike", "Record"]

#: Headers to write: names and values in order; names can repeat.
HeadersLike = Sequence[tuple[str, Buffer | None]]

if not TYPE_CHECKING and native is not None:
    Record = native.Record


class BinaryColumn:
    """Byte strings in Arrow's binary layout: value `i` is `data[offsets[i]:offsets[i + 1]]`.

    Args:
        offsets: int32 in the machine's byte order, one more than the number of values.
        data: the concatenated values.
        validity: bit `i % 8` of byte `i // 8` is 0 if value `i` is null; None if no value is null.

    Raises:
        EncodeError: an argument is not a buffer, the offsets are not int32, or the validity is too short; offsets that
            decrease or lie outside the data are refused when their values are read.
    """

    __slots__ = ("data", "offsets", "validity")

    def __init__(self, offsets: Buffer, data: Buffer, validity: Buffer | None = None) -> None:
        view = checked_content("offsets", offsets)
        if len(view) % 4 or not len(view):
            raise EncodeError("offsets", f"{len(view)} bytes are not a sequence of int32 with an end")
        self.offsets = view.cast("i")
        self.data = checked_content("data", data)
        self.validity = None if validity is None else checked_content("validity", validity)
        if self.validity is not None and len(self.validity) * 8 < len(self):
            raise EncodeError("validity", f"{len(self.validity)} bytes are too few for {len(self)} values")

    def __reduce__(self) -> tuple[Any, ...]:
        validity = None if self.validity is None else bytes(self.validity)
        return type(self), (bytes(self.offsets), bytes(self.data), validity)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> memoryview | None:
        if not 0 <= index < len(self.offsets) - 1:
            raise IndexError(f"there is no value {index} among {len(self.offsets) - 1}")
        start, end = self.offsets[index], self.offsets[index + 1]
        if not 0 <= start <= end <= len(self.data):
            raise EncodeError(f"offsets[{index}]", f"{start} to {end} is not within {len(self.data)} bytes")
        if self.validity is not None and not self.validity[index // 8] >> index % 8 & 1:
            return None
        return self.data[start:end]
