"""Requests name what has changed in a session and carry acknowledgements; every version can be encoded.

Method: build requests and encode them.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.client.options import ShareConsumerOptions
from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, Acquired, Ledger
from kafkawire.sdk.consumer.sharing.requests import ShareRequests
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.routing.share_session import ShareSessionPlan
from tests.sdk.simulation import options

T0, T1, U0 = (
    TopicIdPartition(b"t" * 16, "t", 0),
    TopicIdPartition(b"t" * 16, "t", 1),
    TopicIdPartition(b"u" * 16, "u", 0),
)
LEDGER = Ledger(lambda: None, lambda: 0, is_explicit=True)


def requests(**given: Any) -> ShareRequests:
    return ShareRequests(options(ShareConsumerOptions, group_id="g", **given), "m")


def accepted(partition: TopicIdPartition, *offsets: int) -> list[Acknowledgement]:
    acquired = Acquired(partition, 1, 10, 30_000, 30_000, LEDGER)
    return [Acknowledgement(acquired, offset, offset, AcknowledgeType.ACCEPT) for offset in offsets]


@pytest.mark.parametrize("version", [1, 2])
def test_a_fetch(version: int) -> None:
    plan = ShareSessionPlan(4, [T0, U0], [T1])
    request = requests().fetch(plan, {T0: accepted(T0, 3, 4)}, 2)
    code = program(ShareFetchRequest, version)
    read = code.decode(code.encode(request))[0]
    assert (read.group_id, read.member_id, read.share_session_epoch) == ("g", "m", 4)
    topics = {
        topic.topic_id: [
            (
                each.partition_index,
                [(b.first_offset, b.last_offset, list(b.acknowledge_types)) for b in each.acknowledgement_batches],
            )
            for each in topic.partitions
        ]
        for topic in read.topics
    }
    assert topics == {b"t" * 16: [(0, [(3, 4, [1])])], b"u" * 16: [(0, [])]}
    assert [(each.topic_id, list(each.partitions)) for each in read.forgotten_topics_data] == [(b"t" * 16, [1])]


def test_a_full_response_fits_into_a_frame() -> None:
    request = requests(max_frame_bytes=100_000).fetch(ShareSessionPlan(0, [T0], []), {}, 10)
    assert 50_000 < request.max_bytes < 100_000 - 10 * 100


@pytest.mark.parametrize("version", [1, 2])
def test_an_acknowledgement(version: int) -> None:
    request = requests().acknowledge(-1, {T0: accepted(T0, 1), U0: accepted(U0, 7)}, renews=version == 2)
    code = program(ShareAcknowledgeRequest, version)
    read = code.decode(code.encode(request))[0]
    assert (read.group_id, read.member_id, read.share_session_epoch, read.is_renew_ack) == ("g", "m", -1, version == 2)
    assert [topic.topic_id for topic in read.topics] == [b"t" * 16, b"u" * 16]
