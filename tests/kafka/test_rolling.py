"""Apache Kafka and the reference broker begin new segments at the same batches, both by age and by index size.

Method: send the same batches with chosen timestamps to both; the file names show where segments begin.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.cleaning import until
from tests.kafka.produced import LATEST, TIMEOUT_MS, create, produce
from tests.kafka.servers import Server
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.rolled_cases import CASES, START_MS, Rolled


def connected(node: Server) -> FrameSocket:
    host, port = node.bootstrap.rsplit(":", 1)
    return FrameSocket(host, int(port), TIMEOUT_MS / 1000)


def send(socket: FrameSocket, topic: str, timestamps: tuple[int, ...]) -> None:
    batch = bytes(produced(*[b"v"] * len(timestamps), timestamps=timestamps))
    assert produce(socket, topic, batch, LATEST).code == ErrorCode.NONE


def bases(node: Server, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (Path(node.data_dir) / f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_segments(either: Server, case: Rolled) -> None:
    topic = create(either.bootstrap, case.configs)
    with connected(either) as socket:
        for timestamps in case.batches:
            send(socket, topic, timestamps)
    assert bases(either, topic) == case.bases


@pytest.mark.parametrize(
    ("kind", "timestamp"), [("LogAppendTime", START_MS), ("LogAppendTime", -1), ("CreateTime", -1)]
)
def test_the_broker_s_clock_rolls(either: Server, kind: str, timestamp: int) -> None:
    """If all batches have the same producer timestamp, or none, segments roll according to the broker's clock."""
    topic = create(either.bootstrap, {"segment.ms": "20", "message.timestamp.type": kind})

    def has_rolled() -> bool:
        with connected(either) as socket:
            send(socket, topic, (timestamp,))
        return len(bases(either, topic)) > 1

    until(has_rolled, "no second segment")


def test_the_producer_s_clock_alone_rolls(either: Server) -> None:
    topic = create(either.bootstrap, {"segment.ms": "1"})
    with connected(either) as socket:
        for _ in range(20):
            send(socket, topic, (START_MS,))
    assert bases(either, topic) == [0]
