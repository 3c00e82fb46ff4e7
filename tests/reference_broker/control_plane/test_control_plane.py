"""Both kinds of broker provide everything that the core needs from a control plane."""

from __future__ import annotations

import inspect

import pytest

from kafkawire.reference_broker.control_plane.cluster_member import ClusterMember
from kafkawire.reference_broker.control_plane.control_plane import ControlPlane
from kafkawire.reference_broker.control_plane.single_broker import SingleBroker


@pytest.mark.parametrize("kind", [SingleBroker, ClusterMember])
def test_methods_have_the_same_parameters(kind: type) -> None:
    methods = [
        name for name, each in vars(ControlPlane).items() if inspect.isfunction(each) and not name.startswith("_")
    ]
    assert {"new_replica", "write_marker", "verifier", "begin", "end", "abandon"} <= set(methods)
    for name in methods:
        wanted, given = inspect.signature(getattr(ControlPlane, name)), inspect.signature(getattr(kind, name))
        assert list(given.parameters) == list(wanted.parameters), name
