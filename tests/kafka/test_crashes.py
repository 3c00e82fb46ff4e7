"""What a crash leaves: as on Apache Kafka, or better.

Method: the same requests to both before and after a SIGKILL; nodes of their own, which others do not use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import LATEST, TIMEOUT_MS, Answer, create, produce
from tests.kafka.servers import BROKER_OPTIONS, Server
from tests.reference_broker.log.produced_batches import produced

#: The smallest segments that Kafka allows, and batches of which two do not fit.
CONFIG = {"segment.bytes": str(1024 * 1024)}
LARGE = b"v" * 600_000


@pytest.fixture(scope="module", params=[ApacheKafka, Broker])
def node(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A node to be killed."""
    with ApacheKafka() if request.param is ApacheKafka else Broker(**BROKER_OPTIONS) as node:
        yield node


def send(node: Server, topic: str, sequence: int, value: bytes = b"v", producer_id: int = 7) -> Answer:
    host, port = node.bootstrap.rsplit(":", 1)
    now_ms = int(time.time() * 1000)  # Kafka forgets producers of the past when it starts
    batch = produced(value, timestamps=(now_ms,), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        return produce(socket, topic, bytes(batch), LATEST)


@pytest.mark.parametrize("rolls", ["once", "at each batch"])
def test_batches_sent_again_after_a_roll(node: Server, rolls: str) -> None:
    """Kafka knows the last batch alone; its client would begin a new epoch, and write the others twice."""
    topic = create(node.bootstrap, CONFIG)
    value = LARGE if rolls == "at each batch" else b"v"
    offsets = [send(node, topic, sequence, value).base_offset for sequence in range(5)]
    if rolls == "once":
        for sequence in range(2):
            assert send(node, topic, sequence, LARGE, producer_id=8).code == ErrorCode.NONE
    node.kill()
    node.start()
    again = [send(node, topic, sequence, value) for sequence in range(5)]
    if isinstance(node, ApacheKafka):
        refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [answer.code for answer in again] == [refused] * 4 + [ErrorCode.NONE]
        assert again[-1].base_offset == offsets[-1]
    else:
        assert [answer.base_offset for answer in again] == offsets
    assert send(node, topic, 5, value).code == ErrorCode.NONE
