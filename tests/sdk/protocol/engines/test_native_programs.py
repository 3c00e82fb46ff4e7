"""The extension creates programs only from layouts, and classes only if their instances have nothing but slots.

Method: pass objects that are not layouts or namespaces, that lie, or that run code while something is half built; use
programs in ways for which they were not made."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines import selection
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.values import DEFAULT
from tests.needs import NATIVE_ENGINE

NATIVE_ENGINE.require()
native: Any = selection.native


class Plain:
    """A class whose instances have a dictionary, which messages lack."""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((type(Message), "X", (Message,), {}), "X has more than slots"),
        ((type(Message), "X", (Message,), {"__slots__": ("a", "__weakref__")}), "X has more than slots"),
        ((type(Message), "X", (ResponseHeader,), {"__slots__": ()}), "not an acceptable base type"),
        ((type(Message), "X", (), {"__slots__": ()}), "X needs one base of the type"),
        ((type(Message), "X", (Message, Plain), {"__slots__": ()}), "X needs one base of the type"),
        ((type, "X", (Plain,), {"__slots__": ("a",)}), "X has more than slots"),
        ((type, "X", (Message,), {"__slots__": ("a",)}), "X needs one base of the type"),
        ((5, "X", (Message,), {}), "X needs one base of the type"),
        ((type(Message), 5, (Message,), {}), "expected str, got int"),
    ],
)
def test_only_classes_of_slots_are_made(arguments: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        native.new_class(*arguments)


class Maker:
    """An attribute that creates an instance of its class before that class is complete."""

    def __set_name__(self, owner: type, name: str) -> None:
        object.__new__(owner)


class Base(metaclass=type(Message)):
    __slots__ = ()

    def __init_subclass__(cls) -> None:
        object.__new__(cls)


class MakingMetaclass(type):
    def mro(cls) -> list[type]:
        return super().mro()


class OfMakingMetaclass(metaclass=MakingMetaclass):
    __slots__ = ()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((type(Message), "X", (Message,), {"__slots__": ("a",), "b": Maker()}), "X.b has __set_name__"),
        ((type(Message), "X", (Base,), {"__slots__": ("a",)}), "X: its base has __init_subclass__"),
        ((MakingMetaclass, "X", (OfMakingMetaclass,), {"__slots__": ("a",)}), "X needs one base of the type"),
    ],
)
def test_no_instance_is_made_before_its_class_is_complete(arguments: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        native.new_class(*arguments)


def test_a_class_is_final_whichever_way_it_is_derived_from() -> None:
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type.__new__(type(Message), "X", (ResponseHeader,), {"__slots__": ()})


def fake_layout(**changes: Any) -> Any:
    attributes = {
        "cls": ResponseHeader,
        "flexible": False,
        "fields": (),
        "tagged": (),
        "absent": (),
        "invalid_tags": (),
    }
    return type("FakeLayout", (), attributes | changes)()


FIELD = layout(ResponseHeader, 0).fields[0]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        fake_layout(cls=5),
        fake_layout(cls=int),
        fake_layout(cls=Message),
        fake_layout(fields=5),
        fake_layout(fields=(5,)),
        fake_layout(fields=(FIELD._replace(name=5),)),
        fake_layout(fields=(FIELD._replace(name="nothing"),)),
        fake_layout(fields=(FIELD._replace(name="FIELDS"),)),
        fake_layout(fields=(FIELD._replace(kind="struct"),)),
        fake_layout(fields=(FIELD._replace(kind="int3"),)),
        fake_layout(fields=(FIELD._replace(structure=layout(ResponseHeader, 0)),)),
        fake_layout(fields=(FIELD._replace(structure=5, kind="struct"),)),
        fake_layout(fields=(FIELD._replace(default=DEFAULT),)),
        fake_layout(fields=(FIELD._replace(), 5)),
        fake_layout(absent=(5,)),
        fake_layout(invalid_tags=5),
        fake_layout(invalid_tags=("0",)),
        fake_layout(invalid_tags=(0, 2**31)),
    ],
)
def test_a_program_needs_a_layout(wrong: Any) -> None:
    with pytest.raises((TypeError, AttributeError, KeyError, OverflowError)):
        native.Program(wrong)


def test_a_program_is_nothing_without_a_layout() -> None:
    with pytest.raises(TypeError):
        native.Program()
    with pytest.raises(TypeError):
        native.Program.__new__(native.Program)


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps, weakref.ref, object.__reduce_ex__])
def test_a_program_is_not_copied(use: Any) -> None:
    with pytest.raises(TypeError):
        use(native.Program(layout(ResponseHeader, 0)))


def test_a_program_that_is_used_in_ways_it_is_not_made_for() -> None:
    program = native.Program(layout(ResponseHeader, 0))
    for name in dir(program):
        if name == "__class__":
            continue
        for arguments in ((), (None,), (None, None), (5,), ({},), ((), ()), (layout(FetchRequest, 12),)):
            with contextlib.suppress(Exception):
                getattr(program, name)(*arguments)
        with contextlib.suppress(AttributeError, TypeError):
            setattr(program, name, None)
    with pytest.raises(TypeError):
        object.__new__(native.Program)
    assert program.decode(bytes(4)) == (ResponseHeader(), 4)


def test_a_program_of_a_derived_class_is_a_program() -> None:
    class Derived(native.Program):  # type: ignore[misc]  # of any type
        def __init__(self, *arguments: object) -> None:
            """Restore the base class's constructor."""

    derived = Derived(layout(ResponseHeader, 0))
    derived.__init__(layout(FetchRequest, 12))
    assert derived.decode(derived.encode(ResponseHeader(5))) == (ResponseHeader(5), 4)


def test_a_structure_that_is_another_at_each_look() -> None:
    class Lying:
        name, kind, default = "correlation_id", "struct", None
        array = nullable = compact = False
        tag = None

        def __init__(self) -> None:
            self.looks = 0

        @property
        def structure(self) -> Any:
            self.looks += 1
            return layout(ResponseHeader, 0) if self.looks == 1 else None

    lying = Lying()
    with contextlib.suppress(TypeError):
        native.Program(fake_layout(fields=(lying,))).decode(bytes(8))
    assert lying.looks == 1


def test_a_program_that_is_not_made_yet() -> None:
    found: list[Any] = []

    class Field:
        name, kind, default = "correlation_id", "int32", 0
        array = nullable = compact = False
        tag = None

        @property
        def structure(self) -> None:
            for thing in gc.get_objects():
                if type(thing) is native.Program and thing not in known:
                    found.append(thing)
                    with pytest.raises(TypeError, match="not made yet"):
                        thing.decode(bytes(8))
                    with pytest.raises(TypeError, match="not made yet"):
                        thing.encode(ResponseHeader())

    known = [thing for thing in gc.get_objects() if type(thing) is native.Program]
    native.Program(fake_layout(fields=(Field(),)))
    assert found


def test_a_program_holds_what_it_points_to() -> None:
    class Changing:
        cls = ResponseHeader
        flexible = False
        tagged = absent = invalid_tags = ()

        @property
        def fields(self) -> tuple[Any, ...]:
            return (FIELD._replace(name="".join(["correlation", "_id"]), default=object()),)

    program = native.Program(Changing())
    gc.collect()
    with pytest.raises(DecodeError, match="correlation_id at byte 0"):
        program.decode(b"")


def test_a_class_that_is_changed_later() -> None:
    class Header(Message):
        __slots__ = ("correlation_id", "unknown_tags")
        FIELDS = ResponseHeader.FIELDS
        SCHEMA = ResponseHeader.SCHEMA

        def __init__(self, correlation_id: Any = 0, unknown_tags: Any = ()) -> None:
            self.correlation_id = correlation_id
            self.unknown_tags = unknown_tags

    program = native.Program(layout(Header, 0))
    header = Header(7)
    del Header.correlation_id  # type: ignore[misc]  # the point
    Header.unknown_tags = 5  # type: ignore[assignment]  # the point
    assert program.encode(header) == b"\0\0\0\7"
    assert program.decode(b"\0\0\0\7")[1] == 4
    header.__class__ = ResponseHeader  # type: ignore[assignment]  # has the same slots, so Python allows it
    assert codec(ResponseHeader, 0, "native").encode(header) == b"\0\0\0\7"  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError):
        header.__class__ = FetchRequest  # type: ignore[assignment]  # has other slots
