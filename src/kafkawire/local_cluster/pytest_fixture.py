"""The pytest fixture `kafka_cluster`; only this module imports pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.local_cluster.cluster import Cluster

__all__ = ["kafka_cluster"]


@pytest.fixture
def kafka_cluster() -> Iterator[Cluster]:
    """Run a cluster of three brokers for a test, which may kill, pause and restart the brokers."""
    with Cluster(brokers=3) as cluster:
        yield cluster
