"""`kafkawire demo` runs to completion, on the embedded broker and on Apache Kafka.

Method: run `kafkawire demo` as a program, within its time limit, and search its output for the steps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.kafka.apache import ApacheKafka

TIMEOUT_SECONDS = 60


def demo(*arguments: str) -> str:
    """Run the demo, which must succeed, and return its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkawire.commands.main", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        shown, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        # A hung demo's broker must be stopped along with the demo.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, errors) == (0, ""), shown
    return shown


def test_on_the_embedded_broker() -> None:
    shown = demo()
    steps = ("topic created", "produced", "broker killed", "broker started again", "the group resumed", "nothing lost")
    assert [step for step in steps if f"✓ {step}" not in shown] == []
    assert "the first bytes of kafkawire-demo-" in shown


@pytest.mark.smoke
def test_on_apache_kafka(kafka: ApacheKafka) -> None:
    shown = demo("--bootstrap", kafka.bootstrap)
    assert "✓ nothing lost" in shown
    assert "broker killed" not in shown
