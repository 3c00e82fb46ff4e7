"""A layout contains one version's fields, with their order and encoding, and lists the absent ones.

Method: check a small message with every change that a field can undergo between versions, then all messages of the
protocol.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.layout import Layout, absent_fields, layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import DEFAULT, Field, Message, Schema, UnknownTags
from kafkawire.sdk.protocol.versions import VersionRange as V


class Inner(Message):
    __slots__ = ("old", "new", "unknown_tags")
    FIELDS = (Field("old", "int8", V(0, 1), default=0), Field("new", "int16", V(2, 3), default=0))

    def __init__(self, old: int = 0, new: int = 0, unknown_tags: UnknownTags = ()) -> None:
        self.old, self.new, self.unknown_tags = old, new, unknown_tags


class Outer(Message):
    __slots__ = ("early", "moved", "inner", "names", "unknown_tags")
    FIELDS = (
        Field("early", "int32", V(0, 1), default=-1, ignorable=True),
        Field("moved", "string", V(0, 3), default="", nullable=V(1, 3), tag=1, tagged=V(3, 3)),
        Field("inner", Inner, V(1, 3)),
        Field("names", "string", V(0, 3), default=(), array=True, tag=0, tagged=V(3, 3), compact=False),
    )
    SCHEMA = Schema("Outer", "data", None, V(0, 3), V(2, 3))

    def __init__(
        self,
        early: int = -1,
        moved: str | None = "",
        inner: Inner = DEFAULT,
        names: tuple[str, ...] = (),
        unknown_tags: UnknownTags = (),
    ) -> None:
        self.early, self.moved, self.inner, self.names, self.unknown_tags = early, moved, inner, names, unknown_tags


@pytest.mark.parametrize(
    ("version", "flexible", "fields", "tagged", "absent"),
    [
        (0, False, ["early", "moved", "names"], [], ["inner"]),
        (1, False, ["early", "moved", "inner", "names"], [], []),
        (2, True, ["moved", "inner", "names"], [], ["early"]),
        (3, True, ["inner"], ["names", "moved"], ["early"]),
    ],
)
def test_fields_of_a_version(
    version: int, flexible: bool, fields: list[str], tagged: list[str], absent: list[str]
) -> None:
    one = layout(Outer, version)
    assert one.flexible == flexible
    assert [field.name for field in one.fields] == fields
    assert [field.name for field in one.tagged] == tagged
    assert [field.name for field in one.absent] == absent


@pytest.mark.parametrize(("version", "invalid"), [(0, ()), (1, ()), (2, (0, 1)), (3, ())])
def test_tags_of_other_versions_are_not_valid(version: int, invalid: tuple[int, ...]) -> None:
    assert layout(Outer, version).invalid_tags == invalid


#: The versions in which Apache Kafka 4.3.0 refuses a tag in the message or in one of its structures, with a text like
#: "Tag 0 is not valid for version 0".
WITH_INVALID_TAGS = {
    "BrokerHeartbeatRequest": [0, 1],
    "BrokerRegistrationChangeRecord": [0, 1, 2],
    "FetchRequest": [12, 13, 14, 15, 16, 17],
    "FetchResponse": [12, 13, 14, 15],
    "FetchSnapshotRequest": [0],
    "FetchSnapshotResponse": [0],
    "PartitionChangeRecord": [0, 1],
    "PartitionRecord": [0, 1],
    "ProduceResponse": [9],
    "RegisterBrokerRecord": [0, 1, 2, 3],
    "UpdateMetadataRequest": [6, 7],
    "VoteResponse": [0],
}


def test_every_version_with_tags_that_are_not_valid() -> None:
    def has_invalid(one: Layout) -> bool:
        structures = [field.structure for field in one.fields + one.tagged if field.structure is not None]
        return bool(one.invalid_tags) or any(map(has_invalid, structures))

    found: dict[str, list[int]] = {}
    for name in MODULES:
        cls = message_class(name)
        versions = [version for version in cls.SCHEMA.known_versions.numbers() if has_invalid(layout(cls, version))]
        found |= {name: versions} if versions else {}
    assert found == WITH_INVALID_TAGS


def test_nullable_and_compact_by_version() -> None:
    moved = [next(f for f in layout(Outer, v).fields + layout(Outer, v).tagged if f.name == "moved") for v in range(4)]
    assert [field.nullable for field in moved] == [False, True, True, True]
    assert [field.compact for field in moved] == [False, False, True, True]
    assert [field.tag for field in moved] == [None, None, None, 1]


def test_a_field_that_stays_classic() -> None:
    assert [field.compact for field in layout(RequestHeader, 2).fields if field.name == "client_id"] == [False]
    assert layout(RequestHeader, 2).flexible
    assert not layout(Outer, 3).tagged[0].compact


def test_structures_are_narrowed_too() -> None:
    inner = [next(f.structure for f in layout(Outer, v).fields if f.name == "inner") for v in (1, 2)]
    assert [[field.name for field in one.fields] for one in inner if one] == [["old"], ["new"]]
    assert [one.flexible for one in inner if one] == [False, True]


def test_absent_fields_say_where_they_exist() -> None:
    (early,) = absent_fields(Outer, 3)
    assert (early.name, early.default, early.ignorable, early.versions) == ("early", -1, True, "0-1")
    (inner,) = absent_fields(Outer, 0)
    assert (inner.structure, inner.default, inner.versions) == (Inner, DEFAULT, "1-3")
    assert (inner.new_default(), inner.ignorable) == (Inner(), False)
    assert inner.new_default() is not inner.new_default()
    assert (early.new_default(), early.structure) == (-1, None)
    forgotten = next(field for field in absent_fields(FetchRequest, 4) if field.name == "forgotten_topics_data")
    assert (forgotten.new_default(), forgotten.structure) == ((), None)


def test_a_tagged_field_that_is_not_on_the_wire_has_the_value_of_a_new_message() -> None:
    tagged: dict[tuple[str, str], tuple[Any, Any]] = {}
    for name in MODULES:
        cls = message_class(name)
        one = layout(cls, cls.SCHEMA.known_versions.last)
        tagged |= {(name, field.name): (field.new_default(), getattr(cls(), field.name)) for field in one.tagged}
    assert {key for key, (default, value) in tagged.items() if default != value} == set()
    assert {type(default).__name__ for default, _ in tagged.values()} > {"ReplicaState", "int", "tuple"}


def test_the_size_of_a_structure_that_is_always_the_same() -> None:
    class Fixed(Message):
        __slots__ = ("number", "many", "unknown_tags")
        FIELDS = (Field("number", "int32", V(0, 3), default=0), Field("many", "int64", V(1, 3), default=(), array=True))
        SCHEMA = Schema("Fixed", "data", None, V(0, 3), V(3, 3))

        def __init__(self, number: int = 0, many: tuple[int, ...] = (), unknown_tags: UnknownTags = ()) -> None:
            self.number, self.many, self.unknown_tags = number, many, unknown_tags

    class Holder(Message):
        __slots__ = ("one", "unknown_tags")
        FIELDS = (Field("one", Fixed, V(0, 3), nullable=V(2, 3)),)
        SCHEMA = Schema("Holder", "data", None, V(0, 3), V(3, 3))

        def __init__(self, one: Fixed | None = DEFAULT, unknown_tags: UnknownTags = ()) -> None:
            self.one, self.unknown_tags = one, unknown_tags

    assert [layout(Fixed, version).size for version in (0, 1, 3)] == [4, None, None]
    assert [layout(Holder, version).size for version in (0, 1, 2, 3)] == [4, None, None, None]


def test_a_field_that_is_only_ever_tagged() -> None:
    state = next(field for field in absent_fields(FetchRequest, 4) if field.name == "replica_state")
    assert state.versions == "15-18"


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"Outer has no version {version}; the known versions are 0-3"):
        layout(Outer, version)


def test_the_same_object_for_the_same_version() -> None:
    assert layout(Outer, 1) is layout(Outer, 1)


@pytest.mark.parametrize(
    ("cls", "version", "size"),
    [(ResponseHeader, 0, 4), (ResponseHeader, 1, None), (RequestHeader, 1, None), (Outer, 1, None)],
)
def test_size(cls: type[Message], version: int, size: int | None) -> None:
    assert layout(cls, version).size == size


def test_records_are_found_inside_structures() -> None:
    assert layout(FetchResponse, 12).has_records
    assert not layout(FetchRequest, 12).has_records


def test_records_in_a_tagged_field_are_refused() -> None:
    class Tagged(Message):
        __slots__ = ("records", "unknown_tags")
        FIELDS = (Field("records", "records", V(0, 0), default=None, tag=0, tagged=V(0, 0)),)
        SCHEMA = Schema("Tagged", "data", None, V(0, 0), V(0, 0))

        def __init__(self, records: bytes | None = None, unknown_tags: UnknownTags = ()) -> None:
            self.records, self.unknown_tags = records, unknown_tags

    with pytest.raises(TypeError, match="a tagged field holds records"):
        layout(Tagged, 0)


def test_repr() -> None:
    assert repr(layout(Outer, 1)) == "<layout of Outer version 1>"
    topics = layout(FetchRequest, 4).fields[-1].structure
    assert topics is not None
    assert topics.name == "FetchRequest.FetchTopic"


def test_every_message(subtests: pytest.Subtests) -> None:
    """In each version, each field of the class occurs exactly once: untagged, tagged or absent."""
    for name in sorted(MODULES):
        with subtests.test(name=name):
            cls = message_class(name)
            first, last = cls.SCHEMA.known_versions
            for version in range(first, last + 1):
                one = layout(cls, version)
                names = [field.name for field in one.fields + one.tagged] + [field.name for field in one.absent]
                assert sorted(names) == sorted(field.name for field in cls.FIELDS)
                assert sorted([*names, "unknown_tags"]) == sorted(cls.__match_args__)
                assert {field.kind for field in one.fields} <= {*FIXED, "string", "bytes", "records", "struct"}
                assert [field.tag for field in one.tagged] == sorted({field.tag or 0 for field in one.tagged})


@pytest.mark.parametrize(
    ("cls", "version", "reason"),
    [
        (None, 1, "None is not a message class"),
        (int, 1, "<class 'int'> is not a message class"),
        (Message, 1, "Message is part of messages and has no versions of its own"),
        (ResponseHeader, "1", "ResponseHeader: version '1' is not an int"),
        (ResponseHeader, True, "ResponseHeader: version True is not an int"),
        (ResponseHeader, [], r"ResponseHeader: version \[\] is not an int"),
    ],
)
def test_what_has_no_layout(cls: Any, version: Any, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason):
        layout(cls, version)
