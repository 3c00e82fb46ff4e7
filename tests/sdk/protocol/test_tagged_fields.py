"""Tagged fields are written in the order of their tags, and only if they differ from their defaults.

Method: on every engine, write hand-built messages with known and unknown tags, empty arrays in the tagged fields of all
messages, and a structure that may be null, in a message made for this.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import ENGINES, native
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.messages.cluster_metadata.partition_change_record import PartitionChangeRecord
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import DEFAULT, Field, Message, Schema, UnknownTags
from kafkawire.sdk.protocol.versions import VersionRange as V

AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]


@pytest.mark.parametrize("engine", AVAILABLE)
def test_unknown_tags_come_after_the_known_ones(engine: str) -> None:
    """Version 1 knows the tags 0 to 5 and 8; no version knows tag 9 or above."""
    change = PartitionChangeRecord(isr=(1,), directories=(bytes(16),), unknown_tags=((9, b"n"), (11, b"")))
    data = codec(PartitionChangeRecord, 1, engine).encode(change)
    expected = "04 00 05 02 00000001 08 11 02 00000000000000000000000000000000 09 01 6e 0b 00"
    assert data.endswith(bytes.fromhex(expected))
    assert codec(PartitionChangeRecord, 1, engine).decode(data) == (change, len(data))


@pytest.mark.parametrize("engine", AVAILABLE)
def test_an_empty_tagged_array_is_left_out(engine: str) -> None:
    """An empty list is left out too, since it equals the default."""
    found = set()
    for name in MODULES:
        for version in message_class(name).SCHEMA.known_versions.numbers():
            one = layout(message_class(name), version)
            arrays = [field.name for field in one.tagged if field.array and field.default == ()]
            messages = codec(one.cls, one.version, engine)
            if arrays:
                assert messages.encode(one.cls(**{field: [] for field in arrays})) == messages.encode(one.cls())
                found |= {field.structure is None for field in one.tagged if field.name in arrays}
    assert found == {True, False}  # arrays of structures and of other elements


class Holder(Message):
    """A message with a tagged structure that is present by default and may be null. No schema has such a field yet."""

    __slots__ = ("header", "unknown_tags")
    FIELDS = (Field("header", ResponseHeader, V(0, 0), nullable=V(0, 0), tag=3, tagged=V(0, 0)),)
    SCHEMA = Schema("Holder", "data", None, V(0, 0), V(0, 0))

    def __init__(self, header: ResponseHeader | None = DEFAULT, unknown_tags: UnknownTags = ()) -> None:
        self.header, self.unknown_tags = header, unknown_tags


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (Holder(), "00"),
        (Holder(ResponseHeader()), "00"),
        (Holder(None), "01 03 01 00"),
        (Holder(ResponseHeader(7)), "01 03 06 01 00000007 00"),
    ],
)
def test_a_tagged_structure_that_may_be_null(engine: str, message: Holder, encoded: str) -> None:
    holders = codec(Holder, 0, engine)
    assert holders.encode(message) == bytes.fromhex(encoded)
    assert holders.decode(bytes.fromhex(encoded)) == (message, len(bytes.fromhex(encoded)))
