"""Every persister has the same operations.

Method: compare the parameters of the interface with those of its implementations.
"""

from __future__ import annotations

import inspect

import pytest

from kafkawire.reference_broker.shares.local_persister import LocalPersister
from kafkawire.reference_broker.shares.persister import Persister

OPERATIONS = [name for name in vars(Persister) if not name.startswith("_")]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    assert inspect.signature(getattr(LocalPersister, name)) == inspect.signature(getattr(Persister, name))


def test_the_interface_has_the_operations_of_the_coordinator():
    assert OPERATIONS == ["initialize", "read", "write", "delete", "summary"]
