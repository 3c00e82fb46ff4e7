"""A real ZooKeeper server for a cluster on this machine: its program, configuration and command.

The program comes from the jars that pyspark ships, or from Debian's package; either runs on Java 8 or later. Its tick
is 500 ms, so it grants sessions of one second or more, and ends each session within half a second of its timeout.

Source: `QuorumPeerMain`, `ServerConfig` in Apache ZooKeeper; its administrator's guide.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.local_cluster.cluster_folder import ClusterError

__all__ = ["DEBIAN_JAR", "ZooKeeperProgram", "find_zookeeper", "zookeeper_properties"]

#: Debian's jar, which lists the other jars that it needs.
DEBIAN_JAR: Final = Path("/usr/share/java/zookeeper.jar")

_DEBIAN_RUNTIMES: Final = Path("/usr/lib/jvm")

#: The jars from Spark that the server needs, and those that write its log.
_JARS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "netty-[bchrt]*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
)

#: A cluster's registry is small and short-lived. Without the JVM's second compiler and parallel collector, startup
#: takes 0.65 s of CPU time instead of 1.1 s.
_JAVA: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_TICK_MS: Final = 500

#: Brokers may ask for sessions of 18 s, Kafka's default, or longer.
_SESSION_TIMEOUT_MAX_MS: Final = 120_000


class ZooKeeperProgram(NamedTuple):
    """A server's program.

    Attributes:
        java: the Java command.
        classpath: its jars.
    """

    java: Path
    classpath: tuple[Path, ...]

    def command(self, config: str) -> list[str]:
        """Return the command that runs a server.

        Args:
            config: the file with its properties.
        """
        return [
            str(self.java),
            *_JAVA,
            "-Dlog4j2.level=INFO",
            "-cp",
            os.pathsep.join(map(str, self.classpath)),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(config),
        ]


def find_zookeeper() -> ZooKeeperProgram:
    """Return the program of the ZooKeeper server on this machine.

    Raises:
        ClusterError: Java or the jars are missing; the text says what to install.
    """
    java = next(_javas(), None)
    classpath = _jars_of_spark() or ((DEBIAN_JAR,) if DEBIAN_JAR.exists() else ())
    if java is not None and classpath:
        return ZooKeeperProgram(java, classpath)
    missing = [
        *(() if java is not None else ("Java (on Debian: apt-get install default-jre-headless)",)),
        *(() if classpath else ("its jars (pip install 'kafkawire[spark]', or on Debian: apt-get install zookeeper)",)),
    ]
    raise ClusterError(
        f"to start a ZooKeeper server on this machine, install {' and '.join(missing)}; or pass the address of one "
        "that is already running"
    )


def zookeeper_properties(data: Path, port: int) -> Mapping[str, str]:
    """Return the properties of a server on loopback.

    Args:
        data: the folder for its files.
        port: where it listens.
    """
    return {
        "dataDir": str(data),
        "clientPortAddress": "127.0.0.1",
        "clientPort": str(port),
        "tickTime": str(_TICK_MS),
        "maxSessionTimeout": str(_SESSION_TIMEOUT_MAX_MS),
        "maxClientCnxns": "0",  # no limit, since all clients share one address
        "admin.enableServer": "false",
    }


def _javas() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        candidate = Path(home, "bin", "java")
        if candidate.exists():
            yield candidate
    if on_path := shutil.which("java"):
        yield Path(on_path)
    yield from sorted(_DEBIAN_RUNTIMES.glob("*/bin/java"))


def _jars_of_spark() -> tuple[Path, ...]:
    """Return the jars in pyspark's folder; none if any of the patterns matches nothing."""
    spec = find_spec("pyspark")
    for location in () if spec is None else spec.submodule_search_locations or ():
        found = [sorted(Path(location, "jars").glob(pattern)) for pattern in _JARS]
        if all(found):
            return tuple(path for paths in found for path in paths if "tcnative" not in path.name)
    return ()
