"""Cases for tests of a construct: the bytes that belong to a value, or the error that bytes or a value must cause.

These cases make up the tables in the tests of primitive types and of structures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from construct import Construct, Struct

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.construct_primitives import Int8

__all__ = ["Case", "Exact", "Lenient", "Unreadable", "Unwritable"]


class Exact(NamedTuple):
    """A value and its encoding, in hexadecimal."""

    kind: Construct
    value: Any
    encoded: str

    def check(self) -> None:
        assert self.kind.build(self.value) == bytes.fromhex(self.encoded)
        assert self.kind.parse(bytes.fromhex(self.encoded)) == self.value


class Lenient(NamedTuple):
    """An encoding that Kafka reads but never writes."""

    kind: Construct
    encoded: str
    value: Any

    def check(self) -> None:
        assert self.kind.parse(bytes.fromhex(self.encoded)) == self.value


class Unreadable(NamedTuple):
    """An encoding that is refused, and a pattern that matches the whole reason."""

    kind: Construct
    encoded: str
    reason: str

    def check(self) -> None:
        nested = Struct("first" / Struct("before" / Int8, "field" / self.kind))
        with pytest.raises(DecodeError, match=f"^first.field at byte 1: {self.reason}$") as caught:
            nested.parse(b"\0" + bytes.fromhex(self.encoded))
        assert (caught.value.path, caught.value.offset) == ("first.field", 1)


class Unwritable(NamedTuple):
    """A value that is refused, and a pattern that matches the beginning of the reason."""

    kind: Construct
    value: Any
    reason: str

    def check(self) -> None:
        nested = Struct("first" / Struct("field" / self.kind))
        with pytest.raises(EncodeError, match=f"^first.field: {self.reason}") as caught:
            nested.build({"first": {"field": self.value}})
        assert caught.value.path == "first.field"


Case = Exact | Lenient | Unreadable | Unwritable
