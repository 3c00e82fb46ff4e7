"""The main job runs to its end, on the embedded broker and on Apache Kafka.

Method: `kafkawire demo` as a program, within the time that it may take; what it shows is searched for its steps.
"""

from __future__ import annotations

import subprocess
import sys

from tests.kafka.apache import ApacheKafka

TIMEOUT_SECONDS = 60


def demo(*arguments: str) -> str:
    """Run the demo, which must succeed, and return what it shows."""
    result = subprocess.run(
        [sys.executable, "-m", "kafkawire.cli", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


def test_on_the_embedded_broker() -> None:
    shown = demo()
    steps = ("topic created", "produced", "broker killed", "broker started again", "the group resumed", "nothing lost")
    assert [step for step in steps if f"✓ {step}" not in shown] == []
    assert "the first bytes of kafkawire-demo-" in shown


def test_on_apache_kafka(kafka: ApacheKafka) -> None:
    shown = demo("--bootstrap", kafka.bootstrap)
    assert "✓ nothing lost" in shown
    assert "broker killed" not in shown
