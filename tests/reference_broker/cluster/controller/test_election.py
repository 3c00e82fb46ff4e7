"""A broker is elected if, and only if, its session creates `/controller`.

Method: run the steps on a tree in various situations.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.election import Elected, Incumbent, elect, incumbent
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Create, CreateMode, Operation, Outcome, SetData, Transaction
from kafkawire.sdk.registry.steps import Steps, run
from tests.reference_broker.cluster.controller.scripted_cluster import MemoryRegistry, Tree


def do(registry: MemoryRegistry, steps: Steps[object]) -> object:
    results: list[object] = []
    run(registry, steps, results.append, results.append)
    registry.tree.settle()
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


def test_the_first_election_creates_the_epoch() -> None:
    registry = MemoryRegistry(Tree())
    assert do(registry, incumbent(None)) is None
    assert do(registry, elect(3, registry.session_id, 1795881500368)) == Elected(1, 1)
    content = b'{"version":2,"brokerid":3,"timestamp":"1795881500368","kraftControllerEpoch":-1}'
    assert registry.tree.nodes["/controller"].data == content
    assert registry.tree.nodes["/controller_epoch"].data == b"1"
    assert do(registry, incumbent(None)) == Incumbent(3, registry.session_id)


def test_the_slower_broker_is_not_elected() -> None:
    tree = Tree()
    first, second = MemoryRegistry(tree), MemoryRegistry(tree)
    do(first, elect(1, first.session_id, 0))
    assert do(second, elect(2, second.session_id, 0)) is None
    assert tree.nodes["/controller_epoch"].data == b"1"
    first.expire()
    assert do(second, elect(2, second.session_id, 0)) == Elected(2, 2)


def test_a_registration_of_an_expired_session_does_not_count() -> None:
    tree = Tree()
    registry = MemoryRegistry(tree)
    do(registry, elect(1, registry.session_id, 0))
    registry.open()
    assert do(registry, elect(1, registry.session_id, 0)) is None


class _Twice(MemoryRegistry):
    """Performs each transaction twice, and returns the second outcome, as if the first had been lost."""

    def _outcome(self, operation: Operation) -> Outcome:
        if isinstance(operation, Transaction):
            super()._outcome(operation)
        return super()._outcome(operation)


def test_a_transaction_that_was_sent_twice_has_elected_the_broker() -> None:
    registry = _Twice(Tree())
    assert do(registry, elect(1, registry.session_id, 0)) == Elected(1, 1)
    assert registry.tree.nodes["/controller_epoch"].data == b"1"


def test_a_damaged_epoch_elects_nobody() -> None:
    registry = MemoryRegistry(Tree())
    registry.tree.change(Create("/controller_epoch", b"many"), 0)
    with pytest.raises(DamagedZnode):
        do(registry, elect(1, registry.session_id, 0))
    assert "/controller" not in registry.tree.nodes


def test_a_damaged_registration_is_an_incumbent() -> None:
    registry = MemoryRegistry(Tree())
    registry.tree.change(Create("/controller", b"{", CreateMode.EPHEMERAL), 77)
    assert do(registry, incumbent(None)) == Incumbent(-1, 77)


def test_the_watch_is_set_in_any_case() -> None:
    registry = MemoryRegistry(Tree())
    events: list[object] = []
    do(registry, incumbent(events.append))
    registry.tree.change(Create("/controller", b"{}"), 0)
    registry.tree.settle()
    do(registry, incumbent(events.append))
    registry.tree.change(SetData("/controller", b"{}"), 0)
    registry.tree.settle()
    assert len(events) == 2
