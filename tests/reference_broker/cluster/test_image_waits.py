"""A wait ends exactly once, when the image shows the change or time runs out; the number of waits is limited.

Method: publish images, and move the clock.
"""

from __future__ import annotations

from functools import partial

import pytest

from kafkawire.reference_broker.cluster import image_waits
from kafkawire.reference_broker.cluster.image_waits import ImageWaits
from kafkawire.reference_broker.metadata.image import MetadataImage, TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID


class Bench:
    """Waits for topics to appear in the image, or to disappear.

    Attributes:
        told: the name of each finished wait, with its error code.
    """

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.timers = Timers()
        self.metadata = MetadataCache(MetadataImage("cluster", 0, {}, {}, {}))
        self.waits = ImageWaits(self.metadata, self.timers, lambda: self.now_ms)
        self.metadata.listen(self.waits.changed)
        self.told: list[tuple[str, ErrorCode | None]] = []

    def note(self, name: str, error: BrokerError | None) -> None:
        self.told.append((name, None if error is None else error.code))

    def wait(self, name: str, timeout_ms: int = 100, *, is_gone: bool = False) -> None:
        self.waits.wait(
            name, lambda topic: (topic is None) is is_gone, lambda error: self.note(name, error), timeout_ms
        )

    def show(self, *names: str) -> None:
        self.metadata.publish([TopicImage(name, ZERO_UUID, (), {}) for name in names])

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)


@pytest.fixture
def waiting() -> Bench:
    return Bench()


def test_what_the_image_shows_is_told_at_once(waiting: Bench) -> None:
    waiting.wait("t", is_gone=True)
    assert waiting.told == [("t", None)]
    assert waiting.timers.next_deadline_ms is None


def test_a_wait_ends_when_the_image_changes(waiting: Bench) -> None:
    for name in "tut":
        waiting.wait(name)
    waiting.show("other")
    assert waiting.told == []
    waiting.show("t")
    assert waiting.told == [("t", None)] * 2
    waiting.show("u", "t")
    waiting.advance(1_000)
    assert waiting.told == [("t", None), ("t", None), ("u", None)]


def test_a_wait_for_an_end(waiting: Bench) -> None:
    waiting.show("t")
    waiting.wait("t", is_gone=True)
    waiting.show("t")
    assert waiting.told == []
    waiting.metadata.publish(deleted=["t"])
    assert waiting.told == [("t", None)]


def test_a_wait_times_out(waiting: Bench) -> None:
    waiting.wait("t", 100)
    waiting.wait("t", 200)
    waiting.advance(99)
    assert waiting.told == []
    waiting.advance(1)
    assert waiting.told == [("t", ErrorCode.REQUEST_TIMED_OUT)]
    waiting.show("t")
    assert waiting.told[1:] == [("t", None)]


def test_a_wait_until_a_time_that_is_over(waiting: Bench) -> None:
    waiting.show("t")
    for name in "tu":
        waiting.waits.wait_until(name, lambda topic: topic is not None, partial(waiting.note, name), 0)
    assert waiting.told == [("t", None)]
    waiting.advance(0)
    assert waiting.told == [("t", None), ("u", ErrorCode.REQUEST_TIMED_OUT)]


def test_the_oldest_makes_room(waiting: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_waits, "WAITS_MAX", 2)
    for name in "abc":
        waiting.wait(name)
    assert waiting.told == [("a", ErrorCode.REQUEST_TIMED_OUT)]


def test_waits_that_begin_and_end_inside_a_callback(waiting: Bench) -> None:
    def again(error: BrokerError | None) -> None:
        waiting.note("t", error)
        waiting.wait("t", is_gone=True)
        waiting.metadata.publish(deleted=["t"])  # this delta is delivered after the current one

    waiting.waits.wait("t", lambda topic: topic is not None, again, 100)
    waiting.wait("t")
    waiting.show("t")
    assert waiting.told == [("t", None)] * 3


def test_a_wait_that_makes_room_while_it_is_told(waiting: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_waits, "WAITS_MAX", 2)

    def more(error: BrokerError | None) -> None:
        for name in "xy":
            waiting.wait(name)

    waiting.waits.wait("t", lambda topic: topic is not None, more, 100)
    waiting.wait("t")
    waiting.show("t")
    assert waiting.told == [("t", ErrorCode.REQUEST_TIMED_OUT)], "once"


@pytest.mark.defect
def test_a_callback_that_fails_does_not_stop_others(waiting: Bench) -> None:
    def fail(error: BrokerError | None) -> None:
        raise RuntimeError("planned")

    waiting.waits.wait("t", lambda topic: topic is not None, fail, 100)
    waiting.wait("t")
    waiting.show("t")
    assert waiting.told == [("t", None)]


def test_nothing_is_kept(waiting: Bench) -> None:
    for name in "ab":
        waiting.wait(name)
    waiting.show("a")
    waiting.advance(100)
    assert not waiting.waits._waits
    assert not waiting.waits._by_topic
