"""Workers of Kafka Connect in distributed mode, which share connectors and are administered over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.kafka.apache import RELEASE, copy_jars, java_command
from tests.ports import await_port, free_port

__all__ = ["Worker", "connect_worker"]

#: There is one broker. A killed worker's tasks move within seconds instead of five minutes, and what has been read is
#: committed each second instead of each minute. All other settings are the defaults.
_SETTINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "exactly.once.source.support": "enabled",
    "scheduled.rebalance.max.delay.ms": "1000",
    "offset.flush.interval.ms": "1000",
}

_REQUEST_TIMEOUT_SECONDS = 60


class Worker:
    """A running worker.

    Args:
        process: its process.
        port: the port of its HTTP server.

    Attributes:
        address: the address by which the other workers know it.
        process: see above.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.address = f"127.0.0.1:{port}"

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; return the status and the decoded JSON of the response; None if it has no JSON."""
        connection = HTTPConnection(self.address, timeout=_REQUEST_TIMEOUT_SECONDS)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
            has_json = content and response.getheader("Content-Type") == "application/json"
            return response.status, json.loads(content) if has_json else None
        finally:
            connection.close()


@contextmanager
def connect_worker(bootstrap: str, group_id: str, folder: Path) -> Iterator[Worker]:
    """Run a worker.

    Args:
        bootstrap: the broker's address.
        group_id: the group of the workers that share connectors.
        folder: the folder for its settings and its log, `connect.log`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    given = {"bootstrap.servers": bootstrap, "group.id": group_id, "listeners": f"http://127.0.0.1:{port}"}
    properties = folder / "connect.properties"
    properties.write_text("".join(f"{key} = {value}\n" for key, value in (given | _SETTINGS).items()))
    jars = copy_jars("connect_pom.xml", f"connect-{RELEASE}", {"kafka.version": RELEASE})
    *java, path = java_command(folder, "-Xmx256m")
    command = [*java, f"{jars}/*{os.pathsep}{path}", "-XX:TieredStopAtLevel=1"]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    log = folder / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        await_port(port, process, log)
        yield Worker(process, port)
    finally:
        process.kill()
        process.wait()
