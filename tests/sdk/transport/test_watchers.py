"""Each watcher is taken once, in order, by the thread that added it or by the thread that causes the event."""

from __future__ import annotations

from kafkawire.sdk.transport.watchers import Watchers


class Equal:
    """An object that equals everything and is unhashable, as an application's callbacks may be."""

    __hash__ = None  # type: ignore[assignment]  # on purpose

    def __eq__(self, other: object) -> bool:
        return True


def test_each_is_taken_once() -> None:
    watchers: Watchers[object] = Watchers()
    first, second, third = Equal(), Equal(), Equal()
    places = [watchers.add(each) for each in (first, second, third)]
    assert watchers.take_back(places[1])
    assert not watchers.take_back(places[1])
    taking = watchers.take()
    assert next(taking) is first
    assert watchers.take_back(places[2]), "the watcher must not be taken before its turn"
    assert list(taking) == []
    assert not watchers.take_back(places[0])
