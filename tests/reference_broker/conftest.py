"""What the tests of the broker share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference_broker.broker_bench import BrokerBench


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    """Return a broker without sockets on an empty directory."""
    return BrokerBench(tmp_path / "data")
