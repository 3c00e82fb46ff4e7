"""A replacement for `send` on the class, a derived class or the producer is called, even if set after startup.

Method: on a class or on an asyncio or blocking producer with an in-memory broker, set a function that records calls.
"""

from __future__ import annotations

import asyncio
from abc import ABC
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar
from unittest import mock

import pytest

from kafkawire import Producer
from kafkawire.sync import Producer as BlockingProducer
from tests.sdk.scripted_broker import BROKER, StoringBroker

FACES: dict[str, Any] = {"asyncio": Producer, "blocking": BlockingProducer}


class Derived(Producer[Any, Any], ABC):
    """An application's class, with an abstract base class mixed in."""

    seen: ClassVar[list[object]] = []

    def send(self, topic: str, value: Any = None, **more: Any) -> Any:  # type: ignore[override]  # as programs do it
        self.seen.append(value)
        return super().send(topic, value, **more)


class DerivedBlocking(BlockingProducer[Any, Any]):
    """An application's class derived from the blocking producer."""

    seen: ClassVar[list[object]] = []

    def send(self, topic: str, value: Any = None, **more: Any) -> Any:  # type: ignore[override]  # likewise
        self.seen.append(value)
        return super().send(topic, value, **more)


def run(kind: Any, use: Callable[[Any], Any], prepare: Callable[[Any], None] = lambda producer: None) -> list[Any]:
    """Use a producer, await the result if it is awaitable, and return the stored values."""
    broker = StoringBroker({"t": 1})
    producer = kind(str(BROKER), network=broker.network)
    prepare(producer)
    if isinstance(producer, Producer):

        async def used() -> None:
            async with producer:
                if isinstance(left := use(producer), Awaitable):
                    await left

        asyncio.run(used())
    else:
        with producer:
            use(producer)
    return broker.values("t")


def noting(seen: list[object], original: Callable[..., Any]) -> Callable[..., Any]:
    def send(*arguments: Any, **named: Any) -> Any:
        seen.append(arguments[-1])
        return original(*arguments, **named)

    return send


@pytest.mark.parametrize("kind", FACES.values(), ids=FACES)
def test_a_producer_that_nobody_has_touched_takes_the_fast_path(kind: Any) -> None:
    def use(producer: Any) -> Any:
        assert "send" in vars(producer)
        producer.send("t", b"1")
        return producer.send_many("t", [b"2", b"3"])

    assert run(kind, use) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", FACES.values(), ids=FACES)
@pytest.mark.parametrize("is_started", [False, True])
def test_a_tracer_wraps_the_method_of_the_class(kind: Any, is_started: bool) -> None:
    seen: list[object] = []
    patch = mock.patch.object(kind, "send", noting(seen, kind.send))

    def use(producer: Any) -> Any:
        if is_started:
            producer.send("t", b"before")
            patch.start()
        producer.send("t", b"1")
        left = producer.send_many("t", [b"2", b"3"])

        async def end() -> None:
            await left
            patch.stop()
            assert "send" in vars(producer), "the fast path must be taken again"
            producer.send("t", b"after")

        return end() if isinstance(left, Awaitable) else patch.stop()

    if not is_started:
        patch.start()
    try:
        stored = run(kind, use)
    finally:
        mock.patch.stopall()
    assert [value for value in stored if value not in (b"before", b"after")] == [b"1", b"2", b"3"]
    assert seen[0] == b"1"
    # The blocking producer wraps an asyncio producer, and its `send_many` calls that producer's `send`, not the
    # replaced one.
    assert len(seen) == (3 if kind is Producer else 1)


@pytest.mark.parametrize("kind", FACES.values(), ids=FACES)
def test_what_is_set_on_the_producer_itself_stays(kind: Any) -> None:
    seen: list[object] = []

    def prepare(producer: Any) -> None:
        producer.send = noting(seen, producer.send)

    def use(producer: Any) -> None:
        producer.send("t", b"1")
        with mock.patch.object(kind, "send"):
            pass
        with mock.patch.object(producer, "send") as patched:
            producer.send("t", b"nowhere")
        patched.assert_called_once_with("t", b"nowhere")
        producer.send("t", b"2")

    assert run(kind, use, prepare) == [b"1", b"2"]
    assert seen == [b"1", b"2"]


@pytest.mark.parametrize("kind", [Derived, DerivedBlocking])
def test_a_derived_class_overrides_it(kind: Any) -> None:
    kind.seen.clear()
    assert run(kind, lambda producer: producer.send("t", b"1")) == [b"1"]
    assert kind.seen == [b"1"]
    kind.extra = 1
    del kind.extra


def test_a_function_that_is_taken_from_a_derived_class() -> None:
    class Other(Producer[Any, Any]):
        pass

    seen: list[object] = []

    def use(producer: Any) -> None:
        Other.send = noting(seen, Producer.send)  # type: ignore[method-assign]  # as tracers do
        producer.send("t", b"1")
        del Other.send
        producer.send("t", b"2")

    assert run(Other, use) == [b"1", b"2"]
    assert seen == [b"1"]
