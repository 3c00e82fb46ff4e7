"""Fixtures for the tests of clusters on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local_cluster.fake_members import FAKE_BROKER, listening_address


@pytest.fixture
def zookeeper() -> Iterator[str]:
    """The address of a socket that accepts connections, as a ZooKeeper server would."""
    with listening_address() as address:
        yield address


@pytest.fixture
def fake_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every cluster run stand-ins instead of brokers."""
    monkeypatch.setattr("kafkawire.local_cluster.supervisor.BROKER_COMMAND", FAKE_BROKER)
