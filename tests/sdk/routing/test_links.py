"""Links open when they are wanted, close when they are unused, and are checked only when this can matter.

A link takes calls only while it is ready, has room and is not muted, and has a connection as long as it is ready.
Method: use the links of a client whose metadata names no broker, and move the clock and the states from the test.
"""

from __future__ import annotations

from itertools import product

import pytest

from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.errors import AuthenticationFailed, ConnectFailed, KafkaWireError
from kafkawire.sdk.routing.call import Purpose
from kafkawire.sdk.routing.links import IMPATIENT_MS, LINK_EDGES, Link, Links, LinkState
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.states import RefusedEdge
from kafkawire.sdk.transport.driver_interface import Open, Shut
from kafkawire.sdk.transport.wire import Address
from tests.sdk.simulation import Connection, backoff

IDLE_MS = 5_000
HERE = Address("here", 1)


def links() -> Links:
    options = read_options(AdminOptions, "first:1,second:2", {"connections_max_idle_ms": IDLE_MS})
    return Links(options, Metadata(), Backoff(100, 1_000, lambda: 0.5))


def opened(all_links: Links, link: Link, now_ms: int) -> None:
    link.moves_to(LinkState.OPENING, now_ms)
    link.moves_to(LinkState.READY, now_ms)
    link.wanted = False
    all_links.changed(now_ms)


def test_there_is_one_link_for_each_address_and_purpose() -> None:
    found = links()
    assert found.to(HERE, Purpose.DATA) is found.to(HERE, Purpose.DATA)
    assert found.to(HERE, Purpose.DATA) is not found.to(HERE, Purpose.GROUP)
    assert found.to_node(1, Purpose.DATA) is None


def test_a_link_that_is_wanted_opens_once_its_backoff_is_over() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    assert list(found.tend(0)) == []
    link.attempts.failed(ConnectFailed(HERE, "refused"), 0)
    not_before_ms = link.attempts.not_before_ms
    assert not_before_ms > 0
    found.want(link)
    assert found.due_ms == 0
    assert list(found.tend(not_before_ms - 1)) == []
    assert found.due_ms == not_before_ms
    for action in found.tend(not_before_ms):
        assert (action, link.state) == (Open(link), LinkState.OPENING)
    assert link.state is LinkState.OPENING
    assert found.due_ms == not_before_ms + IMPATIENT_MS


def test_an_idle_link_is_shut_and_forgotten() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    opened(found, link, 0)
    link.in_flight = 1
    assert list(found.tend(IDLE_MS)) == []
    link.in_flight = 0
    assert list(found.tend(IDLE_MS - 1)) == []
    assert found.due_ms == IDLE_MS
    for action in found.tend(IDLE_MS):
        assert (action, link.state) == (Shut(link), LinkState.CLOSED)
    assert link.state is LinkState.CLOSED
    assert list(found.all) == [link]
    assert list(found.tend(2 * IDLE_MS)) == []
    assert list(found.all) == []


def refuse(all_links: Links, link: Link, now_ms: int, error: KafkaWireError | None = None) -> None:
    link.moves_to(LinkState.OPENING, now_ms)
    all_links.closed(link, error or AuthenticationFailed(link.address, "no"), now_ms)


def opening(all_links: Links, now_ms: int) -> list[Link]:
    return [action.link for action in all_links.tend(now_ms) if isinstance(action, Open)]


def test_a_refused_login_is_repeated_after_a_pause_that_doubles() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    now_ms, pauses = 0, []
    for _ in range(7):
        refuse(found, link, now_ms)
        found.want(link)
        refused_ms = now_ms
        while not opening(found, now_ms):
            assert found.due_ms > now_ms
            now_ms = found.due_ms
        pauses.append(now_ms - refused_ms)
        link.moves_to(LinkState.CLOSED, now_ms)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]


def test_after_a_refused_login_links_try_one_at_a_time_and_in_turn() -> None:
    """A broker that goes on refusing must not keep the others from being tried."""
    found = links()
    here, there = found.to(HERE, Purpose.DATA), found.to(Address("there", 1), Purpose.GROUP)
    refuse(found, here, 0)
    found.want(here)
    found.want(there)
    assert opening(found, 999) == [], "the other broker might refuse, too"
    assert opening(found, 1_000) == [there]
    assert opening(found, 1_000) == []
    assert found.due_ms == 1_000 + IMPATIENT_MS, "the next turn comes when this attempt has ended"
    found.closed(there, AuthenticationFailed(there.address, "no"), 1_010)
    found.want(there)
    assert opening(found, 3_010) == [here]
    found.closed(here, ConnectFailed(HERE, "gone"), 3_020)
    assert opening(found, 3_020) == [there]


def test_only_the_broker_that_refused_waits_while_another_one_serves_the_client() -> None:
    found = links()
    here, there = found.to(HERE, Purpose.DATA), found.to(Address("there", 1), Purpose.DATA)
    new = found.to(Address("new", 1), Purpose.DATA)
    opened(found, there, 0)
    refuse(found, here, 0)
    for each in (here, new):
        found.want(each)
    assert opening(found, 0) == [new]
    assert opening(found, 1_000) == [here]


def test_an_accepted_login_ends_all_pauses() -> None:
    found = links()
    here, there = found.to(HERE, Purpose.DATA), found.to(Address("there", 1), Purpose.DATA)
    for now_ms in (0, 1_000, 3_000):
        refuse(found, here, now_ms)
    refuse(found, there, 7_000)
    found.want(here)
    assert found.refusal(here) is not None
    there.moves_to(LinkState.OPENING, 15_000)
    found.opened(there, Connection({}), 15_000)
    assert (found.refusal(here), opening(found, 15_000)) == (None, [here])


def test_the_links_to_a_broker_share_its_refusal() -> None:
    found = links()
    data, group = found.to(HERE, Purpose.DATA), found.to(HERE, Purpose.GROUP)
    assert found.failure(group) is None
    refuse(found, group, 5, earlier := ConnectFailed(HERE, "gone"))
    assert (found.refusal(group), found.failure(group)) == (None, (earlier, 5))
    refuse(found, data, 7, refused := AuthenticationFailed(HERE, "no"))
    for link in (data, group):
        assert (found.refusal(link), found.failure(link)) == (refused, (refused, 7))
    refuse(found, group, 2_000, later := ConnectFailed(HERE, "gone"))
    assert (found.refusal(group), found.failure(group)) == (None, (later, 2_000))


def test_logins_that_are_refused_at_the_same_time_count_as_one_attempt() -> None:
    found = links()
    together = [found.to(HERE, purpose) for purpose in (Purpose.DATA, Purpose.GROUP, Purpose.JOIN)]
    for link in together:
        link.moves_to(LinkState.OPENING, 0)
    for link in together:
        found.closed(link, AuthenticationFailed(HERE, "no"), 10)
        found.want(link)
    assert len(opening(found, 1_010)) == 1


def test_a_refusal_is_forgotten_with_its_address() -> None:
    for forget in (lambda found: found.drop(HERE), lambda found: list(found.tend(IDLE_MS))):
        found = links()
        link = found.to(HERE, Purpose.DATA)
        refuse(found, link, 0)
        forget(found)
        assert list(found.all) == []
        assert found.refusal(found.to(HERE, Purpose.DATA)) is None


def test_a_link_in_use_needs_no_look_until_it_could_be_idle() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    opened(found, link, 0)
    link.in_flight = 1
    assert list(found.tend(10)) == []
    assert found.due_ms == 10 + IDLE_MS


def test_a_muted_link_is_looked_at_when_it_takes_calls_again() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    opened(found, link, 0)
    link.muted_until_ms = 300
    assert list(found.tend(10)) == []
    assert found.due_ms == 300


def test_a_dropped_link_is_shut_even_in_use_and_replaced() -> None:
    found = links()
    ready, opening = found.to(HERE, Purpose.DATA), found.to(HERE, Purpose.GROUP)
    closed, other = found.to(HERE, Purpose.JOIN), found.to(Address("there", 1), Purpose.DATA)
    for link in (ready, other):
        opened(found, link, 0)
    opening.moves_to(LinkState.OPENING, 0)
    ready.in_flight = 1
    assert list(found.tend(1)) == []
    found.drop(HERE)
    assert found.due_ms == 0
    assert list(found.all) == [other]
    assert found.to(HERE, Purpose.DATA) is not ready
    assert found.to(HERE, Purpose.JOIN) is not closed
    assert (list(found.tend(2)), ready.state, other.state) == ([Shut(ready)], LinkState.CLOSED, LinkState.READY)
    assert list(found.tend(3)) == []
    opening.moves_to(LinkState.READY, 4)
    assert (list(found.tend(4)), opening.state) == ([Shut(opening)], LinkState.CLOSED)
    assert list(found.tend(5)) == []


def test_a_dropped_link_that_ends_by_itself_is_forgotten() -> None:
    found = links()
    link = found.to(HERE, Purpose.DATA)
    link.moves_to(LinkState.OPENING, 0)
    found.drop(HERE)
    link.moves_to(LinkState.CLOSED, 1)
    assert list(found.tend(1)) == []
    link.moves_to(LinkState.OPENING, 2)
    link.moves_to(LinkState.READY, 2)
    assert list(found.tend(2)) == [], "no list may still contain the link"


def test_bootstrap_servers_are_candidates_while_no_broker_is_known() -> None:
    assert [str(link) for link in links().candidates()] == ["first:1", "second:2"]


def test_when_a_link_takes_calls() -> None:
    link = Link(Address("host", 1), Purpose.DATA, Attempts(backoff()))
    assert str(link) == "host:1"
    assert not link.takes_calls(100)
    link.moves_to(LinkState.OPENING, 100)
    assert not link.takes_calls(100)
    link.moves_to(LinkState.READY, 110, connection := Connection({}))
    assert link.connection is connection
    assert (link.since_ms, link.used_ms) == (110, 110)
    assert link.takes_calls(110)
    link.muted_until_ms = 200
    assert not link.takes_calls(199)
    assert link.takes_calls(200)
    link.congested = True
    assert not link.takes_calls(200)
    link.moves_to(LinkState.CLOSED, 300)
    assert link.connection is None


@pytest.mark.parametrize(("before", "after"), list(product(LinkState, LinkState)))
def test_every_edge_and_no_other(before: LinkState, after: LinkState) -> None:
    link = Link(HERE, Purpose.DATA, Attempts(backoff()))
    for state in {LinkState.OPENING: [before], LinkState.READY: [LinkState.OPENING, before]}.get(before, []):
        link.moves_to(state, 0)
    if (before, after) in LINK_EDGES:
        link.moves_to(after, 7)
        assert (link.state, link.since_ms) == (after, 7)
    else:
        with pytest.raises(RefusedEdge, match=f"a link to a broker cannot become {after.name}"):
            link.moves_to(after, 7)
        assert link.state is before
