"""In virtual time, a coordinator's offset is between the last one acknowledged and the last one sent.

Method: use the committer of a run, and made-up answers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.reference_broker.simulation.checkers import Violation
from kafkawire.reference_broker.simulation.committers import Committer
from kafkawire.reference_broker.simulation.simulation import Simulation
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.routing.partitions import TopicPartition


def test_the_committer_of_a_run(calm: Simulation) -> None:
    (committer,) = calm.committers
    assert 0 < committer.committed == committer.asked


@pytest.mark.parametrize(("offset", "is_right"), [(3, False), (4, True), (5, True), (6, False)])
def test_an_offset_that_is_read_back(offset: int, is_right: bool) -> None:
    client: Any = SimpleNamespace()
    committer = Committer(client, "g", TopicPartition("t", 0))
    committer.committed, committer.asked = 4, 5
    part = OffsetFetchResponse.OffsetFetchResponsePartitions(0, offset)
    topic = OffsetFetchResponse.OffsetFetchResponseTopics("t", partitions=[part])
    answer = OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", [topic])])
    script = committer.read()
    next(script)
    with pytest.raises(StopIteration if is_right else Violation):
        script.send(answer)
