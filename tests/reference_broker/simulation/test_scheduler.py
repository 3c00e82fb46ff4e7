"""In virtual time, events happen in chronological order, on computers that pause and end.

Method: schedule events that add their names to a list.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.scheduler import START_MS, Clock, Host, Scheduler, WallClock


def host(scheduler: Scheduler, name: str = "a") -> Host:
    return Host(scheduler, name, Clock(scheduler), scheduler.chance(name))


def test_events_happen_in_the_order_of_their_time() -> None:
    scheduler = Scheduler(1)
    one, happened = host(scheduler), []
    for name, delay_us in (("late", 30), ("early", 10), ("middle", 20)):
        one.later_us(delay_us, lambda name=name: happened.append((name, scheduler.now_us)))
    scheduler.run_to(25)
    assert happened == [("early", 10), ("middle", 20)]
    assert scheduler.now_us == 25
    scheduler.run_to(30)
    assert happened[-1] == ("late", 30)


def test_what_is_posted_happens_in_order_on_one_computer() -> None:
    scheduler = Scheduler(1)
    one, other, happened = host(scheduler), host(scheduler, "b"), []
    for number in range(50):
        one.post(lambda number=number: happened.append(("a", number)))
        other.post(lambda number=number: happened.append(("b", number)))
    scheduler.run_to(1_000)
    assert [each for each in happened if each[0] == "a"] == [("a", number) for number in range(50)]
    assert happened != sorted(happened, key=lambda each: each[1]), "two computers overtake each other"


def test_a_cancelled_event_does_not_happen() -> None:
    scheduler = Scheduler(1)
    one, happened = host(scheduler), []
    event = one.later_us(10, lambda: happened.append(1))
    event.cancel()
    scheduler.run_to(100)
    assert not happened


def test_a_paused_computer_goes_on_later_and_a_dead_one_never() -> None:
    scheduler = Scheduler(1)
    paused, dead, happened = host(scheduler), host(scheduler, "b"), []
    for each in (paused, dead):
        each.later_us(10, lambda each=each: happened.append((each.name, scheduler.now_us)))
    paused.pause(500)
    dead.end()
    scheduler.run_to(1_000)
    assert happened == [("a", 500)]


def test_the_digest_depends_on_what_happens_and_on_nothing_else() -> None:
    def digest(delay_us: int, data: bytes) -> int:
        scheduler = Scheduler(7)
        one = host(scheduler)
        one.later_us(delay_us, lambda: scheduler.mix(data))
        scheduler.run_to(100)
        return scheduler.digest

    assert digest(10, b"x") == digest(10, b"x")
    assert len({digest(10, b"x"), digest(11, b"x"), digest(10, b"y")}) == 3


def test_a_clock_is_ahead_and_drifts() -> None:
    scheduler = Scheduler(1)
    clock = Clock(scheduler, offset_ms=250, drift_ppm=1_000)
    assert clock() == START_MS + 250
    scheduler.run_to(10_000_000)
    assert clock() == START_MS + 250 + 10_010
    assert clock.until_us(clock() + 5) == 5_000
    assert clock.until_us(clock() - 5) == 1_000


def test_a_clock_is_set_without_an_effect_on_durations() -> None:
    scheduler = Scheduler(1)
    steady = Clock(scheduler)
    shown = WallClock(steady)
    shown.ahead_ms = -3_600_000
    scheduler.run_to(10_000_000)
    assert shown() == steady() - 3_600_000 == START_MS + 10_000 - 3_600_000
