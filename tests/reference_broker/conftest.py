"""Fixtures shared by the tests of the broker."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.member_bench import MEMBER, MemberBench


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    """Return a broker without sockets on an empty directory; if `MEMBER` is set, it is the only broker in a cluster."""
    return (MemberBench if MEMBER in os.environ else BrokerBench)(tmp_path / "data")


class _Defects(logging.Handler):
    """Collects log lines that contain a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.lines.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


@pytest.fixture(autouse=True)
def defects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if the broker has logged a traceback: it continues after a defect, which responses alone do not reveal.

    Tests that plant a defect are marked with `defect`; they fail if no traceback is logged.
    """
    found = _Defects()
    logging.getLogger("kafkawire").addHandler(found)
    yield
    logging.getLogger("kafkawire").removeHandler(found)
    is_planted = request.node.get_closest_marker("defect") is not None
    assert bool(found.lines) is is_planted, "\n".join(found.lines) or "no defect was logged"
