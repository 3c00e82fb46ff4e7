"""Spring Kafka's admin, from its Maven jars."""

from __future__ import annotations

import subprocess

from tests.kafka.apache import copy_jars
from tests.kafka.programs import CLIENTS, TIMEOUT_SECONDS

__all__ = ["administer"]

_VERSION = "4.0.1"


def administer(bootstrap: str, topic: str) -> str:
    """Make Spring create and modify a topic, and return the program's output."""
    jars = copy_jars("spring_pom.xml", f"spring-kafka-{_VERSION}", {"spring.kafka.version": _VERSION})
    source = CLIENTS / "spring" / "Administration.java"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(source), bootstrap, topic]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
