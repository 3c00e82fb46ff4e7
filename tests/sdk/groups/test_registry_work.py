"""The results of steps wait for a poll, in order, and a cancelled sequence reports nothing."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.registry_work import RegistryWork
from kafkawire.sdk.registry.registry import RegistryCode, RegistryError
from kafkawire.sdk.registry.steps import Steps, create
from tests.sdk.groups.memory_registry import MemoryRegistry, Tree


class Scene:
    """Work on a tree, and its reports."""

    def __init__(self) -> None:
        self.registry = MemoryRegistry(Tree())
        self.work = RegistryWork(self.registry)
        self.reports: list[tuple[object, int]] = []

    def report(self, result: object, now_ms: int) -> None:
        self.reports.append((result, now_ms))

    def failed(self, error: KafkaWireError, now_ms: int) -> None:
        assert isinstance(error, RegistryError)
        self.reports.append((error.code, now_ms))


def nothing() -> Steps[str]:
    """End without an operation."""
    yield from ()
    return "nothing"


def defect() -> Steps[str]:
    raise ZeroDivisionError("a defect")
    yield ()


def test_results_and_errors_come_with_the_time_of_the_poll() -> None:
    scene = Scene()
    scene.work.begin(create("/a"), scene.report, scene.failed)
    scene.work.begin(create("/a"), scene.report, scene.failed)
    scene.work.begin(nothing(), scene.report, scene.failed)
    scene.registry.run()
    assert scene.work.has_news
    assert not scene.reports
    scene.work.poll(5)
    assert scene.reports == [("nothing", 5), ("/a", 5), (RegistryCode.NODE_EXISTS, 5)]
    assert not scene.work.has_news


def test_a_cancelled_sequence_reports_nothing() -> None:
    scene = Scene()
    early = scene.work.begin(create("/a"), scene.report, scene.failed)
    early.cancel()
    late = scene.work.begin(create("/b"), scene.report, scene.failed)
    scene.registry.run()
    late.cancel()
    scene.work.poll(5)
    assert not scene.reports
    assert len(scene.registry.carried_out) == 2, "submitted operations must be carried out"


def test_notes_are_called_in_order() -> None:
    scene = Scene()
    scene.work.note(lambda now_ms: scene.work.note(lambda now_ms: scene.report("second", now_ms)))
    scene.work.note(lambda now_ms: scene.report("first", now_ms))
    scene.work.poll(7)
    assert scene.reports == [("first", 7), ("second", 7)]


def test_a_defect_is_raised_by_the_poll() -> None:
    scene = Scene()
    scene.work.begin(defect(), scene.report, scene.failed)
    with pytest.raises(ZeroDivisionError):
        scene.work.poll(5)
