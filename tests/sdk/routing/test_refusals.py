"""The pauses between refused logins grow until one is accepted, whichever brokers refuse them.

Method: record refusals at two addresses. test_links.py shows what the links of a client do with them.
"""

from __future__ import annotations

from kafkawire.sdk.errors import AuthenticationFailed
from kafkawire.sdk.routing.refusals import REFUSED_PAUSE_MAX_MS, Refusals
from kafkawire.sdk.transport.wire import Address

HERE, THERE = Address("here", 1), Address("there", 1)
ERROR = AuthenticationFailed(HERE, "no")


def refusals(fraction: float = 0.5) -> Refusals:
    return Refusals(lambda: fraction)


def test_nothing_waits_before_the_first_refusal() -> None:
    found = refusals()
    assert (found.is_pausing, found.is_refused, found.last_error, found.at(HERE)) == (False, False, None, None)
    assert found.not_before_ms(HERE, is_served=False) == found.not_before_ms(HERE, is_served=True) == 0


def test_the_pause_doubles_from_one_refusal_to_the_next_at_any_broker() -> None:
    found = refusals()
    pauses = []
    for attempt in range(8):
        now_ms = attempt * 100_000
        found.refused((HERE, THERE)[attempt % 2], ERROR, now_ms - 10, now_ms)
        pauses.append(found.not_before_ms(HERE, is_served=False) - now_ms)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]


def test_pauses_differ_between_clients_and_have_a_limit() -> None:
    for fraction, expected in ((0.0, [800, 1_600]), (0.999, [1_199, 2_399])):
        found = refusals(fraction)
        for attempt, pause_ms in enumerate(expected):
            found.refused(HERE, ERROR, attempt, attempt)
            assert found.not_before_ms(HERE, is_served=False) == attempt + pause_ms
        for attempt in range(100):
            found.refused(HERE, ERROR, attempt, attempt)
        assert found.not_before_ms(HERE, is_served=False) <= 99 + REFUSED_PAUSE_MAX_MS


def test_a_broker_that_has_not_refused_waits_only_while_none_serves_the_client() -> None:
    found = refusals()
    found.refused(HERE, ERROR, 0, 10)
    assert [found.not_before_ms(THERE, is_served=each) for each in (False, True)] == [1_010, 0]
    assert found.not_before_ms(HERE, is_served=True) == 1_010
    other = AuthenticationFailed(THERE, "no")
    found.refused(THERE, other, 1_010, 1_020)
    assert [found.not_before_ms(each, is_served=False) for each in (HERE, THERE)] == [3_020, 3_020]
    assert [found.not_before_ms(each, is_served=True) for each in (HERE, THERE)] == [1_010, 3_020]
    assert found.last_error is other


def test_logins_at_the_same_time_count_once() -> None:
    found = refusals()
    for now_ms in (10, 11, 12):
        found.refused(HERE, ERROR, 0, now_ms)
    assert found.not_before_ms(HERE, is_served=False) == 1_010
    found.refused(HERE, ERROR, 12, 1_020)
    assert found.not_before_ms(HERE, is_served=False) == 3_020


def test_an_accepted_login_ends_all_pauses() -> None:
    found = refusals()
    for address in (HERE, THERE):
        found.refused(address, ERROR, 5, 5)
    found.accepted()
    assert (found.is_pausing, found.is_refused, found.at(HERE)) == (False, False, None)
    assert found.not_before_ms(HERE, is_served=False) == 0
    found.refused(HERE, ERROR, 5, 5)
    assert found.not_before_ms(HERE, is_served=False) == 1_005


def test_a_broker_that_cannot_be_reached_any_more_has_not_refused_but_the_pause_goes_on() -> None:
    found = refusals()
    found.refused(HERE, ERROR, 0, 10)
    found.forget(THERE)
    assert found.is_refused
    found.forget(HERE)
    assert (found.is_pausing, found.is_refused, found.at(HERE), found.last_error) == (True, False, None, None)
    assert found.not_before_ms(HERE, is_served=False) == 1_010
    found.refused(HERE, ERROR, 2_000, 2_000)
    assert found.not_before_ms(HERE, is_served=False) == 4_000
