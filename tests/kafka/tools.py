"""Kafka's command-line tools, on either broker."""

from __future__ import annotations

from tests.kafka.apache import run_tool
from tests.kafka.servers import Server

__all__ = ["run"]


def run(broker: Server, tool: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool, which must succeed, and return its output."""
    result = run_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments, stdin=stdin)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
