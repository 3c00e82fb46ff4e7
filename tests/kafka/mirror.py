"""MirrorMaker 2 between two brokers, in both directions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.apache import RELEASE, copy_jars, java_command

__all__ = ["mirror_maker"]

#: Each cluster has one broker; intervals whose defaults are minutes are one second.
_SETTINGS = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
}


@contextmanager
def mirror_maker(clusters: Mapping[str, str], folder: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run MirrorMaker 2 between two clusters, in both directions.

    Args:
        clusters: the address of each cluster, keyed by name.
        folder: the folder for its settings and its log, `mirror.log`.
        settings: the patterns for `topics` and `groups`.
    """
    one, two = clusters
    given = {"clusters": f"{one}, {two}", f"{one}->{two}.enabled": "true", f"{two}->{one}.enabled": "true"}
    given |= {f"{name}.bootstrap.servers": address for name, address in clusters.items()}
    properties = folder / "mirror.properties"
    text = "".join(f"{key} = {value}\n" for key, value in (given | _SETTINGS | settings).items())
    properties.write_text(text)
    jars = copy_jars("mirror_pom.xml", f"connect-mirror-{RELEASE}", {"kafka.version": RELEASE})
    *java, path = java_command(folder)
    command = [*java, f"{jars}/*{os.pathsep}{path}", "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
    with (folder / "mirror.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
