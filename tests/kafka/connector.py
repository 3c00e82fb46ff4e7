"""Spark's own Kafka connector, from its Maven jars, for comparison with the data sources.

The newest artifacts on Maven Central do not all match pyspark's version, but they work with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.kafka.apache import copy_jars

__all__ = ["connector_jars"]

_VERSIONS: Final = {
    "connector": "4.2.0",
    "token.provider": "4.0.0",
    "kafka.clients": "3.9.2",
    "pool": "2.12.1",
}


def connector_jars() -> list[Path]:
    """Return the jars that Spark needs for `format("kafka")`, fetched on first use.

    Raises:
        subprocess.CalledProcessError: Maven could not resolve them; its output goes to standard error.
    """
    versions = {f"{name}.version": version for name, version in _VERSIONS.items()}
    folder = copy_jars("connector_pom.xml", f"spark-connector-{_VERSIONS['connector']}", versions)
    return sorted(folder.glob("*.jar"))
