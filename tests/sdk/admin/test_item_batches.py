"""Items reach their brokers in batches; only those that may still succeed are sent again, each on its own schedule.

Method: call `in_batches` with scripted lookups and brokers; where time matters, a clock skips the pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, cast

import pytest

from kafkawire.sdk.admin import item_batches
from kafkawire.sdk.admin.item_batches import AT_ONCE_MAX, Placed, answered, in_batches, in_parallel, one_by_one
from kafkawire.sdk.client import operations
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConnectionLost,
    KafkaWireError,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.messages.delete_groups import DeleteGroupsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router

TIMEOUT_MS = 30_000

MOVED = BrokerError(ErrorCode.NOT_COORDINATOR, "moved")
DENIED = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "denied")
LATE = RequestTimedOut("late")

Ask = Callable[[int, list[str], int], Awaitable[Mapping[str, Any]]]


class Scripted:
    """Finds brokers by a table, and notes the lookups.

    Args:
        nodes: the node id of each item; a list has an entry for each lookup, the last of which stays; an error in place
            of a node id fails the lookup of this item.
        refused: items that have no broker, with the error that says so.
    """

    def __init__(self, nodes: dict[str, Any], refused: dict[str, KafkaWireError] | None = None) -> None:
        self.nodes = nodes
        self.refused = refused or {}
        self.lookups: list[tuple[list[str], bool]] = []

    async def find(self, items: Collection[str], deadline_ms: int, *, is_first: bool) -> Placed[str]:
        self.lookups.append((list(items), is_first))
        placed: Placed[str] = Placed({}, {}, {})
        for item in items:
            node = self.nodes.get(item)
            if isinstance(node, list):
                node = node.pop(0) if len(node) > 1 else node[0]
            if item in self.refused:
                placed.refused[item] = self.refused[item]
            elif isinstance(node, KafkaWireError):
                placed.errors[item] = node
            else:
                placed.nodes.setdefault(cast(int, node), []).append(item)
        return placed


class Brokers:
    """Answers batches by a table, and notes them.

    Args:
        outcomes: the outcomes of each item, one after another, the last of which stays.
    """

    def __init__(self, **outcomes: list[Any]) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[int, list[str]]] = []

    async def ask(self, node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
        self.asked.append((node_id, batch))
        return {item: script.pop(0) if len(script := self.outcomes[item]) > 1 else script[0] for item in batch}


def calls(timeout_ms: int = TIMEOUT_MS, backoff_ms: int = 0) -> Operations:
    """Return operations whose pauses take no time unless a test says so."""
    return Operations(cast(Router, None), Backoff(backoff_ms, 1_000, lambda: 0.5), timeout_ms, lambda: None)


def run(items: Collection[str], places: Scripted, ask: Ask, **more: Any) -> Any:
    return asyncio.run(in_batches(calls(), items, places, ask, **more))


def test_each_broker_gets_one_batch() -> None:
    places, brokers = Scripted({"a": 1, "b": 2, "c": 1}), Brokers(a=[1], b=[2], c=[DENIED])
    results = run(["c", "a", "b", "a"], places, brokers.ask)
    assert results == ({"a": 1, "b": 2}, {"c": DENIED})
    assert list(results.values) == ["a", "b"]
    assert sorted(brokers.asked) == [(1, ["c", "a"]), (2, ["b"])]
    assert places.lookups == [(["c", "a", "b"], True)]


def test_nothing_is_asked_about_no_items() -> None:
    places = Scripted({})
    assert run([], places, Brokers().ask) == ({}, {})
    assert places.lookups == []


def test_only_items_that_may_succeed_are_sent_again_to_the_broker_that_has_them_by_then() -> None:
    places = Scripted({"a": [1, 2], "b": [1, MOVED, 2], "c": 1, "d": 1})
    brokers = Brokers(a=[MOVED, 7], b=[MOVED, 8], c=[9], d=[DENIED])
    assert run("abcd", places, brokers.ask) == ({"a": 7, "b": 8, "c": 9}, {"d": DENIED})
    assert brokers.asked == [(1, ["a", "b", "c", "d"]), (2, ["a"]), (2, ["b"])]
    assert places.lookups == [(["a", "b", "c", "d"], True), (["a", "b"], False), (["b"], False)]


def test_codes_that_an_operation_treats_differently() -> None:
    rebalancing = BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    brokers = Brokers(a=[MOVED, 7], b=[rebalancing, 8])
    final, also = {ErrorCode.NOT_COORDINATOR}, {ErrorCode.REBALANCE_IN_PROGRESS}
    assert run("ab", Scripted({"a": 1, "b": 1}), brokers.ask, final=final, also=also) == ({"b": 8}, {"a": MOVED})


def test_an_item_without_a_broker_is_not_looked_up_again_if_that_is_final() -> None:
    places = Scripted({"a": 1}, refused={"b": MOVED})
    assert run("ab", places, Brokers(a=[1]).ask) == ({"a": 1}, {"b": MOVED})
    assert len(places.lookups) == 1


def test_a_batch_that_fails() -> None:
    script: list[KafkaWireError] = [ConnectionLost("broker:1", "gone"), DENIED]

    async def ask(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
        if node_id == 1 and script:
            raise script.pop(0)
        return dict.fromkeys(batch, node_id)

    assert run("abc", Scripted({"a": 1, "b": 1, "c": 2}), ask) == ({"c": 2}, {"a": DENIED, "b": DENIED})


def test_a_lookup_that_fails() -> None:
    class Fails(Scripted):
        async def find(self, items: Collection[str], deadline_ms: int, *, is_first: bool) -> Placed[str]:
            raise LATE

    assert run("ab", Fails({}), Brokers().ask) == ({}, {"a": LATE, "b": LATE})


@pytest.mark.parametrize("where", ["lookup", "broker"])
def test_a_closed_client_ends_the_operation(where: str) -> None:
    class Ends(Scripted):
        async def find(self, items: Collection[str], deadline_ms: int, *, is_first: bool) -> Placed[str]:
            if where == "lookup":
                raise Closed("closed")
            return await super().find(items, deadline_ms, is_first=is_first)

    async def ask(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
        raise Closed("closed")

    with pytest.raises(Closed, match="closed"):
        run("ab", Ends({"a": 1, "b": 2}), ask)


def test_a_defect_ends_the_operation() -> None:
    async def ask(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
        raise ZeroDivisionError("a defect")

    with pytest.raises(ZeroDivisionError, match="a defect"):
        run("ab", Scripted({"a": 1, "b": 2}), ask)


def test_a_slow_broker_delays_only_its_own_items() -> None:
    async def test() -> None:
        again = asyncio.Event()
        attempts: list[int] = []

        async def ask(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
            attempts.append(node_id)
            if node_id == 1:
                await again.wait()
            elif attempts.count(2) == 1:
                return dict.fromkeys(batch, MOVED)
            again.set()
            return dict.fromkeys(batch, node_id)

        results = await in_batches(calls(), "ab", Scripted({"a": 1, "b": 2}), ask)
        assert results.values == {"a": 1, "b": 2}
        assert attempts == [1, 2, 2]

    asyncio.run(test())


@pytest.fixture
def skipping(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skip the pauses; return their durations, the sum of which is the time."""
    pauses_ms: list[float] = []

    async def sleep_ms(duration_ms: float) -> None:
        for _ in range(5):  # whatever should come after the pause would run here
            await asyncio.sleep(0)
        pauses_ms.append(duration_ms)

    for module in (item_batches, operations):
        monkeypatch.setattr(module, "monotonic_ms", lambda: int(sum(pauses_ms)))
    monkeypatch.setattr(item_batches, "sleep_ms", sleep_ms)
    return pauses_ms


def test_attempts_end_at_the_deadline(skipping: list[float]) -> None:
    brokers = Brokers(a=[MOVED], b=[1])
    pauses_before: list[int] = []

    async def ask(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Any]:
        pauses_before.append(len(skipping))
        return await brokers.ask(node_id, batch, deadline_ms)

    results = asyncio.run(in_batches(calls(5_000, 100), "ab", Scripted({"a": 1, "b": 1}), ask))
    assert results == ({"b": 1}, {"a": MOVED})
    assert skipping == [100, 200, 400, 800, *[1_000] * 3]
    assert pauses_before == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_timeout_does_not_hide_the_reason(skipping: list[float]) -> None:
    brokers = Brokers(a=[MOVED, LATE], b=[LATE])
    results = asyncio.run(in_batches(calls(1_000, 100), "ab", Scripted({"a": 1, "b": 1}), brokers.ask))
    assert results.errors["b"] is LATE
    assert str(results.errors["a"]) == str(MOVED)
    assert results.errors["a"].__cause__ is LATE


def test_a_timeout_is_reported_with_the_reason_of_the_last_attempt(skipping: list[float]) -> None:
    loading = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    brokers = Brokers(a=[MOVED, loading, LATE], b=[loading, MOVED, LATE])
    results = asyncio.run(in_batches(calls(1_000, 100), "ab", Scripted({"a": 1, "b": 1}), brokers.ask))
    assert [str(results.errors[item]) for item in "ab"] == [str(loading), str(MOVED)]


def test_any_number_of_attempts_can_be_cancelled() -> None:
    """Attempts do not nest, so that the stack does not grow with their number."""

    async def test() -> None:
        brokers = Brokers(a=[MOVED])
        work = asyncio.ensure_future(in_batches(calls(), "a", Scripted({"a": 1}), brokers.ask))
        while len(brokers.asked) < 3_000:
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(test())


def test_an_api_that_takes_one_item() -> None:
    running = most = 0

    async def ask(node_id: int, item: str, deadline_ms: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if item == "3":
            raise DENIED
        return int(item)

    items = [str(number) for number in range(2 * AT_ONCE_MAX + 1)]
    results = run(items, Scripted(dict.fromkeys(items, 1)), one_by_one(ask))
    assert results.errors == {"3": DENIED}
    assert results.values == {item: int(item) for item in items if item != "3"}
    assert most == AT_ONCE_MAX

    async def ends(node_id: int, item: str, deadline_ms: int) -> int:
        raise Closed("closed")

    with pytest.raises(Closed):
        run(items, Scripted(dict.fromkeys(items, 1)), one_by_one(ends))


def test_a_request_for_each_item() -> None:
    running = most = 0
    deadlines = set()

    async def ask(item: str, deadline_ms: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        deadlines.add(deadline_ms)
        await asyncio.sleep(0)
        running -= 1
        if item == "3":
            raise DENIED
        return int(item)

    items = [str(number) for number in range(2 * AT_ONCE_MAX + 1)]
    results = asyncio.run(in_parallel(calls(), [*items, *items], ask))
    assert results.errors == {"3": DENIED}
    assert list(results.values.items()) == [(item, int(item)) for item in items if item != "3"]
    assert (most, len(deadlines)) == (AT_ONCE_MAX, 1)

    async def ends(item: str, deadline_ms: int) -> int:
        raise Closed("closed")

    with pytest.raises(Closed):
        asyncio.run(in_parallel(calls(), items, ends))


def test_an_item_without_an_answer_holds_up_no_other() -> None:
    items = [str(number) for number in range(2 * AT_ONCE_MAX)]
    answered_so_far: list[str] = []

    async def test() -> None:
        others = asyncio.Event()

        async def ask(item: str, deadline_ms: int) -> str:
            if item == "0":
                await others.wait()
            answered_so_far.append(item)
            if len(answered_so_far) == len(items) - 1:
                others.set()
            return item

        results = await in_parallel(calls(), items, ask)
        assert list(results.values) == items

    asyncio.run(test())
    assert answered_so_far[-1] == "0"


def test_ten_thousand_items() -> None:
    items = [str(number) for number in range(10_000)]
    brokers = Brokers(**{item: [MOVED, 1] if int(item) % 2 else [1] for item in items})
    results = run(items, Scripted({item: int(item) % 3 for item in items}), brokers.ask)
    assert list(results.values) == items
    assert len(brokers.asked) == 6


def test_a_response_that_lacks_an_item() -> None:
    found = answered(DeleteGroupsResponse(), {"a": None}, ["a", "b"], "group")
    assert found["a"] is None
    assert isinstance(found["b"], RemoteProtocolError)
    assert str(found["b"]) == "the response to DeleteGroups lacks group b"
