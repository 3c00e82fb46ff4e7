"""The fixture provides a running cluster of three brokers, and stops it when the test ends.

Method: use stand-ins for brokers and for the ZooKeeper program.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire import testing
from kafkawire.local_cluster import supervisor
from tests.local_cluster.fake_members import FakeZooKeeper

#: The fixture is imported as in a conftest.py.
kafka_cluster = testing.kafka_cluster


@pytest.fixture
def folders(fake_brokers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Folders that must be gone after the test; this fixture is set up first, so it outlives the cluster."""
    monkeypatch.setattr(supervisor, "find_zookeeper", FakeZooKeeper)
    found: list[Path] = []
    yield found
    assert found
    assert not any(folder.exists() for folder in found)


def test_the_fixture(folders: list[Path], kafka_cluster: testing.Cluster) -> None:
    assert kafka_cluster.states == {1: "running", 2: "running", 3: "running"}
    folders.append(kafka_cluster.data_dir)
