"""kcat, the command-line tool of the C client, works on the reference broker.

Method: run kcat to completion, as a user would, and compare its output.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from kafkawire.testing import Broker
from tests.needs import KCAT

pytestmark = KCAT.mark

TIMEOUT_SECONDS = 60


def kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    """Run kcat, which must succeed, and return its output."""
    result = subprocess.run(
        ["kcat", "-b", broker.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def produce(broker: Broker, topic: str, *arguments: str, count: int = 200) -> list[list[str | None]]:
    """Store records with keys and headers, and return their keys and values; a metadata request creates the topic."""
    records: list[list[str | None]] = [[f"key-{number}", f"value {number} \u20ac"] for number in range(count)]
    lines = "".join(f"{key}\t{value}\n" for key, value in records)
    kcat(broker, "-P", "-t", topic, "-K", "\t", "-H", "name=content", *arguments, stdin=lines)
    return records


def test_list(broker: Broker) -> None:
    produce(broker, "kcat-list", count=1)
    listed = json.loads(kcat(broker, "-L", "-J", "-t", "kcat-list"))
    assert listed["brokers"] == [{"id": 1, "name": broker.bootstrap}]
    (topic,) = listed["topics"]
    assert (topic["topic"], [partition["leader"] for partition in topic["partitions"]]) == ("kcat-list", [1])
    assert 'topic "kcat-list" with 1 partitions:' in kcat(broker, "-L")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(broker: Broker, codec: str) -> None:
    topic = f"kcat-{codec}"
    records = produce(broker, topic, "-z", codec)
    found = [json.loads(line) for line in kcat(broker, "-C", "-t", topic, "-e", "-q", "-J").splitlines()]
    assert [[record["key"], record["payload"]] for record in found] == records
    assert [record["offset"] for record in found] == list(range(len(records)))
    assert {tuple(record["headers"]) for record in found} == {("name", "content")}


@pytest.mark.smoke
def test_group(broker: Broker) -> None:
    produce(broker, "kcat-group")
    reader = ("-G", "kcat", "-q", "-f", "%o\n", "-X", "auto.offset.reset=earliest")
    first = kcat(broker, *reader, "-c", "120", "kcat-group").split()
    rest = kcat(broker, *reader, "-e", "kcat-group").split()
    assert list(map(int, first + rest)) == list(range(200))


def test_offset_of_a_time(broker: Broker) -> None:
    produce(broker, "kcat-time", count=3)
    times = [int(time) for time in kcat(broker, "-C", "-t", "kcat-time", "-e", "-q", "-f", "%T\n").split()]
    assert kcat(broker, "-Q", "-t", f"kcat-time:0:{times[0]}") == "kcat-time [0] offset 0\n"
    assert kcat(broker, "-Q", "-t", f"kcat-time:0:{times[-1] + 1}") == "kcat-time [0] offset -1\n"
