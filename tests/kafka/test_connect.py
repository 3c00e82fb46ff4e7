"""Kafka Connect in distributed mode copies a file through a topic on the reference broker as on Apache Kafka.

Method: two workers share a source, which reads a file exactly once, and a sink, which writes another file. The worker
that runs the source is killed, and later the other one is stopped and started again. The topic must have each line
once and in order, and the sink's file each line at least once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic, TopicPartition
from kafkawire.sync import Admin, Consumer
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.connect import Worker, connect_worker
from tests.kafka.servers import Server

#: The jars may have to be fetched first, and a worker takes ten seconds to start.
pytestmark = pytest.mark.timeout(900)

TIMEOUT_SECONDS = 120

GROUP, TOPIC = "connect-workers", "copied-lines"

FILE_CONNECTORS = "org.apache.kafka.connect.file"

RUNNING = ["RUNNING", "RUNNING"]


@pytest.fixture(params=["ours", "kafka"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A broker with its default settings, and the topic."""
    broker: Server = Broker() if request.param == "ours" else ApacheKafka()
    with broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, 1, 1))
        yield broker


def await_equal(see: Callable[[], Any], wanted: object) -> None:
    """Wait until an observation is as wanted."""
    until(lambda: see() == wanted, lambda: f"wanted {wanted}, seen {see()}", TIMEOUT_SECONDS)


def states(worker: Worker, name: str) -> list[str]:
    """Return the states of a connector and of its tasks."""
    status, found = worker.call("GET", f"/connectors/{name}/status")
    return [found["connector"]["state"], *(task["state"] for task in found["tasks"])] if status == 200 else []


def lines_of(topic: str, bootstrap: str) -> list[str]:
    """Return the committed values of a topic's only partition."""
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [(each.value or b"").decode() for each in consumer.records(stop_at_end=True)]


def append(file: Path, lines: list[str]) -> None:
    """Append lines to a file."""
    with file.open("a") as output:
        output.writelines(f"{line}\n" for line in lines)


def test_each_line_is_copied(server: Server, tmp_path: Path) -> None:
    source, copy = tmp_path / "source.txt", tmp_path / "copy.txt"
    lines = [f"line {number}" for number in range(900)]
    append(source, lines[:300])
    connectors = {
        "source": {
            "connector.class": f"{FILE_CONNECTORS}.FileStreamSourceConnector",
            "topic": TOPIC,
            "file": f"{source}",
        },
        "sink": {"connector.class": f"{FILE_CONNECTORS}.FileStreamSinkConnector", "topics": TOPIC, "file": f"{copy}"},
    }

    def copied() -> list[str]:
        return sorted(set(copy.read_text().splitlines())) if copy.exists() else []

    def start(name: str) -> Any:
        return connect_worker(server.bootstrap, GROUP, tmp_path / name)

    with start("a") as one, start("b") as other:
        for each in (one, other):
            await_equal(partial(each.call, "GET", "/connectors"), (200, []))
        for name, settings in connectors.items():
            status, answer = one.call("PUT", f"/connectors/{name}/config", settings)
            assert status == 201, answer
        for name in connectors:
            await_equal(partial(states, other, name), RUNNING)
        await_equal(copied, sorted(lines[:300]))

        _, status = one.call("GET", "/connectors/source/status")
        killed, left = (one, other) if status["tasks"][0]["worker_id"] == one.address else (other, one)
        killed.process.kill()
        append(source, lines[300:600])
        await_equal(copied, sorted(lines[:600]))

        left.process.terminate()
        left.process.wait(TIMEOUT_SECONDS)
    with start("c") as worker:
        append(source, lines[600:])
        await_equal(copied, sorted(lines))
        assert lines_of(TOPIC, server.bootstrap) == lines
        await_equal(lambda: position(worker), source.stat().st_size)
        for name in connectors:
            assert worker.call("DELETE", f"/connectors/{name}")[0] == 204
        await_equal(lambda: worker.call("GET", "/connectors"), (200, []))


def position(worker: Worker) -> object:
    """Return how many bytes of its file the source has copied, according to Connect."""
    _, found = worker.call("GET", "/connectors/source/offsets")
    return found["offsets"][0]["offset"]["position"] if found["offsets"] else json.dumps(found)
