"""Both kinds of brokers have all that the core asks of a standing."""

from __future__ import annotations

import inspect

import pytest

from kafkawire.reference_broker.standing.alone import Alone
from kafkawire.reference_broker.standing.cluster_member import ClusterMember
from kafkawire.reference_broker.standing.standing import Standing


@pytest.mark.parametrize("kind", [Alone, ClusterMember])
def test_methods_have_the_same_parameters(kind: type) -> None:
    methods = [name for name, each in vars(Standing).items() if inspect.isfunction(each) and not name.startswith("_")]
    assert {"new_replica", "write_marker", "verifier", "begin", "end", "abandon"} <= set(methods)
    for name in methods:
        wanted, given = inspect.signature(getattr(Standing, name)), inspect.signature(getattr(kind, name))
        assert list(given.parameters) == list(wanted.parameters), name
