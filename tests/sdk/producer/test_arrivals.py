"""A waiting record is taken by the thread that closes the arrivals, or its own thread sees that they are closed."""

from __future__ import annotations

from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.producer_topic import Arrivals, End


def held() -> Held:
    return Held("t", None, b"v", (), None, 5, 100)


def test_in_order_until_it_is_closed() -> None:
    arrivals = Arrivals()
    records = [held() for _ in range(3)]
    assert [arrivals.add(record) for record in records] == [None] * 3
    assert (len(arrivals), records[1] in arrivals, held() in arrivals) == (3, True, False)
    end = End(4, Arrivals())
    assert not arrivals.close_if_empty(end)
    assert arrivals.close(end) == records
    for _ in range(2):
        assert arrivals.add(held()) is end
    assert end.others is not None
    assert end.others.add(records[0]) is None


def test_nothing_has_arrived() -> None:
    arrivals, end = Arrivals(), End(2, None)
    assert arrivals.close_if_empty(end)
    assert arrivals.add(held()) is end


def test_another_record_takes_the_place_meanwhile() -> None:
    """Anything may happen between finding the next place and taking that place."""

    class Busy(dict[int, Held | End]):
        def setdefault(self, place: int, given: Held | End) -> Held | End:  # type: ignore[override]  # as it is used
            if others:
                super().setdefault(place, others.pop())
            return super().setdefault(place, given)

    others: list[Held | End] = []
    arrivals = Arrivals()
    arrivals._places = Busy()
    first, second = held(), held()
    others.append(first)
    assert arrivals.add(second) is None
    third, end = held(), End(1, None)
    others.append(third)
    assert arrivals.close(end) == [first, second, third]
    arrivals._places = Busy()
    others.append(end)
    assert arrivals.add(held()) is end
